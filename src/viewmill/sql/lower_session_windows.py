"""Spark's session_window(ts, gap) in GROUP BY, as window functions over the rows of a key.

takes  the session_window() call of a SELECT, what the SELECT reads
gives  the rows with the columns session_window.start and session_window.end

A row begins a session if the row before it, among those with the same other keys of GROUP BY, is
more than the gap earlier. The session of a row is the latest that has begun, and ends a gap after
its last row. So a late row joins two sessions, and a deleted one parts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from viewmill.algebra.expressions import (
    Call,
    Case,
    Column,
    Expression,
    Frame,
    Literal,
    Over,
    SortKey,
)
from viewmill.algebra.relations import Filter, Project, Relation, Window
from viewmill.algebra.types import BIGINT, INT, TIMESTAMP
from viewmill.errors import MalformedSQL, TypeMismatch, UnsupportedQuery
from viewmill.sql import functions, operators
from viewmill.sql.coercion import implicit
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.lower_time_windows import calls_of, length_of
from viewmill.sql.lower_windows import break_ties
from viewmill.sql.scopes import Scope

SESSION = "session_window"


def session_windows(select: exp.Select) -> list[exp.Anonymous]:
    """The session_window() calls of this SELECT."""
    return calls_of(select, SESSION)


def add_session_window(
    calls: Sequence[exp.Anonymous], select: exp.Select, relation: Relation, scope: Scope,
    environment: Environment,
) -> tuple[Relation, Scope]:  # fmt: skip
    """The relation with the session of each row, and the scope that knows its start and end."""
    span = environment.span(calls[0])
    lowering = ExpressionLowering(environment, scope)
    moment, gap = _read(calls[0], lowering)
    if any(_read(other, lowering) != (moment, gap) for other in calls[1:]):
        raise UnsupportedQuery(
            "a SELECT has one session_window(...)",
            hint="Write all calls alike, or group by the other in another query.", span=span,
        )  # fmt: skip
    if select.args.get("group") is None:
        raise UnsupportedQuery(
            "session_window(...) stands in GROUP BY",
            hint="GROUP BY session_window(ts, '5 minutes')", span=span,
        )  # fmt: skip
    keys = tuple(lowering.lower(each) for each in _other_keys(select, lowering))
    relation = Filter(relation, operators.negation(operators.is_null(moment, span), span))
    ticks = functions.call("unix_micros", (moment,), span)
    columns = relation.schema  # rows of one moment are in one order, whatever is added
    names = [environment.names.fresh(f"session {each}") for each in ("before", "begun", "last")]
    before, begun, last = (Column(each, BIGINT, True) for each in names)
    order = (SortKey(ticks),)
    lag = Over("lag", (ticks, Literal(1, INT)), keys, order, None, BIGINT)
    relation = Window(relation, ((before.name, break_ties(lag, columns)),), span)
    gap_end = operators.arithmetic("+", before, Literal(gap, BIGINT), span)
    begins = Case(
        ((operators.is_null(before, span), ticks),
         (operators.compare(">", ticks, gap_end, span), ticks)),
        Literal(None, BIGINT), BIGINT,
    )  # fmt: skip
    # Of rows of one moment any may be the first, so all of them see all of them.
    latest = Over("max", (begins,), keys, order, Frame("range", None, 0), BIGINT)
    relation = Window(relation, ((begun.name, latest),), span)
    newest = Over("max", (ticks,), (*keys, begun), (), None, BIGINT)
    relation = Window(relation, ((last.name, newest),), span)
    return _with_borders(relation, scope, environment, (begun, last), gap)


def _with_borders(
    relation: Relation, scope: Scope, environment: Environment, found: tuple[Column, Column],
    gap: int,
) -> tuple[Relation, Scope]:  # fmt: skip
    begun, last = found
    prefix = environment.names.fresh(SESSION)
    end = operators.arithmetic("+", last, Literal(gap, BIGINT), None)
    hidden = {each.name for each in found}
    kept = [(each.name, Column(each.name, each.type, each.nullable)) for each in relation.schema
            if each.name not in hidden]  # fmt: skip
    made = [(f"{prefix}.start", _moment(begun)), (f"{prefix}.end", _moment(end))]
    project = Project(relation, (*kept, *made))
    columns: list[tuple[str, Expression]] = [
        (name, Column(f"{prefix}.{name}", TIMESTAMP, False)) for name in ("start", "end")
    ]
    return project, Scope({**scope.tables, SESSION: columns}, scope.columns, scope.outer)


def _moment(ticks: Expression) -> Expression:
    made = functions.call("timestamp_micros", (ticks,))
    # Every row with a time is in a session.
    return Call(made.function, made.arguments, made.type, False) if isinstance(made, Call) else made


def _read(call: exp.Anonymous, lowering: ExpressionLowering) -> tuple[Expression, int]:
    span = lowering.span(call)
    if len(call.expressions) != 2:
        raise TypeMismatch("session_window takes a time and a gap",
                           hint="session_window(ts, '5 minutes')", span=span)  # fmt: skip
    time, length = call.expressions
    gap = length_of(length, lowering)
    if gap <= 0:
        raise MalformedSQL("a gap is longer than nothing", span=lowering.span(length))
    return implicit(lowering.lower(time), TIMESTAMP, SESSION), gap


def _other_keys(select: exp.Select, lowering: ExpressionLowering) -> Iterator[exp.Expr]:
    """What GROUP BY names besides the session: expressions, positions and aliases."""
    group = select.args["group"]
    if any(value for key, value in group.args.items() if key != "expressions"):
        raise UnsupportedQuery("session_window goes with plain keys in GROUP BY",
                               hint="GROUP BY a, session_window(ts, '5 minutes')",
                               span=lowering.span(group))  # fmt: skip
    for node in group.expressions:
        found = _meant(node, select, lowering)
        if not _is_session(found):
            yield found


def _meant(node: exp.Expr, select: exp.Select, lowering: ExpressionLowering) -> exp.Expr:
    if isinstance(node, exp.Literal) and node.is_int:
        at = int(node.name) - 1
        found = select.expressions[at] if 0 <= at < len(select.expressions) else node
        return found.unalias()
    is_bare = isinstance(node, exp.Column) and not node.table
    if is_bare and lowering.scope.lookup(node.name, None, None) is None:
        for each in select.expressions:
            if each.alias_or_name.lower() == node.name.lower():
                meant: exp.Expr = each.unalias()
                return meant
    return node


def _is_session(node: exp.Expr) -> bool:
    return any(str(each.this).lower() == SESSION for each in node.find_all(exp.Anonymous))
