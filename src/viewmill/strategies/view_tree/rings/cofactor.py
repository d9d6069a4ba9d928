"""The cofactor ring: count, sums and products of columns, for cofactor() and linear_regression().

takes  one aggregate and the tree
gives  blocks (see kernels.structures.cofactor): a view keeps one of the columns below it

See `cofactor_columns` for where a column is lifted. A row in which a column is NULL, NaN or too
large to be squared, or that FILTER leaves out, lifts to zero: it has no place in any join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewmill.algebra.expressions import Aggregate
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.rings.cofactor_columns import (
    CofactorColumns,
    block_size,
    tuple_text,
)
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

_VECTOR, _WIDE = 8, 16  # floats in a vector; columns that are worth whole ones
_WAITING = 16  # products that are gathered before they are added
_SPARE = _VECTOR - 1  # behind a row's block, which is written in whole vectors


@dataclass(frozen=True)
class Pair:
    """The text of a block's address, and of that of its low parts, which is 0 if there are none."""

    block: str
    low: str


@dataclass(frozen=True)
class Product:
    """The blocks of a product that is made where it is added, as text."""

    blocks: str
    lows: str
    sizes: str
    change: int


class Total(str):
    """The place that a wide result is gathered in.

    All that is gathered in one has one shape: by it what is inside of parts finds its place.
    """

    shape: tuple[str, int] | None = None


