"""Plain `Ordered` states as a maintainer holds them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from viewmill.errors import Overflow
from viewmill.kernels.payloads import Payload
from viewmill.kernels.plain.ordered import PlainOrdered
from viewmill.kernels.plain.stores import from_arrow, to_limbs
from viewmill.program.states import Ordered


class OrderedStore:
    """A plain `Ordered` state."""

    def __init__(self, kind: Ordered) -> None:
        self.kind, self.handle = kind, PlainOrdered(kind)
        self._shown = False

    @property
    def nbytes(self) -> int:
        """About how many bytes are held."""
        return 256 * (1 + len(self.handle.levels))

    def make_room(self) -> bool:
        """There always is."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self.handle.clear()

    def commit(self) -> None:
        """Keep what was done."""
        self.handle.log = []

    def rollback(self) -> None:
        """Take back what was done since the commit."""
        self.handle.repeat(-1)
        self.handle.log = []

    def show_committed(self, on: bool) -> None:
        """What was done since the commit is taken back for as long as this is on."""
        if on != self._shown:
            self.handle.repeat(-1 if on else 1)
        self._shown = on

    def load_payload(self, keys: npt.NDArray[np.int64], payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        width = len(self.kind.key)
        columns = [
            [from_arrow(slot.kind, value) for value in values.tolist()]
            for slot, values in zip(self.kind.payload, payload, strict=True)
        ]
        for key, *words in zip(keys.tolist(), *columns, strict=True):
            if any(abs(x) >= 2**63 for x in words):
                raise Overflow("a sum in an ordered state is wider than 64 bits")
            is_null = len(key) > width and key[-1] != 0
            self.handle.change(None if is_null else tuple(key[:width]), words)

    def export_payload(self) -> tuple[npt.NDArray[np.int64], Payload]:
        """Keys, and an array for each slot, as committed."""
        self.show_committed(True)
        pad = [0] * (self.kind.key_words - len(self.kind.key))
        rows = [([*key, *pad], words) for key, words in sorted(self.handle.levels.items())]
        if pad and any(self.handle.nulls):
            rows.append(([0] * len(self.kind.key) + [1], self.handle.nulls))
        keys = np.array([key for key, _ in rows], np.int64).reshape(-1, self.kind.key_words)
        payload: Payload = []
        for j, slot in enumerate(self.kind.payload):
            column = [words[j] for _, words in rows]
            if slot.kind == "wide":
                payload.append(np.array(list(map(to_limbs, column)), np.int64).reshape(-1, 2))
            else:
                payload.append(np.array(column, np.int64))
        self.show_committed(False)
        return keys, payload
