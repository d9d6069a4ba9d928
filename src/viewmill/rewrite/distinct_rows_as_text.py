"""Count different rows of several columns as different texts of them."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Cast, Expression, Literal
from viewmill.algebra.relations import Aggregate, Relation
from viewmill.algebra.types import BOOLEAN, INT, STRING, Float, String
from viewmill.algebra.walk import transform


def distinct_rows_as_text(query: Relation) -> Relation:
    """A row is written with the length of each of its parts, so that no two rows read the same.

    before  count(DISTINCT a, b)      after  count(DISTINCT concat(length(a), ':', a, ...))

    A row with a NULL does not count, as before.
    """
    return transform(query, _written)


def _written(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate):
        return relation
    calls = tuple((name, _single(call)) for name, call in relation.aggregates)
    return relation if calls == relation.aggregates else replace(relation, aggregates=calls)


def _single(call: AggregateCall) -> AggregateCall:
    if call.function != "count" or not call.distinct or len(call.arguments) < 2:
        return call
    parts = tuple(part for each in call.arguments for part in _parts(each))
    text = Call("concat", parts, STRING, any(each.nullable for each in call.arguments))
    return replace(call, arguments=(text,))


def _parts(value: Expression) -> tuple[Expression, ...]:
    if isinstance(value.type, Float):  # 0.0 and -0.0 are one value
        zero = Call("=", (value, Literal(0.0, value.type)), BOOLEAN, value.nullable)
        value = Case(((zero, Literal(0.0, value.type)),), value, value.type, value.nullable)
    text = value if isinstance(value.type, String) else Cast(value, STRING, value.nullable)
    size = Cast(Call("length", (text,), INT, value.nullable), STRING, value.nullable)
    return (size, Literal(":", STRING), text)
