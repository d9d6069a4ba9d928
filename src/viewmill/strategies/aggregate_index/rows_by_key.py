"""Rows that pass a comparison with an aggregate of their own key, or of all rows.

takes  a filtered and projected scan, one of whose conditions is column θ v(k)
           ps.availqty > (SELECT 0.5 * sum(l.quantity) FROM lineitem l
                          WHERE l.partkey = ps.partkey AND l.suppkey = ps.suppkey)
gives  `RowsByKey`: the rows outside, the comparison, and what is aggregated inside
next   rows_emit

Nothing is aggregated of the rows that pass: they flow on into whatever the query does with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.aggregates import is_count
from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Expression, ScalarSubquery, walk
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Aggregate, Named, Relation, Scan
from viewmill.algebra.types import Wide
from viewmill.algebra.walk import columns_of, has_subquery, map_parts, substitute
from viewmill.codegen.join_graph import have_equal_words
from viewmill.codegen.linear import Top, top_of
from viewmill.codegen.shape import NotTaken, blame, peel
from viewmill.rewrite.correlation import NotDecorrelated, from_inside, has_outer
from viewmill.rewrite.scalar_as_join import correlated_equality
from viewmill.strategies.aggregate_index.classify import Test, comparison_core
from viewmill.strategies.aggregate_index.query import FLIPPED, Conjunct

_LENIENT = ("coalesce", "is_null", "<=>", "and", "or")


@dataclass(frozen=True)
class Inside:
    """The aggregates `calls` of the rows that meet `where`, by `key`."""

    rows: Relation
    where: tuple[Expression, ...]
    key: tuple[Expression, ...]
    calls: tuple[tuple[str, AggregateCall], ...]


@dataclass(frozen=True)
class Comparison:
    """`test`: a column of a row against the aggregates of its `key`, which is () for all rows.

    `is_strict` says that a row whose key has no rows inside does not pass; COUNT has 0 for it.
    """

    key: tuple[Expression, ...]
    test: Test
    inside: Inside
    is_strict: bool = True


@dataclass(frozen=True)
class RowsByKey:
    """The rows of `scan` that meet `where` and pass `comparison`, shown as `outputs`."""

    scan: Scan
    where: tuple[Expression, ...]
    outputs: tuple[Named, ...]
    comparison: Comparison

    @property
    def inner_scan(self) -> Scan:
        """The rows inside."""
        assert isinstance(self.comparison.inside.rows, Scan)
        return self.comparison.inside.rows


def read_rows_by_key(relation: Relation) -> tuple[Top, RowsByKey]:
    """The record of a query, or `NotTaken`; `Top` is what the rows that pass are shown as."""
    top, bottom = top_of(relation)
    if not isinstance(bottom, Scan):
        raise NotTaken(*blame(bottom))
    for _, each in top.outputs:
        if has_subquery(each):
            raise NotTaken("a nested aggregate is shown", each.span)
    plain = tuple(each for each in top.where if not has_subquery(each))
    nested = [each for each in top.where if has_subquery(each)]
    if len(nested) != 1:
        several = "several conditions compare" if nested else "no condition compares"
        raise NotTaken(f"{several} rows with nested aggregates", bottom.span)
    comparison = read_comparison(nested[0])
    read = set().union(*(columns_of(each) for each in (comparison.test.core, *comparison.key)))
    if not read <= set(bottom.schema.names):
        raise NotTaken("a correlation with something that is computed", nested[0].span)
    if not isinstance(comparison.inside.rows, Scan):
        reason, span = blame(comparison.inside.rows)
        raise NotTaken(f"{reason}, inside a subquery", span)
    return Top((), top.outputs), RowsByKey(bottom, plain, top.outputs, comparison)


def read_comparison(condition: Expression) -> Comparison:
    """A condition as a comparison of a column with an aggregate by key, or `NotTaken`."""
    if not isinstance(condition, Call) or condition.function not in FLIPPED:
        raise NotTaken("no comparison", condition.span)
    (left, right), sign = condition.arguments, condition.function
    if has_subquery(left):
        left, right, sign = right, left, FLIPPED[sign]
    found = [each for each in walk(right) if isinstance(each, ScalarSubquery)]
    if has_subquery(left) or len(found) != 1 or columns_of(right):
        raise NotTaken("both sides of the comparison change from row to row", condition.span)
    if not columns_of(left):
        raise NotTaken("no column is compared", condition.span)
    (subquery,) = found
    key, inside, value = _read_inside(subquery)
    bound = _with_value(right, subquery, value)
    is_strict = not key or _is_strict(bound, inside)
    if not is_strict:
        _require_value_of_none(bound, inside, condition)
    return Comparison(key, _test(left, sign, bound, condition), inside, is_strict)


def _require_value_of_none(bound: Expression, inside: Inside, condition: Expression) -> None:
    """What a key without rows is compared with is computed for every row, and from a table."""
    if failing_part(bound) is not None:
        raise NotTaken("an aggregate of no rows is a number, and the bound can fail", bound.span)
    if not isinstance(inside.rows, Scan):
        raise NotTaken("COUNT or COALESCE of rows that are no table's", condition.span)


def _test(left: Expression, sign: str, bound: Expression, condition: Expression) -> Test:
    if sign == "=" and isinstance(left.type, Wide) and isinstance(bound.type, Wide):
        return Test(left, 1, sign, bound)  # equal words are equal numbers
    whole = Conjunct(condition, frozenset(), ())
    core, factor, default, scale = comparison_core(left, bound.type, whole)
    if default is not None:
        raise NotTaken("COALESCE of a column", condition.span)
    return Test(core, factor, sign, bound, scale=scale)


def _read_inside(subquery: ScalarSubquery) -> tuple[tuple[Expression, ...], Inside, Expression]:
    """The key outside, what is aggregated, and the value as an expression over the aggregates."""
    above, outputs, group = peel(subquery.query)
    if not isinstance(group, Aggregate) or group.keys or above or group.grouping_sets:
        raise NotTaken("the subquery is not one aggregate of its rows", subquery.span)
    ((_, value),) = outputs
    where, columns, rows = peel(group.input)
    own, outer_key, inner_key = list[Expression](), list[Expression](), list[Expression]()
    for condition in (part for each in where for part in conjuncts(each)):
        if not has_outer(condition):
            own.append(condition)
            continue
        inner, outer = _equality(condition, rows)
        outer_key.append(outer)
        inner_key.append(inner)
    by_name = dict(columns)
    found = [(name, substitute(call, by_name)) for name, call in group.aggregates]
    calls = tuple((name, call) for name, call in found if isinstance(call, AggregateCall))
    assert len(calls) == len(found)
    if any(has_subquery(each) or has_outer(each) for each in (value, *own, *dict(calls).values())):
        raise NotTaken("a subquery inside a subquery", subquery.span)
    inside = Inside(rows, tuple(own), tuple(inner_key), calls)
    return tuple(outer_key), inside, value


def _equality(condition: Expression, rows: Relation) -> tuple[Expression, Expression]:
    try:
        inner, outer = correlated_equality(from_inside(condition), rows)
    except NotDecorrelated:
        raise NotTaken("a correlation by something else than =", condition.span) from None
    if has_outer(outer) or has_subquery(condition) or not have_equal_words(inner.type, outer.type):
        raise NotTaken(f"{inner.type} = {outer.type}", condition.span)
    return inner, outer


def _with_value(expression: Expression, subquery: Expression, value: Expression) -> Expression:
    if expression == subquery:
        return value
    return map_parts(expression, lambda part: _with_value(part, subquery, value))


def _is_strict(bound: Expression, inside: Inside) -> bool:
    """Whether the bound is NULL where there is no row to aggregate."""
    return not any(is_count(call) for _, call in inside.calls) and not any(
        isinstance(e, Case) or (isinstance(e, Call) and e.function in _LENIENT) for e in walk(bound)
    )
