"""A query with nested aggregates as one flat record (RPAI, section 4.1).

takes  a rewritten relation
gives  `Query`: the tables outside, the conjuncts of WHERE with every subquery taken out as a
       `Value`, what is aggregated and shown
next   classify

Columns get their table's own name, so that b.price, b1.price and b2.price over the same table are
equal; which occurrence a column belongs to is known by where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import (
    Call,
    Column,
    Exists,
    Expression,
    InSubquery,
    ScalarSubquery,
    walk,
)
from viewmill.algebra.relations import Aggregate, Filter, Join, Named, Relation, Scan, Sort
from viewmill.algebra.walk import map_parts, scans, substitute
from viewmill.codegen.shape import NotTaken, blame, peel, require_shown
from viewmill.errors import Span
from viewmill.strategies.aggregate_index.shown import Head

# What the names of nested aggregates begin with; no column's name does.
VALUE = "#value_"
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Correlation:
    """`inner` `operator` `outer`: what a row inside must be to a row of `alias` outside."""

    inner: Expression
    operator: str
    outer: Expression
    alias: str


@dataclass(frozen=True)
class Value:
    """An aggregate of a subquery: `call` over the rows of `scan` that meet `where`.

    free(q) of the paper are the outer columns of `correlations`, bound(q) their inner ones.
    """

    name: str
    scan: Scan
    where: tuple[Expression, ...]
    correlations: tuple[Correlation, ...]
    call: AggregateCall
    span: Span | None = field(default=None, compare=False)

    @property
    def alias(self) -> str | None:
        """The outer table that it is correlated with."""
        return self.correlations[0].alias if self.correlations else None


@dataclass(frozen=True)
class Conjunct:
    """One condition of WHERE; `aliases` are the outer tables whose columns it reads itself."""

    condition: Expression
    aliases: frozenset[str]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Query:
    """An aggregate query over `scans`, by alias."""

    scans: Mapping[str, Scan]
    conjuncts: tuple[Conjunct, ...]
    head: Head

    @property
    def keys(self) -> tuple[Named, ...]:
        """The columns of GROUP BY."""
        return self.head.keys

    @property
    def aggregates(self) -> tuple[tuple[str, AggregateCall], ...]:
        """The aggregates that the view shows."""
        return self.head.aggregates


def read_query(relation: Relation) -> Query:
    """The record of a query, or `NotTaken` with the part that is in the way."""
    if isinstance(relation, Sort):
        require_shown(relation)
        relation = relation.input
    _require_own_names(relation)
    having, outputs, group = peel(relation)
    if not isinstance(group, Aggregate):
        raise NotTaken("the query aggregates nothing", getattr(group, "span", None))
    if group.grouping_sets is not None:
        raise NotTaken("grouping sets over nested aggregates", group.span)
    where, columns, bottom = peel(group.input)
    scans, joined = _tables(bottom)
    by_name = dict(columns)
    reader = _Reader(scans)
    conjuncts = tuple(reader.conjunct(each) for c in (*joined, *where) for each in split(c))
    keys = tuple((name, substitute(each, by_name)) for name, each in group.keys)
    calls = tuple((name, substitute(each, by_name)) for name, each in group.aggregates)
    if not any(each.values for each in conjuncts):
        raise NotTaken("no aggregate is nested in a condition", group.span)
    return Query(scans, conjuncts, Head(keys, calls, having, outputs))  # type: ignore[arg-type]


def _require_own_names(relation: Relation) -> None:
    """A column's name says whose it is; a block in the place of a subquery keeps other names."""
    for scan in scans(relation):
        if not all(each.startswith(f"{scan.alias}.") for each in scan.schema.names):
            raise NotTaken("a joined subquery beside nested aggregates", scan.span)


def split(condition: Expression) -> list[Expression]:
    """The parts that AND joins."""
    if isinstance(condition, Call) and condition.function == "and":
        return [part for each in condition.arguments for part in split(each)]
    return [condition]


