"""What is kept for aggregates of a row's own key, and the lines that use it.

takes  `ByKey`
gives  levels   for each key the levels of the column, with what the view sums of them
       keys     for each key its aggregates, the rows that have no level or no key, and as notes
                what of the key the view shows
       fixed    aggregates that are the same for all rows
       A row changes its level and its aggregates; then `judge` moves what its key adds to the view.
       With a fixed aggregate every key is judged, at the end of the batch.
"""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Call, Cast, Expression, Literal
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.types import BIGINT, BOOLEAN
from viewmill.codegen.aggregates import Payload
from viewmill.codegen.linear import columns_as, not_null, used_columns
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.codegen.words import key_words, read_words
from viewmill.program.states import EXACT_ROOM, Indexed, Slot, State
from viewmill.strategies.aggregate_index.answer import SIDES
from viewmill.strategies.aggregate_index.bounds import LOWEST, holds, write_bound, write_bounds
from viewmill.strategies.aggregate_index.by_key import (
    KEY,
    ByKey,
    equalities,
    inequality,
    surely,
)
from viewmill.strategies.aggregate_index.classify import Test
from viewmill.strategies.aggregate_index.levels import (
    MINUS,
    OUTGROWN,
    Levels,
    Part,
    Word,
    write_changes,
)
from viewmill.strategies.aggregate_index.query import Value, own_names
from viewmill.strategies.aggregate_index.shown import result_kind

HIGHEST = (1 << 63) - 1
ADD = {"wide": "indexed_add_wide", "sum": "exact_add_number", "int": "indexed_add"}


class Entries(Levels):
    """Words by key, in no order; `then` is the line that follows a change of entry e."""

    is_ordered = False

    def __init__(self, name: str, key: tuple[Expression, ...], notes: list[Slot]) -> None:
        super().__init__(name, key)
        self.notes = [Slot(f"{s.name}_shown", s.kind, is_note=True) for s in notes]
        self.then = ""

    @property
    def indexed(self) -> Indexed:
        """The kind of the state; a key may be NULL if any part's may."""
        slots = [Slot(self.name_of(w), "sum" if w.is_real else "wide") for w in self.words]
        firsts = [self.first_of(part) for part in self.parts]
        key = tuple(
            replace(field, nullable=any(first[i].nullable for first in firsts))
            for i, field in enumerate(self.groups)
        )
        return Indexed(key or (self.key,), (*slots, *self.notes), journal=True)

    def state(self) -> State:
        """The state with its definition; notes are 0."""
        rows: Relation = self._definition()
        level = () if self.groups else ("level",)
        kept = [each for each in rows.schema if each.name != "level" or each.name in level]
        zero = Literal(0, BIGINT)
        notes = tuple((s.name, Cast(zero, s.type, False)) for s in self.notes)
        return State(self.name, self.indexed, Project(rows, (*columns_as(kept), *notes)))

    def find(
        self, source: str, where: tuple[Expression, ...], value: Expression | None
    ) -> tuple[Word, Word | None] | None:
        """None: this layout keeps nothing over all rows."""
        return None

    def at(self, word: Word) -> int:
        """The number of a word in an entry."""
        return self.indexed.word(self.name_of(word))

    def _write_part(self, scalar: Scalar, part: Part) -> None:
        source = scalar.source
        once, words = write_changes(scalar, self.words, part, floats_once=True)
        operands = [once.emit(each) for each in self.first_of(part)] or [Operand("0")]
        source.line(f"e = indexed_touch({self.name}, {key_words(operands, self.indexed.key)})")
        for word, change in zip(self.words, words, strict=True):
            if word.part == part:
                into = f"{self.name}, e, {self.at(word)}"
                if word.is_real:
                    source.line(f"exact_add({into}, {change}, m)")
                else:
                    source.line(f"indexed_add_wide({into}, wide_of({change}))")
        if self.then:
            source.line(self.then)


