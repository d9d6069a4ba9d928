"""Columns of Arrow tables as words, through Arrow's C data interface: one call for all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.dictionary import Strings
from viewmill.deltas.late import Words
from viewmill.kernels.library import kernel
from viewmill.kernels.stores import IntArray, address_of
from viewmill.kernels.structures import columns
from viewmill.kernels.text_store import TextStore

_ARRAY_WORDS, _RELEASE = 10, 8  # of Arrow's struct for an array

_KINDS = {
    pa.int64(): columns.WORD, pa.float64(): columns.WORD, pa.timestamp("us"): columns.WORD,
    pa.int32(): columns.HALF, pa.date32(): columns.HALF, pa.int16(): columns.SHORT,
    pa.int8(): columns.BYTE, pa.string(): columns.TEXT, pa.large_string(): columns.WIDE_TEXT,
}  # fmt: skip


class ColumnReader:
    """Reads some columns of tables of one schema; `reader` says of which types."""

    def __init__(self, types: Sequence[Any], strings: TextStore) -> None:
        self._width = len(types)
        self._floats = [i for i, each in enumerate(types) if each == pa.float64()]
        self._has_strings = any(map(_is_text, types))
        # How many columns there are, where a column stopped, and how each lies in memory.
        self._kinds = np.array([len(types), 0, *map(_kind, types)], np.int64)
        self._strings, self._read = strings, kernel(columns.read_columns)
        self._array = np.zeros(_ARRAY_WORDS, np.int64)
        self._words = self._array.data
        self._place, self._kinds_place = address_of(self._array), address_of(self._kinds) + 16
        self._lock = Lock()

    def read(self, table: Any) -> list[Words] | None:
        """The words of all columns; None if they lie in pieces or may hold a NULL."""
        batches = table.to_batches()
        if len(batches) != 1:
            return None
        size = table.num_rows
        words = np.empty((self._width, size), np.int64)
        with self._lock:
            batches[0]._export_to_c(self._place)
            try:
                if not self._fill(words, size):
                    return None
            finally:
                _release(self._words[_RELEASE])(self._place)
        made: list[Words] = list(words)
        for i in self._floats:
            made[i] = made[i].view(np.float64)
        return made

    def _fill(self, words: IntArray, size: int) -> bool:
        if not self._has_strings:
            return self._read(self._place, self._kinds_place, 0, 0, size, words, 0) > 0
        strings, given = self._strings, (self._place, self._kinds_place)
        with strings.lock:
            done = self._read(*given, 0, 0, size, words, strings.handle)
            while -(1 << 62) < done < 0:
                strings.make_room()
                first, row = int(self._kinds[1]), -1 - done
                done = self._read(*given, first, row, size, words, strings.handle)
        return done > 0


def strings() -> Strings:
    """Where strings are kept for compiled code."""
    return TextStore()


def reader(types: Sequence[Any], strings: Strings) -> ColumnReader | None:
    """What reads columns of these types, None if one of them is not read here."""
    known = all(pa.types.is_decimal128(each) or each in _KINDS for each in types)
    return ColumnReader(types, strings) if known and isinstance(strings, TextStore) else None


def _is_text(type_: Any) -> bool:
    return _kind(type_) in (columns.TEXT, columns.WIDE_TEXT)


def _kind(type_: Any) -> int:
    return columns.DECIMAL if pa.types.is_decimal128(type_) else _KINDS[type_]


@cache
def _release(address: int) -> Any:
    """Arrow's own function that gives an exported array back."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
