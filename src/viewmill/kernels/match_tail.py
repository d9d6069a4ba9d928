"""What MATCH_RECOGNIZE keeps of rows that retention ends.

A match that was reported stays, whatever becomes of its rows. Rows after the last cut of a group
that nothing can change any more may still become a match with rows to come, so they are kept here:
the tail. A group without later cuts is matched from there on: after `moment`, behind a row whose
values are `last`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta, concat
from viewmill.kernels.pattern_runs import NEVER, Ints, RunsPart


class MatchTail:
    """Rows of parts before `end`, by group and time, and where each group goes on from."""

    def __init__(self, schema: Schema, time: int, lasts: int) -> None:
        self._schema, self._time = schema, time
        self.end = NEVER  # a part
        self.rows = Delta.empty(schema)
        self.groups: Ints = np.empty(0, np.int64)  # of the rows
        self.moment: Ints = np.full(0, NEVER, np.int64)  # by group, as all that follows
        self.last: Ints = np.empty((0, lasts), np.int64)
        self.mask: npt.NDArray[np.uint8] = np.empty((0, lasts), np.uint8)
        self.context: Ints = np.full(0, NEVER, np.int64)  # rows after it are read, if not matched
        self.number: Ints = np.zeros(0, np.int64)  # of matches before

    def make_room(self, groups: int) -> None:
        """Grow the arrays to hold this many groups."""
        more = max(groups, 2 * len(self.moment)) - len(self.moment)
        if groups > len(self.moment):
            shape = (more, self.last.shape[1])
            self.moment = np.concatenate([self.moment, np.full(more, NEVER, np.int64)])
            self.context = np.concatenate([self.context, np.full(more, NEVER, np.int64)])
            self.number = np.concatenate([self.number, np.zeros(more, np.int64)])
            self.last = np.concatenate([self.last, np.zeros(shape, np.int64)])
            self.mask = np.concatenate([self.mask, np.ones(shape, np.uint8)])

    def find(self, groups: Ints, moments: Ints) -> tuple[Delta, Ints]:
        """The rows of groups after a moment each, and whose each is; by group and time."""
        low = np.searchsorted(self.groups, groups, side="left")
        sizes = np.searchsorted(self.groups, groups, side="right") - low
        owner = np.repeat(np.arange(len(groups)), sizes)
        ends = np.cumsum(sizes)
        at = np.repeat(low - (ends - sizes), sizes) + np.arange(len(owner))
        is_later = self.rows.columns[self._time][at] > moments[owner]
        found = self.rows.take(at[is_later])
        found.multiplicity = None
        return found, owner[is_later]

    def add(self, parts: list[RunsPart], end: int) -> Ints:
        """Take the rows of parts that end; the groups that have rows here."""
        pieces, groups = [self.rows], [self.groups]
        for part in parts:
            pieces.append(part.source.take(part.order))
            pieces[-1].multiplicity = None  # the order has each as often as it is there
            groups.append(np.repeat(part.groups, np.diff(part.starts)))
        numbers = np.concatenate(groups)
        by = np.argsort(numbers, kind="stable")
        self.rows, self.groups = concat(self._schema, pieces).take(by), numbers[by]
        self.end = end
        return np.unique(self.groups)

    def settle(self, groups: Ints, moments: Ints, last: Any, mask: Any) -> None:
        """Record that nothing up to these moments can change, and drop those rows."""
        self.last[groups], self.mask[groups] = last, mask
        self.go_on(groups, moments, moments, self.number[groups])

    def go_on(self, groups: Ints, moments: Ints, contexts: Ints, numbers: Ints) -> None:
        """Groups go on after a moment, and read what is after their context."""
        self.moment[groups], self.context[groups] = moments, contexts
        self.number[groups] = numbers
        is_kept = self.rows.columns[self._time] > self.context[self.groups]
        self.rows, self.groups = self.rows.take(np.flatnonzero(is_kept)), self.groups[is_kept]
        self.rows.multiplicity = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        columns = sum(each.nbytes for each in self.rows.columns)
        return columns + self.groups.nbytes + self.moment.nbytes + self.last.nbytes
