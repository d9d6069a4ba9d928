"""Lower a window on a table: s [WINDOW 10 MINUTES SLIDE 1 MINUTE], or of ROWS.

takes  the table's node with its suffix, the catalog
gives  algebra `SlidingWindow`, checked against how the table is declared
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.clock import watermark
from viewmill.algebra.expressions import Column, Expression, Literal
from viewmill.algebra.relations import Filter, Join, Project, Relation, Scan, Values
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, TIMESTAMP, Timestamp
from viewmill.algebra.walk import scans, sources
from viewmill.algebra.windows import SlidingWindow
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql import aggregates, functions, operators
from viewmill.sql.catalog import Stream, Streams
from viewmill.sql.dialect import WindowSuffix, suffixes_of
from viewmill.sql.environment import Environment
from viewmill.sql.lower_time_windows import MOST_WINDOWS
from viewmill.sql.read_functions import read_function
from viewmill.sql.scopes import Scope, Visible


def has_window(node: exp.Expr) -> bool:
    """Whether all that is written after a table is one window."""
    if not isinstance(node, exp.Table | exp.Subquery):
        return False
    found = suffixes_of(node)
    return len(found) == 1 and isinstance(found[0], WindowSuffix)


def window_of(
    node: exp.Table, name: str, schema: Schema, environment: Environment
) -> SlidingWindow | None:
    """The window written after a table, or None."""
    if not has_window(node):
        return None
    (suffix,) = suffixes_of(node)
    if _is_filter(suffix, name, environment):
        return None
    span = environment.span(suffix)
    catalog = environment.catalog
    stream = catalog.stream(name) if isinstance(catalog, Streams) else None
    if stream is None:
        raise no_table(name, span)
    unit, size = suffix.args["unit"], suffix.args["size"]
    slide = suffix.args.get("slide") or stream.part_length
    if slide is None:
        raise UnsupportedQuery(
            "the window does not say how far it slides",
            detail=f'Only over a table in time parts it slides by a part, and "{name}" has none.',
            hint="Write [WINDOW 10 MINUTES SLIDE 1 MINUTE].",
            span=span,
        )
    if unit == "rows":
        if not stream.only_grows:
            raise UnsupportedQuery(
                f'a window of rows needs an APPEND ONLY table, which "{name}" is not',
                detail="It counts rows in the order of their arrival, so none may go.",
                hint="Declare the table APPEND ONLY, without RETENTION, or use a window of time.",
                span=span,
            )
        at = None if stream.timestamp_by is None else schema.find(stream.timestamp_by)
        return SlidingWindow("rows", size, slide, "" if at is None else schema[at].name)
    column = _time_column(name, schema, stream, span)
    return SlidingWindow("time", size, slide, column, stream.lateness)


_IN_PANES = frozenset({
    "count", "sum", "avg", "min", "max", "stddev", "stddev_samp", "stddev_pop", "variance",
    "var_samp", "var_pop", "max_by", "min_by", "first", "last", "count_if", "any_value",
})  # fmt: skip
_BORDERS = ("window_start", "window_end")


def has_windows(select: exp.Select) -> bool:
    """Whether a SELECT reads the last window of something."""
    source = select.args.get("from_")
    read = (
        [] if source is None else [source.this, *(j.this for j in select.args.get("joins") or [])]
    )
    return any(map(has_window, read))


def for_windows(select: exp.Select, environment: Environment) -> Environment:
    """The surroundings of FROM: whether the windows there have to be filters."""
    shows = filters = False
    if has_windows(select):
        shows = any(_is_border(each, select) for each in select.find_all(exp.Column))
        distinct = any(each is not select.args.get("distinct")
                       for each in select.find_all(exp.Distinct))  # fmt: skip
        filters = shows or distinct or bool(select.args.get("joins")) or not _is_grouped(select)
    return replace(environment, window_columns=shows, filters_windows=filters)


def _is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT has nothing but aggregates that panes can be put together from."""
    calls = [read_function(each)[0] for each in select.find_all(exp.Func)
             if each.find_ancestor(exp.Select) is select]  # fmt: skip
    known = [each for each in calls if aggregates.is_aggregate(each)]
    if any(each.find_ancestor(exp.Select) is select for each in select.find_all(exp.Window)):
        return False
    return all(aggregates.canonical(each) in _IN_PANES for each in known) and (
        bool(known) or select.args.get("group") is not None or bool(calls)
    )


def _is_border(node: exp.Column, select: exp.Select) -> bool:
    is_named = node.name.lower() in _BORDERS or node.text("table").lower() == "window"
    return is_named and node.find_ancestor(exp.Select) is select


