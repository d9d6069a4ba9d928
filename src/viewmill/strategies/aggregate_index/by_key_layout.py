"""What is kept for a column against an aggregate of its own key, and the lines that use it.

takes  `ByKey`
gives  levels   for each key the levels of the column, with what the view sums of them
       keys     for each key its aggregates, and as notes what of the key the view shows
       A row changes its level and its aggregates; then `judge` moves what its key adds to the view.
"""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Cast, Column, Expression, Literal
from viewmill.algebra.relations import Filter, Project, Relation
from viewmill.algebra.types import BIGINT
from viewmill.program.states import Indexed, Slot, State
from viewmill.strategies.aggregate_index.bounds import LOWEST, write_bound, write_bounds
from viewmill.strategies.aggregate_index.by_key import ByKey
from viewmill.strategies.aggregate_index.levels import Levels, Part, Word, write_changes
from viewmill.strategies.aggregate_index.query import Value, own_names
from viewmill.strategies.aggregate_index.shown import result_kind
from viewmill.strategies.dataflow.aggregates import Payload
from viewmill.strategies.dataflow.linear import columns_as, not_null
from viewmill.strategies.dataflow.scalar import Operand, Scalar
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.dataflow.words import as_word, key_words, read_words

HIGHEST = (1 << 63) - 1


class Keys(Levels):
    """The aggregates of each key, and how many rows outside have it."""

    is_ordered = False

    def __init__(self, name: str, shown: list[Slot]) -> None:
        super().__init__(name)
        self._shown = [Slot(f"{s.name}_shown", s.kind, is_note=True) for s in shown]

    @property
    def indexed(self) -> Indexed:
        """The kind of the state."""
        slots = [Slot(self.name_of(word), "wide") for word in self.words]
        return Indexed((replace(self.key, nullable=False),), (*slots, *self._shown), journal=True)

    def state(self) -> State:
        """The state with its definition: NULL equals nothing; notes are 0."""
        rows: Relation = self._definition()
        if self.key.nullable:
            level = Column("level", self.key.type, True)
            rows = Filter(rows, not_null(level))
        zero = Literal(0, BIGINT)
        notes = tuple((s.name, Cast(zero, s.type, False)) for s in self._shown)
        return State(self.name, self.indexed, Project(rows, (*columns_as(rows.schema), *notes)))

    def find(
        self, source: str, where: tuple[Expression, ...], value: Expression | None
    ) -> tuple[Word, Word | None] | None:
        """Nothing is kept of all rows together."""
        return None

    def _write_part(self, scalar: Scalar, part: Part) -> None:
        source = scalar.source
        once, words = write_changes(scalar, self.words, part)
        assert part.key is not None
        key = once.emit(part.key)

        def write() -> None:
            source.line(f"e = indexed_touch({self.name}, ({as_word(key, self.key)},))")
            for word, change in zip(self.words, words, strict=True):
                if word.part == part:
                    at = self.indexed.word(self.name_of(word))
                    source.line(f"indexed_add_wide({self.name}, e, {at}, wide_of({change}))")
            source.line("judge(e, keys, levels, result, texts, errors)")

        if key.null is None:
            write()
            return
        with source.block(f"if not {key.null}:"):
            write()


