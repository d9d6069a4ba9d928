"""What each view keeps: the slots of every ring that the aggregates of a block need.

takes  `Block`, the tree
gives  `Layout`: the rings, the slots of every view, the ring of each aggregate
next   states, emit, definitions
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewmill.program.states import Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.rings.numbers import Numbers
from viewmill.strategies.view_tree.rings.ring import Ring
from viewmill.strategies.view_tree.tree import View


@dataclass
class Layout:
    """The rings of a tree, that of numbers first: it counts the rows."""

    block: Block
    root: View
    numbers: Numbers = field(init=False)
    rings: tuple[Ring, ...] = field(init=False)
    ring_of: dict[str, Ring] = field(init=False)  # by the name of an aggregate

    def __post_init__(self) -> None:
        self.numbers = Numbers(self.block, self.root, self.block.aggregates)
        self.rings = (self.numbers,)
        self.ring_of = {name: self.numbers for name, _ in self.block.aggregates}

    def slots(self, view: View) -> tuple[Slot, ...]:
        """The slots of a view, ring after ring; an indicator counts the keys of its table."""
        if view.indicates is not None:
            return (Slot("keys", "int"),)
        return tuple(slot for ring in self.rings for slot in ring.slots(view))
