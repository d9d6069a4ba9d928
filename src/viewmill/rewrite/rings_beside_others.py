"""Compute what no ring is, as MAX, beside the aggregates of rings."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.conditions import together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column
from viewmill.algebra.float_parts import SUM_PARTS
from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.packed import Packed
from viewmill.algebra.relations import Aggregate, Join, Relation
from viewmill.algebra.types import BOOLEAN
from viewmill.algebra.walk import transform
from viewmill.rewrite.correlation import fresh_copy

# The aggregate of a column that has one value in the whole group: that value.
ONLY_VALUE = "only_value"
# What a view tree adds up beside rings.
_SUMS = ("count", "sum", "avg", *SUM_PARTS)


def rings_beside_others(query: Relation) -> Relation:
    """Of one group-by two: rings over the join, and the others as a table of one row per group.

    before  Aggregate by r.k: cofactor(r.x, s.y), max(r.x)
            └─ Join inner: r.k = s.k
    after   Aggregate by r.k: cofactor(r.x, s.y), only_value(max)
            └─ Join inner: r.k <=> k
               ├─ Join inner: r.k = s.k
               └─ Aggregate by r.k: max(r.x)
                  └─ Join inner: r.k = s.k
    """
    return transform(query, _apart)


def _others(relation: Aggregate) -> list[tuple[str, AggregateCall]]:
    """What no ring is, if it stands beside rings and is not all sums."""
    others = [(name, call) for name, call in relation.aggregates if not _is_ring(call)]
    has_both = len(others) < len(relation.aggregates) and relation.grouping_sets is None
    return others if has_both and not all(is_sum(call) for _, call in others) else []


def _apart(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate) or not (others := _others(relation)):
        return relation
    beside, names = fresh_copy(replace(relation, aggregates=tuple(others)), "#beside")
    meets = [
        Call("<=>", (key, Column(names[name], key.type, key.nullable)), BOOLEAN, False)
        for name, key in relation.keys
    ]
    calls = tuple(
        (name, call if _is_ring(call) else _only(names[name], call))
        for name, call in relation.aggregates
    )
    joined = Join("inner" if meets else "cross", relation.input, beside, together(meets))
    return replace(relation, input=joined, aggregates=calls)


def _only(name: str, call: AggregateCall) -> AggregateCall:
    return AggregateCall(ONLY_VALUE, (Column(name, call.type, call.nullable),), call.type, True)


def _is_ring(call: AggregateCall) -> bool:
    return isinstance(call.type, Packed) and not isinstance(call.type.shape, OperationCall)


def is_sum(call: AggregateCall) -> bool:
    """Whether a view tree adds it up."""
    return call.function in _SUMS and not call.distinct
