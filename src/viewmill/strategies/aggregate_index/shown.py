"""The view's rows from the state `result`: show, flush, contents, and the replay of single rows.

takes  what a query shows, and the state that `settle` keeps up to date
gives  source; both plans of this strategy end like this
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression, walk
from viewmill.algebra.relations import Named
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BIGINT
from viewmill.codegen.aggregates import Payload
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.codegen.words import emit_row, read_words
from viewmill.program.program import Trigger
from viewmill.program.states import Indexed, Slot


@dataclass(frozen=True)
class Head:
    """What is shown: `outputs` over `keys` and `aggregates`, of the groups that meet `having`.

    With `is_bag` every row of a group is a row of the view.
    """

    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    having: tuple[Expression, ...]
    outputs: tuple[Named, ...]
    is_bag: bool = False


def result_kind(head: Head, payload: Payload) -> Indexed:
    """The kind of the state `result`."""
    slots = tuple(kept.slot for kept in payload.kept)
    fields = tuple(Field(name, each.type, each.nullable) for name, each in head.keys)
    if not fields:
        # One row stays in a view without GROUP BY even when no row is left to count.
        slots, fields = (*slots, Slot("present", "int")), (Field("one", BIGINT, False),)
    return Indexed(fields, slots, journal=True)


class Shown:
    """Writes the functions that emit result rows; `states` are the names of all states."""

    def __init__(
        self, source: Source, head: Head, payload: Payload, schema: Schema, states: str
    ) -> None:
        self.source, self.head, self.payload = source, head, payload
        self.schema, self.states = schema, states
        self.result = result_kind(head, payload)

    def write(self) -> None:
        """Write show, flush and contents; `settle` is written by the plan."""
        self._show()
        self._flush()
        self._contents()

    @property
    def can_replay(self) -> bool:
        """Whether the view shows one row after each row, or changes."""
        return bool(self.head.keys) or not self.head.having

    def _show(self) -> None:
        """Write the function that emits entry e if it is a row; it returns 1 if so, else 0."""
        source, result, head = self.source, self.result, self.head
        words = {slot.name: result.word(slot.name) for slot in result.payload}
        with source.block("def show(result, e, t, times, out, texts, errors):"):
            shown_by = words["rows"] if head.keys else words["present"]
            with source.block(f"if int_at(result, e, {shown_by}) <= 0:"):
                source.line("return 0")
            bound: dict[str, Operand] = {}
            if head.keys:
                bound = read_words(source, result.key, lambda i: f"indexed_word(result, e, {i})")
            scalar = Scalar(source, bound, "t")
            shown = (*head.having, *(each for _, each in head.outputs))
            needed = {p.name for each in shown for p in walk(each) if isinstance(p, Column)}
            for name, call in head.aggregates:
                if name in needed:
                    bound[name] = self.payload.finish(name, call, scalar, words, "result")
            for condition in head.having:
                with source.block(f"if not {scalar.is_true(condition)}:"):
                    source.line("return 0")
            operands = [scalar.emit(each) for _, each in head.outputs]
            times = f"times * int_at(result, e, {words['rows']})" if head.is_bag else "times"
            emit_row(source, operands, self.schema.fields, times)
            source.line("return 1")
        source.line()

    def _show_changes(self, minus: str, plus: str) -> None:
        """Write what shows touched entry t as it was and as it is, unless that is the same."""
        source = self.source
        before, now = "indexed_before(result, t)", "indexed_now(result, t)"
        source.line(f"shown = show(result, {before}, t, {minus}, out, texts, errors)")
        source.line(f"shown += show(result, {now}, t, {plus}, out, texts, errors)")
        with source.block("if shown == 2:"):
            source.line("emit_cancel(out)")

    def _flush(self) -> None:
        source = self.source
        with source.block(f"def flush(start, {self.states}, out, texts, errors):"):
            with source.block("if start == 0:"):
                source.line(f"settle({self.states}, texts, errors)")
            with source.block("for t in range(start, indexed_touched(result)):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                self._show_changes("-1", "1")
            source.line("return -1")
        source.line()

    def _contents(self) -> None:
        source = self.source
        with source.block(f"def contents(start, {self.states}, out, texts, errors):"):
            with source.block("for t in range(start, indexed_count(result)):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                source.line("e = indexed_at(result, t)")
                with source.block("if e != 0:"):
                    source.line("show(result, e, t, 1, out, texts, errors)")
            source.line("return -1")
        source.line()

    def replay(self, trigger: Trigger, columns: Sequence[str]) -> Trigger:
        """Write what shows the view after every row; `columns` are the trigger's arguments."""
        source, is_grouped = self.source, bool(self.head.keys)
        function = source.name(f"replay_{trigger.input}")
        rows = ", ".join(["multiplicity", *columns, self.states])
        with source.block(f"def {function}(start, size, {rows}, out, texts, errors):"):
            with source.block("for i in range(start, size):"):
                room = "2 * (indexed_count(result) + 1)" if is_grouped else "2"
                with source.block(f"if emit_room(out) < {room}:"):
                    source.line("return i")
                source.line(f"{trigger.function}(i, i + 1, {rows}, texts, errors)")
                source.line(f"settle({self.states}, texts, errors)")
                with source.block("if failed(errors):"):
                    source.line("return i")
                self._show_step(is_grouped)
            source.line("return size")
        source.line()
        return Trigger(trigger.input, function, trigger.columns)

    def _show_step(self, is_grouped: bool) -> None:
        source = self.source
        if not is_grouped:
            row = "indexed_find(result, (0,))"
            source.line(f"show(result, {row}, i, 1, out, texts, errors)")
            return
        with source.block("for t in range(indexed_touched(result)):"):
            self._show_changes("-i - 1", "i + 1")  # the multiplicity says which row it was
        source.line("indexed_commit(result)")
