"""Comparisons with aggregates of a row's own key: which queries, and what is kept.

takes  a rewritten relation
gives  `ByKey`: rows whose key k meets conditions over its aggregates v(k), and of these, rows with

column   column θ v(k)
    l.quantity < (SELECT 0.2 * avg(m.quantity) FROM lineitem m WHERE m.partkey = l.partkey)
run      v(k) θ an aggregate over the rows of the key up to this one
    0.75 * (SELECT sum(x.volume) FROM bids x WHERE x.broker = b.broker)
    < (SELECT sum(y.volume) FROM bids y WHERE y.broker = b.broker AND y.price <= b.price)

A row changes the aggregates of its own key only. For each key the levels of the column are in
order, so what the key adds to the view is one range of them, before the change and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Call, Case, Column, Expression, walk
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.types import Nested
from viewmill.algebra.walk import map_parts
from viewmill.codegen.linear import not_null
from viewmill.codegen.shape import NotTaken
from viewmill.strategies.aggregate_index.classify import Test, comparison_core, require_ordered
from viewmill.strategies.aggregate_index.query import (
    FLIPPED,
    VALUE,
    Conjunct,
    Correlation,
    Query,
    Value,
    own_names,
    read_query,
)

_INSIDE, _IN_RUNS = ("sum", "count", "avg"), ("sum", "count")
_ORDERED = ("<", "<=", ">", ">=")
KEY = "#key_"  # what the names of key columns begin with, where conditions read them


@dataclass(frozen=True)
class ByKey:
    """The rows of `scan` that meet `where`, whose key meets `conditions`, and that pass `test`.

    values  the aggregates that are equal by `key`
    fixed   those that are the same for all rows
    """

    query: Query
    scan: Scan
    where: tuple[Expression, ...]
    key: tuple[Expression, ...]
    conditions: tuple[Expression, ...]
    test: Test | None
    values: tuple[Value, ...]
    fixed: tuple[Value, ...]

    @property
    def run(self) -> Value | None:
        """The aggregate over the rows of a key up to a row."""
        return None if self.test is None else self.test.value


def read_by_key(relation: Relation) -> ByKey:
    """The record of a query, or `NotTaken`."""
    query = read_query(relation)
    if len(query.scans) != 1:
        raise NotTaken("several tables outside")
    return _Reader(query).read()


def equalities(value: Value) -> dict[Expression, Expression]:
    """The columns inside that a value is equal by, by those outside."""
    return {each.outer: each.inner for each in value.correlations if each.operator == "="}


def inequality(value: Value) -> Correlation | None:
    """The comparison of a value that is no equality."""
    return next((each for each in value.correlations if each.operator != "="), None)


class _Reader:
    def __init__(self, query: Query) -> None:
        self.query = query
        ((_, self.scan),) = query.scans.items()
        self.all = [value for each in query.conjuncts for value in each.values]
        self.moving = {each.name for each in self.all if inequality(each) is not None}
        self.key = self._key()

    def _key(self) -> tuple[Expression, ...]:
        correlated = [each for each in self.all if each.correlations]
        key = tuple(equalities(correlated[0])) if correlated else ()
        if not key:
            raise NotTaken("no aggregate is of a row's own key")
        for value in self.all:
            _require_function(value)
        for value in correlated:
            _require_taken(value, key)
        return key

    def read(self) -> ByKey:
        plain = [own_names(each.condition) for each in self.query.conjuncts if not each.values]
        conditions, tests = list[Expression](), list[Test]()
        for conjunct in (each for each in self.query.conjuncts if each.values):
            condition = self._by_key(own_names(conjunct.condition))
            if self._is_of_key(condition):
                conditions.append(condition)
            else:
                tests.append(self._test(conjunct))
        if len(tests) > 1:
            raise NotTaken("several conditions compare rows with aggregates of their key")
        shown = {own_names(each) for _, each in self.query.keys}
        if not shown <= set(self.key):
            raise NotTaken("GROUP BY anything but the key of the aggregate")
        test = tests[0] if tests else None
        key = self.key
        if test is not None and test.value is None:
            test, plain, key = self._with_column(test, plain, [*conditions, test.bound])
        return ByKey(
            self.query, self.scan, tuple(plain), key, tuple(conditions), test,
            tuple(each for each in self.all if each.correlations and each.name not in self.moving),
            tuple(each for each in self.all if not each.correlations),
        )  # fmt: skip

    def _with_column(
        self, test: Test, plain: list[Expression], read: list[Expression]
    ) -> tuple[Test, list[Expression], tuple[Expression, ...]]:
        """A column's levels are of rows that have a key; without one, no aggregate may count."""
        if any(each.nullable for each in self.key) and not _is_strict(read, self.all):
            raise NotTaken("a row without key has an aggregate too: COUNT or COALESCE of nothing")
        known = [not_null(each) for each in (*self.key, test.core) if each.nullable]
        test = replace(test, core=surely(test.core))
        return test, [*plain, *known], tuple(map(surely, self.key))

    def _by_key(self, expression: Expression) -> Expression:
        """The expression over the columns of the key and the aggregates."""
        if expression in self.key:
            name = f"{KEY}{self.key.index(expression) + 1}"
            return Column(name, expression.type, expression.nullable)
        return map_parts(expression, self._by_key)

    def _is_of_key(self, expression: Expression) -> bool:
        """Whether all rows of a key have the same value."""
        names = {each.name for each in walk(expression) if isinstance(each, Column)}
        return not names & self.moving and all(n.startswith((KEY, VALUE)) for n in names)

    def _test(self, conjunct: Conjunct) -> Test:
        condition = own_names(conjunct.condition)
        if not isinstance(condition, Call) or condition.function not in FLIPPED:
            raise NotTaken("no comparison", condition.span)
        left, right = condition.arguments
        sign = condition.function
        if self._is_of_key(self._by_key(left)):
            left, right, sign = right, left, FLIPPED[sign]
        bound = self._by_key(right)
        if not self._is_of_key(bound):
            raise NotTaken("both sides of the comparison change from row to row", condition.span)
        core, factor, default, scale = comparison_core(left, right.type, conjunct)
        named = core.name if isinstance(core, Column) else ""
        value = next((each for each in self.all if each.name == named), None)
        if value is not None:
            return Test(core, factor, sign, bound, default, value, scale)
        if any(isinstance(e, Column) and e.name.startswith(VALUE) for e in walk(core)):
            raise NotTaken("arithmetic on an aggregate and a column", condition.span)
        if default is not None:
            raise NotTaken("COALESCE of a column", condition.span)
        return Test(core, factor, sign, bound, scale=scale)


