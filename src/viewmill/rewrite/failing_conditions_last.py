"""Judge what can fail after the join that it is a condition of."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import Call, Expression
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Join, Relation
from viewmill.algebra.walk import columns_of
from viewmill.rewrite.correlation import transform_everywhere


def failing_conditions_last(query: Relation) -> Relation:
    """Conditions of an inner join that can fail become a filter above it.

    before  Join inner: s.k = r.k AND 1 / s.y > 2     after  Filter: 1 / s.y > 2
                                                             └─ Join inner: s.k = r.k

    On one side of the join they would be judged for rows that meet no other. An equality between
    the sides stays: it says which rows meet.
    """
    return transform_everywhere(query, _without_failing)


def _without_failing(relation: Relation) -> Relation:
    if not isinstance(relation, Join) or relation.kind not in ("inner", "cross"):
        return relation
    if relation.condition is None or relation.lateral:
        return relation
    parts = list(conjuncts(relation.condition))
    last = [e for e in parts if failing_part(e) is not None and not _is_key(e, relation)]
    first = [each for each in parts if each not in last]
    if not last:
        return relation
    return filtered(replace(relation, condition=together(first)), last)


def _is_key(condition: Expression, join: Join) -> bool:
    if not isinstance(condition, Call) or condition.function != "=":
        return False
    left, right = set(join.left.schema.names), set(join.right.schema.names)
    a, b = map(columns_of, condition.arguments)
    return bool(a and b) and ((a <= left and b <= right) or (a <= right and b <= left))
