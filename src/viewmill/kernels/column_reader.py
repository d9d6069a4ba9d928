"""Columns of Arrow tables as words, through Arrow's C data interface: one call for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.dictionary import Strings
from viewmill.deltas.lazy_columns import FilterTest, Words
from viewmill.deltas.wide_codes import Wides
from viewmill.kernels.arrow_columns import ARRAY_WORDS, RELEASE, is_text, kind_of, release_of
from viewmill.kernels.column_filter import ColumnFilter
from viewmill.kernels.library import kernel
from viewmill.kernels.quick_gate import QuickGate
from viewmill.kernels.stores import IntArray, address_of
from viewmill.kernels.structures import columns
from viewmill.kernels.text_store import TextStore
from viewmill.kernels.wide_store import WideStore


class ColumnReader:
    """Reads some columns of tables of one schema; `reader` says of which types."""

    def __init__(self, types: Sequence[Any], strings: TextStore) -> None:
        self._width = len(types)
        self._floats = [i for i, each in enumerate(types) if each == pa.float64()]
        self._has_strings = any(map(is_text, types))
        # How many columns there are, where a column stopped, and how each lies in memory.
        self._kinds = np.array([len(types), 0, *map(kind_of, types)], np.int64)
        self._strings, self._read = strings, kernel(columns.read_columns)
        self._array = np.zeros(ARRAY_WORDS, np.int64)
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
                release_of(self._words[RELEASE])(self._place)
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
    """The store of strings that compiled code reads."""
    return TextStore()


def wides() -> Wides:
    """The store of wide decimals that compiled code reads."""
    return WideStore()


def reader(types: Sequence[Any], strings: Strings) -> ColumnReader | None:
    """What reads columns of these types, None if one of them is not read here."""
    known = all(kind_of(each) is not None for each in types)
    return ColumnReader(types, strings) if known and isinstance(strings, TextStore) else None


def quick_gate(schema: Any) -> QuickGate:
    """What looks at the values of tables with this schema."""
    return QuickGate(schema)


def pushed_filter(
    types: Sequence[Any], tests: Sequence[FilterTest], strings: Strings
) -> ColumnFilter | None:
    """What reads these columns of the rows that pass `tests`, None if a type is not read here."""
    known = all(kind_of(each) is not None for each in types)
    return ColumnFilter(types, tests, strings) if known and isinstance(strings, TextStore) else None