def _tables(relation: Relation) -> tuple[dict[str, Scan], tuple[Expression, ...]]:
    match relation:
        case Scan():
            return {relation.alias: relation}, ()
        case Filter():
            scans, conditions = _tables(relation.input)
            return scans, (*conditions, relation.condition)
        case Join(kind="inner" | "cross"):
            left, first = _tables(relation.left)
            right, second = _tables(relation.right)
            on = () if relation.condition is None else (relation.condition,)
            return left | right, (*first, *second, *on)
        case Join():
            raise NotTaken(f"a {relation.kind} join outside nested aggregates", relation.span)
        case _:
            raise NotTaken(*blame(relation))


def own_names(expression: Expression) -> Expression:
    """The expression over its table's own column names."""
    if isinstance(expression, Column):
        return replace(expression, name=expression.name.split(".", 1)[-1], outer=0)
    return map_parts(expression, own_names)


def aliases_of(expression: Expression) -> frozenset[str]:
    """The occurrences whose columns an expression reads, subqueries not looked into."""
    parts = walk(expression)
    return frozenset(each.name.split(".", 1)[0] for each in parts if isinstance(each, Column))


class _Reader:
    """Takes the subqueries out of conditions."""

    def __init__(self, scans: Mapping[str, Scan]) -> None:
        self.scans = scans
        self._count = 0

    def conjunct(self, condition: Expression) -> Conjunct:
        values: list[Value] = []
        aliases = aliases_of(condition)
        inlined = self._inline(condition, values)
        return Conjunct(inlined, aliases, tuple(values))

    def _inline(self, expression: Expression, values: list[Value]) -> Expression:
        if isinstance(expression, ScalarSubquery):
            return self._subquery(expression, values)
        if isinstance(expression, Exists | InSubquery):
            raise NotTaken("EXISTS and IN are no nested aggregates", expression.span)
        return map_parts(expression, lambda part: self._inline(part, values))

    def _subquery(self, subquery: ScalarSubquery, values: list[Value]) -> Expression:
        above, outputs, group = peel(subquery.query)
        if not isinstance(group, Aggregate) or group.keys or above or group.grouping_sets:
            raise NotTaken("the subquery is not one aggregate of its rows", subquery.span)
        where, columns, scan = peel(group.input)
        if not isinstance(scan, Scan):
            reason, span = blame(scan)
            raise NotTaken(f"{reason}, inside a subquery", span or subquery.span)
        by_name = dict(columns)
        own: list[Expression] = []
        correlations: list[Correlation] = []
        for condition in (each for c in where for each in split(c)):
            self._sort_out(condition, scan, own, correlations)
        names: dict[str, Expression] = {}
        for name, call in group.aggregates:
            self._count += 1
            made = f"{VALUE}{self._count}"
            inner = own_names(substitute(call, by_name))
            assert isinstance(inner, AggregateCall)
            values.append(Value(made, scan, tuple(own), tuple(correlations), inner, subquery.span))
            names[name] = Column(made, call.type, call.nullable)
        (_, shown), *_ = outputs
        return _renamed(shown, names)

    def _sort_out(
        self, condition: Expression, scan: Scan, own: list[Expression],
        correlations: list[Correlation],
    ) -> None:  # fmt: skip
        """A condition of a subquery judges its own rows, or compares them with a row outside."""
        parts = list(walk(condition))
        if any(isinstance(each, ScalarSubquery | Exists | InSubquery) for each in parts):
            raise NotTaken("a subquery inside a subquery", condition.span or scan.span)
        around = aliases_of(condition) - {scan.alias}
        if not around:
            own.append(own_names(condition))
            return
        correlations.append(self._correlation(condition, scan))

    def _correlation(self, condition: Expression, scan: Scan) -> Correlation:
        if isinstance(condition, Call) and condition.function in FLIPPED:
            left, right = condition.arguments
            operator = condition.function
            if scan.alias in aliases_of(right):
                left, right, operator = right, left, FLIPPED[operator]
            around = aliases_of(right)
            if aliases_of(left) == {scan.alias} and len(around) == 1:
                (alias,) = around
                if alias in self.scans:
                    return Correlation(own_names(left), operator, own_names(right), alias)
        raise NotTaken(
            "a correlation that does not compare inner columns with those of one table outside",
            condition.span,
        )


def _renamed(expression: Expression, names: Mapping[str, Expression]) -> Expression:
    if isinstance(expression, Column):
        return names.get(expression.name, expression)
    return map_parts(expression, lambda part: _renamed(part, names))
