"""Matches and cuts of all groups, as chains in columns.

Each group has two chains, from the last member back to the first: its matches, and the cuts between
them. Members are only added, so that a batch is undone by going back to the old ends. What no chain
reaches any more is removed now and then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.kernels.match_kernel import (
    collect_chain,
    end_chains,
    find_restarts,
    mark_chains,
)
from viewmill.kernels.pattern_kernels import compiled
from viewmill.kernels.pattern_runs import Ints

NONE = -1
_COMPACT_SLACK = 4096  # unreachable members that are tolerated before compaction


class Columns:
    """Arrays that grow together; the first `size` rows count."""

    def __init__(self, **columns: npt.NDArray[Any]) -> None:
        self.arrays = columns
        self.size = 0

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[name]

    def reserve(self, more: int) -> None:
        """Reserve space for more rows."""
        wanted = self.size + more
        for name, array in self.arrays.items():
            if len(array) < wanted:
                shape = (max(wanted, 2 * len(array)), *array.shape[1:])
                grown = np.empty(shape, array.dtype)
                grown[: self.size] = array[: self.size]
                self.arrays[name] = grown

    def keep(self, at: Ints) -> None:
        """Only these rows."""
        for name, array in self.arrays.items():
            self.arrays[name] = array[at]
        self.size = len(at)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that count."""
        return sum(each[: self.size].nbytes for each in self.arrays.values())


class Chains:
    """The chains of one view."""

    def __init__(self, measures: int, lasts: int) -> None:
        one = np.empty(0, np.int64)
        wide = np.empty((0, measures), np.int64)
        self.matches = Columns(
            before=one, rows=one, group=one, integers=wide, floats=wide.astype(np.float64),
            counts=wide,
        )  # fmt: skip
        self.cuts = Columns(
            before=one, match=one, known=one, moment=one, row=one, context=one, number=one,
            span=one, last=np.empty((0, lasts), np.int64), mask=np.empty((0, lasts), np.uint8),
        )  # fmt: skip
        self.last_match = np.full(0, NONE, np.int64)  # by group
        self.last_cut = np.full(0, NONE, np.int64)
        self._undo: list[tuple[Ints, Ints, Ints]] = []
        self._sizes = (0, 0)
        self._live = 0
        self._kept_cuts = 0  # when it was compacted last
        self.ended = 0  # matches that nothing can change any more
        self._live_before = 0

    def make_room(self, groups: int) -> None:
        """Grow the arrays to hold this many groups."""
        if groups > len(self.last_match):
            more = np.full(max(groups, 2 * len(self.last_match)) - len(self.last_match), NONE)
            self.last_match = np.concatenate([self.last_match, more])
            self.last_cut = np.concatenate([self.last_cut, more])

    def cut_back(self, groups: Ints, since: Ints) -> tuple[Ints, Ints]:
        """Take groups back to the last cut that was certain before a moment each.

        Gives those cuts, and the matches that are behind them.
        """
        self._undo.append((groups, self.last_match[groups], self.last_cut[groups]))
        cuts = np.empty(len(groups), np.int64)
        compiled(find_restarts)(
            since, self.last_cut[groups], self.cuts["known"], self.cuts["before"], cuts
        )
        kept = np.full(len(groups), NONE, np.int64)
        kept[cuts >= 0] = self.cuts["match"][cuts[cuts >= 0]]
        found, owner = (np.empty(self.matches.size, np.int64) for _ in range(2))
        count = compiled(collect_chain)(
            self.last_match[groups], kept, self.matches["before"], found, owner
        )
        self.last_match[groups], self.last_cut[groups] = kept, cuts
        self._live -= count
        return cuts, found[:count]

    def settle(self, groups: Ints, limit: int) -> Ints:
        """End the chains of groups at the last cut that was certain before a moment: those cuts.

        Nothing changes before that moment any more, so nobody goes back behind them.
        """
        cuts = np.empty(len(groups), np.int64)
        since = np.full(len(groups), limit, np.int64)
        compiled(find_restarts)(
            since, self.last_cut[groups], self.cuts["known"], self.cuts["before"], cuts
        )
        ended = compiled(end_chains)(
            groups, cuts, self.last_match, self.last_cut, self.cuts["before"],
            self.cuts["match"], self.matches["before"],
        )  # fmt: skip
        self._live -= ended
        self.ended += int(ended)
        self._live_before = self._live
        return cuts

    def live(self) -> Ints:
        """The matches of all chains."""
        found, owner = (np.empty(self.matches.size, np.int64) for _ in range(2))
        ends = np.full(len(self.last_match), NONE, np.int64)
        count = compiled(collect_chain)(self.last_match, ends, self.matches["before"], found, owner)
        return found[:count]

    def note_matches(self, count: int) -> None:
        """Count matches that were added."""
        self._live += count

    def commit(self) -> None:
        """Make the matches of the batch permanent."""
        self._undo = []
        if (
            self.matches.size > 2 * self._live + _COMPACT_SLACK
            or self.cuts.size > 2 * self._kept_cuts + _COMPACT_SLACK
        ):
            self._compact()
            self._kept_cuts = self.cuts.size
        self._sizes = (self.matches.size, self.cuts.size)
        self._live_before = self._live

    def rollback(self) -> None:
        """Go back to the last commit."""
        for groups, matches, cuts in reversed(self._undo):
            self.last_match[groups], self.last_cut[groups] = matches, cuts
        self._undo = []
        self.matches.size, self.cuts.size = self._sizes
        self._live = self._live_before

    def _compact(self) -> None:
        """Remove unreachable matches and cuts; the others keep their order."""
        matches = _renumber(self.matches, self.last_match)
        self.last_match = _renumbered(matches, self.last_match)
        self.cuts["match"][:] = _renumbered(matches, self.cuts["match"])
        cuts = _renumber(self.cuts, self.last_cut)
        self.last_cut = _renumbered(cuts, self.last_cut)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.matches.nbytes + self.cuts.nbytes + 2 * self.last_match.nbytes


def _renumber(columns: Columns, last: Ints) -> Ints:
    """Drop what the chains do not reach; the new place of each member, by its old one."""
    is_kept = np.zeros(columns.size, np.uint8)
    compiled(mark_chains)(last, columns["before"], is_kept)
    places = np.cumsum(is_kept, dtype=np.int64) - 1
    columns.keep(np.flatnonzero(is_kept))
    columns["before"][:] = _renumbered(places, columns["before"])
    return places


def _renumbered(places: Ints, members: Ints) -> Ints:
    found = np.full(len(members), NONE, np.int64)
    # Rows past the end, and those of members that are gone, are of no chain.
    is_there = (members >= 0) & (members < len(places))
    found[is_there] = places[members[is_there]]
    return found
