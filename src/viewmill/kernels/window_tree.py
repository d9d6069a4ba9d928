"""A tree: the partials that some windows share.

takes  rows of its lane
does   puts them into panes, and each pane's groups into the store; answers any stretch of panes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.windows import SlidingWindow
from viewmill.kernels.sorted_runs import SortedRuns
from viewmill.kernels.window_edges import Edges
from viewmill.kernels.window_lane import Lane, LaneRows
from viewmill.kernels.window_store import PartialStore, Payloads
from viewmill.program.windows import TreePlan

Array = npt.NDArray[Any]
EARLIEST = int(np.iinfo(np.int64).min)
Watch = Callable[[Array, Array], Callable[[], None]]  # told of pairs; calls back when they changed


class Tree:
    """Partials of one lane, cut where one of the tree's windows can begin or end."""

    def __init__(self, lane: Lane, plan: TreePlan, compiled: bool) -> None:
        self.lane, self.plan, self._compiled = lane, plan, compiled
        self.edges = Edges(plan.steps)
        self.store = PartialStore(lane.layout, plan.technique, compiled, lane.operations)
        self.log = SortedRuns(2)  # pane and group of every partial
        self.first: int | None = None  # panes before it are forgotten
        self.readers = 0  # views
        self.longest = 0  # the longest range that it can answer
        self._newest: int | None = None
        self._saved: tuple[list[Any], int | None] | None = None

    def emptied(self) -> Tree:
        """One for the same windows that holds nothing."""
        made = Tree(self.lane, self.plan, self._compiled)
        made.longest, made.readers = self.longest, self.readers
        return made

    def begin(self) -> None:
        """A change comes that may be undone."""
        self._saved = self.log.runs, self._newest

    def can_answer(self, window: SlidingWindow) -> bool:
        """Whether a window that was not planned for begins and ends at edges, and is not longer."""
        if self.plan.window is not None:
            return self.plan.window == (window.size, window.slide)
        return window.size <= self.longest and self.edges.contains(window.edges)

    def take(self, rows: LaneRows, watch: Watch | None) -> None:
        """Put rows into their panes."""
        if self.first is not None and len(rows) and int(rows.times.min()) < self.first:
            rows = rows.take(rows.times >= self.first)
        if not len(rows):
            return
        again = self.lane.needs_rows(rows, self._newest)
        newest = int(rows.times.max())
        self._newest = newest if self._newest is None else max(newest, self._newest)
        rows, starts, pairs = paired(rows, self.edges)
        groups, panes = rows.groups[starts], self.edges.starts(rows.times[starts])
        payloads = None if again else self.lane.lift(rows, pairs, len(starts))
        self._change(groups, panes, payloads, watch)

    def take_partials(
        self, groups: Array, moments: Array, payloads: Payloads, watch: Watch | None
    ) -> None:
        """Put partials that are cut more finely into the panes that they belong to."""
        if self.first is not None and int(moments.min()) < self.first:
            kept = np.flatnonzero(moments >= self.first)
            groups, moments = groups[kept], moments[kept]
            payloads = payloads[0][kept], payloads[1][kept]
        if len(groups):
            self._change(groups, self.edges.starts(moments), payloads, watch)

    def _change(
        self, groups: Array, panes: Array, payloads: Payloads | None, watch: Watch | None
    ) -> None:
        changed = None if watch is None else watch(groups, panes)
        if payloads is None:
            was = self._set_anew(groups, panes)
        else:
            was = self.store.merge(groups, panes, payloads)
        new = was == 0
        self.log.add((panes[new], groups[new]))
        if changed is not None:
            changed()

    def _set_anew(self, groups: Array, panes: Array) -> Array:
        """Recompute partials from the rows of their panes."""
        parts = [
            self.lane.held(int(p), self.edges.after(int(p)), groups[panes == p])
            for p in np.unique(panes)
        ]
        layout = self.lane.layout
        words = np.zeros((len(groups), layout.words), np.int64)
        reals = np.zeros((len(groups), layout.reals))
        for part in parts:
            if not len(part):
                continue
            rows, starts, pairs = paired(part, self.edges)
            found = self.lane.lift(rows, pairs, len(starts))
            here = rows.groups[starts]  # of one pane, ascending
            wanted = np.flatnonzero(panes == self.edges.starts(rows.times[:1])[0])
            at = np.minimum(np.searchsorted(here, groups[wanted]), len(here) - 1)
            same = here[at] == groups[wanted]
            words[wanted[same]], reals[wanted[same]] = found[0][at[same]], found[1][at[same]]
        return self.store.set(groups, panes, (words, reals))

    def answer(
        self, groups: Array, first: Array | int, end: Array | int, window: SlidingWindow
    ) -> Payloads:
        """The aggregate of groups over [first, end), for this window."""
        whole = np.ascontiguousarray(groups)
        firsts = np.ascontiguousarray(np.broadcast_to(np.asarray(first, np.int64), whole.shape))
        ends = np.ascontiguousarray(np.broadcast_to(np.asarray(end, np.int64), whole.shape))
        return self.store.answer(whole, firsts, ends, (window.size, window.slide))

    def commit(self, first: int | None) -> None:
        """Keep what was done; forget panes before `first`."""
        self.store.commit()
        self._saved = None
        if first is not None and (self.first is None or first > self.first):
            _, groups = self.log.between(EARLIEST if self.first is None else self.first, first)
            self.store.forget(np.unique(groups), first)
            self.log.forget(first)
            self.first = first

    def rollback(self) -> None:
        """Undo what was done."""
        self.store.rollback()
        if self._saved is not None:
            self.log.runs, self._newest = self._saved
            self._saved = None

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.store.nbytes + self.log.nbytes


def paired(rows: LaneRows, edges: Edges) -> tuple[LaneRows, Array, Array]:
    """The rows by group, time and arrival; where each pair of group and pane starts among them; the
    pair of each row."""
    ordered = not (rows.groups[1:] != rows.groups[:-1]).any()
    if not (ordered and (rows.times[1:] >= rows.times[:-1]).all()):
        rows = rows.take(np.lexsort((rows.arrivals, rows.times, rows.groups)))
    panes = edges.starts(rows.times)
    starts = np.empty(len(rows), np.bool_)
    starts[0] = True
    starts[1:] = (panes[1:] != panes[:-1]) | (rows.groups[1:] != rows.groups[:-1])
    return rows, np.flatnonzero(starts), np.cumsum(starts) - 1
