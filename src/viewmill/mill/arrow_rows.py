"""A cache of a table's rows as Arrow: inserts are appended, other changes invalidate it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary

_MAX_DELTAS = 256  # unread deltas after which the cache of a table is dropped
_MAX_CHUNKS = 512


class ArrowRows:
    """The rows of a table at one stamp, a number that changes with every change."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self.kept: Any = None  # a table of Arrow
        self._stamp = -1
        self._coming: list[Delta] = []
        self._owes = False  # whether some rows are negative: their inserts must not be appended
        self.appended = 0  # rows at the end that were appended since the last full conversion

    def add(self, stamp: int, delta: Delta) -> None:
        """Add the change that leads to `stamp`; without it the cache becomes invalid."""
        if self.kept is None or self._stamp != stamp - 1:
            return
        times = delta.multiplicity
        waiting = len(self._coming) + 1
        if self._owes or waiting > _MAX_DELTAS or (times is not None and (times < 0).any()):
            self._forget()
            return
        self._coming.append(delta)
        self._stamp = stamp

    def _forget(self) -> None:
        self.kept, self._coming, self.appended = None, [], 0

    def table(self, stamp: int, contents: Callable[[], Delta]) -> Any:
        """The rows at this stamp."""
        if self.kept is None or self._stamp != stamp:
            self._coming, self.appended = [], 0
            held = contents()
            self._owes = held.multiplicity is not None and bool((held.multiplicity < 0).any())
            self.kept, self._stamp = expanded(held, self._dictionary), stamp
        if self._coming:
            new = [expanded(delta, self._dictionary) for delta in self._coming]
            self.appended += sum(each.num_rows for each in new)
            whole = pa.concat_tables([self.kept, *new])
            pieces = whole.column(0).num_chunks if whole.num_columns else 0
            self.kept = whole.combine_chunks() if pieces > _MAX_CHUNKS else whole
            self._coming = []
        return self.kept


def expanded(delta: Delta, dictionary: Dictionary) -> Any:
    """An Arrow table with each row repeated by its multiplicity; none if negative."""
    times = delta.multiplicity
    if times is None or (len(times) and times.min() == 1 == times.max()):
        return decode_delta(delta, dictionary)
    positions = np.repeat(np.arange(delta.size), np.maximum(times, 0))
    return decode_delta(delta.take(positions), dictionary)
