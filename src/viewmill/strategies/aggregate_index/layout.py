"""Where everything a query needs is kept: the ordered states, and what each word of them means.

takes  `Classified`
gives  `Layout`
next   answer (which levels count), emit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Expression
from viewmill.codegen.aggregates import Argument, Payload
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.strategies.aggregate_index.classify import Classified, Side, require_ordered
from viewmill.strategies.aggregate_index.levels import Levels, Part, Word
from viewmill.strategies.aggregate_index.pairs import Groups, Sums
from viewmill.strategies.aggregate_index.products import Term, products
from viewmill.strategies.aggregate_index.query import Value, aliases_of, own_names
from viewmill.strategies.aggregate_index.shown import result_kind


@dataclass(frozen=True)
class Kept:
    """What an aggregated expression keeps of each outer table: rows that count, factors."""

    terms: tuple[Term, ...]
    counts: dict[str, Word]
    factors: dict[tuple[str, Expression], Word]


class Layout:
    """The states of a query."""

    def __init__(self, classified: Classified, source: Source) -> None:
        self.classified, self.query, self._source = classified, classified.query, source
        self.grouped = self._grouped_alias()
        self.payload = Payload(self.query.aggregates)
        for each in self.payload.with_values:
            what, span = each.extreme.upper() or "DISTINCT", each.value.span if each.value else None
            raise NotTaken(f"{what} outside nested aggregates is no sum", span)
        self.levels: list[Levels] = []
        self.inner: dict[str, Levels] = {}  # by alias: where a grouped side keeps what is inside
        self.outer = {side.alias: self._side(side) for side in classified.sides}
        self.kept = self._kept()
        self.sums = {each.count: self._sums(each) for each in self.kept}
        self.fixed = {value.name: self._fixed(value) for value in classified.fixed}
        self.result = result_kind(self.query.head, self.payload)

    def _grouped_alias(self) -> str | None:
        """The table whose columns the view is grouped by."""
        keys = self.query.keys
        found: set[str] = set()
        for _, each in keys:
            found |= aliases_of(each)
        if keys and len(found) != 1:
            raise NotTaken("GROUP BY anything but columns of one table", keys[0][1].span)
        return next(iter(found), None)

    def _kept(self) -> list[Argument]:
        """What the view's aggregates keep; the rows themselves only if someone asks."""
        calls = [call for _, call in self.query.aggregates]
        counted = bool(self.query.keys) or any(call.function == "count" for call in calls)
        rows = [Argument(None, None, False, "rows")] if counted else []
        return rows + self.payload.arguments

    # The outer tables.

    def _new(self, name: str, first: tuple[Expression, ...] = ()) -> Levels:
        made = Levels(self._source.name(name), first)
        self.levels.append(made)
        return made

    def _side(self, side: Side) -> Levels:
        name = side.scan.source
        if side.alias != self.grouped:
            if side.plan == "equal":
                return self._pairs(side)
            made = self._new(name)
            return self._nested(side, made) if side.plan == "order" else made
        if side.plan == "equal":
            raise NotTaken("GROUP BY over an aggregate correlated by =", side.scan.span)
        first = tuple(own_names(each) for _, each in self.query.keys)
        outer = self._new(f"{name}_groups", first)
        if side.plan == "order":
            self.inner[side.alias] = self._nested(side, self._new(name))
        return outer

    def _pairs(self, side: Side) -> Levels:
        assert side.test is not None
        name, free = side.scan.source, self._source.name
        sums = Sums(free(f"{name}_sums"), side.test)
        groups = Groups(free(f"{name}_groups"), sums, free(f"move_{name}"))
        self.levels += [groups, sums]
        self._nested(side, groups)
        return sums

    def _nested(self, side: Side, made: Levels) -> Levels:
        """Keep what the aggregate inside is over: a count, and for SUM a sum."""
        assert side.test is not None
        assert side.test.value is not None
        value = side.test.value
        (correlation,) = value.correlations
        part = Part(value.scan, value.scan.source, value.where, correlation.inner)
        argument = value.call.arguments[0] if value.call.arguments else None
        made.counted = made.add_word(part, None, *_given(argument), name="inner_count")
        if value.call.function == "sum":
            made.watched = made.add_word(part, argument, name="inner_sum")
        return made

    def _outer_part(self, side: Side) -> Part:
        key: Expression | None = None
        if side.test is not None:
            value = side.test.value
            key = side.test.core if value is None else value.correlations[0].outer
        return Part(side.scan, side.scan.source, side.where, key)

    # What is summed outside.

    def _sums(self, kept: Argument) -> Kept:
        if kept.where is not None:
            raise NotTaken("FILTER in an aggregate over nested aggregates", kept.where.span)
        terms = () if kept.value is None else self._terms(kept.value)
        counts: dict[str, Word] = {}
        factors: dict[tuple[str, Expression], Word] = {}
        for side in self.classified.sides:
            made, part = self.outer[side.alias], self._outer_part(side)
            own = [f for term in terms if (f := term.factor(side.alias)) is not None]
            counts[side.alias] = made.add_word(part, None, *own, name="rows", result=True)
            for factor in own if kept.summed else ():
                word = made.add_word(part, factor, *own, name="sum", result=True)
                factors[side.alias, factor] = word
        return Kept(terms, counts, factors)

    def _terms(self, value: Expression) -> tuple[Term, ...]:
        if len(self.query.scans) == 1:
            return (Term(1, ((next(iter(self.query.scans)), own_names(value)),)),)
        return products(value)

    # Aggregates that are the same for all rows.

    def _fixed(self, value: Value) -> tuple[Levels, Word, Word | None]:
        """Where the count and the sum of an uncorrelated aggregate are kept, or its values."""
        call = value.call
        is_extreme = call.function in ("min", "max")
        if call.function not in ("sum", "count", "avg", "min", "max") or call.where is not None:
            word = call.function.upper()
            raise NotTaken(f"{word} in an uncorrelated subquery", call.span or value.span)
        if call.distinct and not is_extreme:
            word = call.function.upper()
            raise NotTaken(f"{word}(DISTINCT) in an uncorrelated subquery", call.span or value.span)
        argument = call.arguments[0] if call.arguments else None
        if is_extreme:
            assert argument is not None
            require_ordered(argument.type, argument.type, call.span or value.span)
            made = self._new(f"{value.scan.source}_values")
            part = Part(value.scan, value.scan.source, value.where, argument)
            return made, made.add_word(part, None, name="count"), None
        for made in self.levels:
            found = made.find(value.scan.source, value.where, argument)
            if found is not None:
                return made, *found
        made = self._new(f"{value.scan.source}_total")
        part = Part(value.scan, value.scan.source, value.where, None)
        count = made.add_word(part, None, *_given(argument), name="count")
        total = None if argument is None else made.add_word(part, argument, name="sum")
        return made, count, total


def _given(argument: Expression | None) -> Sequence[Expression]:
    return () if argument is None else (argument,)