class KeyLayout:
    """The states of a query, and what is written around them."""

    needs_rebuild = True

    def __init__(self, plan: ByKey, source: Source) -> None:
        self.plan, self.query, self.source = plan, plan.query, source
        if len(plan.key) != 1:
            raise NotTaken("a key of several columns", plan.scan.span)
        self.payload = Payload(self.query.aggregates)
        for each in self.payload.with_values:
            what, span = each.extreme.upper() or "DISTINCT", each.value.span if each.value else None
            raise NotTaken(f"{what} outside nested aggregates is no sum", span)
        self.result = result_kind(self.query.head, self.payload)
        self.by_level = Levels(source.name("levels"), plan.key)
        self.keys = Keys(source.name("keys"), [each.slot for each in self.payload.kept])
        self.levels = [self.by_level, self.keys]
        self._outer = Part(plan.scan, plan.scan.source, plan.where, plan.test.core)
        self._sums = {slot.name: self._kept(slot) for slot in (k.slot for k in self.payload.kept)}
        part = replace(self._outer, key=plan.key[0])
        self.keys.add_word(part, None, name="outer_rows")
        self._values = {value.name: self._value(value) for value in plan.values}

    def _kept(self, slot: Slot) -> Word:
        """The word of the levels that a slot of the result sums."""
        if slot.name == "rows":
            return self.by_level.add_word(self._outer, None, name="rows", result=True)
        (argument,) = [a for a in self.payload.arguments if slot.name in (a.count, a.total)]
        if argument.where is not None:
            raise NotTaken("FILTER in an aggregate over nested aggregates", argument.where.span)
        value = None if argument.value is None else own_names(argument.value)
        given = [] if value is None else [value]
        if slot.name == argument.count:
            return self.by_level.add_word(self._outer, None, *given, name="rows", result=True)
        return self.by_level.add_word(self._outer, value, name="sum", result=True)

    def _value(self, value: Value) -> tuple[Word, Word | None]:
        """The words of an aggregate inside: its count and its sum."""
        (each,) = value.correlations
        part = Part(value.scan, value.scan.source, value.where, each.inner)
        argument = value.call.arguments[0] if value.call.arguments else None
        given = [] if argument is None else [argument]
        count = self.keys.add_word(part, None, *given, name="inner_count")
        if value.call.function == "count":
            return count, None
        assert argument is not None
        return count, self.keys.add_word(part, argument, name="inner_sum")

    # Source.

    def write_functions(self, source: Source) -> None:
        """Write judge and rebuild."""
        with source.block("def judge(e, keys, levels, result, texts, errors):"):
            self._judge()
            source.line("return 0")
        source.line()
        with source.block("def rebuild(levels, keys, result, texts, errors):"):
            self._rebuild()
            source.line("return 0")
        source.line()

    def write_settle(self, source: Source) -> None:
        """Write the body of `settle`: rows have moved what they change already."""
        why = source.message("Overflow", "the sums of levels leave 64 bits", None)
        with source.block("if ordered_strained(levels):"):
            source.line(f"fail(errors, {why}, -1)")
        if not self.query.keys:
            word = self.result.word("present")
            source.line("e = indexed_touch(result, (0,))")
            source.line(f"indexed_add(result, e, {word}, 1 - int_at(result, e, {word}))")
        source.line("return 0")

    def _judge(self) -> None:
        """Write what adds to the view how key e differs from what was shown of it."""
        source = self.source
        bound = {value.name: self._finish(value) for value in self.plan.values}
        scalar = Scalar(source, bound, "-1")
        source.line("ordered_pick_none(levels)")
        source.line("k = indexed_word(keys, e, 0)")
        source.line(f"p = ordered_from(levels, (k, {LOWEST}))")
        source.line(f"q = ordered_after(levels, (k, {HIGHEST}))")
        limit = write_bound(scalar, self.plan.test)
        head = "if p < q:" if limit.null is None else f"if p < q and not {limit.null}:"
        with source.block(head):
            bounds = write_bounds(source, self.plan.test, limit.value)
            source.line(f"ordered_gather_keys(levels, p, q, {', '.join(bounds)})")
        self._move()

    def _finish(self, value: Value) -> Operand:
        count, total = self._values[value.name]
        at = [self.keys.indexed.word(self.keys.name_of(each)) for each in (count, total or count)]
        words = {"rows": at[0], "count_1": at[0], "sum_1": at[1]}
        scalar = Scalar(self.source, {}, "-1")
        payload = Payload((("value", value.call),))
        return payload.finish("value", value.call, scalar, words, "keys")

    def _move(self) -> None:
        source, kind, result = self.source, self.keys.indexed, self.result
        changes, tests = [], []
        for slot, picked in self._sums_by_slot():
            old, change = kind.word(f"{slot.name}_shown"), source.name(f"{slot.name}_change")
            now = f"ordered_picked(levels, {self.by_level.number(picked)})"
            if slot.kind == "wide":
                negative = f"wide_times(wide_at(keys, e, {old}), -1)"
                source.line(f"{change} = wide_plus(wide_of({now}), {negative})")
                tests.append(f"not wide_is_zero({change})")
            else:
                source.line(f"{change} = {now} - int_at(keys, e, {old})")
                tests.append(f"{change} != 0")
            changes.append((slot, old, change))
        with source.block(f"if {' or '.join(tests)}:"):
            source.line(f"r = indexed_touch(result, {self._group()})")
            for slot, old, change in changes:
                add = "indexed_add_wide" if slot.kind == "wide" else "indexed_add"
                source.line(f"{add}(result, r, {result.word(slot.name)}, {change})")
                source.line(f"{add}(keys, e, {old}, {change})")

    def _sums_by_slot(self) -> list[tuple[Slot, Word]]:
        return [(each.slot, self._sums[each.slot.name]) for each in self.payload.kept]

    def _group(self) -> str:
        """The key of the row of `result` that key e belongs to."""
        if not self.query.keys:
            return "(0,)"
        read = read_words(
            self.source, self.keys.indexed.key, lambda i: f"indexed_word(keys, e, {i})"
        )
        (operand,) = read.values()
        return key_words([operand] * len(self.query.keys), self.result.key)

    def _rebuild(self) -> None:
        source, kind, result = self.source, self.keys.indexed, self.result
        with source.block("for t in range(indexed_count(result)):"):
            words = ", ".join(f"indexed_word(result, e, {i})" for i in range(result.key_words))
            source.line("e = indexed_at(result, t)")
            source.line(f"e = indexed_touch(result, ({words},))")
            for slot in result.payload:
                self._clear("result", result.word(slot.name), slot.kind)
        with source.block("for t in range(indexed_count(keys)):"):
            source.line("e = indexed_at(keys, t)")
            for slot in (each for each in kind.payload if each.is_note):
                self._clear("keys", kind.word(slot.name), slot.kind)
            source.line("judge(e, keys, levels, result, texts, errors)")

    def _clear(self, state: str, word: int, kind: str) -> None:
        if kind == "wide":
            old = f"wide_times(wide_at({state}, e, {word}), -1)"
            self.source.line(f"indexed_add_wide({state}, e, {word}, {old})")
        else:
            self.source.line(f"indexed_add({state}, e, {word}, -int_at({state}, e, {word}))")
