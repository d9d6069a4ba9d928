"""The nested aggregates of the general algorithm: the lines that move, look up and read them.

takes  `Entries`
gives  source: for each correlated aggregate `spread_i` (a row inside came or went) and `gather_i`
       (the aggregate of one entry from all rows inside)

MIN and MAX have no opposite: when the last of a value goes that was the extreme of an entry, that
entry gathers again, from the multiset of values that is kept (section 4.2.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewmill.algebra.expressions import Expression
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Float
from viewmill.codegen.aggregates import Argument as Kept
from viewmill.codegen.aggregates import Payload
from viewmill.codegen.linear import used_columns
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.codegen.words import as_word, key_words
from viewmill.program.states import Ordered
from viewmill.strategies.aggregate_index.general_states import SPECIALS, Entries, Inner
from viewmill.strategies.aggregate_index.levels import LARGEST, OUTGROWN

_REAL = ("sum", *SPECIALS)
LARGE = 64  # rows: a larger batch looks aggregates up rather than moving them row by row


class Values:
    """Writes what is done with the aggregates."""

    def __init__(self, entries: Entries, source: Source) -> None:
        self.entries, self.source = entries, source
        self.kind = entries.kind
        self._functions = {
            each.name: tuple(source.name(f"{word}_{each.name}") for word in ("spread", "gather"))
            for each in entries.correlated
        }

    def write(self) -> None:
        """Write the functions."""
        for each in self.entries.correlated:
            self._gather(each)
            if each.value.is_extreme:
                self._spread_extreme(each)
            else:
                self._spread(each)

    # Keys.

    def read_key(self, names: set[str]) -> dict[str, Operand]:
        """Write what reads columns of the key of entry e."""
        return self._read("entries", "e", self.kind.key, names)

    def _read(
        self, state: str, entry: str, fields: Sequence[Field], names: set[str]
    ) -> dict[str, Operand]:
        source = self.source
        bound: dict[str, Operand] = {}
        for i, field in enumerate(fields):
            if field.name not in names:
                continue
            value = source.name(field.name)
            source.line(f"{value} = {_as_value(f'indexed_word({state}, {entry}, {i})', field)}")
            null = None
            if field.nullable:
                null = source.name(f"{value}_null")
                bits = f"indexed_word({state}, {entry}, {len(fields)})"
                source.line(f"{null} = ({bits} >> {i}) & 1 != 0")
            bound[field.name] = Operand(value, null)
        return bound

    def _passed(self, inner: Inner) -> tuple[list[Field], list[str], dict[str, Operand]]:
        """The inner columns that a predicate reads: fields, parameters, what they are bound to."""
        names = used_columns(inner.predicate)
        fields = [field for field in inner.keys.fields if field.name in names]
        parameters: list[str] = []
        bound: dict[str, Operand] = {}
        for field in fields:
            value = self.source.name(field.name)
            null = self.source.name(f"{value}_null") if field.nullable else None
            parameters += [value] if null is None else [value, null]
            bound[field.name] = Operand(value, null)
        return fields, parameters, bound

    # A row inside.

    def change(self, inner: Inner, scalar: Scalar, value: Operand) -> None:
        """Write what row i, m times, changes; `value` is what is aggregated, and not NULL."""
        source, name = self.source, inner.name
        if inner.is_fixed and inner.value.is_extreme:
            source.line(f"ordered_add({name}, ({value.value},), (m,))")
            return
        operands = {f: scalar.emit(each) for each, f in inner.keys.named.items()}
        if inner.value.is_extreme:
            operands = {f: Operand(o.value, None) if self._is_value(inner, f) else o
                        for f, o in operands.items()}  # fmt: skip
        if inner.lookup == "order":
            self._change_level(inner, scalar, value, operands)
            return
        kind = inner.kind
        key = key_words(list(operands.values()) or [Operand("0")], kind.key)
        source.line(f"u = indexed_touch({name}, {key})")
        if inner.value.is_extreme:
            source.line(f"before = int_at({name}, u, 0)")
        source.line(f"indexed_add({name}, u, 0, m)")
        if inner.is_real:
            self._add_real(name, "u", {n: kind.word(n) for n in _REAL}, value.value)
        elif inner.is_summed:
            source.line(f"indexed_add_wide({name}, u, 1, wide_product({value.value}, m))")
        if not inner.is_fixed:
            self._call_spread(inner, value, operands)

    def _change_level(
        self, inner: Inner, scalar: Scalar, value: Operand, operands: dict[str, Operand]
    ) -> None:
        """Write how a row changes its level of an ordered state; NULL belongs to no level."""
        source, ((field, level),) = self.source, operands.items()
        words = "(m,)"
        if inner.is_summed:
            assert inner.value.argument is not None
            why = scalar.failure(inner.value.argument, OUTGROWN, "too large for an ordered state")
            words = f"(m, mul_checked({why}, {value.value}, m, {-LARGEST}, {LARGEST}))"

        def write() -> None:
            source.line(f"ordered_add({inner.name}, ({level.value},), {words})")
            self._call_spread(inner, value, {field: level})

        if level.null is None:
            write()
            return
        with source.block(f"if not {level.null}:"):
            write()

    @property
    def is_quick(self) -> bool:
        """Whether a large batch may look all aggregates up again."""
        return all(each.lookup != "loop" for each in self.entries.correlated)

    def _call_spread(self, inner: Inner, value: Operand, operands: dict[str, Operand]) -> None:
        source, name = self.source, inner.name
        texts = [text for field, operand in operands.items() if field in used_columns(
            inner.predicate) for text in self._given(inner, field, operand)]  # fmt: skip
        spread, _ = self._functions[name]
        more = [name, "before"] if inner.value.is_extreme else []
        word = self._value_word(inner, value)
        call = f"{spread}({', '.join(['entries', *more, 'm', word, *texts])}, texts, errors)"
        if not self.is_quick:
            source.line(call)
            return
        with source.block(f"if size - start <= {LARGE}:"):
            source.line(call)

    def _is_value(self, inner: Inner, name: str) -> bool:
        assert inner.value.argument is not None
        return inner.keys.named[inner.value.argument] == name

    def _given(self, inner: Inner, name: str, operand: Operand) -> list[str]:
        field = next(each for each in inner.keys.fields if each.name == name)
        return [operand.value, operand.null or "False"] if field.nullable else [operand.value]

    def _value_word(self, inner: Inner, value: Operand) -> str:
        argument = inner.value.argument
        if argument is None or not inner.value.is_extreme:
            return value.value if inner.is_summed else "0"
        return as_word(value, Field("", argument.type, False))

    def _spread(self, inner: Inner) -> None:
        """Write what moves the aggregate of every entry that row i is correlated with."""
        source, (spread, _) = self.source, self._functions[inner.name]
        _, parameters, bound = self._passed(inner)
        head = ", ".join(["entries", "m", "x", *parameters, "texts", "errors"])
        with source.block(f"def {spread}({head}):"):
            if inner.is_summed and not inner.is_real:
                source.line("change = wide_product(x, m)")
            with source.block("for t in range(indexed_count(entries)):"):
                source.line("e = indexed_at(entries, t)")
                self._if_correlated(inner, bound, lambda: self._add_row(inner))
            source.line("return 0")
        source.line()

    def _if_correlated(self, inner: Inner, bound: dict[str, Operand], write: object) -> None:
        """Write the predicate over entry e and the row inside that is bound."""
        inside = bound | self.read_key(used_columns(inner.predicate))
        scalar = Scalar(self.source, inside, "-1")

        def judge(conditions: list[Expression]) -> None:
            if not conditions:
                write()  # type: ignore[operator]
                return
            with self.source.block(f"if {scalar.is_true(conditions[0])}:"):
                judge(conditions[1:])

        judge(list(inner.predicate))

    def _add_row(self, inner: Inner) -> None:
        """Write that entry e aggregates row i too."""
        if not inner.is_real:
            self._add(inner, "m", "change")
            return
        at = self.kind.word(inner.slot("count"))
        self.source.line(f"indexed_add(entries, e, {at}, m)")
        self._add_real("entries", "e", self._real_words(inner), "x")

    def _real_words(self, inner: Inner) -> dict[str, int]:
        return {name: self.kind.word(inner.slot(name)) for name in _REAL}

    def _add_real(self, state: str, entry: str, words: dict[str, int], x: str) -> None:
        """Write what adds a float m times to a sum, or to the count of what is not finite."""
        source = self.source
        with source.block(f"if is_finite({x}):"):
            source.line(f"exact_add({state}, {entry}, {words['sum']}, {x}, m)")
        with source.block(f"elif is_nan({x}):"):
            source.line(f"indexed_add({state}, {entry}, {words['nan']}, m)")
        with source.block(f"elif {x} > 0.0:"):
            source.line(f"indexed_add({state}, {entry}, {words['plus']}, m)")
        with source.block("else:"):
            source.line(f"indexed_add({state}, {entry}, {words['minus']}, m)")

    def _add_group(self, inner: Inner) -> None:
        """Write that entry e aggregates the rows of entry u inside."""
        name = inner.name
        if not inner.is_real:
            self._add(inner, f"int_at({name}, u, 0)", f"wide_at({name}, u, 1)")
            return
        own, words = inner.kind, self._real_words(inner)
        at = self.kind.word(inner.slot("count"))
        self.source.line(f"indexed_add(entries, e, {at}, int_at({name}, u, 0))")
        total = f"exact_at({name}, u, {own.word('sum')})"
        self.source.line(f"exact_add_number(entries, e, {words['sum']}, {total})")
        for each in SPECIALS:
            count = f"int_at({name}, u, {own.word(each)})"
            self.source.line(f"indexed_add(entries, e, {words[each]}, {count})")

    def _add(self, inner: Inner, count: str, total: str) -> None:
        at = self.kind.word(inner.slot("count"))
        self.source.line(f"indexed_add(entries, e, {at}, {count})")
        if inner.is_summed:
            at = self.kind.word(inner.slot("sum"))
            self.source.line(f"indexed_add_wide(entries, e, {at}, {total})")

    # Extremes.

    def _spread_extreme(self, inner: Inner) -> None:
        source, name = self.source, inner.name
        spread, _ = self._functions[name]
        _, parameters, bound = self._passed(inner)
        head = ", ".join(["entries", name, "before", "m", "x", *parameters, "texts", "errors"])
        with source.block(f"def {spread}({head}):"):
            with source.block("if (before > 0) == (before + m > 0):"):
                source.line("return 0")
            with source.block("for t in range(indexed_count(entries)):"):
                source.line("e = indexed_at(entries, t)")
                self._if_correlated(inner, bound, lambda: self._appear_or_vanish(inner))
            source.line("return 0")
        source.line()

    def _appear_or_vanish(self, inner: Inner) -> None:
        source = self.source
        best = f"int_at(entries, e, {self.kind.word(inner.slot('best'))})"
        seen = f"int_at(entries, e, {self.kind.word(inner.slot('seen'))})"
        better = f"{seen} == 0 or {self._is_better(inner, 'x', best)}"
        with source.block(f"if m > 0 and ({better}):"):
            self._set_best(inner, "x", "1")
        with source.block(f"elif m < 0 and {seen} != 0 and {best} == x:"):
            source.line(self.call_gather(inner))

    def _set_best(self, inner: Inner, word: str, seen: str) -> None:
        for name, text in (("best", word), ("seen", seen)):
            at = self.kind.word(inner.slot(name))
            self.source.line(f"indexed_add(entries, e, {at}, {text} - int_at(entries, e, {at}))")

    def _is_better(self, inner: Inner, x: str, best: str) -> str:
        assert inner.value.argument is not None
        is_min = inner.value.call.function == "min"
        if isinstance(inner.value.argument.type, Float):
            x, best = f"key_float({x})", f"key_float({best})"
            a, b = (x, best) if is_min else (best, x)
            return f"float_lt({a}, {b})"
        return f"{x} {'<' if is_min else '>'} {best}"

    # One entry.

    def call_gather(self, inner: Inner) -> str:
        """The call that computes the aggregate of entry e."""
        _, gather = self._functions[inner.name]
        return f"{gather}(entries, e, {inner.name}, texts, errors)"

    def _gather(self, inner: Inner) -> None:
        source, name = self.source, inner.name
        _, gather = self._functions[name]
        with source.block(f"def {gather}(entries, e, {name}, texts, errors):"):
            self._reset(inner)
            if inner.lookup != "loop":
                self._look_up(inner)
                source.line("return 0")
                source.line()
                return
            with source.block(f"for j in range(indexed_count({name})):"):
                source.line(f"u = indexed_at({name}, j)")
                if inner.value.is_extreme:
                    with source.block(f"if int_at({name}, u, 0) <= 0:"):
                        source.line("continue")
                bound = self._read(name, "u", inner.keys.fields, used_columns(inner.predicate))
                self._if_correlated(inner, bound, lambda: self._take(inner))
            if inner.value.is_extreme:
                self._set_best(inner, "best", "seen")
            source.line("return 0")
        source.line()

    def _look_up(self, inner: Inner) -> None:
        """Write what finds the aggregate of entry e by the columns that it is compared with."""
        source, name = self.source, inner.name
        bound = self.read_key({outer.name for _, _, outer in inner.comparisons})
        operands = [bound[outer.name] for _, _, outer in inner.comparisons]
        for null in (each.null for each in operands if each.null is not None):
            with source.block(f"if {null}:"):
                source.line("return 0")
        if inner.lookup == "order":
            ((_, sign, _),) = inner.comparisons
            find = "ordered_after" if sign in ("<=", ">") else "ordered_from"
            source.line(f"p = {find}({name}, ({operands[0].value},))")
            words = [f"ordered_before({name}, p, {j})" for j in (0, 1)]
            if sign in (">", ">="):
                words = [f"ordered_total({name}, {j}) - {each}" for j, each in enumerate(words)]
            self._add(inner, words[0], f"wide_of({words[1]})")
            return
        key = key_words(operands, [replace(f, nullable=False) for f in inner.keys.fields])
        if any(field.nullable for field in inner.keys.fields):
            key = f"{key[:-1]} 0)"
        source.line(f"u = indexed_find({name}, {key})")
        with source.block("if u != 0:"):
            self._add_group(inner)

    def write_forget(self, input_: str) -> None:
        """Write what has a large batch look all aggregates up again."""
        source = self.source
        if not self.is_quick or all(
            each.value.scan.source != input_ for each in self.entries.correlated
        ):
            return
        known = self.kind.word("known")
        head = "for t in range(indexed_count(entries)):"
        with source.block(f"if size - start > {LARGE}:"), source.block(head):
            source.line("e = indexed_at(entries, t)")
            source.line(f"indexed_add(entries, e, {known}, -int_at(entries, e, {known}))")

    def write_strained(self) -> None:
        """Write what refuses sums that leave 64 bits."""
        for each in self.entries.inner:
            if isinstance(each.kind, Ordered):
                why = self.source.message(OUTGROWN, f"the sums of {each.name} leave 64 bits", None)
                with self.source.block(f"if ordered_strained({each.name}):"):
                    self.source.line(f"fail(errors, {why}, -1)")

    def _reset(self, inner: Inner) -> None:
        source = self.source
        if inner.value.is_extreme:
            source.line("best = 0")
            source.line("seen = 0")
            return
        at = self.kind.word(inner.slot("count"))
        source.line(f"indexed_add(entries, e, {at}, -int_at(entries, e, {at}))")
        if inner.is_real:
            words = self._real_words(inner)
            source.line(f"exact_clear(entries, e, {words['sum']})")
            for at in (words[each] for each in SPECIALS):
                source.line(f"indexed_add(entries, e, {at}, -int_at(entries, e, {at}))")
        elif inner.is_summed:
            at = self.kind.word(inner.slot("sum"))
            old = f"wide_times(wide_at(entries, e, {at}), -1)"
            source.line(f"indexed_add_wide(entries, e, {at}, {old})")

    def _take(self, inner: Inner) -> None:
        source, name = self.source, inner.name
        if not inner.value.is_extreme:
            self._add_group(inner)
            return
        assert inner.value.argument is not None
        place = list(inner.keys.named).index(inner.value.argument)
        source.line(f"x = indexed_word({name}, u, {place})")
        with source.block(f"if seen == 0 or {self._is_better(inner, 'x', 'best')}:"):
            source.line("best = x")
            source.line("seen = 1")

    # What conditions read.

    def finish(self, inner: Inner, scalar: Scalar) -> Operand:
        """Write what reads the aggregate of entry e."""
        source, call = self.source, inner.value.call
        if inner.value.is_extreme:
            assert inner.value.argument is not None
            value, none = source.name(call.function), source.name("none")
            word = f"int_at(entries, e, {self.kind.word(inner.slot('best'))})"
            field = Field("", inner.value.argument.type, False)
            source.line(f"{value} = {_as_value(word, field)}")
            source.line(f"{none} = int_at(entries, e, {self.kind.word(inner.slot('seen'))}) == 0")
            return Operand(value, none)
        words = {each: self.kind.word(inner.slot(each)) for each in inner.sum_names}
        return self._finish_sum(inner, scalar, words, "entries")

    def _finish_sum(
        self, inner: Inner, scalar: Scalar, words: dict[str, int], state: str
    ) -> Operand:
        # Not NULL: whether there is a row to aggregate is counted already.
        payload = Payload((("value", inner.value.call),))
        named = {"rows": words["count"]} | {f"{name}_1": at for name, at in words.items()}
        return payload.finish("value", inner.value.call, scalar, named, state)

    def read_fixed(self, inner: Inner) -> Operand:
        """Write what reads an aggregate without correlation."""
        source, name, scalar = self.source, inner.name, Scalar(self.source, {}, "-1")
        if not inner.value.is_extreme:
            source.line(f"e = indexed_touch({name}, (0,))")
            words = {each: inner.kind.word(each) for each in inner.sum_names}
            return self._finish_sum(inner, scalar, words, name)
        value, none = source.name(inner.value.call.function), source.name("none")
        source.line(f"{none} = ordered_size({name}) == 0")
        source.line(f"{value} = 0")
        at = "0"
        if inner.value.call.function == "max":
            at = f"ordered_reach({name}, 0, ordered_total({name}, 0))"
        with source.block(f"if not {none}:"):
            source.line(f"{value} = ordered_key({name}, {at}, 0)")
        return Operand(value, none)

    # What the view sums.

    def add_kept(self, kept: Kept, scalar: Scalar) -> None:
        """Write what row i adds to a count and a sum of entry e."""
        source, kind = self.source, self.kind
        value = Operand("0") if kept.value is None else scalar.emit(kept.value)

        def write() -> None:
            source.line(f"indexed_add(entries, e, {kind.word(kept.count)}, m)")
            if kept.summed:
                total = kind.word(kept.total)
                product = f"wide_product({value.value}, m)"
                source.line(f"indexed_add_wide(entries, e, {total}, {product})")

        if value.null is None:
            write()
            return
        with source.block(f"if not {value.null}:"):
            write()


def _as_value(word: str, field: Field) -> str:
    if isinstance(field.type, Float):
        return f"key_float({word})"
    return f"{word} != 0" if isinstance(field.type, Boolean) else word
