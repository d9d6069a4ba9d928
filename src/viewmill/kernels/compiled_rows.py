"""The rows of a checked table in compiled structures; `plain/rows.py` does the same in a dict."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from viewmill.kernels.library import kernel
from viewmill.kernels.stores import Table
from viewmill.kernels.structures.keyed import EXACT, IGNORED
from viewmill.kernels.structures.rows import (
    SEQUENCE,
    TOTAL,
    find_rows,
    first_missing,
    stage_bag,
    stage_unique,
)

IntArray = npt.NDArray[np.int64]

_FEW_ROWS = 64
_NONE = np.empty(0, np.int64)


def load_row_kernels() -> None:
    """Compile or load what a row index calls."""
    for function in (find_rows, first_missing, stage_bag, stage_unique):
        kernel(function)
    CompiledRows(1, 0).take_over(np.ones((1, 3), np.int64), 1, 1)


class CompiledRows(Table):
    """Rows by key, with multiplicity, sequence number and the words that are not in the key."""

    def __init__(self, key_words: int, other_words: int) -> None:
        super().__init__(key_words, [EXACT, IGNORED] + [IGNORED] * other_words)
        self._conflicts = np.empty(1 + 2 * _FEW_ROWS, np.int64)  # of a small batch

    @property
    def sequence(self) -> int:
        """The last sequence number."""
        return self.get(SEQUENCE)

    @sequence.setter
    def sequence(self, value: int) -> None:
        self._set(SEQUENCE, value)

    @property
    def total(self) -> int:
        """The multiplicities of all rows together."""
        return self.get(TOTAL)

    @total.setter
    def total(self, value: int) -> None:
        self._set(TOTAL, value)

    def counts(self) -> tuple[int, int]:
        """`sequence` and `total`."""
        return self.words[SEQUENCE >> 3], self.words[TOTAL >> 3]

    def clear(self) -> None:
        """Hold nothing, in little memory."""
        super().clear()
        self.sequence = self.total = 0

    def take_over(self, rows: IntArray, sequence: int, total: int) -> None:
        """Hold the rows that another index has exported."""
        self.load(rows)
        self.sequence, self.total = sequence, total

    def stage_bag(self, words: IntArray, multiplicity: IntArray) -> None:
        """Add rows that are keyed by all their words."""
        stage, size = kernel(stage_bag), len(words)
        done = stage(self.handle, 0, words, multiplicity)
        while done < size:
            self.make_room()
            done = stage(self.handle, done, words, multiplicity)

    def stage_unique(self, words: IntArray, multiplicity: IntArray) -> tuple[IntArray, IntArray]:
        """Remove, then insert rows; gives the numbers of those that wait, and how often."""
        stage, size = kernel(stage_unique), len(words)
        conflicts = self._conflicts if size <= _FEW_ROWS else np.empty(1 + 2 * size, np.int64)
        conflicts[0] = 0
        done = stage(self.handle, 0, words, multiplicity, conflicts)
        while done < 2 * size:
            self.make_room()
            done = stage(self.handle, done, words, multiplicity, conflicts)
        n = int(conflicts[0])
        if not n:
            return _NONE, _NONE
        return conflicts[1 : 1 + 2 * n : 2].copy(), conflicts[2 : 2 + 2 * n : 2].copy()

    def first_missing(self) -> tuple[int, ...] | None:
        """The key that was touched first and is there less than no times."""
        t = kernel(first_missing)(self.handle, 0)
        return None if t < 0 else self.touched_key(t)

    def find(self, keys: IntArray, found: npt.NDArray[np.uint8], rows: IntArray) -> None:
        """Look keys up; the whole rows of those that are there go to `rows`."""
        kernel(find_rows)(self.handle, keys, found, rows)
