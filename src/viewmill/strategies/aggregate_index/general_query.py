"""A query for the general algorithm (RPAI, section 4.2): any condition over nested aggregates.

takes  a rewritten relation
gives  `GeneralQuery`: one table or block outside, plain conditions on it, the conditions that
       depend on aggregates, and each aggregate as a `Nested`
next   general_states

Columns keep their qualified names, which are unique in the whole query. A join outside or inside,
and a subquery of a subquery, are blocks of their own (planner.nested_blocks) before they come here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import (
    Column,
    Exists,
    Expression,
    InSubquery,
    ScalarSubquery,
    walk,
)
from viewmill.algebra.relations import Aggregate, Named, Relation, Scan, Sort
from viewmill.algebra.types import Nested as NestedType
from viewmill.algebra.types import Null, String
from viewmill.algebra.walk import columns_of, has_subquery, map_parts, substitute
from viewmill.codegen.aggregates import simpler
from viewmill.codegen.shape import NotTaken, blame, peel, require_shown
from viewmill.errors import Span
from viewmill.strategies.aggregate_index.query import split
from viewmill.strategies.aggregate_index.shown import Head

SUMS, EXTREMES = ("count", "sum", "avg"), ("min", "max")


@dataclass(frozen=True)
class Nested:
    """`call` over the rows of `scan` that meet `where` and, with a row outside, `correlated`.

    free(q) of the paper are the columns of `correlated` that `scan` does not have, bound(q) those
    that it has.
    """

    name: str
    scan: Scan
    where: tuple[Expression, ...]
    correlated: tuple[Expression, ...]
    call: AggregateCall
    span: Span | None = field(default=None, compare=False)

    @property
    def argument(self) -> Expression | None:
        """What is aggregated; None counts rows."""
        return self.call.arguments[0] if self.call.arguments else None

    @property
    def is_extreme(self) -> bool:
        """Whether it is MIN or MAX."""
        return self.call.function in EXTREMES


@dataclass(frozen=True)
class GeneralQuery:
    """Rows of `scan` that meet `where`, and `conditions` over them and the columns of `values`."""

    scan: Scan
    where: tuple[Expression, ...]
    conditions: tuple[Expression, ...]
    values: tuple[Nested, ...]
    head: Head


def read_general(relation: Relation) -> GeneralQuery:
    """The record of a query, or `NotTaken` with the part that is in the way."""
    if isinstance(relation, Sort):
        require_shown(relation)
        relation = relation.input
    above, outputs, bottom = peel(relation)
    if isinstance(bottom, Aggregate):
        head, where, bottom = _grouped(bottom, above, outputs)
    else:
        columns = tuple((n, Column(n, each.type, each.nullable)) for n, each in outputs)
        head, where = Head(outputs, (), (), columns, is_bag=True), above
    if not isinstance(bottom, Scan):
        raise NotTaken(*blame(bottom))
    parts = [part for each in where for part in split(each)]
    plain = tuple(each for each in parts if not _is_nested(each))
    reader = _Reader(bottom)
    conditions = tuple(reader.inline(each) for each in parts if _is_nested(each))
    if not reader.values:
        raise NotTaken("no aggregate is nested in a condition", relation.span)
    return GeneralQuery(bottom, plain, conditions, tuple(reader.values), head)


def _grouped(
    group: Aggregate, having: tuple[Expression, ...], outputs: tuple[Named, ...]
) -> tuple[Head, tuple[Expression, ...], Relation]:
    if group.grouping_sets is not None:
        raise NotTaken("grouping sets over nested aggregates", group.span)
    where, columns, bottom = peel(group.input)
    by_name = dict(columns)
    keys = tuple((name, substitute(each, by_name)) for name, each in group.keys)
    calls = tuple((name, substitute(each, by_name)) for name, each in group.aggregates)
    return Head(keys, calls, having, outputs), where, bottom  # type: ignore[arg-type]


def _is_nested(condition: Expression) -> bool:
    return has_subquery(condition)


class _Reader:
    """Takes the subqueries out of conditions on the rows of `scan`."""

    def __init__(self, scan: Scan) -> None:
        self.names = set(scan.schema.names)
        self.values: list[Nested] = []

    def inline(self, expression: Expression) -> Expression:
        """The expression with a column for each nested aggregate."""
        if isinstance(expression, ScalarSubquery):
            return self._subquery(expression)
        if isinstance(expression, Exists | InSubquery):
            raise NotTaken("EXISTS and IN are no nested aggregates", expression.span)
        return map_parts(expression, self.inline)

    def _subquery(self, subquery: ScalarSubquery) -> Expression:
        above, outputs, group = peel(subquery.query)
        if not isinstance(group, Aggregate) or group.keys or above or group.grouping_sets:
            raise NotTaken("the subquery is not one aggregate of its rows", subquery.span)
        where, columns, scan = peel(group.input)
        if not isinstance(scan, Scan):
            reason, span = blame(scan)
            raise NotTaken(f"{reason}, inside a subquery", span or subquery.span)
        parts = [_flat(part) for each in where for part in split(each)]
        for part in parts:
            self._require_plain(part, scan, subquery.span)
        inside = set(scan.schema.names)
        own = tuple(part for part in parts if columns_of(part) <= inside)
        correlated = tuple(part for part in parts if not columns_of(part) <= inside)
        by_name, shown = dict(columns), dict[str, Expression]()
        for name, each in group.aggregates:
            call = _flat(substitute(each, by_name))
            assert isinstance(call, AggregateCall)
            shown[name] = self._value(call, scan, own, correlated, subquery.span)
        ((_, output), *_) = outputs
        return _flat(substitute(output, shown))

    def _require_plain(self, part: Expression, scan: Scan, span: Span | None) -> None:
        if any(isinstance(p, ScalarSubquery | Exists | InSubquery) for p in walk(part)):
            raise NotTaken("a subquery inside a subquery", part.span or span)
        if not columns_of(part) <= self.names | set(scan.schema.names):
            raise NotTaken("a subquery that reads a query further out", part.span or span)

    def _value(
        self, call: AggregateCall, scan: Scan, own: tuple[Expression, ...],
        correlated: tuple[Expression, ...], span: Span | None,
    ) -> Column:  # fmt: skip
        call = simpler(call)
        _require_taken(call, span)
        if call.where is not None:
            own = (*own, call.where)
        value = Nested("", scan, own, correlated, replace(call, where=None), span)
        if not columns_of(call) <= set(scan.schema.names):
            raise NotTaken("an aggregate of columns outside its own query", call.span or span)
        known = [each.name for each in self.values if replace(each, name="") == value]
        name = known[0] if known else f"#value_{len(self.values) + 1}"
        if not known:
            self.values.append(replace(value, name=name))
        return Column(name, call.type, call.nullable)


def _require_taken(call: AggregateCall, span: Span | None) -> None:
    word = call.function.upper()
    if call.function not in (*SUMS, *EXTREMES) or len(call.arguments) > 1:
        raise NotTaken(f"{word} inside a subquery", call.span or span)
    if call.distinct and call.function not in EXTREMES:
        raise NotTaken(f"{word}(DISTINCT) inside a subquery", call.span or span)
    if call.function in EXTREMES and isinstance(call.arguments[0].type, String | NestedType | Null):
        # Strings are numbers in the order in which they came.
        raise NotTaken(f"{word} of {call.arguments[0].type} inside a subquery", call.span or span)


def _flat(expression: Expression) -> Expression:
    """The expression with outer columns as columns like others: their names are unique."""
    if isinstance(expression, Column):
        return replace(expression, outer=0)
    return map_parts(expression, _flat)
