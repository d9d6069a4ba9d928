"""How a view reads a joined lane: its groups are made of the lane's fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.kernels.group_numbers import GroupNumbers
from viewmill.program.windows import LaneReading

if TYPE_CHECKING:
    from viewmill.kernels.window_lane import Lane

Array = npt.NDArray[Any]


class Reading:
    """The groups of views with the same keys and predicate; fragments are groups of the lane."""

    def __init__(self, lane: Lane, how: LaneReading, keys: Schema, compiled: bool) -> None:
        self._lane, self.how = lane, how
        self.numbers = GroupNumbers(keys, compiled)
        self._owners = np.zeros(16, np.int64)  # by fragment, with room for more; -1: of no group
        self._known = 0  # fragments
        self._listed: tuple[tuple[int, int], Array, Array] | None = None

    def owners(self, fragments: Array) -> Array:
        """The group of each fragment, or -1."""
        self._learn()
        return self._owners[fragments]

    def groups(self, fragments: Array) -> Array:
        """The groups that some of these fragments belong to."""
        found = np.unique(self.owners(fragments))
        return found[found >= 0]

    def members(self, groups: Array) -> tuple[Array, Array]:
        """The fragments of groups, one group after the other, and the place of each one's group."""
        self._learn()
        fragments, starts = self._by_group()
        counts = starts[groups + 1] - starts[groups]
        at = np.repeat(np.arange(len(groups)), counts)
        within = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        return fragments[starts[groups][at] + within], at

    def _learn(self) -> None:
        """Fragments that came since."""
        known, count = self._known, len(self._lane.numbers)
        if known == count:
            return
        if count > len(self._owners):
            self._owners = np.pad(self._owners, (0, max(count, 2 * known) - len(self._owners)))
        keys = self._lane.numbers.keys(np.arange(known, count))
        owners = self._owners[known:count]
        owners[:] = -1
        mine = np.arange(count - known)
        if self.how.predicate is not None:
            mine = np.flatnonzero((keys.columns[-1] >> self.how.predicate) & 1)
        columns = tuple(keys.columns[i][mine] for i in self.how.keys)
        masks = (keys.nulls[i] for i in self.how.keys)
        nulls = tuple(None if mask is None else mask[mine] for mask in masks)
        owners[mine] = self.numbers.of(columns, nulls, len(mine))
        self._known = count

    def _by_group(self) -> tuple[Array, Array]:
        """All fragments by their groups, and where each group's begin."""
        size = self._known, len(self.numbers)
        if self._listed is None or self._listed[0] != size:
            owners = self._owners[: self._known]
            order = np.argsort(owners, kind="stable")
            count = max(1, len(self.numbers))
            starts = np.searchsorted(owners[order], np.arange(count + 1))
            self._listed = size, order, starts
        return self._listed[1:]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.numbers.nbytes + self._owners.nbytes
