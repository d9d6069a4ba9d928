"""Let a nested DISTINCT aggregate count each value where it comes first."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column, Expression
from viewmill.algebra.relations import Aggregate, Named, Relation
from viewmill.algebra.types import BOOLEAN
from viewmill.algebra.walk import columns_of, has_subquery, substitute
from viewmill.rewrite.correlation import has_outer, is_free, linear, transform_everywhere

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def distinct_by_first(query: Relation) -> Relation:
    """DISTINCT inside a subquery that is correlated by equalities and at most one inequality.

    before  Aggregate: count(DISTINCT s.x)          after  Aggregate: count(x)
            └─ Filter: s.price <= b.price                  └─ Filter: level <= b.price
               └─ Scan: sales s                               └─ Aggregate by s.x AS x:
                                                              │     min(s.price) AS level
                                                              └─ Scan: sales s

    A value is among the rows up to a price if its first price is.
    """
    return transform_everywhere(query, _changed)


def _changed(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate) or relation.keys or relation.grouping_sets:
        return relation
    conditions, outputs, bottom = linear(relation.input)
    by_name = dict(outputs)
    calls = [(n, substitute(each, by_name)) for n, each in relation.aggregates]
    value = _value_of([call for _, call in calls if isinstance(call, AggregateCall)])
    if value is None or not is_free(bottom) or any(map(has_subquery, conditions)):
        return relation
    own = [each for each in conditions if not has_outer(each)]
    read = [_comparison(each) for each in conditions if has_outer(each)]
    met = [each for each in read if each is not None]
    if len(met) < len(read) or sum(sign != "=" for _, sign, _ in met) > 1:
        return relation
    return _grouped(relation, filtered(bottom, [*own, _given(value)]), value, met)


def _value_of(calls: list[AggregateCall]) -> Expression | None:
    """What all calls aggregate, if each counts or sums the different values of the same."""
    values = {call.arguments for call in calls}
    if not calls or len(values) != 1 or any(len(each) != 1 for each in values):
        return None
    for call in calls:
        if not call.distinct or call.where or call.function not in ("count", "sum", "avg"):
            return None
    return calls[0].arguments[0]


def _comparison(condition: Expression) -> tuple[Expression, str, Expression] | None:
    """A comparison of what is inside with what is outside, in this order."""
    if not isinstance(condition, Call) or condition.function not in _FLIPPED:
        return None
    (left, right), sign = condition.arguments, condition.function
    if has_outer(left):
        left, right, sign = right, left, _FLIPPED[sign]
    if has_outer(left) or not columns_of(left) or columns_of(right):
        return None
    return left, sign, right


def _grouped(
    relation: Aggregate,
    rows: Relation,
    value: Expression,
    met: list[tuple[Expression, str, Expression]],
) -> Relation:
    name = relation.aggregates[0][0]
    keys: list[Named] = [(f"{name}#different", value)]
    levels: list[tuple[str, AggregateCall]] = []
    conditions: list[Expression] = []
    for number, (inner, sign, outer) in enumerate(met):
        named = f"{name}#with_{number}"
        if sign == "=":
            keys.append((named, inner))
        else:
            best = "min" if sign in ("<", "<=") else "max"
            levels.append((named, AggregateCall(best, (inner,), inner.type, True)))
        column = Column(named, inner.type, inner.nullable or sign != "=")
        conditions.append(Call(sign, (column, outer), BOOLEAN, True))
    different = Aggregate(rows, tuple(keys), tuple(levels))
    column = Column(keys[0][0], value.type, value.nullable)
    calls = tuple(
        (n, replace(call, arguments=(column,), distinct=False)) for n, call in relation.aggregates
    )
    return replace(relation, input=filtered(different, conditions), aggregates=calls)


def _given(value: Expression) -> Expression:
    unknown = Call("is_null", (value,), BOOLEAN, False)
    return Call("not", (unknown,), BOOLEAN, False)
