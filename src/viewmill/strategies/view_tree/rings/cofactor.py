"""The cofactor ring: count, sums and products of columns, for cofactor() and linear_regression().

takes  one aggregate and the tree
gives  blocks (see kernels.structures.cofactor): a view keeps one of the columns below it

A column is lifted at its table; a join variable where the tree sums it out, once. A row in which a
column is NULL, NaN or too large to be squared, or that FILTER leaves out, lifts to zero: it has no
place in any join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Aggregate, Call, Cast, Column, Expression, Literal
from viewmill.algebra.packed import LARGEST
from viewmill.algebra.types import BOOLEAN, DOUBLE, Integer
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.polynomials import columns_in
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

_MOST_COLUMNS = 256  # a block under way lies on the stack
_MOST_PARTS = 60
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


@dataclass
class Cofactor:
    """The ring of one aggregate."""

    block: Block
    root: View
    name: str
    call: Aggregate
    slot: str  # its name in every view
    _by_table: dict[str, list[int]] = field(init=False)
    _by_variable: dict[str, list[int]] = field(init=False)
    _guards: dict[str, list[Expression]] = field(init=False)
    _orders: dict[str, list[int]] = field(init=False, default_factory=dict)  # by view

    def __post_init__(self) -> None:
        if len(self.call.arguments) > _MOST_COLUMNS:
            raise NotTaken(f"more than {_MOST_COLUMNS} columns", self.call.span)
        if len(self.block.occurrences) > _MOST_PARTS:
            raise NotTaken(f"more than {_MOST_PARTS} tables", self.call.span)
        scans = [each.scan for each in self.block.occurrences]
        self._alias_of = {name: scan.alias for scan in scans for name in scan.schema.names}
        self._by_table = {scan.alias: [] for scan in scans}
        self._by_variable = {each.name: [] for each in self.block.variables}
        self._guards = {scan.alias: [] for scan in scans}
        for i, argument in enumerate(self.call.arguments):
            self._place(i, argument)
        for each in conjuncts(self.call.where) if self.call.where is not None else ():
            self._guards[self._table(each)].append(each)
        for view in reversed(list(self.root.walk())):
            self._orders.setdefault(view.name, list(dict.fromkeys(self._joined(view))))

    def _place(self, i: int, argument: Expression) -> None:
        """Say where a column is lifted."""
        variable = self._variable(argument)
        if variable is not None:
            self._by_variable[variable].append(i)
            return
        table = self._table(argument)
        self._by_table[table].append(i)
        if _is_whole(argument):
            return  # it is there, and can be squared
        size = Call("abs", (argument,), DOUBLE, argument.nullable)
        limit = Literal(LARGEST, DOUBLE)
        self._guards[table].append(Call("<", (size, limit), BOOLEAN, argument.nullable))

    def _table(self, expression: Expression) -> str:
        aliases = {self._alias_of[name] for name in columns_in(expression)}
        if len(aliases) > 1:
            raise NotTaken(f"{self.call.function} of an expression over several tables",
                           expression.span)  # fmt: skip
        return next(iter(aliases), self.block.occurrences[0].alias)

    def _variable(self, argument: Expression) -> str | None:
        """The join variable that an argument is, if its word is a whole number."""
        while isinstance(argument, Cast):
            argument = argument.input
        for each in self.block.variables:
            if each.is_joined and isinstance(each.type, Integer):
                for _, member in each.members:
                    if isinstance(argument, Column) and member == argument:
                        return each.name
        return None

    def columns(self, view: View) -> list[int]:
        """The arguments below a view in the order of its block."""
        found = self._orders.get(view.name)
        return self._joined(view) if found is None else found

    def _joined(self, view: View) -> list[int]:
        """The arguments below a view in the order in which its children are joined."""
        if view.is_leaf:
            (alias,) = view.relations
            return self._by_table[alias]
        below = [i for child in view.children for i in self.columns(child)]
        return below + self._lifted_at(view)

    def _lifted_at(self, view: View) -> list[int]:
        return [i for variable in view.variables for i in self._by_variable[variable]]

    def _size(self, view: View) -> int:
        return block_size(len(self.columns(view)), self._pad(view))

    def _pad(self, view: View) -> int:
        """Whether the rows of a block are padded to whole vectors: of a wide result."""
        is_wide = len(self.columns(view)) >= _WIDE
        is_root = view.name == self.root.name and not view.is_leaf
        return _VECTOR if is_wide and is_root else 1

    def slots(self, view: View) -> tuple[Slot, ...]:
        """The block, and what rounding took from it."""
        return (Slot(self.slot, "floats", size=self._size(view), lows=self._size(view)),)

    def reads(self, leaf: View) -> Sequence[Expression]:
        """The columns of the table, and what guards them."""
        (alias,) = leaf.relations
        return [*(self.call.arguments[i] for i in self._by_table[alias]), *self._guards[alias]]

    def lift(self, source: Source, leaf: View, rows: Rows) -> Pair:
        """The block of row i."""
        (alias,) = leaf.relations
        block, low, size = source.name("block"), source.name("low"), self._size(leaf)
        source.line(f"{block} = scratch({size + _SPARE})")
        values = [rows.value(self.call.arguments[i]).value for i in self._by_table[alias]]
        guards = [rows.guard(each) for each in self._guards[alias]]
        lifted = f"{low} = cofactor_lift({block}, scratch({size}), m, {_tuple(values)})"
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
        place = f"{ref.state}, {ref.entry}, {ref.lows[self.slot]}"
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
            made = f"cofactor_lift({block}, scratch({size}), 1, {_tuple(lifted)})"
            source.line(f"{low} = {made}")
            blocks.append(Pair(block, low))
            sizes.append(len(values))
        found, lows = _tuple([each.block for each in blocks]), _tuple([e.low for e in blocks])
        widths = _tuple(map(str, sizes))
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
            inside = f"scratch({size}), {part}, {_tuple(order)}, {len(order)}"
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

    def _add_total(self, source: Source, payload: Pair, ref: SlotRef) -> None:
        inside = f"{ref.at(self.slot)}, {ref.lows[self.slot]}, {payload.block}, {payload.low}"
        source.line(f"cofactor_add_total({inside}, {self._size(self.root)})")

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
            self._add_total(source, self._gathered(source, total), ref)

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """Count, sums and products in the order of the arguments."""
        source, columns = scalar.source, self.columns(self.root)
        shown, m = source.name(self.slot), len(columns)
        order = [str(columns.index(i)) for i in range(m)]
        source.line(f"{shown} = scratch({2 * block_size(m)})")
        place = f"{ref.at(self.slot)}, {ref.lows[self.slot]}"
        inside = f"{shown}, {place}, {_tuple(order)}, {m}, {self._pad(self.root)}"
        source.line(f"cofactor_show({inside})")
        return Operand(shown)


def block_size(columns: int, pad: int = 1) -> int:
    """The number of floats in a cofactor block of `columns` columns."""
    end = (columns + pad) // pad * pad
    return sum(end - row // pad * pad for row in range(columns + 1))


def _tuple(texts: Sequence[str] | map[str]) -> str:
    inside = list(texts)
    return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"


def _is_whole(argument: Expression) -> bool:
    """Whether an argument is a column of whole numbers that is never NULL."""
    while isinstance(argument, Cast):
        argument = argument.input
    plain = isinstance(argument, Column) and isinstance(argument.type, Integer)
    return plain and not argument.nullable
