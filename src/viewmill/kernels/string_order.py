"""Words that are ordered as strings are, so that kernels can compare them.

A string gets a label between those of its neighbours when it first comes. Labels are far apart; a
new string goes into the middle of its gap, or close to the last one if strings come in order. When
a gap becomes tight all labels are given anew, and who keeps some must fill itself again.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.deltas.dictionary import Dictionary

Array = npt.NDArray[Any]

_LOW, _HIGH = -(2**62), 2**62
_APART = 2**32  # at both ends, where strings often come in order
_TIGHT = 2**20  # labels are tight when a gap between two is smaller than this


class StringOrder:
    """Labels by the ids of strings."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._by_id = np.zeros(16, np.int64)
        self._is_known = np.zeros(16, np.bool_)
        self._strings: list[bytes] = []  # in order
        self._labels: list[int] = []
        self._ids: list[int] = []
        self._last: int | None = None  # the label that was given last
        self.is_tight = False

    def labels(self, ids: Array) -> Array:
        """The labels of strings; new ones get theirs."""
        if not len(ids):
            return ids.astype(np.int64)
        self._fit(int(ids.max()) + 1)
        new = np.unique(ids[~self._is_known[ids]])
        if len(new):
            self._learn(new)
        return self._by_id[ids]

    def give_anew(self) -> None:
        """Relabel all strings, spread as evenly as possible."""
        step = (_HIGH - _LOW) // (len(self._strings) + 1)
        self._labels = [_LOW + (i + 1) * step for i in range(len(self._strings))]
        self._by_id[self._ids] = self._labels
        self.is_tight = False

    def _learn(self, new: Array) -> None:
        texts = self._dictionary.decode(new).to_pylist()
        coming = sorted(zip((text.encode() for text in texts), new.tolist(), strict=True))
        placed = [(bisect_left(self._strings, text), text, id_) for text, id_ in coming]
        moved = 0
        for at, run in groupby(placed, key=lambda each: each[0]):
            those = list(run)
            labels = self._between(at + moved, len(those))
            for i, ((_, text, id_), label) in enumerate(zip(those, labels, strict=True)):
                place = at + moved + i
                self._strings.insert(place, text)
                self._labels.insert(place, label)
                self._ids.insert(place, id_)
                self._by_id[id_], self._is_known[id_] = label, True
            moved += len(those)
            self._last = labels[-1]

    def _between(self, at: int, count: int) -> list[int]:
        """`count` new labels between the neighbours of position `at`."""
        low = self._labels[at - 1] if at > 0 else None
        high = self._labels[at] if at < len(self._labels) else None
        if low is None and high is None:
            return [(i - count // 2) * _APART for i in range(count)]
        if high is None and low is not None and low + (count + 1) * _APART < _HIGH:
            return [low + (i + 1) * _APART for i in range(count)]
        if low is None and high is not None and high - (count + 1) * _APART > _LOW:
            return [high - (count - i) * _APART for i in range(count)]
        first, end = _LOW if low is None else low, _HIGH if high is None else high
        step = (end - first) // (count + 1)
        if count == 1 and low is not None and low == self._last:
            step = max(1, (end - first) // 256)  # strings come in order: most room stays behind
        self.is_tight = self.is_tight or min(step, end - first - count * step) < _TIGHT
        return [first + (i + 1) * step for i in range(count)]

    def _fit(self, size: int) -> None:
        more = size - len(self._by_id)
        if more > 0:
            more = max(more, len(self._by_id))
            self._by_id = np.pad(self._by_id, (0, more))
            self._is_known = np.pad(self._is_known, (0, more))

    @property
    def nbytes(self) -> int:
        """Memory held, without the strings."""
        return self._by_id.nbytes + self._is_known.nbytes + 24 * len(self._strings)
