"""What a tree asks of a ring. A new ring is a file beside this one and a line in `layout`.

A ring is one part of every payload: several aggregates may share it, and a view keeps its part
beside those of other rings. It writes lines of a trigger; what stands for a payload between those
lines is its own business. All changes are linear: lifted once, multiplied on the way up, added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewmill.algebra.expressions import Aggregate, Expression
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

Payload = Any  # what a ring knows of a payload while it writes: names of variables, mostly


# What takes the place of functions of `Indexed` states in lists whose numbers may have less room.
NARROW_FUNCTIONS = {
    "int_at": "list_int", "wide_at": "list_wide",
    "indexed_add": "list_add", "indexed_add_wide": "list_add_wide",
}  # fmt: skip


@dataclass(frozen=True)
class SlotRef:
    """The slots of a view's payload: an entry of a state, and the word each slot begins at."""

    state: str
    entry: str
    words: Mapping[str, int]  # by the slot's name in the view
    lows: Mapping[str, int] = field(default_factory=dict)  # where the low parts of its floats begin
    is_fixed: bool = True  # whether low parts have their room, so that no addition moves an entry
    is_listed: bool = False  # whether the entry is one of a list
    is_narrow: bool = False  # whether that is one of numbers, which have less room while small

    def at(self, slot: str) -> str:
        """The arguments that name a slot: state, entry, word."""
        return f"{self.state}, {self.entry}, {self.words[slot]}"

    def function(self, name: str) -> str:
        """What reads or adds to a slot here, by its name for other states."""
        return NARROW_FUNCTIONS[name] if self.is_narrow else name


class Ring(Protocol):
    """One part of the payloads of a tree."""

    def slots(self, view: View) -> tuple[Slot, ...]:
        """What a view keeps of it; names are unique among the slots of the view."""

    def reads(self, leaf: View) -> Sequence[Expression]:
        """What lifting a row of the leaf's table evaluates."""

    def lift(self, source: Source, leaf: View, rows: Rows) -> Payload:
        """Write m times the payload of row i."""

    def one(self, source: Source, times: str) -> Payload:
        """Write the ring's one, so many times: a change of an indicator."""

    def stored(self, view: View, ref: SlotRef) -> Payload:
        """The payload of a view that is kept."""

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, Payload]],
        keys: Mapping[str, Operand],
    ) -> Payload:
        """Write the product of the children's payloads and the lift of the variable of `above`."""

    def nonzero(self, payload: Payload) -> str | None:
        """The test whether a product that was written is not zero, None if it would cost much."""

    def add(self, source: Source, view: View, payload: Payload, ref: SlotRef) -> None:
        """Write what adds a payload to the one that a view keeps."""

    # A result without keys is one entry: a ring may sum a batch before it touches it.

    def begin(self, source: Source) -> Payload:
        """Write what stands for no change yet."""

    def gather(self, source: Source, total: Payload, payload: Payload, ref: SlotRef) -> None:
        """Write what adds a change of the root to the total, or to the entry right away."""

    def end(self, source: Source, total: Payload, ref: SlotRef) -> None:
        """Write what adds the total of a batch to the entry."""

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """Write the value that SQL shows for an aggregate of this ring."""