def with_window_groups(select: exp.Select) -> exp.Select:
    """A SELECT of groups that shows its window: all its rows are in the same one."""
    if not has_windows(select):
        return select
    shown = [e for each in select.expressions for e in each.find_all(exp.Column)
             if _is_border(e, select)]  # fmt: skip
    group = select.args.get("group")
    if not shown or (group is None and not any(e.find(exp.AggFunc) for e in select.expressions)):
        return select
    made = select.copy()
    keys = [] if group is None else [each.copy() for each in group.expressions]
    keys += [each.copy() for each in dict.fromkeys(shown) if each not in keys]
    made.set("group", exp.Group(expressions=keys))
    return made


def when_closed(
    select: exp.Select, relation: Relation, scope: Scope, environment: Environment
) -> Relation:
    """With EMIT FINAL the rows of windows that time has passed: each is shown once."""
    if not select.args.get("emit_final") or has_windows(select):  # answers are of closed windows
        return relation
    span = environment.span(select.args.get("group")) or environment.span(select.expressions[0])
    if isinstance(select.parent, exp.SetOperation):
        raise UnsupportedQuery("EMIT FINAL stands behind one SELECT", span=span,
                               hint="Write the SELECT as a subquery in FROM.")  # fmt: skip
    ends = [scope.lookup("end", each, None) for each in ("window", "session_window")]
    end = next((each for each in (*ends, scope.lookup("window_end", None, span)) if each), None)
    if end is None or not isinstance(end.type, Timestamp):
        raise UnsupportedQuery(
            "EMIT FINAL shows windows when they are closed, and there is no window",
            hint="GROUP BY window(ts, '10 minutes'), or read TUMBLE(...) in FROM.", span=span,
        )  # fmt: skip
    reached = watermark_of(relation, environment, span)
    return Filter(relation, operators.compare(">=", reached, end, span), span)


def _is_filter(suffix: exp.Expr, name: str, environment: Environment) -> bool:
    """Whether a window is a filter by time that passes: what shares panes cannot keep it."""
    if suffix.args["unit"] == "rows":
        return False
    catalog = environment.catalog
    if not isinstance(catalog, Streams) or catalog.stream(name) is None:
        return True
    return environment.filters_windows or suffix.args.get("on") is not None


def windowed(
    node: exp.Expr, relation: Relation, scope: Scope, environment: Environment
) -> tuple[Relation, Scope]:
    """The rows of the last window: of a view, a subquery, or a table that is joined.

    A window ends at the last multiple of its slide that the watermark has reached, which is the
    least of the watermarks of all tables that the rows come from. So a row is shown from the first
    multiple behind its time on, until the one is reached that is more than the size behind it.
    """
    found = suffixes_of(node)
    has_inner = any(scan.window is not None for scan in scans(relation))
    if not has_window(node) or (has_inner and isinstance(relation, Scan)):
        return relation, scope
    (suffix,) = found
    span = environment.span(suffix) or environment.span(node)
    if has_inner:
        raise UnsupportedQuery("a window over rows of a window", span=span,
                               hint="Put one window on the table.")  # fmt: skip
    assert isinstance(suffix, WindowSuffix)
    if suffix.args["unit"] == "rows":
        raise UnsupportedQuery(
            "a window of rows needs a table", span=span,
            detail="It counts rows in the order of their arrival.",
            hint="Put the window on the table that the view reads, or take a window of time.",
        )  # fmt: skip
    size, slide = suffix.args["size"], suffix.args.get("slide")
    if slide is None:
        raise UnsupportedQuery(
            "the window does not say how far it slides",
            hint="Write [WINDOW 10 MINUTES SLIDE 1 MINUTE].",
            span=span,
        )
    reached = watermark_of(relation, environment, span)
    ticks = functions.call("unix_micros", (_moment_of(suffix, scope, span),), span)
    if environment.window_columns:
        return _shown(relation, scope, ticks, (size, slide), reached, environment)
    begin = _later(ticks, slide)
    end = _later(operators.arithmetic("+", ticks, Literal(size, BIGINT), span), slide)
    return Filter(relation, _while(begin, end, reached), span), scope


