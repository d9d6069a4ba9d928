"""The plain structures of view trees as a maintainer holds them."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from viewmill.kernels.payloads import Payload
from viewmill.kernels.plain.indexed import PlainIndexed, zero_of
from viewmill.kernels.plain.keyed import Values
from viewmill.kernels.plain.listed import PlainListed
from viewmill.kernels.plain.stores import from_arrow, to_payload
from viewmill.program.states import Indexed, Listed, Passing


class TreeStore:
    """A plain `Indexed`, `Listed` or `Passing` state."""

    def __init__(self, kind: Indexed | Listed | Passing) -> None:
        self.kind = kind
        self.handle = PlainListed(kind) if isinstance(kind, Listed) else PlainIndexed(kind)

    @property
    def nbytes(self) -> int:
        """About how many bytes are held."""
        return sys.getsizeof(self.handle.entries) + 256 * len(self.handle.entries)

    def make_room(self) -> bool:
        """Nothing to do: Python containers grow by themselves."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self.handle.clear()

    def commit(self) -> None:
        """Keep what was done; rows that were on their way have arrived."""
        if isinstance(self.kind, Passing):
            self.clear()
        self.handle.commit()

    def touched_key(self, t: int) -> tuple[int, ...]:
        """The words of touched key t."""
        assert isinstance(self.handle, PlainIndexed)
        return tuple(map(int, list(self.handle.journal)[t]))

    def rollback(self) -> None:
        """Go back to the last commit, if there is a journal."""
        if isinstance(self.kind, Passing):
            self.clear()
        self.handle.rollback()

    def show_committed(self, on: bool) -> None:
        """Whether scans see entries as they were at the last commit."""
        self.handle.committed = on

    def load_payload(self, keys: npt.NDArray[np.int64], payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        columns = [
            [from_arrow(slot.kind, value) for value in values.tolist()]
            for slot, values in zip(self.kind.payload, payload, strict=True)
        ]
        zero = zero_of(self.kind.payload)
        for i, key in enumerate(map(tuple, keys.tolist())):
            values: Values = {k: column[i] for k, column in zip(zero, columns, strict=True)}
            if values != zero:
                self.handle.numbers[key] = self.handle.new_entry(key, values)

    def export_payload(self) -> tuple[npt.NDArray[np.int64], Payload]:
        """Keys, and an array for each slot, as committed."""
        state = self.handle
        state.committed = True
        numbers = [each for each in state.positions() if each]
        state.committed = False
        keys = [state.entries[each][0] for each in numbers]
        payload = to_payload(self.kind.payload, [state.entries[each][1] for each in numbers])
        return np.array(keys, np.int64).reshape(len(numbers), self.kind.key_words), payload
