"""The ring that knows whether rows are behind a payload: a fingerprint modulo 2^64, and exact.

Floats that come and go leave a residue. Where row count and bag are zero there are no rows, and
what floats are left there is made zero; where they are not, an entry stays although it counts no
rows: on an UNCHECKED table a delete may come before its insert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate, Expression
from viewmill.algebra.types import Boolean, Float
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.rings.ring import Ring, SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

SLOT = Slot("bag", "int")


@dataclass(frozen=True)
class Bag:
    """Watches over the rings whose floats it clears; `rows` counts rows in its first slot."""

    root: View
    rows: Ring
    watched: tuple[Ring, ...]

    def slots(self, view: View) -> tuple[Slot, ...]:
        """One word."""
        return (SLOT,)

    def reads(self, leaf: View) -> Sequence[Expression]:
        """All that the watched rings read of a row."""
        return list(dict.fromkeys(each for ring in self.watched for each in ring.reads(leaf)))

    def lift(self, source: Source, leaf: View, rows: Rows) -> str:
        """m times the number of the row."""
        words = [_word(rows.value(each), each) for each in self.reads(leaf)]
        name = source.name("bag")
        source.line(f"{name} = bag_times(m, bag_row(({', '.join(words)}{',' if words else ''})))")
        return name

    def one(self, source: Source, times: str) -> str:
        """A whole number."""
        return times

    def stored(self, view: View, ref: SlotRef) -> str:
        """The text that reads the bag's word."""
        return f"int_at({ref.at(SLOT.name)})"

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, str]],
        keys: Mapping[str, Operand],
    ) -> str:
        """The product."""
        text = parts[0][1]
        for _, other in parts[1:]:
            text = f"bag_times({text}, {other})"
        name = source.name("bag")
        source.line(f"{name} = {text}")
        return name

    def nonzero(self, payload: str) -> str:
        """A word."""
        return f"{payload} != 0"

    def add(self, source: Source, view: View, payload: str, ref: SlotRef) -> None:
        """Add it; without rows there are no floats."""
        source.line(f"bag_add({ref.at(SLOT.name)}, {payload})")
        self._clear(source, view, ref)

    def begin(self, source: Source) -> str:
        """A variable."""
        name = source.name("total_bag")
        source.line(f"{name} = 0")
        return name

    def gather(self, source: Source, total: str, payload: str, ref: SlotRef) -> None:
        """Add modulo 2^64."""
        source.line(f"{total} = bag_plus({total}, {payload})")

    def end(self, source: Source, total: str, ref: SlotRef) -> None:
        """The rows of the batch are added already."""
        self.add(source, self.root, total, ref)

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """Nobody asks."""
        raise AssertionError(f"{name} is no aggregate of a bag")

    def _clear(self, source: Source, view: View, ref: SlotRef) -> None:
        left = [slot for ring in self.watched for slot in ring.slots(view) if slot.kind == "floats"]
        if view.is_leaf and view is not self.root:
            left = [slot for slot in left if not slot.lows]  # of a table they come back to zero
        if not left:
            return
        count = self.rows.slots(view)[0]
        empty = f"int_at({ref.at(SLOT.name)}) == 0 and "
        if count.kind == "int":
            empty += f"int_at({ref.at(count.name)}) == 0"
        else:
            empty += f"wide_is_zero(wide_at({ref.at(count.name)}))"
        with source.block(f"if {empty}:"):
            for slot in left:
                source.line(f"floats_clear({ref.at(slot.name)}, {slot.words})")
                if slot.lows:
                    low = f"{ref.state}, {ref.entry}, {ref.lows[slot.name]}"
                    function = "floats_clear" if ref.is_listed else "floats_clear_low"
                    source.line(f"{function}({low}, {slot.lows})")


def _word(operand: Operand, expression: Expression) -> str:
    """The word of a value; NULL has one of its own."""
    word = operand.value
    if isinstance(expression.type, Float):
        word = f"float_key({word})"
    elif isinstance(expression.type, Boolean):
        word = f"int({word})"
    return word if operand.null is None else f"(-1 if {operand.null} else {word})"
