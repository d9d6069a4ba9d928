"""Plain `Sorted` states as a maintainer holds them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from viewmill.kernels.payloads import Payload
from viewmill.kernels.plain.outlet import Texts
from viewmill.kernels.plain.sorted import PlainSorted
from viewmill.program.states import Sorted


class SortedStore:
    """A plain `Sorted` state."""

    def __init__(self, kind: Sorted) -> None:
        self.kind, self.handle = kind, PlainSorted(kind)
        self._shown = False

    def bind_texts(self, texts: Texts, table: int) -> None:
        """Set the string store that keys are compared by."""
        self.handle.texts, self.handle.table = texts, table

    @property
    def nbytes(self) -> int:
        """About how many bytes are held."""
        return 256 * (1 + len(self.handle.keys))

    def make_room(self) -> bool:
        """Nothing to do: Python containers grow by themselves."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self.handle.clear()

    def commit(self) -> None:
        """Keep what was done."""
        if self.kind.passing:
            self.clear()
        self.handle.log = []

    def rollback(self) -> None:
        """Take back what was done since the commit."""
        self.handle.repeat(False)
        self.handle.log = []

    def show_committed(self, on: bool) -> None:
        """What was done since the commit is taken back for as long as this is on."""
        if on != self._shown:
            self.handle.repeat(not on)
        self._shown = on

    def load_payload(self, keys: npt.NDArray[np.int64], payload: Payload) -> None:
        """Replace everything; what `rebuild` fills from other states is empty until then."""
        self.clear()
        if self.kind.nulls_first is not None:
            for key, *words in zip(
                keys.tolist(), *(each.tolist() for each in payload), strict=True
            ):
                self.handle.put(tuple(key), words)

    def export_payload(self) -> tuple[npt.NDArray[np.int64], Payload]:
        """The rows as committed; nothing that other states hold."""
        held = self.handle
        if self.kind.nulls_first is None:
            return no_rows(self.kind)
        self.show_committed(True)
        keys = np.array(held.keys, np.int64).reshape(-1, self.kind.key_words)
        words = np.array([held.words[key] for key in held.keys], np.int64)
        self.show_committed(False)
        return keys, list(words.reshape(-1, len(self.kind.payload)).T)


def no_rows(kind: Sorted) -> tuple[npt.NDArray[np.int64], Payload]:
    """No keys, and an empty array for each slot."""
    payload: Payload = [np.empty(0, np.int64) for _ in kind.payload]
    return np.empty((0, kind.key_words), np.int64), payload
