"""Spark's window(ts, size, slide) in GROUP BY, as arithmetic on microseconds.

takes  the window() call of a SELECT, what the SELECT reads
gives  the rows once per window they are in, with the columns window.start and window.end; a call
       that stands in several places is one window

A row at 12:07 is in the 10-minute windows that start at 12:00 and, sliding by 5, at 12:05.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.relations import Filter, Join, Project, Relation, Values
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, TIMESTAMP
from viewmill.algebra.units import parse_duration
from viewmill.algebra.windows import LONGEST
from viewmill.errors import InvalidArgument, MalformedSQL, TypeMismatch, UnsupportedQuery
from viewmill.sql import functions, operators
from viewmill.sql.coercion import implicit
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.scopes import Scope

WINDOW = "window"
_HINT = "Write window(ts, '10 minutes', '1 minute')."


MOST_WINDOWS = 10_000  # of one row: it is written once for each


def time_windows(select: exp.Select) -> list[exp.Anonymous]:
    """The window() calls of this SELECT."""
    return calls_of(select, WINDOW)


def calls_of(select: exp.Select, name: str) -> list[exp.Anonymous]:
    """The calls of this SELECT, not of its WHERE and FROM or of queries inside it."""
    return [
        node
        for node in select.find_all(exp.Anonymous)
        if str(node.this).lower() == name
        and node.find_ancestor(exp.Select) is select
        and not isinstance(
            node.find_ancestor(exp.Where, exp.Join, exp.Select), exp.Where | exp.Join
        )
    ]


def add_time_window(
    calls: Sequence[exp.Anonymous], relation: Relation, scope: Scope, environment: Environment
) -> tuple[Relation, Scope]:
    """The relation with one row per window, and the scope that knows window.start and .end."""
    span = environment.span(calls[0])
    lowering = ExpressionLowering(environment, scope)
    wanted = _read(calls[0], lowering)
    for other in calls[1:]:
        if _read(other, lowering) != wanted:
            raise UnsupportedQuery(
                "a SELECT has one window(...)",
                detail="Rows would be written once for each pair of windows.",
                hint="Write all calls of window alike, or group by the other in another query.",
                span=environment.span(other),
            )
    moment, size, slide, offset = wanted
    ticks = functions.call("unix_micros", (moment,), span)
    phase = operators.arithmetic("-", ticks, _ticks(offset), span)
    last = operators.arithmetic(
        "-", ticks, functions.call("pmod", (phase, _ticks(slide)), span), span
    )
    relation = Filter(relation, operators.negation(operators.is_null(moment, span), span))
    start: Expression = last
    count = -(-size // slide)
    if count > 1:
        relation, start = _repeated(relation, last, ticks, (size, slide, count), environment)
    prefix = environment.names.fresh(WINDOW)
    end = operators.arithmetic("+", start, _ticks(size), span)
    added = [("start", start), ("end", end)]
    outputs = [(f"{prefix}.{name}", _moment(ticks_of)) for name, ticks_of in added]
    kept = [(each.name, Column(each.name, each.type, each.nullable)) for each in relation.schema]
    project = Project(relation, (*kept, *outputs))
    columns: list[tuple[str, Expression]] = [
        (name, Column(f"{prefix}.{name}", TIMESTAMP, False)) for name, _ in added
    ]
    return project, Scope({**scope.tables, WINDOW: columns}, scope.columns, scope.outer)


def _read(call: exp.Anonymous, lowering: ExpressionLowering) -> tuple[Expression, int, int, int]:
    """The time, and size, slide and offset in microseconds."""
    span = lowering.span(call)
    if not 2 <= len(call.expressions) <= 4:
        raise TypeMismatch("window takes a time, a size, a slide and an offset", span=span)
    time, *lengths = call.expressions
    moment = implicit(lowering.lower(time), TIMESTAMP, WINDOW)
    numbers = [length_of(each, lowering) for each in lengths]
    size = numbers[0]
    slide, offset = numbers[1] if len(numbers) > 1 else size, numbers[2] if len(numbers) > 2 else 0
    if size <= 0 or slide <= 0:
        place = lengths[0] if size <= 0 else lengths[1]
        message = "a window and its slide are longer than nothing"
        raise MalformedSQL(message, hint=_HINT, span=lowering.span(place))
    if slide > size:
        raise MalformedSQL("a window slides by at most its size", span=lowering.span(lengths[1]))
    if abs(offset) >= slide:
        message = "windows begin less than a slide after or before the full slide"
        raise MalformedSQL(message, span=lowering.span(lengths[2]))
    if size >= LONGEST or -(-size // slide) > MOST_WINDOWS:
        raise UnsupportedQuery(
            f"a row would be in {-(-size // slide):,} windows of {size:,} microseconds",
            detail=f"It may be in {MOST_WINDOWS:,}.",
            hint="Take a longer slide.",
            span=span,
        )
    return moment, size, slide, offset


def length_of(node: exp.Expr, lowering: ExpressionLowering) -> int:
    """'10 minutes' or 'INTERVAL 10 minutes'; a whole number is of microseconds."""
    span = lowering.span(node)
    value = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(value, exp.Literal) or (node is not value and value.args.get("is_string")):
        raise MalformedSQL("the lengths of a window are constants", hint=_HINT, span=span)
    if not value.args.get("is_string") and value.name.isdigit():
        return int(value.name) if node is value else -int(value.name)
    words = value.name.split()
    text = " ".join(words[1:] if words and words[0].lower() == "interval" else words)
    try:
        return parse_duration(text, signed=True)
    except InvalidArgument as error:
        raise MalformedSQL(error.message, hint=error.hint or _HINT, span=span) from None


def _repeated(
    relation: Relation,
    last: Expression,
    ticks: Expression,
    sizes: tuple[int, int, int],
    environment: Environment,
) -> tuple[Relation, Expression]:
    """Each row once per window: the last that holds it, the one before, and so on."""
    size, slide, count = sizes
    name = environment.names.fresh("window_back")
    schema = Schema((Field(name, BIGINT, False),))
    values = Values(tuple((_ticks(i * slide),) for i in range(count)), schema)
    start = operators.arithmetic("-", last, Column(name, BIGINT, False), None)
    end = operators.arithmetic("+", start, _ticks(size), None)
    # When the slide does not divide the size, the earliest of them may end before the row.
    inside = None if size % slide == 0 else operators.compare(">", end, ticks, None)
    kind = "cross" if inside is None else "inner"
    return Join(kind, relation, values, inside), start  # type: ignore[arg-type]


def _ticks(number: int) -> Literal:
    return Literal(number, BIGINT)


def _moment(ticks: Expression) -> Expression:
    made = functions.call("timestamp_micros", (ticks,))
    # Rows without a time were filtered out.
    return Call(made.function, made.arguments, made.type, False) if isinstance(made, Call) else made