def _shown(
    relation: Relation, scope: Scope, ticks: Expression, lengths: tuple[int, int],
    reached: Expression, environment: Environment,
) -> tuple[Relation, Scope]:  # fmt: skip
    """Each row once in every window that holds it, of which the last is shown, with its borders."""
    size, slide = lengths
    count = -(-size // slide)
    if count > MOST_WINDOWS:
        raise UnsupportedQuery(f"a row would be in {count:,} windows",
                               detail=f"It may be in {MOST_WINDOWS:,}.",
                               hint="Take a longer slide.")  # fmt: skip
    name = environment.names.fresh("window_ahead")
    rows = tuple((Literal(i * slide, BIGINT),) for i in range(count))
    steps = Values(rows, Schema((Field(name, BIGINT, False),)))
    end = operators.arithmetic("+", _later(ticks, slide), Column(name, BIGINT, False), None)
    start = operators.arithmetic("-", end, Literal(size, BIGINT), None)
    inside = operators.compare("<=", start, ticks, None)
    kept = [(f.name, Column(f.name, f.type, f.nullable)) for f in relation.schema]
    prefix = environment.names.fresh("window")
    made = [(f"{prefix}.{n}", _moment(e)) for n, e in (("start", start), ("end", end))]
    project = Project(Join("inner", relation, steps, inside), (*kept, *made))
    borders = [Column(n, TIMESTAMP, True) for n, _ in made]
    ends = functions.call("unix_micros", (borders[1],))
    after = operators.arithmetic("+", ends, Literal(slide, BIGINT), None)
    shown = Filter(project, _while(ends, after, reached))
    named: list[Visible] = [("window_start", borders[0]), ("window_end", borders[1])]
    tables = {alias: [*columns, *named] for alias, columns in scope.tables.items()}
    tables["window"] = [("start", borders[0]), ("end", borders[1])]
    return shown, Scope(tables, [*scope.columns, *named], scope.outer)


def _while(begin: Expression, end: Expression, reached: Expression) -> Expression:
    both = [operators.compare(">=", reached, _moment(begin), None),
            operators.compare("<", reached, _moment(end), None)]  # fmt: skip
    condition = operators.conjunction(both)
    assert condition is not None
    return condition


def _later(ticks: Expression, slide: int) -> Expression:
    """The first multiple of the slide that is later."""
    step = Literal(slide, BIGINT)
    since = functions.call("pmod", (ticks, step))
    begun = operators.arithmetic("-", ticks, since, None)
    return operators.arithmetic("+", begun, step, None)


def _moment(ticks: Expression) -> Expression:
    return functions.call("timestamp_micros", (ticks,))


def _moment_of(suffix: WindowSuffix, scope: Scope, span: Span | None) -> Expression:
    """The column that says when a row was."""
    on = suffix.args.get("on")
    if on is not None:
        found = scope.find(on.name, None, span)
        if not isinstance(found.type, Timestamp):
            raise TypeMismatch(f"a window of time needs a TIMESTAMP, got {found.type}", span=span)
        return found
    moments = [each for _, each in scope.columns if isinstance(each.type, Timestamp)]
    if len(moments) != 1:
        raise UnsupportedQuery(
            f"a window of time needs one column of type TIMESTAMP, here are {len(moments)}",
            hint="Say which: [WINDOW 10 MINUTES SLIDE 1 MINUTE ON ts].", span=span,
        )  # fmt: skip
    return moments[0]


def watermark_of(relation: Relation, environment: Environment, span: Span | None) -> Expression:
    """How far time has come for the tables that rows come from."""
    catalog = environment.catalog
    known = catalog if isinstance(catalog, Streams) else None
    names = {n for each in sources(relation) for n in (known.time_tables(each) if known else ())}
    if not names:
        raise UnsupportedQuery(
            "nothing says how far time has come",
            detail="None of the tables that the rows come from has a time.",
            hint="Declare one of them with TIMESTAMP BY column.", span=span,
        )  # fmt: skip
    return watermark(names, span)


def no_table(name: str, span: Span | None) -> UnsupportedQuery:
    """The error for a window on something that is not a table."""
    return UnsupportedQuery(
        f'a window needs a table, which "{name}" is not',
        hint="Put the window on the table that the view reads.",
        span=span,
    )


def _time_column(name: str, schema: Schema, stream: Stream, span: Span | None) -> str:
    if stream.timestamp_by is None:
        raise UnsupportedQuery(
            f'a window of time needs a time column, and table "{name}" names none',
            hint="Declare the table with TIMESTAMP BY column.",
            span=span,
        )
    at = schema.find(stream.timestamp_by)
    assert at is not None
    field = schema[at]
    if not isinstance(field.type, Timestamp):
        raise TypeMismatch(
            f'a window of time needs a TIMESTAMP, and "{field.name}" of table "{name}" is '
            f"{field.type}",
            span=span,
        )
    return field.name
