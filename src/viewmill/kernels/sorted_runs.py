"""Rows in order that come and go in batches: a few sorted runs, merged as they double.

Adding n rows costs n log n in the long run, and finding a stretch one search per run. A run is
never changed, so that going back is taking the old list of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Columns = tuple[Array, ...]


class SortedRuns:
    """Columns of equal length; the first one orders the rows."""

    def __init__(self, width: int) -> None:
        self._nothing: Columns = tuple(np.zeros(0, np.int64) for _ in range(width))
        self._runs: list[Columns] = []
        self._first: int | None = None  # rows before it are forgotten when runs are merged

    @property
    def runs(self) -> list[Columns]:
        """The runs, for who wants to come back to them."""
        return list(self._runs)

    @runs.setter
    def runs(self, runs: list[Columns]) -> None:
        self._runs = list(runs)

    def add(self, columns: Sequence[Array]) -> None:
        """Rows in any order."""
        if not len(columns[0]):
            return
        self._runs.append(_sorted(columns))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            newer, older = self._runs.pop(), self._runs.pop()
            both = [np.concatenate(pair) for pair in zip(older, newer, strict=True)]
            merged = self._kept(_sorted(both))
            if len(merged[0]):
                self._runs.append(merged)

    def between(self, first: int, end: int) -> Columns:
        """The rows from first to end, not ordered."""
        found = []
        for run in self._runs:
            low, high = np.searchsorted(run[0], (first, end))
            if low < high:
                found.append(tuple(each[low:high] for each in run))
        if len(found) == 1:
            return found[0]
        if not found:
            return self._nothing
        return tuple(np.concatenate(each) for each in zip(*found, strict=True))

    def forget(self, first: int) -> None:
        """Rows before this are not asked for any more."""
        self._first = first
        self._runs = [run for run in self._runs if run[0][-1] >= first]

    def _kept(self, run: Columns) -> Columns:
        if self._first is None or not len(run[0]) or run[0][0] >= self._first:
            return run
        low = int(np.searchsorted(run[0], self._first))
        return tuple(each[low:] for each in run)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(each.nbytes for run in self._runs for each in run)


def _sorted(columns: Sequence[Array]) -> Columns:
    keys = columns[0]
    if len(keys) < 2 or bool((keys[1:] >= keys[:-1]).all()):
        return tuple(columns)
    order = np.argsort(keys, kind="stable")
    return tuple(each[order] for each in columns)
