"""What each view keeps: the slots of every ring that the aggregates of a block need.

takes  `Block`, the tree
gives  `Layout`: the rings, the slots of every view, the ring of each aggregate
next   states, emit, definitions
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewmill.algebra.expressions import Aggregate
from viewmill.algebra.packed import Packed
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.rings.bag import Bag
from viewmill.strategies.view_tree.rings.cofactor import Cofactor
from viewmill.strategies.view_tree.rings.exact_cofactor import ExactCofactor
from viewmill.strategies.view_tree.rings.merged_moments import FUNCTION, MergedMoments
from viewmill.strategies.view_tree.rings.numbers import Numbers
from viewmill.strategies.view_tree.rings.ring import Ring
from viewmill.strategies.view_tree.rings.user_ring import UserRing, ring_of_call
from viewmill.strategies.view_tree.tree import View


def is_of_ring(call: Aggregate) -> bool:
    """Whether an aggregate has a ring of its own."""
    return isinstance(call.type, Packed)


@dataclass
class Layout:
    """The rings of a tree, that of numbers first: it counts the rows."""

    block: Block
    root: View
    careful: bool = False  # whether the numbers of every ring are exact
    numbers: Numbers = field(init=False)
    rings: tuple[Ring, ...] = field(init=False)
    ring_of: dict[str, Ring] = field(init=False)  # by the name of an aggregate

    def __post_init__(self) -> None:
        of_numbers = [each for each in self.block.aggregates if not is_of_ring(each[1])]
        self.numbers = Numbers(self.block, self.root, tuple(of_numbers))
        self.ring_of = {name: self.numbers for name, _ in of_numbers}
        for name, call in self.block.aggregates:
            if is_of_ring(call):
                self.ring_of[name] = self._ring(name, call)
        others = tuple(ring for ring in self.ring_of.values() if ring is not self.numbers)
        self.rings = (self.numbers, *others)
        if others:
            self.rings += (Bag(self.root, self.numbers, others),)

    def _ring(self, name: str, call: Aggregate) -> Ring:
        """The ring of an aggregate that is more than numbers."""
        slot = f"{call.function}_{len(self.ring_of) + 1}"
        if ring_of_call(call) is not None:
            return UserRing(self.block, self.root, call, slot)
        if call.function == FUNCTION:
            return MergedMoments(self.block, self.root, call, slot)
        if self.careful:
            return ExactCofactor(self.block, self.root, name, call, slot)
        return Cofactor(self.block, self.root, name, call, slot)

    @property
    def user_rings(self) -> dict[str, UserRing]:
        """The rings that users wrote, by how the names of their functions begin."""
        return {ring.prefix: ring for ring in self.rings if isinstance(ring, UserRing)}

    @property
    def is_of_numbers(self) -> bool:
        """Whether each view keeps nothing but numbers."""
        return len(self.rings) == 1

    @property
    def is_stated(self) -> bool:
        """Whether SQL can state what each view keeps."""
        return self.is_of_numbers and not self.block.beside

    def slots(self, view: View) -> tuple[Slot, ...]:
        """The slots of a view, ring after ring; an indicator counts the keys of its table."""
        if view.indicates is not None:
            return (Slot("keys", "int"),)
        return tuple(slot for ring in self.rings for slot in ring.slots(view))
