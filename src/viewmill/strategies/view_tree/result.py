"""The result of a view tree: how changes reach it, how it is shown.

takes  the block and the layout
gives  lines that add to the root's state, and the functions flush and contents
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate, Column, walk
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Decimal, Float, Type
from viewmill.program.states import Indexed, Slot
from viewmill.strategies.dataflow.scalar import Operand, Scalar
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.view_tree import rings
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.layout import Layout, Shown, Signature
from viewmill.strategies.view_tree.rings import Value
from viewmill.strategies.view_tree.rows import key_text, value_of

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
        slots = tuple(each.slot for each in self.layout.root_slots)
        present = (Slot(PRESENT, "int"),) if self.block.is_global else ()
        return Indexed(self.fields, slots + present, journal=True)

    # Changes.

    def begin(self, source: Source) -> dict[str, str]:
        """Without keys all changes of a batch go to one entry: they are summed on the way."""
        totals: dict[str, str] = {}
        if not self.fields:
            for each in self.layout.root_slots:
                name = totals[each.slot.name] = source.name(f"total_{each.slot.name}")
                source.line(f"{name} = {rings.zero(each.slot.kind)}")
        return totals

    def add(
        self,
        source: Source,
        values: dict[Signature, Value],
        keys: dict[str, Operand],
        totals: dict[str, str],
    ) -> None:
        """Write what adds a change of the root."""
        if totals:
            for each in self.layout.root_slots:
                name = totals[each.slot.name]
                for value in self._terms(each.terms, values):
                    source.line(f"{name} = {rings.plus(name, value, each.slot.kind)}")
            return
        fields = self.fields
        key = key_text([keys[field.name] for field in fields], fields)
        source.line(f"e = indexed_touch({STATE}, {key})")
        for each in self.layout.root_slots:
            word = self.kind.word(each.slot.name)
            for value in self._terms(each.terms, values):
                rings.add(source, STATE, "e", word, each.slot, value)

    def _terms(self, terms: tuple, values: dict[Signature, Value]) -> list[Value]:  # type: ignore[type-arg]
        root = self.layout.root
        return [
            rings.scaled(values[self.layout.restrict(term.factors, root)], term.coefficient)
            for term in terms
        ]

    def end(self, source: Source, totals: dict[str, str]) -> None:
        """Write what adds the sums of a batch."""
        if not totals:
            return
        source.line(f"e = indexed_touch({STATE}, ())")
        for each in self.layout.root_slots:
            word, value = self.kind.word(each.slot.name), totals[each.slot.name]
            rings.add(source, STATE, "e", word, each.slot, Value(value, each.slot.kind))

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
        source.line(f"before = wide_low(wide_at({STATE}, e, 0))")
        source.line(f"e = indexed_now({STATE}, t)")
        source.line(f"change = wide_low(wide_at({STATE}, e, 0)) - before")
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
                    with source.block("if change != 0:"):
                        scalar = Scalar(source, self._bind_keys(source), "t")
                        self._emit(source, scalar, "change")
                else:
                    self._show(source, "1")
            source.line("return -1")
        source.line()

    def _show(self, source: Source, times: str) -> None:
        """Write what shows entry e, or goes on to the next."""
        if self.block.is_global:
            absent = f"int_at({STATE}, e, {self.kind.word(PRESENT)}) == 0"
        else:
            absent = f"wide_is_zero(wide_at({STATE}, e, 0))"
        with source.block(f"if {absent}:"):
            source.line("continue")
        bound = self._bind_keys(source)
        scalar = Scalar(source, bound, "t")
        needed = self._needed()
        for name, call in self.block.aggregates:
            if name in needed:
                bound[name] = self._finish(name, call, scalar)
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
            _emit_column(source, i, operand, field)
        source.line(f"emit(out, {times})")

    # Aggregates.

    def _finish(self, name: str, call: Aggregate, scalar: Scalar) -> Operand:
        """Write the value of an aggregate of entry e."""
        source, shown = scalar.source, self.layout.shown[name]
        why = scalar.failure(call, "Overflow", f"the result does not fit {call.type}")
        count = source.name("count")
        at = self.kind.word(shown.count)
        source.line(f"{count} = wide_low(wide_at({STATE}, e, {at}))")
        with source.block(f"if not wide_value_fits(wide_at({STATE}, e, {at})):"):
            source.line(f"fail({why})")
        if call.function == "count":
            return Operand(count)
        value, null = source.name(call.function), source.name("none")
        source.line(f"{null} = {count} == 0")
        source.line(f"{value} = {'0.0' if isinstance(call.type, Float) else '0'}")
        with source.block(f"if not {null}:"):
            if isinstance(call.arguments[0].type, Float):
                self._finish_float(call, source, shown, value, count)
            else:
                self._finish_exact(call, source, value, count, why)
        return Operand(value, null)

    def _finish_float(
        self, call: Aggregate, source: Source, shown: Shown, value: str, count: str
    ) -> None:
        nan, plus, minus = (
            f"wide_is_zero(wide_at({STATE}, e, {self.kind.word(name)}))" for name in shown.specials
        )
        total = f"sum_at({STATE}, e, {self.kind.word(shown.total)})"
        over = f" / {count}" if call.function == "avg" else ""
        source.line(f"{value} = {total}{over}")
        with source.block(f"if not {nan} or not ({plus} or {minus}):"):
            source.line(f"{value} = 1e400 - 1e400")
        with source.block(f"elif not {plus}:"):
            source.line(f"{value} = 1e400")
        with source.block(f"elif not {minus}:"):
            source.line(f"{value} = -1e400")

    def _finish_exact(
        self, call: Aggregate, source: Source, value: str, count: str, why: str
    ) -> None:
        total = next(s.total for n, s in self.layout.shown.items() if self._call(n) is call)
        place = f"{STATE}, e, {self.kind.word(total)}"
        if isinstance(call.type, Float):
            source.line(f"{value} = wide_float({place}) / {count}")
            return
        fits, read = f"wide_fits({place})", f"wide_int({place})"
        if call.function == "avg":
            scale = 10 ** (_scale(call.type) - _scale(call.arguments[0].type))
            inside = f"{place}, {scale}, {count}"
            fits, read = f"wide_ratio_fits({inside})", f"wide_ratio({inside})"
        with source.block(f"if {fits}:"):
            source.line(f"{value} = {read}")
        with source.block("else:"):
            source.line(f"fail({why})")

    def _call(self, name: str) -> Aggregate:
        return dict(self.block.aggregates)[name]


def _scale(type_: Type) -> int:
    return type_.scale if isinstance(type_, Decimal) else 0


def _emit_column(source: Source, i: int, operand: Operand, field: Field) -> None:
    word = "emit_float" if isinstance(field.type, Float) else "emit_word"
    value = f"int({operand.value})" if isinstance(field.type, Boolean) else operand.value
    if operand.null is None:
        source.line(f"{word}(out, {i}, {value})")
        return
    with source.block(f"if {operand.null}:"):
        source.line(f"emit_null(out, {i})")
    with source.block("else:"):
        source.line(f"{word}(out, {i}, {value})")
