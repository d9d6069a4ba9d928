"""A table's rows as Arrow, kept from one read to the next: rows that only came are appended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary

_MOST_DELTAS = 256  # that wait to be appended; a table that nobody reads is not kept
_MOST_PIECES = 512


class ArrowRows:
    """The rows at one stamp of a table. A stamp is a number that changes with the rows."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self.kept: Any = None  # a table of Arrow
        self._stamp = -1
        self._coming: list[Delta] = []
        self._owes = False  # whether rows are there less than no times: one that comes is not seen
        self.appended = 0  # rows at the end that came since everything was last converted

    def add(self, stamp: int, delta: Delta) -> None:
        """A change that leads to `stamp`; any other way there makes what is kept useless."""
        if self.kept is None or self._stamp != stamp - 1:
            return
        times = delta.multiplicity
        waiting = len(self._coming) + 1
        if self._owes or waiting > _MOST_DELTAS or (times is not None and (times < 0).any()):
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
            self.kept = whole.combine_chunks() if pieces > _MOST_PIECES else whole
            self._coming = []
        return self.kept


def expanded(delta: Delta, dictionary: Dictionary) -> Any:
    """An Arrow table with each row as often as its multiplicity says, none if it is negative."""
    times = delta.multiplicity
    if times is None or (len(times) and times.min() == 1 == times.max()):
        return decode_delta(delta, dictionary)
    positions = np.repeat(np.arange(delta.size), np.maximum(times, 0))
    return decode_delta(delta.take(positions), dictionary)