class Cofactor(CofactorColumns):
    """The ring of one aggregate."""

    def _size(self, view: View) -> int:
        return block_size(len(self.columns(view)), self._pad(view))

    def _pad(self, view: View) -> int:
        """Whether the rows of a block are padded to whole vectors: of a wide result."""
        is_wide = len(self.columns(view)) >= _WIDE
        is_root = view.name == self.root.name and not view.is_leaf
        return _VECTOR if is_wide and is_root else 1

    def slots(self, view: View) -> tuple[Slot, ...]:
        """The block; what rounding took from it, and the peaks of its columns."""
        size = self._size(view)
        return (Slot(self.slot, "floats", size=size, lows=size + len(self.columns(view))),)

    def lift(self, source: Source, leaf: View, rows: Rows) -> Pair:
        """The block of row i."""
        (alias,) = leaf.relations
        block, low, size = source.name("block"), source.name("low"), self._size(leaf)
        source.line(f"{block} = scratch({size + _SPARE})")
        values = [rows.value(self.call.arguments[i]).value for i in self._by_table[alias]]
        guards = [rows.guard(each) for each in self._guards[alias]]
        lifted = f"{low} = cofactor_lift({block}, scratch({size}), m, {tuple_text(values)})"
        if not guards:
            source.line(lifted)
            return Pair(block, low)
        with source.block(f"if {' and '.join(guards)}:"):
            source.line(lifted)
        with source.block("else:"):
            source.line(f"cofactor_none({block}, {size})")
            source.line(f"{low} = 0")
        return Pair(block, low)

    def one(self, source: Source, times: str) -> Pair:
        """The block of no columns."""
        block = source.name("block")
        source.line(f"{block} = scratch({1 + _SPARE})")
        source.line(f"cofactor_none({block}, 1)")
        source.line(f"floats_put({block}, 0, float({times}))")
        return Pair(block, "0")

    def stored(self, view: View, ref: SlotRef) -> Pair:
        """The block in the entry."""
        place = f"{ref.at(self.slot)}, {ref.lows[self.slot]}"
        low = f"floats_low({place}, {self._size(view)}, {int(ref.is_listed)})"
        return Pair(f"floats_at({ref.at(self.slot)})", low)

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, Pair]],
        keys: Mapping[str, Operand],
    ) -> Pair | Product:
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
            block, lifted = source.name("block"), [f"float({each})" for each in values]
            low, size = source.name("low"), block_size(len(values))
            source.line(f"{block} = scratch({size + _SPARE})")
            made = f"cofactor_lift({block}, scratch({size}), 1, {tuple_text(lifted)})"
            source.line(f"{low} = {made}")
            blocks.append(Pair(block, low))
            sizes.append(len(values))
        found, lows = (
            tuple_text([each.block for each in blocks]),
            tuple_text([e.low for e in blocks]),
        )
        widths = tuple_text(map(str, sizes))
        is_turned = self._joined(above) != self.columns(above)  # kept in another order
        if self._pad(above) > 1 and not is_turned:  # a wide result: multiplied where it is added
            change = blocks.index(parts[0][1]) if parts[0][0].is_leaf else -1
            return Product(found, lows, widths, change)
        size = block_size(len(self.columns(above)))
        joined = blocks[0]
        if len(blocks) > 1:
            joined = self._multiply(source, found, lows, widths, size)
        return self._turned(source, above, joined, size) if is_turned else joined

    def _multiply(self, source: Source, blocks: str, lows: str, sizes: str, size: int) -> Pair:
        """The product of blocks in a block of its own."""
        made, low = source.name("block"), source.name("low")
        source.line(f"{made} = scratch({size})")
        inside = f"{made}, scratch({size}), {blocks}, {lows}, {sizes}"
        source.line(f"{low} = cofactor_join({inside})")
        return Pair(made, low)

    def _turned(self, source: Source, above: View, made: Pair, size: int) -> Pair:
        """Permute a block to the column order of the view."""
        turned, low, columns = source.name("block"), source.name("low"), self._joined(above)
        order = [str(columns.index(i)) for i in self.columns(above)]
        for name, part in ((turned, made.block), (low, made.low)):
            inside = f"scratch({size}), {part}, {tuple_text(order)}, {len(order)}"
            source.line(f"{name} = cofactor_turn({inside})")
        return Pair(turned, low)

    def nonzero(self, payload: Pair | Product) -> None:
        """Most of its words would have to be read."""

    def add(self, source: Source, view: View, payload: Pair | Product, ref: SlotRef) -> None:
        """Add float by float."""
        if self._pad(view) > 1:
            total = self._begin(source)
            self._gather(source, total, payload, ref)
            payload = self._gathered(source, total)
            self._add_total(source, payload, ref, payload.block)
            return
        assert isinstance(payload, Pair)
        if view.name == self.root.name:
            self._add_total(source, payload, ref)
            return
        inside = f"{ref.at(self.slot)}, {ref.lows[self.slot]}, {payload.block}, {payload.low}"
        inside += f", {self._size(view)}"
        if ref.is_fixed:
            source.line(f"cofactor_add({inside})")
        else:
            source.line(f"{ref.entry} = cofactor_add_whole({inside})")
        self._watch(source, view, ref)

    def _add_total(self, source: Source, payload: Pair, ref: SlotRef, gathered: str = "0") -> None:
        inside = f"{ref.at(self.slot)}, {ref.lows[self.slot]}, {payload.block}, {payload.low}"
        source.line(f"cofactor_add_total({inside}, {self._size(self.root)})")
        self._watch(source, self.root, ref, gathered)

    def _watch(self, source: Source, view: View, ref: SlotRef, gathered: str = "0") -> None:
        """Fail where two floats do not carry what is left: a careful plan has exact numbers."""
        columns, is_sure = len(self.columns(view)), ref.is_fixed or view.name == self.root.name
        if not columns:
            return
        place = f"{ref.at(self.slot)}, {ref.lows[self.slot]}, {self._size(view)}"
        test = "cofactor_has_lost" if is_sure else "cofactor_has_lost_whole"
        why = source.message(
            "Outgrown", "numbers that left were too large for those that stay", None
        )
        with source.block(f"if {test}({place}, {columns}, {self._pad(view)}, {gathered}):"):
            source.line(f"fail(errors, {why}, -1)")

    def begin(self, source: Source) -> str | None:
        """Room for the total of a wide result; else what rounding takes is kept with the entry."""
        return None if self._pad(self.root) == 1 else self._begin(source)

    def _begin(self, source: Source) -> Total:
        total, columns = Total(source.name("total_block")), len(self.columns(self.root))
        words = self._gathering_size()
        source.line(f"{total} = scratch({words})")
        source.line(f"cofactor_begin({total}, {columns}, {words})")
        return total

    def _gathering_size(self) -> int:
        """How many words the place takes: see kernels.structures.gathering."""
        columns = len(self.columns(self.root))
        end = (columns + _VECTOR) // _VECTOR * _VECTOR
        inside = columns * (columns + 1) // 2 + _SPARE * (len(self.block.occurrences) + 2)
        return _VECTOR + 2 * _WAITING * (end + _VECTOR) + inside + end * (end + _VECTOR) // 2

    def gather(
        self, source: Source, total: str | None, payload: Pair | Product, ref: SlotRef
    ) -> None:
        """Add a payload to the running total, or directly to the entry."""
        shape = self._shape(payload)
        if isinstance(total, Total) and total.shape in (None, shape):
            self._gather(source, total, payload, ref)
        else:
            self.add(source, self.root, payload, ref)

    def _shape(self, payload: Pair | Product) -> tuple[str, int]:
        """The sizes of the factors, and which one is a row's; a block made already is the one."""
        if isinstance(payload, Product):
            return payload.sizes, payload.change
        return f"({len(self.columns(self.root))},)", -1

    def _gather(self, source: Source, total: Total, payload: Pair | Product, ref: SlotRef) -> None:
        """Multiply into a wide result; with low parts, in twice the digits, into the entry."""
        total.shape = sizes, change = self._shape(payload)
        is_product = isinstance(payload, Product)
        blocks = payload.blocks if isinstance(payload, Product) else f"({payload.block},)"
        lows = payload.lows if isinstance(payload, Product) else f"({payload.low},)"
        found, rests = source.name("blocks"), source.name("lows")
        source.line(f"{found} = {blocks}")
        source.line(f"{rests} = {lows}")
        factors = f"{found}, {sizes}"
        with source.block(f"if cofactor_needs_low({rests}):"):
            columns, pad = len(self.columns(self.root)), self._pad(self.root)
            size = block_size(columns)
            if is_product:
                made = self._multiply(source, found, rests, sizes, size)
            else:
                made = Pair(f"{found}[0]", f"{rests}[0]")
            room = f"scratch({block_size(columns, pad)})"
            padded = [
                f"cofactor_pad({room}, {e}, {columns}, {pad})" for e in (made.block, made.low)
            ]
            self._add_total(source, Pair(*padded), ref)
        with source.block(f"elif cofactor_gather({total}, {factors}, {change}):"):
            source.line(f"cofactor_gather_more({total}, {factors}, {change})")

    def _gathered(self, source: Source, total: Total) -> Pair:
        """The block of what was gathered."""
        sizes, change = total.shape or (f"({len(self.columns(self.root))},)", -1)
        made = source.name("gathered")
        source.line(f"{made} = cofactor_gathered({total}, {sizes}, {change})")
        return Pair(made, "0")

    def end(self, source: Source, total: str | None, ref: SlotRef) -> None:
        """Add the total."""
        if isinstance(total, Total) and total.shape is not None:
            made = self._gathered(source, total)
            self._add_total(source, made, ref, made.block)

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """Count, sums and products in the order of the arguments."""
        source, columns = scalar.source, self.columns(self.root)
        shown, m = source.name(self.slot), len(columns)
        order = [str(columns.index(i)) for i in range(m)]
        source.line(f"{shown} = scratch({2 * block_size(m)})")
        place = f"{ref.at(self.slot)}, {ref.lows[self.slot]}"
        inside = f"{shown}, {place}, {tuple_text(order)}, {m}, {self._pad(self.root)}"
        source.line(f"cofactor_show({inside})")
        return Operand(shown)
