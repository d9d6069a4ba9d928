"""The values of an aggregated expression by group, for what has no opposite: MIN, MAX, DISTINCT.

A group's extreme stands in its payload. It is looked for among the group's values only when the
value that was the extreme went away, once per refresh.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Aggregate, Named, Relation
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Float
from viewmill.program.states import Keyed, Listed, Slot
from viewmill.strategies.dataflow.aggregates import Argument, count_rows, extreme_slots
from viewmill.strategies.dataflow.linear import columns_as, filtered, not_null, projected
from viewmill.strategies.dataflow.source import Source


class GroupValues:
    """How often each value is there, by group."""

    def __init__(self, argument: Argument, groups: Keyed, group: str, source: Source) -> None:
        assert argument.value is not None
        self.argument, self.groups, self.group, self.source = argument, groups, group, source
        self.value: Expression = argument.value
        self.field = Field("#value", self.value.type, False)
        self.kind = Listed(groups.key, (self.field,), (Slot("count", "int"),), journal=True)
        self.state = source.name(f"values_{argument.number}")
        self.key = ""  # the words of the group at hand

    def definition(self, rows: Relation, keys: tuple[Named, ...]) -> Relation:
        """Group, value, count."""
        where = () if self.argument.where is None else (self.argument.where,)
        shown = projected(filtered(rows, where), (*keys, ("#value", self.value)))
        value = Column("#value", self.value.type, self.value.nullable)
        fields = (*self.groups.key, self.field)
        return Aggregate(
            filtered(shown, (not_null(value),)), columns_as(fields), (("#count", count_rows()),)
        )

    def add_value(self, value: str) -> str:
        """Write what counts a value; gives the name of 1 if it is new, -1 if it was the last."""
        source, before, after, entry = self.source, *self._names("had", "has", "known")
        self._touch(value, entry, before)
        source.line(f"{after} = {before} + m")
        change = source.name("distinct")
        source.line(f"{change} = int({after} > 0) - int({before} > 0)")
        return change

    def add_extreme(self, argument: Argument, value: str, word: dict[str, int]) -> None:
        """Write what counts a value and makes it the extreme, or notes that that went away."""
        source, group = self.source, self.group
        best, seen, stale = (word[each] for each in extreme_slots(argument))
        before, entry, x = self._names("had", "known", "x")
        source.line(f"{x} = {self._word(value)}")
        self._touch(value, entry, before)
        with source.block(f"if {before} + m > 0:"):
            now = f"int_at({group}, e, {best})"
            with source.block(f"if int_at({group}, e, {seen}) == 0 or {self._is_better(x, now)}:"):
                source.line(f"keyed_add({group}, e, {best}, {x} - {now})")
                source.line(f"keyed_add({group}, e, {seen}, 1 - int_at({group}, e, {seen}))")
        with source.block(f"elif int_at({group}, e, {best}) == {x}:"):
            source.line(f"keyed_add({group}, e, {stale}, 1 - int_at({group}, e, {stale}))")

    def write_search(self, word: dict[str, int]) -> None:
        """Write what looks for the extreme of entry e among the values of its group."""
        source, group, state = self.source, self.group, self.state
        best, seen, stale = (word[each] for each in extreme_slots(self.argument))
        key = "".join(f"key_word({group}, e, {i}), " for i in range(self.groups.key_words))
        rows, j, entry, x, found, there = self._names("found", "j", "known", "x", "best", "there")
        source.line(f"{rows} = list_of({state}, ({key}))")
        source.line(f"{found} = 0")
        source.line(f"{there} = 0")
        with source.block(f"for {j} in range(list_size({state}, {rows})):"):
            source.line(f"{entry} = list_at({state}, {rows}, {j})")
            source.line(f"{x} = list_word({state}, {entry}, 0)")
            better = f"{there} == 0 or {self._is_better(x, found)}"
            with source.block(f"if int_at({state}, {entry}, 0) > 0 and ({better}):"):
                source.line(f"{found} = {x}")
                source.line(f"{there} = 1")
        for at, text in ((best, found), (seen, there), (stale, "0")):
            source.line(f"keyed_add({group}, e, {at}, {text} - int_at({group}, e, {at}))")

    def _names(self, *wishes: str) -> list[str]:
        return [self.source.name(each) for each in wishes]

    def _touch(self, value: str, entry: str, before: str) -> None:
        source, state = self.source, self.state
        source.line(f"{entry} = list_touch({state}, {self.key}, ({self._word(value)},))")
        source.line(f"{before} = int_at({state}, {entry}, 0)")
        source.line(f"indexed_add({state}, {entry}, 0, m)")
        source.line(f"list_settle({state}, {self.key}, {entry})")

    def _word(self, value: str) -> str:
        if isinstance(self.value.type, Float):
            return f"float_key({value})"
        return f"int({value})" if isinstance(self.value.type, Boolean) else value

    def _is_better(self, x: str, best: str) -> str:
        if isinstance(self.value.type, Float):
            x, best = f"key_float({x})", f"key_float({best})"
            a, b = (x, best) if self.argument.extreme == "min" else (best, x)
            return f"float_lt({a}, {b})"
        return f"{x} {'<' if self.argument.extreme == 'min' else '>'} {best}"
