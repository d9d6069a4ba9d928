"""Where compiled `Indexed` and `Listed` states live: a header, and what kernels allocated."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable
from ctypes import string_at

import numpy as np

from viewmill.kernels.library import kernel
from viewmill.kernels.payloads import Payload
from viewmill.kernels.stores import (
    IntArray,
    LongSums,
    address_of,
    payload_rows,
    row_payload,
    word_kinds,
)
from viewmill.kernels.structures import dense, indexed, listed, listed_payloads
from viewmill.program.states import Indexed, Listed, Passing

# Words of the headers.
_COUNT, _TOUCHED, _LOG_SIZE = dense.COUNT >> 3, indexed.TOUCHED >> 3, listed.LOG_SIZE >> 3


class _TreeStore:
    """What both share: a header of words that kernels read by address."""

    kind: Indexed | Listed | Passing
    # Of the library, and compiled when they are first needed, which most views never do.
    _load: Callable[..., int]
    _export: Callable[..., int]
    _find_row: Callable[..., int]

    def __init__(self, header_words: int, clear: Callable[..., int]) -> None:
        self._header = np.zeros(header_words, np.int64)
        self.handle = address_of(self._header)
        self.words = self._header.data
        self._set(dense.MASK, dense.SMALL)
        self._kinds = np.array([*word_kinds(self.kind.payload), 0], np.int64)
        self._clear = clear
        self._long = LongSums(self, self._header)
        # The header outlives the kernel's memory: it is an argument of what frees it.
        weakref.finalize(self, _free, clear, self._header)

    def get(self, offset: int) -> int:
        """A word of the header."""
        return self.words[offset >> 3]

    def _set(self, offset: int, value: int) -> None:
        self.words[offset >> 3] = value

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.get(indexed.BYTES) + self._header.nbytes) + self._long.nbytes

    def make_room(self) -> bool:
        """Nothing to do: kernels allocate as they go."""
        return False

    def clear(self) -> None:
        """Hold nothing."""
        self._clear(self.handle)
        self._long.clear()

    def load_payload(self, keys: IntArray, payload: Payload) -> None:
        """Replace everything."""
        self.clear()
        rows = payload_rows(keys, self.kind.payload, payload)
        kernel(self._load)(self.handle, address_of(rows), len(rows))
        self._long.load(kernel(self._find_row), rows, self.kind.payload, payload)

    def _exported(self, count: int) -> tuple[IntArray, Payload]:
        width = self.kind.key_words + self.kind.payload_words
        rows = np.empty((count, width), np.int64)
        size = kernel(self._export)(self.handle, address_of(rows))
        return row_payload(rows[:size], self.kind.key_words, self.kind.payload)


def _free(clear: Callable[..., int], header: IntArray) -> None:
    clear(address_of(header))


class IndexedStore(_TreeStore):
    """A compiled `Indexed` state."""

    def __init__(self, kind: Indexed) -> None:
        self.kind: Indexed = kind
        super().__init__(indexed.HEADER_WORDS, kernel(indexed.indexed_clear))
        key_at = 8 if kind.journal else 0
        self._set(indexed.KEY_WORDS, kind.key_words)
        self._set(indexed.PAYLOAD_WORDS, kind.payload_words)
        self._set(indexed.KEY_AT, key_at)
        self._narrow()
        self._set(indexed.KINDS, address_of(self._kinds))
        self._load, self._export = indexed.indexed_load, indexed.indexed_export
        self._find_row = indexed.indexed_find_row
        self._commit = kernel(indexed.indexed_commit)

    def clear(self) -> None:
        """Hold nothing; low parts of floats get room again when something needs them."""
        super().clear()
        self._narrow()

    def _narrow(self) -> None:
        """Low parts get room when something needs them, if they have none from the start."""
        kind, low = self.kind, 8 * self.kind.low_words
        stride = self.get(indexed.KEY_AT) + 8 * (kind.key_words + kind.payload_words)
        self._set(indexed.STRIDE, stride + low if kind.roomy else stride)
        self._set(indexed.LOW_BYTES, 0 if kind.roomy else low)

    def commit(self) -> None:
        """Keep what was done."""
        if self.words[_TOUCHED]:
            self._commit(self.handle)
        self._long.commit()

    def touched_key(self, t: int) -> tuple[int, ...]:
        """The words of touched key t."""
        record = self.get(indexed.JOURNAL) + t * (self.get(indexed.STRIDE) + 8)
        return tuple(memoryview(string_at(record + 16, 8 * self.kind.key_words)).cast("q"))

    def rollback(self) -> None:
        """Go back to the last commit, if there is a journal."""
        if self.get(indexed.TOUCHED):
            kernel(indexed.indexed_rollback)(self.handle)
        if self.kind.journal:
            self._long.rollback()
        else:
            self._long.commit()

    def show_committed(self, on: bool) -> None:
        """Whether scans see entries as they were at the last commit."""
        self._set(indexed.COMMITTED, int(on and self.kind.journal))

    def export_payload(self) -> tuple[IntArray, Payload]:
        """Keys, and an array for each slot, as committed."""
        self.show_committed(True)
        try:
            return self._exported(self.get(dense.COUNT))
        finally:
            self.show_committed(False)


class ScratchStore(IndexedStore):
    """An indexed state that is emptied often: it keeps room for as many entries again."""

    def __init__(self, kind: Indexed) -> None:
        super().__init__(kind)
        self._empty = kernel(indexed.indexed_empty)

    def clear(self) -> None:
        """Hold nothing."""
        if self.words[_COUNT]:
            self._empty(self.handle)
            self._long.clear()


class PassingStore(_TreeStore):
    """A compiled `Passing` state: an indexed one that is emptied at every commit."""

    def __init__(self, kind: Passing) -> None:
        self.kind: Passing = kind
        super().__init__(indexed.HEADER_WORDS, kernel(indexed.indexed_clear))
        self._set(indexed.KEY_WORDS, kind.key_words)
        self._set(indexed.PAYLOAD_WORDS, kind.payload_words)
        self._set(indexed.STRIDE, 8 * (kind.key_words + kind.payload_words))
        self._set(indexed.KINDS, address_of(self._kinds))
        self._load, self._export = indexed.indexed_load, indexed.indexed_export
        self._find_row = indexed.indexed_find_row
        self._empty = kernel(indexed.indexed_empty)

    def commit(self) -> None:
        """The rows have arrived."""
        if self.words[_COUNT]:
            self._empty(self.handle)

    def rollback(self) -> None:
        """The rows never set out."""
        self.commit()

    def show_committed(self, on: bool) -> None:
        """Nothing to do: scratch states have no committed contents."""

    def export_payload(self) -> tuple[IntArray, Payload]:
        """No rows: nothing is on its way between commits."""
        return self._exported(self.get(dense.COUNT))


class ListedStore(_TreeStore):
    """A compiled `Listed` state."""

    def __init__(self, kind: Listed) -> None:
        self.kind: Listed = kind
        super().__init__(listed.HEADER_WORDS, kernel(listed.listed_clear))
        self._set(listed.PREFIX_WORDS, kind.first_words)
        self._set(listed.REST_WORDS, kind.rest_words)
        self._set(listed_payloads.PAYLOAD_WORDS, kind.payload_words)
        self._set(listed.LIST_STRIDE, 8 * (kind.first_words + dense.TABLE_WORDS))
        highs = [
            int(i == 1 and slot.kind == "wide") for slot in kind.payload for i in range(slot.words)
        ]
        self._kinds = np.array([*word_kinds(kind.payload), *highs, 0], np.int64)
        self.note_in(array("q", [0]), 0)
        self._set(listed_payloads.KINDS, address_of(self._kinds))
        self._set_width(kind.may_be_narrow)
        self._set(listed.LOGGED, int(kind.journal))
        self._load, self._export = listed.listed_load, listed.listed_export
        self._find_row = listed.listed_find_row

    def _set_width(self, is_narrow: bool) -> None:
        """Four or eight bytes for each word of a payload; the state is empty."""
        kind, each = self.kind, 4 if is_narrow else 8
        behind = each * (kind.payload_words + kind.links)
        self._set(listed.STRIDE, 8 * kind.rest_words + (behind + 7 & ~7))
        self._set(listed_payloads.NARROW, int(is_narrow))
        self._flags[self._flag] = 0

    def note_in(self, flags: array[int], i: int) -> None:
        """Where kernels note with a 1 that a number outgrew the room that it has."""
        self._flags, self._flag = flags, i
        self._set(listed_payloads.OUTGROWN, flags.buffer_info()[0] + 8 * i)

    @property
    def has_outgrown(self) -> bool:
        """Whether they noted it since there was more room."""
        return self._flags[self._flag] != 0

    def widen(self) -> None:
        """Give all numbers more room. Those there are have had enough."""
        keys, payload = self.export_payload()
        self.clear()
        self._set_width(is_narrow=False)
        self.load_payload(keys, payload)

    def load_payload(self, keys: IntArray, payload: Payload) -> None:
        """Replace everything."""
        super().load_payload(keys, payload)
        if self.has_outgrown:
            self.clear()
            self._set_width(is_narrow=False)
            super().load_payload(keys, payload)

    def commit(self) -> None:
        """Keep what was done."""
        if self.words[_LOG_SIZE]:
            kernel(listed.listed_commit)(self.handle)
        self._long.commit()

    def rollback(self) -> None:
        """Go back to the last commit; without a log the triggers undo what they did."""
        if self.get(listed.LOG_SIZE):
            kernel(listed.listed_rollback)(self.handle)
        if self.kind.journal:
            self._long.rollback()
        else:
            self._long.commit()

    def show_committed(self, on: bool) -> None:
        """Nothing to do: without a journal there is only one version."""

    def export_payload(self) -> tuple[IntArray, Payload]:
        """Keys, and an array for each slot."""
        return self._exported(self.get(listed.ENTRY_COUNT))
