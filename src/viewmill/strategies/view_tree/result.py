"""The result of a view tree: how changes reach it, how it is shown.

takes  the block and the layout
gives  lines that add to the root's state, and the functions flush and contents
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewmill.algebra.expressions import Column, walk
from viewmill.algebra.packed import Packed
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Float
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.program import Trigger
from viewmill.program.states import Indexed, Slot
from viewmill.strategies.view_tree.block import Beside, Block, Occurrence
from viewmill.strategies.view_tree.layout import Layout
from viewmill.strategies.view_tree.rings.ring import Payload, SlotRef
from viewmill.strategies.view_tree.rows import key_text, key_word, read_rows, value_of

STATE = "root"
PRESENT = "present"


@dataclass
class Result:
    """The root's state."""

    block: Block
    layout: Layout
    functions_arguments: str = ""  # the states, as flush and contents take them

    @property
    def fields(self) -> tuple[Field, ...]:
        """The key: the free variables."""
        variables = [self.block.variable(name) for name in self.layout.root.keys]
        return tuple(Field(v.name, v.type, v.nullable) for v in variables)

    @property
    def kind(self) -> Indexed:
        """The state's kind. A view without GROUP BY has a row even when there is none to count."""
        slots = self.layout.slots(self.layout.root)
        present = (Slot(PRESENT, "int"),) if self.block.is_global else ()
        slots += present + tuple(Slot(name, "int") for name in self._beside_slots())
        return Indexed(self.fields, slots, journal=True, roomy=True)

    def _beside_slots(self) -> list[str]:
        """For each value beside a group its word, and whether it is NULL: sums over one row."""
        return [slot for name in self._beside_names() for slot in self._beside_pair(name)]

    def _beside_names(self) -> list[str]:
        return [name for each in self.block.beside for name, _ in each.values]

    def _beside_pair(self, name: str) -> tuple[str, str]:
        """The words of a value beside a group: what it is, and whether it is NULL."""
        i = self._beside_names().index(name)
        return f"beside_{i}", f"beside_{i}_null"

    def _slot_ref(self) -> SlotRef:
        kind = self.kind
        words = {slot.name: kind.word(slot.name) for slot in kind.payload}
        return SlotRef(STATE, "e", words, {name: kind.low_word(name) for name in words})

    # Changes.

    def begin(self, source: Source) -> list[Payload]:
        """Without keys, open the running totals: all changes of a batch go to one entry."""
        if self.fields:
            return []
        source.line(f"e = indexed_touch({STATE}, ())")
        return [ring.begin(source) for ring in self.layout.rings]

    def add(
        self,
        source: Source,
        payloads: list[Payload],
        keys: Mapping[str, Operand],
        totals: list[Payload],
        link: str = "",
    ) -> None:
        """Write what adds a change of the root; `link` says which entry remembers its place."""
        ref, fields, root = self._slot_ref(), self.fields, self.layout.root
        if not fields:
            for ring, total, payload in zip(self.layout.rings, totals, payloads, strict=True):
                ring.gather(source, total, payload, ref)
            return
        key = key_text([keys[field.name] for field in fields], fields)
        source.line(f"e = {'linked' if link else 'indexed'}_touch({STATE}, {key}{link})")
        for ring, payload in zip(self.layout.rings, payloads, strict=True):
            ring.add(source, root, payload, ref)

    def write_beside(self, source: Source, states: list[str]) -> list[Trigger]:
        """The triggers of the values beside the groups, each of which is one row or none."""
        return [self._write_beside(source, each, states) for each in self.block.beside]

    def _write_beside(self, source: Source, beside: Beside, states: list[str]) -> Trigger:
        scan = beside.scan
        keys = [beside.keys[field.name] for field in self.fields]
        read = [*keys, *(column for _, column in beside.values)]
        rows = read_rows(source, Occurrence(scan), read)
        function = source.name(f"on_{scan.alias}")
        arguments = ["start", "size", "multiplicity", *rows.arguments, *states, "texts", "errors"]
        with source.block(f"def {function}({', '.join(arguments)}):"):
            with source.block("for i in range(start, size):"):
                source.line("m = multiplicity[i]")
                words = [self._key_operand(source, rows.value(c), f)
                         for c, f in zip(keys, self.fields, strict=True)]  # fmt: skip
                source.line(f"e = indexed_touch({STATE}, {key_text(words, self.fields)})")
                for name, column in beside.values:
                    self._add_beside(source, name, column, rows.value(column))
            source.line("return size")
        source.line()
        return Trigger(rows.input.name, function, rows.columns)

    def _add_beside(self, source: Source, name: str, column: Column, value: Operand) -> None:
        """Write what adds a value to its word, or NULL to the word that says so."""
        at, at_null = (self.kind.word(slot) for slot in self._beside_pair(name))
        word = key_word(value, Field("", column.type, False))
        with source.block(f"if {value.null or 'False'}:"):
            source.line(f"indexed_add({STATE}, e, {at_null}, m)")
        with source.block("else:"):
            source.line(f"indexed_add({STATE}, e, {at}, m * {word})")

    def _key_operand(self, source: Source, operand: Operand, field: Field) -> Operand:
        null = None if operand.null is None else f"int({operand.null})"
        return Operand(key_word(operand, field), null if field.nullable else None)

    def _bind_beside(self, source: Source) -> dict[str, Operand]:
        """Write what reads the values beside entry e."""
        bound: dict[str, Operand] = {}
        for name, column in (value for each in self.block.beside for value in each.values):
            value, null = source.name("beside"), source.name("beside_null")
            at, at_null = (self.kind.word(slot) for slot in self._beside_pair(name))
            word = value_of(f"int_at({STATE}, e, {at})", Field("", column.type, False))
            source.line(f"{value} = {word}")
            source.line(f"{null} = int_at({STATE}, e, {at_null}) != 0")
            bound[name] = Operand(value, null)
        return bound

    def end(self, source: Source, totals: list[Payload]) -> None:
        """Write what adds the sums of a batch."""
        if not self.fields:
            for ring, total in zip(self.layout.rings, totals, strict=True):
                ring.end(source, total, self._slot_ref())

    # Showing.

    def write_flush(self, source: Source) -> None:
        """The change since the last commit."""
        with source.block(f"def flush(start, {self.functions_arguments}, out, texts, errors):"):
            with source.block(f"for t in range(start, indexed_touched({STATE})):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                if self.block.listed:
                    self._flush_rows(source)
                else:
                    self._flush_groups(source)
            source.line("return -1")
        source.line()

    def _flush_groups(self, source: Source) -> None:
        source.line("shown = 0")
        with source.block("for side in range(2):  # as it was, and as it is"):
            with source.block("if side == 0:"):
                source.line(f"e = indexed_before({STATE}, t)")
            with source.block("else:"):
                source.line(f"e = indexed_now({STATE}, t)")
            self._show(source, "2 * side - 1")
            source.line("shown += 1")
        with source.block("if shown == 2:"):
            source.line("emit_cancel(out)")

    def _flush_rows(self, source: Source) -> None:
        source.line(f"e = indexed_before({STATE}, t)")
        source.line(f"before = max(wide_low(wide_at({STATE}, e, 0)), 0)")
        source.line(f"e = indexed_now({STATE}, t)")
        source.line(f"change = max(wide_low(wide_at({STATE}, e, 0)), 0) - before")
        with source.block("if change != 0:"):
            self._emit(source, Scalar(source, self._bind_keys(source), "t"), "change")

    def write_contents(self, source: Source) -> None:
        """Every row."""
        with source.block(f"def contents(start, {self.functions_arguments}, out, texts, errors):"):
            with source.block(f"for t in range(start, indexed_count({STATE})):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                source.line(f"e = indexed_at({STATE}, t)")
                with source.block("if e == 0:"):
                    source.line("continue")
                if self.block.listed:
                    source.line(f"change = wide_low(wide_at({STATE}, e, 0))")
                    with source.block("if change > 0:"):
                        scalar = Scalar(source, self._bind_keys(source), "t")
                        self._emit(source, scalar, "change")
                else:
                    self._show(source, "1")
            source.line("return -1")
        source.line()

    def write_rebuild(self, source: Source) -> None:
        """Write `rebuild`, which gives an empty view without GROUP BY its single row."""
        with source.block(f"def rebuild({self.functions_arguments}, texts, errors):"):
            source.line(f"e = indexed_touch({STATE}, ())")
            place = f"{STATE}, e, {self.kind.word(PRESENT)}"
            with source.block(f"if int_at({place}) == 0:"):
                source.line(f"indexed_add({place}, 1)")
            source.line("return 0")
        source.line()

    def _show(self, source: Source, times: str) -> None:
        """Write what shows entry e, or goes on to the next."""
        if self.block.is_global:
            absent = f"int_at({STATE}, e, {self.kind.word(PRESENT)}) == 0"
        else:
            rows = f"wide_at({STATE}, e, 0)"
            absent = f"wide_is_zero({rows}) or wide_high({rows}) < 0"
        with source.block(f"if {absent}:"):
            source.line("continue")
        bound = {**self._bind_keys(source), **self._bind_beside(source)}
        scalar = Scalar(source, bound, "t")
        needed = self._needed()
        for name, call in self.block.aggregates:
            if name in needed:
                bound[name] = self.layout.ring_of[name].finish(name, call, scalar, self._slot_ref())
        for condition in self.block.having:
            with source.block(f"if not {scalar.is_true(condition)}:"):
                source.line("continue")
        self._emit(source, scalar, times)

    def _needed(self) -> set[str]:
        shown = (*self.block.having, *(each for _, each in self.block.outputs))
        return {part.name for each in shown for part in walk(each) if isinstance(part, Column)}

    def _bind_keys(self, source: Source) -> dict[str, Operand]:
        """Write what reads the key of entry e; grouping columns by the variables they are."""
        operands: dict[str, Operand] = {}
        fields = self.fields
        for i, field in enumerate(fields):
            value = source.name(field.name)
            source.line(f"{value} = {value_of(f'indexed_word({STATE}, e, {i})', field)}")
            null = None
            if field.nullable:
                null = source.name(f"{value}_null")
                bits = f"indexed_word({STATE}, e, {len(fields)})"
                source.line(f"{null} = ({bits} >> {i}) & 1 != 0")
            operands[field.name] = Operand(value, null)
        return {name: operands[variable] for name, variable in self.block.keys}

    def _emit(self, source: Source, scalar: Scalar, times: str) -> None:
        operands = [scalar.emit(each) for _, each in self.block.outputs]
        fields = self.block.query.schema.fields
        for i, (operand, field) in enumerate(zip(operands, fields, strict=True)):
            emit_column(source, i, operand, field)
        source.line(f"emit(out, {times})")


def emit_column(source: Source, i: int, operand: Operand, field: Field) -> None:
    """Write what sets one column of the row under way."""
    if isinstance(field.type, Packed) and not field.type.is_single:
        source.line(f"emit_packed(out, {i}, {operand.value})")
        return
    type_ = field.type.shown if isinstance(field.type, Packed) else field.type
    word = "emit_float" if isinstance(type_, Float) else "emit_word"
    value = f"int({operand.value})" if isinstance(field.type, Boolean) else operand.value
    if operand.null is None:
        source.line(f"{word}(out, {i}, {value})")
        return
    with source.block(f"if {operand.null}:"):
        source.line(f"emit_null(out, {i})")
    with source.block("else:"):
        source.line(f"{word}(out, {i}, {value})")
