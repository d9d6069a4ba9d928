"""Numbers that stand for the groups of a view, and their keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta, null_words
from viewmill.kernels.window_library import window_kernel

Array = npt.NDArray[Any]


class GroupNumbers:
    """0, 1, 2, ... for keys in the order in which they are first seen; never given twice."""

    def __init__(self, schema: Schema, compiled: bool) -> None:
        self._schema = schema
        width = len(schema) + null_words(len(schema))
        self._known = np.zeros((16, width), np.int64)
        self._count = np.zeros(1, np.int64)
        self._slots = np.full(32, -1, np.int64)
        self._plain: dict[bytes, int] | None = None if compiled else {}
        if compiled and len(schema):
            self._number = window_kernel("numbers", "number_rows", True)
            self._fill = window_kernel("numbers", "fill_slots", True)

    def of(self, columns: Any, nulls: Any, size: int) -> Array:
        """The number of each row's key."""
        if not len(self._schema):
            self._count[0] = 1
            return np.zeros(size, np.int64)
        words = Delta(self._schema, columns, nulls, None, size).words()
        if self._plain is not None:
            return np.array([self._look_up(row) for row in words], np.int64)
        out = np.empty(size, np.int64)
        done = 0
        while True:
            done = self._number(done, words, self._slots, self._known, self._count, out)
            if done == size:
                return out
            self._grow()
            self._slots = np.full(2 * len(self._known), -1, np.int64)
            self._fill(self._known, self._count, self._slots)

    def _look_up(self, row: Array) -> int:
        assert self._plain is not None
        number = self._plain.setdefault(row.tobytes(), len(self._plain))
        if number == self._count[0]:
            if number == len(self._known):
                self._grow()
            self._known[number] = row
            self._count[0] += 1
        return number

    def _grow(self) -> None:
        self._known = np.pad(self._known, ((0, len(self._known)), (0, 0)))

    def __len__(self) -> int:
        return int(self._count[0])

    def keys(self, numbers: Array) -> Delta:
        """The keys of groups."""
        return Delta.from_words(self._schema, self._known[numbers], None)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._known.nbytes + self._slots.nbytes
