"""The values of an aggregated expression by group, for what has no opposite: MIN, MAX, DISTINCT.

A group's extreme stands in its payload. When the value that was the extreme went away, the next one
is read from the group's values, which stand in order.
"""

from __future__ import annotations

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Named, Relation, Values
from viewmill.algebra.schema import Field, free_name
from viewmill.algebra.types import Boolean, Float, String, Wide
from viewmill.codegen.aggregates import Argument, extreme_slots
from viewmill.codegen.linear import counted, not_null, projected
from viewmill.codegen.source import Source
from viewmill.program.states import Keyed, Listed, Slot, Sorted, State


class GroupValues:
    """How often each value is there, by group; for extremes also in order."""

    def __init__(self, argument: Argument, groups: Keyed, group: str, source: Source) -> None:
        assert argument.value is not None
        self.argument, self.groups, self.group, self.source = argument, groups, group, source
        self.value: Expression = argument.value
        name = free_name("#value", (each.name for each in groups.key))
        self.field = Field(name, self.value.type, False)
        self.kind = Listed(groups.key, (self.field,), (Slot("count", "int"),), journal=True)
        self.state = source.name(f"values_{argument.number}")
        self.order = source.name(f"order_{argument.number}") if argument.extreme else ""
        self.key = ""  # the words of the current group
        if argument.extreme and isinstance(self.value.type, String):
            source.every_text()

    @property
    def is_searched(self) -> bool:
        """Whether the shown value must be searched for before it is shown."""
        return bool(self.argument.extreme)

    def stale(self, word: dict[str, int]) -> str:
        """Whether the extreme of entry e went away."""
        return f"int_at({self.group}, e, {word[extreme_slots(self.argument)[2]]}) != 0"

    @property
    def handles(self) -> list[str]:
        """The states as arguments."""
        return [self.state, self.order] if self.order else [self.state]

    def states(self, rows: Relation, keys: tuple[Named, ...]) -> list[State]:
        """The states that are kept."""
        counted = State(self.state, self.kind, self.definition(rows, keys))
        if not self.order:
            return [counted]
        looked_up = {String: "text", Wide: "wide"}
        last = looked_up.get(type(self.value.type), "number")
        words = (*("number",) * self.groups.key_words, last)
        kind = Sorted((*self.groups.key, self.field), words)  # type: ignore[arg-type]
        return [counted, State(self.order, kind, Values((), kind.schema))]

    def definition(self, rows: Relation, keys: tuple[Named, ...]) -> Relation:
        """Group, value, count."""
        where = () if self.argument.where is None else (self.argument.where,)
        shown = projected(filtered(rows, where), (*keys, (self.field.name, self.value)))
        value = Column(self.field.name, self.value.type, self.value.nullable)
        return counted(filtered(shown, (not_null(value),)), (*self.groups.key, self.field))

    def add_value(self, value: str) -> str:
        """Write what counts a value; gives the name of 1 if it is new, -1 if it was the last."""
        source, state = self.source, self.state
        before, change, entry = self._names("had", "distinct", "known")
        source.line(f"{entry} = list_touch({state}, {self.key}, ({self._word(value)},))")
        source.line(f"{before} = int_at({state}, {entry}, 0)")
        source.line(f"indexed_add({state}, {entry}, 0, m)")
        source.line(f"list_settle({state}, {self.key}, {entry})")
        source.line(f"{change} = int({before} + m > 0) - int({before} > 0)")
        return change

    def add_extreme(self, argument: Argument, value: str, word: dict[str, int]) -> None:
        """Write what counts a value and makes it the extreme, or notes that that went away."""
        source, group = self.source, self.group
        best, seen, stale = (word[each] for each in extreme_slots(argument))
        (x,) = self._names("x")
        source.line(f"{x} = {self._word(value)}")
        change = self.add_value(value)
        key = f"{self.key[:-1]} {self._sorted(x)},)"
        with source.block(f"if {change} > 0:"):
            source.line(f"sorted_insert({self.order}, {key})")
            now = f"int_at({group}, e, {best})"
            with source.block(f"if int_at({group}, e, {seen}) == 0 or {self._is_better(x, now)}:"):
                source.line(f"keyed_add({group}, e, {best}, {x} - {now})")
                source.line(f"keyed_add({group}, e, {seen}, 1 - int_at({group}, e, {seen}))")
        with source.block(f"elif {change} < 0:"):
            source.line(f"sorted_remove({self.order}, {key})")
            with source.block(f"if int_at({group}, e, {best}) == {x}:"):
                source.line(f"keyed_add({group}, e, {stale}, 1 - int_at({group}, e, {stale}))")

    def write_search(self, word: dict[str, int]) -> None:
        """Write what looks for the extreme of entry e among the values of its group."""
        source, group, order = self.source, self.group, self.order
        best, seen, stale = (word[each] for each in extreme_slots(self.argument))
        key, begin, end, found, there = self._names("key", "begin", "end", "best", "there")
        source.line(f"{key} = {self._group_key()}")
        source.line(f"{begin} = sorted_from({order}, {key})")
        source.line(f"{end} = sorted_after({order}, {key})")
        source.line(f"{there} = int({begin} < {end})")
        source.line(f"{found} = 0")
        with source.block(f"if {there} != 0:"):
            if self.argument.extreme == "max":
                source.line(f"{begin} = sorted_prev({order}, {end})")
            value = f"sorted_key({order}, {begin}, {self.groups.key_words})"
            source.line(f"{found} = {self._sorted(value)}")
        for at, text in ((best, found), (seen, there), (stale, "0")):
            source.line(f"keyed_add({group}, e, {at}, {text} - int_at({group}, e, {at}))")

    def write_fill(self) -> None:
        """Write what puts the values of the group of entry e in order, after a load."""
        source, state = self.source, self.state
        rows, j, entry = self._names("found", "j", "known")
        key = self._group_key()
        source.line(f"{rows} = list_of({state}, {key})")
        with source.block(f"for {j} in range(list_size({state}, {rows})):"):
            source.line(f"{entry} = list_at({state}, {rows}, {j})")
            with source.block(f"if int_at({state}, {entry}, 0) > 0:"):
                value = self._sorted(f"list_word({state}, {entry}, 0)")
                source.line(f"sorted_insert({self.order}, {key[:-1]} {value},))")

    def _group_key(self) -> str:
        words = [f"key_word({self.group}, e, {i})," for i in range(self.groups.key_words)]
        return f"({' '.join(words)})"

    def _names(self, *wishes: str) -> list[str]:
        return [self.source.name(each) for each in wishes]

    def _word(self, value: str) -> str:
        if isinstance(self.value.type, Float):
            return f"float_key({value})"
        return f"int({value})" if isinstance(self.value.type, Boolean) else value

    def _sorted(self, word: str) -> str:
        """A word such that words are in order, and the way back."""
        return f"sort_word({word})" if isinstance(self.value.type, Float) else word

    def _is_better(self, x: str, best: str) -> str:
        a, b = (x, best) if self.argument.extreme == "min" else (best, x)
        if isinstance(self.value.type, Float):
            return f"float_lt(key_float({a}), key_float({b}))"
        if isinstance(self.value.type, String):
            return f"text_less(texts, {self.source.every_text()}, {a}, {b})"
        if isinstance(self.value.type, Wide):
            return f"wide_less(texts, {a}, {b})"
        return f"{a} < {b}"
