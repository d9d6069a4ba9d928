"""The sum of cofactors that somebody else has made: each row of the table holds one.

takes  one aggregate over the numbers of a cofactor (count, sums, products), one table
gives  exact blocks (see `exact_cofactor`), to which rows are added as they are

It is how the driver adds up what shards know of a group: what one of them takes back is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate, Expression
from viewmill.algebra.packed import Moments, Packed
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.rings.exact_cofactor import exact_slots, show_exactly
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

FUNCTION = "merge_moments"


@dataclass
class MergedMoments:
    """The ring of one aggregate."""

    block: Block
    root: View
    call: Aggregate
    slot: str

    def __post_init__(self) -> None:
        if len(self.block.occurrences) != 1 or self.call.where is not None:
            raise NotTaken("cofactors are merged from all rows of one table", self.call.span)
        assert isinstance(self.call.type, Packed)
        assert isinstance(self.call.type.shape, Moments)
        shape = self.call.type.shape
        self._columns, self._size = len(shape.names), shape.size

    def slots(self, view: View) -> tuple[Slot, ...]:
        """The numbers of the block."""
        return exact_slots(self.slot, self._size)

    def reads(self, leaf: View) -> Sequence[Expression]:
        """The numbers."""
        return self.call.arguments

    def lift(self, source: Source, leaf: View, rows: Rows) -> str:
        """The block that row i holds."""
        block = source.name("block")
        source.line(f"{block} = scratch({2 * self._size})")
        for j, each in enumerate(self.call.arguments):
            source.line(f"floats_put({block}, {j}, m * {rows.value(each).value})")
        return block

    def one(self, source: Source, times: str) -> str:
        """A single table has no indicators."""
        raise AssertionError(times)

    def stored(self, view: View, ref: SlotRef) -> str:
        """A single table is not joined."""
        raise AssertionError(ref)

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, str]],
        keys: Mapping[str, Operand],
    ) -> str:
        """Never called: moments are not joined."""
        ((_, payload),) = parts
        return payload

    def nonzero(self, payload: str) -> None:
        """No test: a zero count does not imply a zero payload."""

    def add(self, source: Source, view: View, payload: str, ref: SlotRef) -> None:
        """Add float by float."""
        inside = f"{ref.at(self.slot)}, {payload}, {self._size}"
        source.line(f"exact_block_add_floats({inside})")

    def begin(self, source: Source) -> None:
        """Rows are added as they come."""

    def gather(self, source: Source, total: None, payload: str, ref: SlotRef) -> None:
        """Add the payload directly to the entry."""
        self.add(source, self.root, payload, ref)

    def end(self, source: Source, total: None, ref: SlotRef) -> None:
        """Nothing to do: every change was added to the entry directly."""

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """Count, sums and products."""
        return show_exactly(scalar.source, self.slot, range(self._columns), ref)
