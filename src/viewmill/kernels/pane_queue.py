"""Panes in a queue of two stacks: the aggregate of all of them, group by group.

takes  panes (groups with payloads) in order, at one end; gives them up at the other
gives  the combined payload of those that are left, for 3 combinations per slide

It is TwoStacks, with tables of groups for values. A pane that changes inside the queue makes the
stacks worthless; they are built again when next asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.kernels.window_payloads import Aggregate, Payload

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Groups:
    """Payloads of some groups; `ids` ascend."""

    ids: Array
    payloads: tuple[Payload, ...]  # one for each aggregate

    def take(self, places: Array) -> tuple[Payload, ...]:
        """The payloads of some of them."""
        return tuple(tuple(each[places] for each in payload) for payload in self.payloads)


def combine(aggregates: Sequence[Aggregate], older: Groups | None, newer: Groups) -> Groups:
    """The groups of both; those in both are combined."""
    if older is None or not len(older.ids):
        return newer
    if not len(newer.ids):
        return older
    if len(older.ids) == len(newer.ids) and np.array_equal(older.ids, newer.ids):
        pairs = zip(aggregates, older.payloads, newer.payloads, strict=True)
        return Groups(older.ids, tuple(each.combine(a, b) for each, a, b in pairs))
    ids = np.union1d(older.ids, newer.ids)
    at_older, at_newer = np.searchsorted(ids, older.ids), np.searchsorted(ids, newer.ids)
    both = np.intersect1d(older.ids, newer.ids)
    in_both = np.searchsorted(ids, both)
    from_older, from_newer = np.searchsorted(older.ids, both), np.searchsorted(newer.ids, both)
    payloads = []
    for each, a, b in zip(aggregates, older.payloads, newer.payloads, strict=True):
        met = each.combine(tuple(x[from_older] for x in a), tuple(x[from_newer] for x in b))
        columns = []
        for x, y, z in zip(a, b, met, strict=True):
            column = np.empty(len(ids), np.result_type(x, y))
            column[at_older], column[at_newer], column[in_both] = x, y, z
            columns.append(column)
        payloads.append(tuple(columns))
    return Groups(ids, tuple(payloads))


class PaneQueue:
    """The panes of the current window, oldest first."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._aggregates = aggregates
        self._panes: dict[int, Groups] = {}
        self._front: list[
            tuple[int, Groups]
        ] = []  # each pane with all that follow, the oldest last
        self._back: Groups | None = None
        self._turned = True  # whether the stacks stand for the panes

    def copy(self) -> PaneQueue:
        """A queue that stays as this is now."""
        made = PaneQueue(self._aggregates)
        made._panes, made._front = dict(self._panes), list(self._front)
        made._back, made._turned = self._back, self._turned
        return made

    def ids(self) -> list[int]:
        """The panes inside."""
        return list(self._panes)

    def get(self, pane: int) -> Groups | None:
        """A pane inside."""
        return self._panes.get(pane)

    def push(self, pane: int, groups: Groups) -> None:
        """A pane newer than all inside."""
        self._panes[pane] = groups
        if self._turned:
            self._back = combine(self._aggregates, self._back, groups)

    def pop(self, pane: int) -> Groups:
        """The oldest pane leaves."""
        gone = self._panes.pop(pane)
        if self._front and self._front[-1][0] == pane:
            self._front.pop()
        else:
            self._turned = False
        return gone

    def change(self, pane: int, groups: Groups) -> None:
        """A pane inside is different, or was missing in the middle."""
        self._panes[pane] = groups
        self._turned = False

    def answer(self) -> Groups | None:
        """All panes inside, combined."""
        if not self._turned:
            self._turn()
        if not self._front:
            return self._back
        top = self._front[-1][1]
        return top if self._back is None else combine(self._aggregates, top, self._back)

    def _turn(self) -> None:
        self._front, total = [], None
        for pane in sorted(self._panes, reverse=True):
            groups = self._panes[pane]
            total = groups if total is None else combine(self._aggregates, groups, total)
            self._front.append((pane, total))
        self._back, self._turned = None, True
