"""The rows of a checked table in a dict: what is there until compiled code takes over."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
_Key = tuple[int, ...]


class PlainRows:
    """Rows by key, with multiplicity, sequence number and the words that are not in the key."""

    def __init__(self, key_words: int, other_words: int) -> None:
        self._key_words, self._other_words = key_words, other_words
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self._entries: dict[_Key, tuple[int, int, _Key]] = {}
        self._before: dict[_Key, tuple[int, int, _Key] | None] = {}  # as committed, if touched
        self.sequence = self.total = 0

    def counts(self) -> tuple[int, int]:
        """`sequence` and `total`."""
        return self.sequence, self.total

    @property
    def nbytes(self) -> int:
        """About how many bytes are held."""
        return sys.getsizeof(self._entries) + 200 * len(self._entries)

    def reserve(self, count: int) -> None:
        """Room for so many rows: there always is."""

    def expect(self, more: int) -> None:
        """Room for so many new rows: there always is."""

    def stage_bag(self, words: IntArray, multiplicity: IntArray) -> None:
        """Add rows that are keyed by all their words."""
        for row, m in zip(map(tuple, words.tolist()), multiplicity.tolist(), strict=True):
            if m:
                self._add(row, m)

    def stage_unique(self, words: IntArray, multiplicity: IntArray) -> tuple[IntArray, IntArray]:
        """Remove, then insert rows; gives the numbers of those that wait, and how often."""
        rows, times = list(map(tuple, words.tolist())), multiplicity.tolist()
        left = {i: self._remove(rows[i], m) for i, m in enumerate(times) if m < 0}
        left |= {i: self._insert(rows[i], m) for i, m in enumerate(times) if m > 0}
        waiting = {i: m for i, m in left.items() if m}
        return np.array([*waiting], np.int64), np.array([*waiting.values()], np.int64)

    def _remove(self, row: _Key, m: int) -> int:
        key, others = row[: self._key_words], row[self._key_words :]
        found = self._entries.get(key)
        if found is None or found[0] == 0 or found[2] != others:
            return m
        self._add(key, -1)
        return m + 1

    def _insert(self, row: _Key, m: int) -> int:
        key, others = row[: self._key_words], row[self._key_words :]
        found = self._entries.get(key)
        if found is not None and found[0] != 0:
            return m
        self._add(key, 1, others)
        return m - 1

    def _add(self, key: _Key, m: int, others: _Key | None = None) -> None:
        """A row is there m times more; a new one gets the next sequence number."""
        found = self._entries.get(key)
        self._before.setdefault(key, found)
        count, sequence, held = found or (0, 0, (0,) * self._other_words)
        if sequence == 0:
            self.sequence = sequence = self.sequence + 1
        self._entries[key] = count + m, sequence, held if others is None else others
        self.total += m

    def first_missing(self) -> _Key | None:
        """The key that was touched first and is there less than no times."""
        return next((key for key in self._before if self._entries[key][0] < 0), None)

    def commit(self) -> None:
        """Keep what was done."""
        for key in self._before:
            if self._entries[key][0] == 0:
                del self._entries[key]
        self._before.clear()

    def rollback(self) -> None:
        """Go back to the last commit; the caller puts sequence and total back."""
        for key, entry in self._before.items():
            if entry is None:
                del self._entries[key]
            else:
                self._entries[key] = entry
        self._before.clear()

    def find(self, keys: IntArray, found: npt.NDArray[np.uint8], rows: IntArray) -> None:
        """Look keys up; the whole rows of those that are there go to `rows`."""
        for i, key in enumerate(map(tuple, keys.tolist())):
            entry = self._entries.get(key)
            if entry is not None and entry[0] > 0:
                found[i], rows[i] = 1, key + entry[2]

    def export(self) -> IntArray:
        """Rows of key, multiplicity, sequence and the other words, as committed."""
        committed = self._entries | self._before
        rows = [(*key, e[0], e[1], *e[2]) for key, e in committed.items() if e is not None]
        width = self._key_words + 2 + self._other_words
        return np.array(rows, np.int64).reshape(len(rows), width)