class KeyLayout:
    """The states of a query, and what is written around them."""

    needs_rebuild = True

    def __init__(self, plan: ByKey, source: Source) -> None:
        self.plan, self.query, self.source = plan, plan.query, source
        self.payload = Payload(self.query.aggregates)
        for each in self.payload.with_values:
            what, span = each.extreme.upper() or "DISTINCT", each.value.span if each.value else None
            raise NotTaken(f"{what} outside nested aggregates is no sum", span)
        self.result = result_kind(self.query.head, self.payload)
        self.keys = Entries(source.name("keys"), plan.key, [s.slot for s in self.payload.kept])
        self.fixed = Entries(source.name("fixed"), (), [])
        self.by_level = Levels(source.name("levels"), tuple(map(surely, plan.key)))
        self._values = {value.name: self._value(value) for value in plan.values}
        self._values |= {value.name: self._value(value) for value in plan.fixed}
        self._add_outer()
        self._add_run()
        self.levels = [each for each in (self.by_level, self.fixed, self.keys) if each.parts]
        self.states = ", ".join([*(each.name for each in self.levels), "result"])
        if not plan.fixed:
            self.keys.then = f"judge(e, {self.states}, texts, errors)"

    # What is kept.

    def _add_outer(self) -> None:
        """The rows outside: in levels, and without one by key alone."""
        plan = self.plan
        part = Part(plan.scan, plan.scan.source, plan.where, None, plan.key)
        self.keys.add_word(part, None, name="outer_rows")
        self._levelled: dict[str, Word] = {}
        self._apart: dict[str, Word] = {}
        if plan.test is None:
            self._apart = self._kept(self.keys, part)
            return
        run = inequality(plan.run) if plan.run is not None else None
        level = plan.test.core if run is None else run.outer
        unknown = [each for each in (*plan.key, level) if each.nullable]
        where = (*plan.where, *map(not_null, unknown))
        first = tuple(map(surely, plan.key))
        outer = Part(plan.scan, plan.scan.source, where, surely(level), first)
        self._levelled = self._kept(self.by_level, outer)
        if run is not None and unknown and self._counts_nothing(plan.test):
            where = (*plan.where, _any_null(unknown))
            self._apart = self._kept(self.keys, replace(part, where=where))

    def _counts_nothing(self, test: Test) -> bool:
        """Whether a row without any row inside may qualify."""
        assert test.value is not None
        return test.default is not None or test.value.call.function == "count"

    def _kept(self, made: Levels, part: Part) -> dict[str, Word]:
        """The words that the slots of the result sum."""
        found: dict[str, Word] = {}
        for name in (each.slot.name for each in self.payload.kept):
            if name == "rows":
                found[name] = made.add_word(part, None, name="rows", result=True)
                continue
            (argument,) = [
                a
                for a in self.payload.arguments
                if name in (a.count, a.total, a.carry, *a.specials)
            ]
            if name == argument.carry:
                raise NotTaken("a sum of more digits than 128 bits hold", argument.value.span)  # type: ignore[union-attr]
            if argument.where is not None:
                raise NotTaken("FILTER in an aggregate over nested aggregates", argument.where.span)
            value = None if argument.value is None else own_names(argument.value)
            given = [] if value is None else [value]
            summed = None if name == argument.count else value
            word = "rows" if summed is None else "sum"
            found[name] = made.add_word(part, summed, *given, name=word, result=True)
        return found

    def _value(self, value: Value) -> tuple[Word, Word | None]:
        """The words of an aggregate of a key, or of all rows: its count and its sum."""
        made = self.keys if value.correlations else self.fixed
        inside = equalities(value)
        first = tuple(inside[each] for each in self._outer_key) if inside else ()
        part = Part(value.scan, value.scan.source, value.where, None, first)
        argument = value.call.arguments[0] if value.call.arguments else None
        given = [] if argument is None else [argument]
        count = made.add_word(part, None, *given, name="inner_count")
        if value.call.function == "count":
            return count, None
        assert argument is not None
        return count, made.add_word(part, argument, name="inner_sum")

    @property
    def _outer_key(self) -> list[Expression]:
        """The key as correlations name it: they do not know what is surely not NULL."""
        first = (self.plan.values or (self.plan.run,))[0]
        assert first is not None
        named = {surely(each): each for each in equalities(first)}
        return [named[surely(each)] for each in self.plan.key]

    def _add_run(self) -> None:
        """What the aggregate over a run of levels is over; its key is judged after a change."""
        value = self.plan.run
        if value is None:
            return
        made, correlation, inside = self.by_level, inequality(value), equalities(value)
        assert correlation is not None
        first = tuple(inside[each] for each in self._outer_key)
        read = [each for each in (*first, correlation.inner) if each.nullable]
        where = (*value.where, *map(not_null, read))
        part = Part(
            value.scan, value.scan.source, where, surely(correlation.inner),
            tuple(map(surely, first)),
        )  # fmt: skip
        argument = value.call.arguments[0] if value.call.arguments else None
        given = [] if argument is None else [argument]
        made.counted = made.add_word(part, None, *given, name="inner_count")
        if value.call.function == "sum":
            made.watched = made.add_word(part, argument, name="inner_sum")
        touched = Part(value.scan, value.scan.source, value.where, None, first)
        self.keys.add_word(touched, None, name="run_rows")

    # Source.

    def write_functions(self, source: Source) -> None:
        """Write judge and rebuild."""
        with source.block(f"def judge(u, {self.states}, texts, errors):"):
            self._judge()
            source.line("return 0")
        source.line()
        with source.block(f"def rebuild({self.states}, texts, errors):"):
            self._rebuild()
            source.line("return 0")
        source.line()

    def write_settle(self, source: Source) -> None:
        """Write the body of `settle`: rows have moved what they change already."""
        if self.by_level.parts:
            why = source.message(OUTGROWN, "the sums of levels leave 64 bits", None)
            with source.block(f"if ordered_strained({self.by_level.name}):"):
                source.line(f"fail(errors, {why}, -1)")
        if self.plan.fixed:
            with source.block(f"for t in range(indexed_count({self.keys.name})):"):
                source.line(f"e = indexed_at({self.keys.name}, t)")
                source.line(f"judge(e, {self.states}, texts, errors)")
        if not self.query.keys:
            word = self.result.word("present")
            source.line("e = indexed_touch(result, (0,))")
            source.line(f"indexed_add(result, e, {word}, 1 - int_at(result, e, {word}))")
        source.line("return 0")

    def _judge(self) -> None:
        """Write what adds to the view how the key at u differs from what was shown of it."""
        source, plan = self.source, self.plan
        bound: dict[str, Operand] = {}
        if plan.fixed:
            source.line(f"e = indexed_touch({self.fixed.name}, (0,))")
            bound |= {value.name: self._finish(value, self.fixed) for value in plan.fixed}
        source.line("e = u")
        bound |= {value.name: self._finish(value, self.keys) for value in plan.values}
        bound |= self._key_columns()
        scalar = Scalar(source, bound, "-1")
        if self._levelled:
            source.line(f"ordered_pick_none({self.by_level.name})")
        source.line("qualifies = False")  # those without a level
        self._judge_key(scalar, list(plan.conditions))
        self._move()

    def _judge_key(self, scalar: Scalar, conditions: list[Expression]) -> None:
        if conditions:
            with self.source.block(f"if {scalar.is_true(conditions[0])}:"):
                self._judge_key(scalar, conditions[1:])
        elif self.plan.test is None:
            self.source.line("qualifies = True")
        else:
            self._judge_rows(scalar, self.plan.test)

    def _judge_rows(self, scalar: Scalar, test: Test) -> None:
        source, name = self.source, self.by_level.name
        limit = write_bound(scalar, test)
        words = [f"indexed_word({self.keys.name}, e, {i})" for i in range(len(self.plan.key))]
        source.line(f"p = ordered_from({name}, ({', '.join([*words, str(LOWEST)])}))")
        source.line(f"q = ordered_after({name}, ({', '.join([*words, str(HIGHEST)])}))")
        with source.block("if True:" if limit.null is None else f"if not {limit.null}:"):
            bounds = ", ".join(write_bounds(source, test, limit.value))
            if test.value is None:
                with source.block("if p < q:"):
                    source.line(f"ordered_gather_keys({name}, p, q, {bounds})")
                return
            over, empty = self._over(test, limit.value)
            source.line(f"qualifies = {empty}")
            has_key = self._has_key()
            with source.block(f"if p < q and {has_key}:" if has_key else "if p < q:"):
                source.line(f"ordered_pick_run({name}, p, q, {over}, {bounds}, {empty})")

    def _has_key(self) -> str:
        """The text that is true when no column of the key at e is NULL."""
        kind = self.keys.indexed
        if not kind.has_null_word:
            return ""
        return f"(indexed_word({self.keys.name}, e, {len(kind.key)}) == 0)"

    def _over(self, test: Test, bound: str) -> tuple[str, str]:
        """Side, word and count of the aggregate, and whether a level without one counts."""
        made = self.by_level
        assert test.value is not None
        assert made.counted is not None
        run = inequality(test.value)
        assert run is not None
        side, count = SIDES[run.operator], made.number(made.counted)
        if made.watched is None:
            return f"{side}, {count}, -1", holds(test, 0, bound)
        empty = "False" if test.default is None else holds(test, test.default, bound)
        return f"{side}, {made.number(made.watched)}, {count}", empty

    def _key_columns(self) -> dict[str, Operand]:
        """Write what reads the columns of the key that conditions read."""
        plan = self.plan
        read = [*plan.conditions, *([] if plan.test is None else [plan.test.bound])]
        named = used_columns(read) if read else set()
        fields = self.keys.indexed.key
        wanted = {f.name: f"{KEY}{i}" for i, f in enumerate(fields, 1) if f"{KEY}{i}" in named}
        if not wanted:
            return {}
        word = lambda i: f"indexed_word({self.keys.name}, e, {i})"  # noqa: E731
        found = read_words(self.source, fields, word)
        return {wanted[name]: operand for name, operand in found.items() if name in wanted}

    def _finish(self, value: Value, made: Entries) -> Operand:
        count, total = self._values[value.name]
        if total is not None and total.is_real:
            return self._guarded(made, self._finish_real(value, made))
        at = [made.at(each) for each in (count, total or count)]
        words = {"rows": at[0], "count_1": at[0], "sum_1": at[1]}
        scalar = Scalar(self.source, {}, "-1")
        payload = Payload((("value", value.call),))
        found = payload.finish("value", value.call, scalar, words, made.name)
        return self._guarded(made, found)

    def _finish_real(self, value: Value, made: Entries) -> Operand:
        """Write what reads a sum or average of floats."""
        count, total = self._values[value.name]
        assert total is not None
        source, found, none = self.source, self.source.name("sum"), self.source.name("none")
        entry = f"{made.name}, e"
        special = f"int_at({entry}, {made.at(total.special)})"
        source.line(f"{none} = int_at({entry}, {made.at(count)}) == 0")
        source.line(f"{found} = real_value(sum_at({entry}, {made.at(total)}), {special})")
        if value.call.function == "avg":
            with source.block(f"if not {none}:"):
                source.line(f"{found} = {found} / int_at({entry}, {made.at(count)})")
        return Operand(found, none)

    def _guarded(self, made: Entries, found: Operand) -> Operand:
        """Write that the aggregates of a key that is NULL are over no rows."""
        has_key = self._has_key() if made is self.keys else ""
        if has_key and found.null is None:
            self.source.line(f"{found.value} = {found.value} * int({has_key})")
        elif has_key:
            self.source.line(f"{found.null} = {found.null} or not {has_key}")
        return found

    def _now(self, name: str, kind: str) -> str:
        """The text of what the key contributes to a slot."""
        for argument in (each for each in self.payload.arguments if name in each.specials):
            return self._now_special(argument.specials.index(name), name)
        if kind == "sum":
            return self._now_real(name)
        texts, is_wide = [], kind == "wide"
        if name in self._levelled:
            number = self.by_level.number(self._levelled[name])
            picked = f"ordered_picked({self.by_level.name}, {number})"
            texts.append(f"wide_of({picked})" if is_wide else picked)
        if name in self._apart:
            total = f"wide_at({self.keys.name}, e, {self.keys.at(self._apart[name])})"
            all_or_none = "int(qualifies)"
            texts.append(
                f"wide_times({total}, {all_or_none})"
                if is_wide
                else f"wide_low({total}) * {all_or_none}"
            )
        if not is_wide:
            return " + ".join(texts)
        first, *others = texts
        return f"wide_plus({first}, {others[0]})" if others else first

    def _now_real(self, name: str) -> str:
        texts = []
        if name in self._levelled:
            number = self.by_level.number(self._levelled[name])
            texts.append(f"ordered_picked_finite({self.by_level.name}, {number})")
        if name in self._apart:
            at = self.keys.at(self._apart[name])
            texts.append(f"sum_at({self.keys.name}, e, {at}) * int(qualifies)")
        return " + ".join(texts)

    def _now_special(self, which: int, name: str) -> str:
        """NaN is infinity and minus infinity together; these are the halves of a word."""
        if which == 0:
            return "0"
        texts = []
        if name in self._levelled:
            number = self.by_level.number(self._levelled[name].special)
            texts.append(f"ordered_picked({self.by_level.name}, {number})")
        if name in self._apart:
            at = self.keys.at(self._apart[name].special)
            texts.append(f"int_at({self.keys.name}, e, {at}) * int(qualifies)")
        both = f"({' + '.join(texts)})"
        return f"({both} & {MINUS - 1})" if which == 1 else f"({both} >> 32)"

    def _move(self) -> None:
        source, kind, result, keys = self.source, self.keys.indexed, self.result, self.keys.name
        changes, tests = [], []
        for slot in (each.slot for each in self.payload.kept):
            old, change = kind.word(f"{slot.name}_shown"), source.name(f"{slot.name}_change")
            now = self._now(slot.name, slot.kind)
            if slot.kind == "wide":
                negative = f"wide_times(wide_at({keys}, e, {old}), -1)"
                source.line(f"{change} = wide_plus({now}, {negative})")
                tests.append(f"not wide_is_zero({change})")
            elif slot.kind == "sum":
                shown = f"exact_at({keys}, e, {old})"
                source.line(f"{change} = exact_less({EXACT_ROOM}, {now}, {shown})")
                tests.append(f"not exact_is_zero({change})")
            else:
                source.line(f"{change} = {now} - int_at({keys}, e, {old})")
                tests.append(f"{change} != 0")
            changes.append((slot, old, change))
        with source.block(f"if {' or '.join(tests)}:"):
            source.line(f"r = indexed_touch(result, {self._group()})")
            for slot, old, change in changes:
                add = ADD[slot.kind]
                source.line(f"{add}(result, r, {result.word(slot.name)}, {change})")
                source.line(f"{add}({keys}, e, {old}, {change})")

    def _group(self) -> str:
        """The key of the row of `result` that key e belongs to."""
        if not self.query.keys:
            return "(0,)"
        fields = self.keys.indexed.key
        read = read_words(self.source, fields, lambda i: f"indexed_word({self.keys.name}, e, {i})")
        named = [surely(each) for each in self.plan.key]
        operands = list(read.values())
        places = [named.index(surely(own_names(each))) for _, each in self.query.keys]
        return key_words([operands[i] for i in places], self.result.key)

    def _rebuild(self) -> None:
        source, kind, result = self.source, self.keys.indexed, self.result
        with source.block("for t in range(indexed_count(result)):"):
            words = ", ".join(f"indexed_word(result, e, {i})" for i in range(result.key_words))
            source.line("e = indexed_at(result, t)")
            source.line(f"e = indexed_touch(result, ({words},))")
            for slot in result.payload:
                self._clear("result", result.word(slot.name), slot.kind)
        with source.block(f"for t in range(indexed_count({self.keys.name})):"):
            source.line(f"e = indexed_at({self.keys.name}, t)")
            for slot in (each for each in kind.payload if each.is_note):
                self._clear(self.keys.name, kind.word(slot.name), slot.kind)
            source.line(f"judge(e, {self.states}, texts, errors)")

    def _clear(self, state: str, word: int, kind: str) -> None:
        if kind == "sum":
            self.source.line(f"exact_clear({state}, e, {word})")
        elif kind == "wide":
            old = f"wide_times(wide_at({state}, e, {word}), -1)"
            self.source.line(f"indexed_add_wide({state}, e, {word}, {old})")
        else:
            self.source.line(f"indexed_add({state}, e, {word}, -int_at({state}, e, {word}))")


def _any_null(expressions: list[Expression]) -> Expression:
    """The condition that something is NULL."""
    found: Expression | None = None
    for each in dict.fromkeys(expressions):
        test = Call("is_null", (each,), BOOLEAN, False)
        found = test if found is None else Call("or", (found, test), BOOLEAN, False)
    assert found is not None
    return found
