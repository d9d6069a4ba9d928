"""The changes of a view that wait for a sink, oldest first, in bounded memory.

If very many wait, they are added up: what they hold is then no more than the view's rows before
and after. Adding up costs a constant time per row that came, since it waits until as many rows came
as the sum had.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import concat
from viewmill.mill.changes import Change


class Waiting(NamedTuple):
    """A change, and how many had come with it."""

    number: int
    change: Change


class Outbox:
    """Changes in order; more than `at_most` are added up."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._waiting: list[Waiting] = []
        self._rows_since, self._rows_added_up = 0, 0
        self.came = 0  # how many changes, ever

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, change: Change) -> None:
        """Add a change at the end."""
        self.came += 1
        self._waiting.append(Waiting(self.came, change))
        self._rows_since += len(change)
        if len(self._waiting) > self._at_most and self._rows_since >= self._rows_added_up:
            self._waiting = [*_added_up(self._waiting)]
            self._rows_since, self._rows_added_up = 0, sum(len(e.change) for e in self._waiting)

    def put_back(self, first: Waiting) -> None:
        """Let a change that was taken wait again, before the others."""
        self._waiting.insert(0, first)

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting = []
        self._rows_since, self._rows_added_up = 0, 0

    def take_first(self) -> Waiting:
        """The oldest change."""
        return self._waiting.pop(0)

    def take_all(self) -> Waiting:
        """All changes as one; less only if the mill compacted its dictionary in between."""
        self._waiting = [*_added_up(self._waiting)]
        return self._waiting.pop(0)


def _added_up(waiting: list[Waiting]) -> Iterator[Waiting]:
    """The sums of neighbours whose strings have the same codes."""
    for _, found in groupby(waiting, lambda each: id(each.change.dictionary)):
        run = [*found]
        yield run[0] if len(run) == 1 else Waiting(run[-1].number, _sum(run))


def _sum(run: list[Waiting]) -> Change:
    parts, last = [each.change.delta for each in run], run[-1].change
    whole = consolidate(concat(parts[0].schema, parts))
    return Change(last.view, last.version, whole, last.dictionary)
