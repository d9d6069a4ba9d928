"""The cofactor ring of a careful plan: every count, sum and product is exact.

takes  the same aggregate and tree as `cofactor`, with columns at the same places
gives  blocks of sum slots (see kernels.structures.exact_blocks)

A view comes here when a value left that was so much larger than the rest that two floats did not
carry the rest beside it. A product takes microseconds, but whatever comes and goes leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.states import EXACT_WORDS, Slot
from viewmill.strategies.view_tree.rings.cofactor_columns import (
    CofactorColumns,
    block_size,
    tuple_text,
)
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

_MOST_NUMBERS = 300  # a block under way lies on the stack
_KEPT, _UNDER_WAY = 24, 8 * EXACT_WORDS  # bytes from one number to the next


@dataclass(frozen=True)
class ExactBlock:
    """The text of a block's address, and how far its numbers are apart."""

    block: str
    step: int = _UNDER_WAY


def exact_slots(slot: str, size: int) -> tuple[Slot, ...]:
    """The slots of a block; the first has the name of the block."""
    return tuple(Slot(f"{slot}_{j}" if j else slot, "sum") for j in range(size))


class ExactCofactor(CofactorColumns):
    """The ring of one aggregate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if block_size(len(self.call.arguments)) > _MOST_NUMBERS:
            raise NotTaken("a cofactor of so many columns has no exact numbers", self.call.span)

    def _size(self, view: View) -> int:
        return block_size(len(self.columns(view)))

    def slots(self, view: View) -> tuple[Slot, ...]:
        """The numbers of the block."""
        return exact_slots(self.slot, self._size(view))

    def lift(self, source: Source, leaf: View, rows: Rows) -> ExactBlock:
        """The block of row i."""
        (alias,) = leaf.relations
        size = self._size(leaf)
        block = self._room(source, size)
        values = [rows.value(self.call.arguments[i]).value for i in self._by_table[alias]]
        guards = [rows.guard(each) for each in self._guards[alias]]
        lifted = f"exact_block_lift({block}, m, {tuple_text(values)})"
        if not guards:
            source.line(lifted)
            return ExactBlock(block)
        with source.block(f"if {' and '.join(guards)}:"):
            source.line(lifted)
        with source.block("else:"):
            source.line(f"exact_block_none({block}, {size})")
        return ExactBlock(block)

    def _room(self, source: Source, size: int) -> str:
        block = source.name("block")
        source.line(f"{block} = scratch({size * EXACT_WORDS})")
        return block

    def one(self, source: Source, times: str) -> ExactBlock:
        """The block of no columns."""
        block = self._room(source, 1)
        source.line(f"exact_block_lift({block}, {times}, ())")
        return ExactBlock(block)

    def stored(self, view: View, ref: SlotRef) -> ExactBlock:
        """The block in the entry."""
        return ExactBlock(f"exact_block_at({ref.at(self.slot)}, {self._size(view)})", _KEPT)

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, ExactBlock]],
        keys: Mapping[str, Operand],
    ) -> ExactBlock:
        """The product of the blocks, in the order of the children."""
        by_name = {view.name: payload for view, payload in parts}
        blocks = [by_name[child.name] for child in above.children]
        sizes = [len(self.columns(child)) for child in above.children]
        for view, payload in parts:
            if view.indicates:  # the change is that of an indicator: no child, and no columns
                blocks.append(payload)
                sizes.append(0)
        values = [keys[v].value for v in above.variables for _ in self._by_variable[v]]
        if values:
            block = self._room(source, block_size(len(values)))
            lifted = tuple_text([f"float({each})" for each in values])
            source.line(f"exact_block_lift({block}, 1, {lifted})")
            blocks.append(ExactBlock(block))
            sizes.append(len(values))
        joined = blocks[0]
        if len(blocks) > 1:
            joined = ExactBlock(self._room(source, block_size(sum(sizes))))
            texts = [[b.block for b in blocks], [str(b.step) for b in blocks], map(str, sizes)]
            inside = ", ".join(tuple_text(list(each)) for each in texts)
            source.line(f"exact_block_join({joined.block}, {inside})")
        return self._turned_exactly(source, above, joined)

    def _turned_exactly(self, source: Source, above: View, made: ExactBlock) -> ExactBlock:
        """Permute a block to the column order of the view, if it has another."""
        columns = self._joined(above)
        if columns == self.columns(above):
            return made
        order = [str(columns.index(i)) for i in self.columns(above)]
        turned = self._room(source, block_size(len(order)))
        inside = f"{turned}, {made.block}, {made.step}, {tuple_text(order)}, {len(order)}"
        source.line(f"exact_block_turn({inside})")
        return ExactBlock(turned)

    def nonzero(self, payload: ExactBlock) -> None:
        """Most of its words would have to be read."""

    def add(self, source: Source, view: View, payload: ExactBlock, ref: SlotRef) -> None:
        """Add number by number."""
        inside = f"{payload.block}, {payload.step}, {self._size(view)}"
        source.line(f"exact_block_add({ref.at(self.slot)}, {inside})")

    def begin(self, source: Source) -> None:
        """Changes are added as they come."""

    def gather(self, source: Source, total: None, payload: ExactBlock, ref: SlotRef) -> None:
        """Add the payload directly to the entry."""
        self.add(source, self.root, payload, ref)

    def end(self, source: Source, total: None, ref: SlotRef) -> None:
        """Nothing to do: every change was added to the entry directly."""

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """Count, sums and products in the order of the arguments."""
        columns = self.columns(self.root)
        order = [columns.index(i) for i in range(len(columns))]
        return show_exactly(scalar.source, self.slot, order, ref)


def show_exactly(source: Source, slot: str, order: Sequence[int], ref: SlotRef) -> Operand:
    """Write what shows a kept block with its columns in this order."""
    shown, m = source.name(slot), len(order)
    source.line(f"{shown} = scratch({2 * block_size(m)})")
    inside = f"{shown}, {ref.at(slot)}, {tuple_text(list(map(str, order)))}, {m}"
    source.line(f"exact_block_show({inside})")
    return Operand(shown)
