"""Spark's window(ts, size, slide) in GROUP BY, as arithmetic on microseconds.

takes  the window() call of a SELECT, what the SELECT reads
gives  the rows once per window they are in, with the columns window.start and window.end

A row at 12:07 is in the 10-minute windows that start at 12:00 and, sliding by 5, at 12:05.
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.relations import Filter, Join, Project, Relation, Values
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT, TIMESTAMP
from viewmill.algebra.units import parse_duration
from viewmill.errors import InvalidArgument, MalformedSQL, TypeMismatch
from viewmill.sql import functions, operators
from viewmill.sql.coercion import implicit
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.scopes import Scope

WINDOW = "window"


def find_time_window(select: exp.Select) -> exp.Anonymous | None:
    """The window() call of this SELECT, not of queries inside it."""
    for node in select.find_all(exp.Anonymous):
        if str(node.this).lower() == WINDOW and node.find_ancestor(exp.Select) is select:
            return node
    return None


def add_time_window(
    call: exp.Anonymous, relation: Relation, scope: Scope, environment: Environment
) -> tuple[Relation, Scope]:
    """The relation with one row per window, and the scope that knows window.start and .end."""
    span = environment.span(call)
    if not 2 <= len(call.expressions) <= 4:
        raise TypeMismatch("window takes a time, a size, a slide and an offset", span=span)
    lowering = ExpressionLowering(environment, scope)
    moment = implicit(lowering.lower(call.expressions[0]), TIMESTAMP, WINDOW)
    size, slide, offset = _durations(call.expressions[1:], environment)
    if size <= 0 or slide <= 0:
        raise MalformedSQL("a window and its slide are longer than nothing", span=span)
    if slide > size:
        raise MalformedSQL("a window slides by at most its size", span=span)
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


def _durations(nodes: list[exp.Expr], environment: Environment) -> tuple[int, int, int]:
    numbers: list[int] = []
    for node in nodes:
        span = environment.span(node)
        if not isinstance(node, exp.Literal) or not node.args.get("is_string"):
            raise NotModelled("a window size that is not a constant", span)
        text = node.name.strip()
        try:
            numbers.append(0 if text.startswith("0 ") else parse_duration(text))
        except InvalidArgument as error:
            raise MalformedSQL(error.message, hint=error.hint, span=span) from None
    size = numbers[0]
    slide = numbers[1] if len(numbers) > 1 else size
    return size, slide, numbers[2] if len(numbers) > 2 else 0


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
