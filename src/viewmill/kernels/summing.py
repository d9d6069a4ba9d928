"""Whether the rows of a batch are summed by key before they are fed to a trigger.

takes  the deltas of one input
gives  whether keys repeat in them, and which of both ways is the quicker one

Rows of one key meet the states once where they are summed first. That pays where a key leads to
much work, not where it leads to little: so both ways are timed, and again after many batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isqrt
from typing import Any

from viewmill.deltas.delta import Delta

_LEAST = 128  # rows from which on a batch may be summed by key
_REPEATED = 8  # rows of a sample that say that keys repeat
_MOST_UNSEEN = 15  # batches between two that are looked at, where keys have not repeated for long
_UNTIMED, _TRIED = 2, 6  # batches, in turns by one way and the other; the first ones make room
_KEPT = 250  # batches by the quicker way


class Summing:
    """The batches of one input whose rows have these keys."""

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys = keys
        # Batches one after the other in which keys did not repeat, the size of the last of them,
        # and how many of its size are not looked at now.
        self._unlike, self._seen, self._unseen = 0, 0, 0
        self._tried, self._spent = 0, [inf, inf]  # summed first, and row by row

    def may_pay(self, size: int) -> bool:
        """Whether to check a batch of this size for repeated keys."""
        if not self._keys or size < _LEAST:
            return False
        if self._unseen and size <= 4 * self._seen:
            self._unseen -= 1
            return False
        return True

    def repeat(self, delta: Delta, size: int) -> bool:
        """Whether keys repeat so often in a batch that summing it by key first may be worth while.

        Of s rows of d keys about s * s / 2d repeat one, if all are as frequent. So many are looked
        at that eight repeat if there are twice as many rows as keys: less would be chance. The
        longer none has repeated, the more batches are taken as they are in between.
        """
        found = self._repeat_in_sample(delta, isqrt(_REPEATED * size))
        self._unlike = 0 if found else self._unlike + 1
        self._seen, self._unseen = size, min(self._unlike >> 2, _MOST_UNSEEN)
        return found

    def _repeat_in_sample(self, delta: Delta, sample: int) -> bool:
        words: list[list[Any]] = []
        for i in self._keys:  # rows that differ in one of them differ
            words.append(delta.pair(i)[0][:sample].tolist())
            if sample - len(set(words[-1])) < _REPEATED:
                return False
        return sample - len(set(zip(*words, strict=True))) >= _REPEATED

    @property
    def is_tried(self) -> bool:
        """Whether the next batch is timed, one way or the other."""
        return self._tried < _TRIED

    @property
    def is_next(self) -> bool:
        """Whether the next batch whose keys repeat is summed."""
        return not self.is_tried or self._tried % 2 == 0

    def end(self) -> None:
        """Stop checking batches: no trigger takes pre-aggregated rows."""
        self._keys = ()

    def note(self, nanoseconds: int, size: int) -> None:
        """A batch of so many rows took so long, by the way that was the next one."""
        way = self._tried % 2
        if self._tried >= _UNTIMED:
            self._spent[way] = min(self._spent[way], nanoseconds / size)
        self._tried += 1
        if self._tried == _TRIED and self._spent[1] <= self._spent[0]:
            self._unseen = _KEPT
            self._try_again()

    def note_summed(self) -> None:
        """A batch was summed and not timed."""
        self._tried += 1
        if self._tried == _TRIED + _KEPT:
            self._try_again()

    def _try_again(self) -> None:
        self._tried, self._spent = 0, [inf, inf]
