"""A column against an aggregate of its own key (ERRATA R10): which queries, and what is kept.

takes  a rewritten relation
gives  `ByKey`: WHERE column θ v(k), with k = columns outside that the aggregates in v are equal by

    l.quantity < (SELECT 0.2 * avg(m.quantity) FROM lineitem m WHERE m.partkey = l.partkey)

A row changes the aggregates of its own key only. For each key the levels of the column are in
order, so what the key adds to the view is one range of them, before the change and after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Call, Case, Column, Expression, walk
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.types import Nested
from viewmill.strategies.aggregate_index.classify import Test, comparison_core
from viewmill.strategies.aggregate_index.query import (
    FLIPPED,
    Conjunct,
    Query,
    Value,
    own_names,
    read_query,
)
from viewmill.strategies.dataflow.linear import not_null
from viewmill.strategies.dataflow.shape import NotTaken

_INSIDE = ("sum", "count", "avg")


@dataclass(frozen=True)
class ByKey:
    """The rows of `scan` that meet `where` and `test`, whose bound is over `values` of `key`."""

    query: Query
    scan: Scan
    where: tuple[Expression, ...]
    test: Test
    key: tuple[Expression, ...]
    values: tuple[Value, ...]


def read_by_key(relation: Relation) -> ByKey:
    """The record of a query, or `NotTaken`."""
    query = read_query(relation)
    if len(query.scans) != 1:
        raise NotTaken("several tables outside")
    ((alias, scan),) = query.scans.items()
    nested = [each for each in query.conjuncts if each.values]
    if len(nested) != 1:
        raise NotTaken("several conditions depend on aggregates")
    (conjunct,) = nested
    if conjunct.aliases != {alias}:
        raise NotTaken("no column is compared with the aggregate")
    test = _test(conjunct)
    values = conjunct.values
    key = tuple(each.outer for each in values[0].correlations)
    for value in values:
        _require_equal(value, key)
    if any(each.nullable for each in key) and not _is_strict(test.bound, values):
        raise NotTaken("a row without key has an aggregate too: COUNT or COALESCE of nothing")
    plain = [own_names(each.condition) for each in query.conjuncts if not each.values]
    known = [not_null(each) for each in (*key, test.core) if each.nullable]
    where = (*plain, *known)
    shown = {own_names(each) for _, each in query.keys}
    if not shown <= set(key):
        raise NotTaken("GROUP BY anything but the key of the aggregate")
    test = replace(test, core=_surely(test.core))
    return ByKey(query, scan, where, test, tuple(map(_surely, key)), values)


def _surely(expression: Expression) -> Expression:
    """The expression where a condition says that it is not NULL."""
    if not expression.nullable:
        return expression
    return replace(expression, nullable=False)  # type: ignore[arg-type]


def _test(conjunct: Conjunct) -> Test:
    condition = conjunct.condition
    if not isinstance(condition, Call) or condition.function not in FLIPPED:
        raise NotTaken("no comparison", condition.span)
    left, right = condition.arguments
    sign = condition.function
    if _reads_value(left):
        left, right, sign = right, left, FLIPPED[sign]
    if _reads_value(left) or _reads_column(right):
        raise NotTaken("both sides of the comparison read columns", condition.span)
    core, factor, default = comparison_core(own_names(left), right.type, conjunct)
    if default is not None:
        raise NotTaken("COALESCE of a column", condition.span)
    return Test(core, factor, sign, right)


def _is_strict(bound: Expression, values: tuple[Value, ...]) -> bool:
    """Whether the bound is NULL where there is no row to aggregate."""
    lenient = ("coalesce", "is_null", "<=>", "and", "or")
    return all(each.call.function != "count" for each in values) and not any(
        isinstance(e, Case) or (isinstance(e, Call) and e.function in lenient) for e in walk(bound)
    )


def _reads_value(expression: Expression) -> bool:
    return any(isinstance(e, Column) and e.name.startswith("value_") for e in walk(expression))


def _reads_column(expression: Expression) -> bool:
    return any(isinstance(e, Column) and not e.name.startswith("value_") for e in walk(expression))


def _require_equal(value: Value, key: tuple[Expression, ...]) -> None:
    call = value.call
    if call.function not in _INSIDE or call.distinct or call.where is not None:
        raise NotTaken(f"{call.function.upper()} inside by key", call.span)
    if not value.correlations or any(each.operator != "=" for each in value.correlations):
        raise NotTaken("a correlation that is no equality", value.span)
    if tuple(each.outer for each in value.correlations) != key or len(set(key)) != len(key):
        raise NotTaken("aggregates of different keys", value.span)
    for each in value.correlations:
        if each.inner.type != each.outer.type or isinstance(each.inner.type, Nested):
            raise NotTaken(f"{each.inner.type} = {each.outer.type}", value.span)
