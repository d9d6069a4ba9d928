"""Where compiled `Sorted` states live: a header here, the nodes where kernels put them."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from viewmill.kernels.library import kernel
from viewmill.kernels.payloads import Payload
from viewmill.kernels.plain.sorted_stores import no_rows
from viewmill.kernels.stores import IntArray, address_of, payload_rows, row_payload
from viewmill.kernels.structures import ordered_kernels, ordered_nodes
from viewmill.kernels.structures import sorted as structure
from viewmill.program.states import Sorted

_KINDS = {
    "number": 0,
    "number_down": structure.NUMBER_DOWN,
    "text": structure.TEXT,
    "text_down": structure.TEXT_DOWN,
    "float": structure.FLOAT,
    "float_down": structure.FLOAT_DOWN,
    "wide": structure.WIDE,
    "wide_down": structure.WIDE_DOWN,
}
_LEVELS, _LOG_SIZE = ordered_nodes.LEVELS >> 3, ordered_nodes.LOG_SIZE >> 3


class SortedStore:
    """A compiled `Sorted` state."""

    def __init__(self, kind: Sorted) -> None:
        self.kind, self._is_passing = kind, kind.passing
        self._header = np.zeros(ordered_nodes.HEADER_WORDS, np.int64)
        self._words = self._header.data
        self._sums = np.zeros((4, max(len(kind.payload), 1)), np.int64)
        self._kinds = np.array([*(_KINDS[each] for each in kind.words), 0], np.int64)
        self.handle = address_of(self._header)
        self._set(ordered_nodes.KEYS, len(kind.words))
        if kind.nulls_first is not None:
            first = sum(1 << i for i, each in enumerate(kind.nulls_first) if each)
            self._set(ordered_nodes.KEYS, kind.key_words)
            self._set(structure.NULL_BITS, len(kind.key) if kind.has_null_word else 0)
            self._set(structure.NULLS_FIRST, first)
        self._set(ordered_nodes.WORDS, len(kind.payload))
        self._set(structure.KINDS, address_of(self._kinds))
        self._set(structure.LOGGED, int(not kind.passing))
        for place, row in zip(("TOTALS", "NULLS", "PICKED", "STRAIN"), self._sums, strict=True):
            self._set(getattr(ordered_nodes, place), address_of(row))
        self._clear = kernel(ordered_kernels.ordered_clear)
        self._repeat = kernel(structure.sorted_repeat)
        self._commit = kernel(structure.sorted_commit)
        self._shown = False
        # The header and the sums outlive the kernel's memory: what frees it reads them.
        weakref.finalize(self, _free, self._clear, self._header, self._sums)

    def bind_texts(self, texts: int, table: int) -> None:
        """Set the string store that keys are compared by."""
        self._set(structure.TEXTS, texts)
        self._set(structure.TABLE, table)

    def _get(self, offset: int) -> int:
        return self._words[offset >> 3]

    def _set(self, offset: int, value: int) -> None:
        self._words[offset >> 3] = value

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._get(ordered_nodes.BYTES) + self._header.nbytes

    def make_room(self) -> bool:
        """Nothing to do: kernels allocate as they go."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self._clear(self.handle)

    def commit(self) -> None:
        """Keep what was done; rows that were on their way have arrived."""
        if self._is_passing:
            if self._words[_LEVELS]:
                self._clear(self.handle)
        elif self._words[_LOG_SIZE]:
            self._commit(self.handle)

    def rollback(self) -> None:
        """Take back what was done since the commit."""
        if self._get(ordered_nodes.LOG_SIZE):
            self._repeat(self.handle, 0)
        self.commit()

    def show_committed(self, on: bool) -> None:
        """What was done since the commit is taken back for as long as this is on."""
        if on != self._shown and self._get(ordered_nodes.LOG_SIZE):
            self._repeat(self.handle, int(not on))
        self._shown = on

    def load_payload(self, keys: IntArray, payload: Payload) -> None:
        """Replace everything; what `rebuild` fills from other states is empty until then."""
        self.clear()
        if self.kind.nulls_first is not None:
            rows = payload_rows(keys, self.kind.payload, payload)
            kernel(structure.sorted_load)(self.handle, address_of(rows), len(rows))

    def export_payload(self) -> tuple[IntArray, Payload]:
        """The rows as committed; nothing that other states hold."""
        kind = self.kind
        if kind.nulls_first is None:
            return no_rows(kind)
        self.show_committed(True)
        try:
            count = self._get(ordered_nodes.LEVELS)
            rows = np.empty((count, kind.key_words + kind.payload_words), np.int64)
            kernel(structure.sorted_export)(self.handle, address_of(rows))
        finally:
            self.show_committed(False)
        return row_payload(rows, kind.key_words, kind.payload)


def _free(clear: Callable[..., int], header: IntArray, sums: IntArray) -> None:
    assert sums.size
    clear(address_of(header))
