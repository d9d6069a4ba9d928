"""The last rows of a stream in the order of a time column, then of arrival: what windows of rows
count.

A row that comes late moves all that follow one place on. So the rows that windows can still see are
kept, and numbered again when that happens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.deltas.delta import Delta, concat

Array = npt.NDArray[Any]
_EARLIEST = np.iinfo(np.int64).min


class RowOrder:
    """Rows in order, the newest of them."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._parts: list[Delta] = []
        self._size = 0
        self._newest = int(_EARLIEST)
        self._saved: tuple[list[Delta], int, int] = [], 0, self._newest

    def begin(self) -> None:
        """A change comes that may be undone."""
        self._saved = list(self._parts), self._size, self._newest

    def rollback(self) -> None:
        """Undo it."""
        self._parts, self._size, self._newest = self._saved

    def start(self, rows: Delta) -> tuple[Delta, Array]:
        """All rows there are: in order, with their numbers."""
        self._parts, self._size, self._newest = [], 0, int(_EARLIEST)
        ordered = self._ordered(rows)
        self._keep(ordered)
        return ordered, np.arange(rows.size)

    def add(self, rows: Delta, before: int) -> tuple[Delta, Array] | None:
        """More rows, in order and with their numbers, after so many; None if some come late."""
        if rows.size and int(self._times(rows).min()) < self._newest:
            return None
        ordered = self._ordered(rows)
        self._keep(ordered)
        return ordered, np.arange(before, before + rows.size)

    def add_late(self, rows: Delta, count: int) -> tuple[Delta, Array]:
        """More rows, some of them late: all that are kept, with new numbers below `count`."""
        whole = self._ordered(concat(rows.schema, [*self._parts, rows]))
        self._parts, self._size = [], 0
        self._keep(whole)
        return whole, np.arange(count - whole.size, count)

    def forget(self, count: int) -> None:
        """Only the last `count` rows can still be seen."""
        while self._parts and self._size - self._parts[0].size >= count:
            self._size -= self._parts.pop(0).size

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(each.nbytes for each in self._parts)

    def _keep(self, rows: Delta) -> None:
        if rows.size:
            self._parts.append(rows)
            self._size += rows.size
            self._newest = max(self._newest, int(self._times(rows)[-1]))

    def _times(self, rows: Delta) -> Array:
        """The times of rows; rows without a time sort first."""
        at = rows.schema.names.index(self._column)
        mask = rows.nulls[at]
        times = rows.columns[at]
        return times if mask is None else np.where(mask != 0, _EARLIEST, times)

    def _ordered(self, rows: Delta) -> Delta:
        times = self._times(rows)
        if bool((times[1:] >= times[:-1]).all()):
            return rows
        return rows.take(np.argsort(times, kind="stable"))
