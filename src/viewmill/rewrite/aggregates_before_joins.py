"""Aggregate each input of a join before joining: the pairs of rows are counted, not listed.

before  Aggregate by a.k: count(*), sum(b.x)
        └─ Join inner: a.k = b.k
           ├─ Scan: a
           └─ Scan: b
after   Project: k, coalesce(count, 0), sum
        └─ Aggregate by a.k: sum(n_a * n_b), sum(x_b * n_a)
           └─ Join inner: a.k = b.k
              ├─ Aggregate by a.k: count(*) AS n_a
              └─ Aggregate by b.k: count(*) AS n_b, sum(b.x) AS x_b

It takes inner joins, and COUNT, SUM, AVG, MIN and MAX of expressions of one input each. Decimals
are left alone: a product of a sum and a count may have more digits than are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Aggregate, Join, Named, Project, Relation
from viewmill.algebra.types import BIGINT, DOUBLE, Float, Integer
from viewmill.algebra.walk import columns_of, has_subquery, substitute, transform
from viewmill.rewrite.correlation import has_outer, linear


class _NotTaken(Exception):
    """The group-by is left as it is."""


def aggregates_before_joins(query: Relation) -> Relation:
    """The query with every group-by over a join in this form, where it can be."""
    return transform(query, _change)


def _change(relation: Relation) -> Relation:
    if not isinstance(relation, Aggregate) or relation.grouping_sets is not None:
        return relation
    conditions, outputs, bottom = linear(relation.input)
    if not isinstance(bottom, Join):
        return relation
    try:
        return _Early(relation, dict(outputs), conditions, bottom).made()
    except _NotTaken:
        return relation


@dataclass
class _Side:
    """An input of the join, and what is computed of it before."""

    relation: Relation
    number: int
    own: list[Expression] = field(default_factory=list)  # conditions on it alone
    keys: list[Named] = field(default_factory=list)
    calls: list[tuple[str, AggregateCall]] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """Its columns."""
        return frozenset(self.relation.schema.names)

    def call(self, call: AggregateCall) -> Column:
        """The column of an aggregate over its rows."""
        for name, known in self.calls:
            if known == call:
                return Column(name, call.type, call.nullable)
        self.calls.append((f"#early{self.number}_{len(self.calls)}", call))
        return Column(self.calls[-1][0], call.type, call.nullable)

    def count(self) -> Column:
        """How many rows it has for its keys."""
        return self.call(AggregateCall("count", (), BIGINT, False))

    def made(self) -> Relation:
        """Its group-by."""
        return Aggregate(filtered(self.relation, self.own), tuple(self.keys), tuple(self.calls))


class _Early:
    """One group-by over a join."""

    def __init__(
        self, group: Aggregate, columns: dict[str, Expression], where: Sequence[Expression],
        join: Join,
    ) -> None:  # fmt: skip
        self.group, self.columns = group, columns
        self.sides: list[_Side] = []
        self.shared = self._flat(join)  # conditions on several sides
        self._take([*where])

    def _flat(self, relation: Relation) -> list[Expression]:
        if not isinstance(relation, Join):
            self.sides.append(_Side(relation, len(self.sides)))
            return []
        if relation.kind not in ("inner", "cross") or relation.lateral:
            raise _NotTaken
        found = [*self._flat(relation.left), *self._flat(relation.right)]
        return found + ([] if relation.condition is None else [*conjuncts(relation.condition)])

    def _take(self, where: list[Expression]) -> None:
        """Sort the conditions: those on one side are judged there."""
        every, self.shared = [*self.shared, *where], []
        for each in every:
            _require_safe(each)
            sides = self._sides(each)
            if len(sides) == 1:
                sides[0].own.append(each)
            else:
                self.shared.append(each)

    def _sides(self, expression: Expression) -> list[_Side]:
        names = columns_of(expression)
        return [side for side in self.sides if names & side.names]

    def made(self) -> Relation:
        """The group-by over the sides' own."""
        for each in self.shared:
            self._keep_columns(each)
        keys = [(name, self._key(i, key)) for i, (name, key) in enumerate(self.group.keys)]
        totals: list[tuple[str, AggregateCall]] = []
        outputs: list[Named] = [(n, Column(n, e.type, e.nullable)) for n, e in keys]
        for name, call in self.group.aggregates:
            outputs.append((name, self._shown(name, call, totals)))
        for side in self.sides:
            side.count()
        grouped = Aggregate(self._joined(), tuple(keys), tuple(totals), None, self.group.span)
        return Project(grouped, tuple(outputs))

    def _keep_columns(self, expression: Expression) -> None:
        """What is read above a side is one of its keys."""
        for side in self._sides(expression):
            known = {name for name, _ in side.keys}
            for each in side.relation.schema:
                if each.name in columns_of(expression) and each.name not in known:
                    side.keys.append((each.name, Column(each.name, each.type, each.nullable)))

    def _key(self, i: int, key: Expression) -> Expression:
        key = self._inside(key)
        sides = self._sides(key)
        if len(sides) == 1 and not isinstance(key, Column):
            name = f"#early_key{i}"
            sides[0].keys.append((name, key))
            return Column(name, key.type, key.nullable)
        self._keep_columns(key)
        return key

    def _inside(self, expression: Expression) -> Expression:
        made = substitute(expression, self.columns)
        _require_safe(made)
        return made

    def _shown(
        self, name: str, call: AggregateCall, totals: list[tuple[str, AggregateCall]]
    ) -> Expression:
        """What is shown of an aggregate; adds to the sums of the whole."""
        given = tuple(map(self._inside, call.arguments))
        where = None if call.where is None else self._inside(call.where)
        read = [side for each in (*given, *([] if where is None else [where]))
                for side in self._sides(each)]  # fmt: skip
        if len({side.number for side in read}) > 1 or call.distinct or len(given) > 1:
            raise _NotTaken
        side = read[0] if read else self.sides[0]
        own = replace(call, arguments=given, where=where)

        def add(part: AggregateCall, mark: str = "") -> Expression:
            value = self._times_others(side.call(part), side)
            total = AggregateCall("sum", (value,), value.type, True)
            totals.append((name + mark, total))
            return Column(name + mark, value.type, True)

        match call.function:
            case "count":
                return Call("coalesce", (add(own), Literal(0, BIGINT)), BIGINT, False)
            case "sum" if _is_plain(given[0]):
                return add(own)
            case "avg" if _is_plain(given[0]):
                kind = BIGINT if isinstance(given[0].type, Integer) else DOUBLE
                total = add(replace(own, function="sum", type=kind), "#sum")
                count = add(replace(own, function="count", type=BIGINT, nullable=False), "#count")
                pair = (Cast(total, DOUBLE), Cast(count, DOUBLE))
                # Without values the sum is NULL, and so is its quotient by 0.
                return Call("/", pair, DOUBLE, True)
            case "min" | "max":
                totals.append((name, replace(own, arguments=(side.call(own),), where=None)))
                return Column(name, call.type, call.nullable)
            case _:
                raise _NotTaken

    def _times_others(self, value: Expression, side: _Side) -> Expression:
        """The value as often as there are rows on the other sides."""
        for other in self.sides:
            if other is not side:
                count: Expression = other.count()
                if isinstance(value.type, Float):
                    count = Cast(count, DOUBLE, False)
                value = Call("*", (value, count), value.type, value.nullable)
        return value

    def _joined(self) -> Relation:
        """The sides, joined by the conditions that they share as soon as they can be judged."""
        first, *others = self.sides
        joined, waiting = first.made(), list(self.shared)
        for side in others:
            right = side.made()
            there = {*joined.schema.names, *right.schema.names}
            now = [each for each in waiting if columns_of(each) <= there]
            waiting = [each for each in waiting if each not in now]
            joined = Join("inner" if now else "cross", joined, right, together(now))
        return filtered(joined, waiting)


def _require_safe(expression: Expression) -> None:
    """What can fail must not be computed of rows that the join leaves out."""
    fails = failing_part(expression, overflow=True) is not None
    if fails or has_subquery(expression) or has_outer(expression):
        raise _NotTaken


def _is_plain(value: Expression) -> bool:
    return isinstance(value.type, Integer) or value.type == DOUBLE