def surely(expression: Expression) -> Expression:
    """The expression where a condition says that it is not NULL."""
    if not expression.nullable:
        return expression
    return replace(expression, nullable=False)  # type: ignore[arg-type]


def _is_strict(read: Sequence[Expression], values: Sequence[Value]) -> bool:
    """Whether what is read is NULL where there is no row to aggregate."""
    lenient = ("coalesce", "is_null", "<=>", "and", "or")
    return all(each.call.function != "count" for each in values) and not any(
        isinstance(e, Case) or (isinstance(e, Call) and e.function in lenient)
        for each in read
        for e in walk(each)
    )


def _require_function(value: Value) -> None:
    call, inside = value.call, _INSIDE if inequality(value) is None else _IN_RUNS
    if call.function not in inside or call.distinct or call.where is not None:
        raise NotTaken(f"{call.function.upper()} inside by key", call.span or value.span)


def _require_taken(value: Value, key: tuple[Expression, ...]) -> None:
    call, others = value.call, [each for each in value.correlations if each.operator != "="]
    if len(others) > 1 or any(each.operator not in _ORDERED for each in others):
        raise NotTaken("a correlation by more than equalities and one inequality", value.span)
    equal = [each for each in value.correlations if each.operator == "="]
    if set(equalities(value)) != set(key) or len(equal) != len(key):
        raise NotTaken("aggregates of different keys", value.span)
    for each in equal:
        if each.inner.type != each.outer.type or isinstance(each.inner.type, Nested):
            raise NotTaken(f"{each.inner.type} = {each.outer.type}", value.span)
    for each in others:
        require_ordered(each.inner.type, each.outer.type, call.span)
