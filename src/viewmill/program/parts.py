"""Time parts: how subscripts are computed, what a part of a view is computed from. Data only.

Part number i of a table with PARTITION LENGTH n holds the rows of the n seconds from i * n on, in
Unix time. A part exists from its first row; parts between existing ones exist and are empty, and so
do all parts before the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakSet

from viewmill.algebra.relations import Relation

if TYPE_CHECKING:
    from viewmill.deltas.delta import Delta

PART_TIMESTAMP = "PART_TIMESTAMP"
SECOND = 1_000_000  # microseconds


@dataclass(frozen=True)
class Subscript:
    """floor((multiplier * i + offset) / divisor).

    >>> Subscript(60, 59).at(394464), Subscript(1, 0, 60).at(23667899)
    (23667899, 394464)
    """

    multiplier: int = 1
    offset: int = 0
    divisor: int = 1

    def at(self, i: int) -> int:
        """The subscript for part i."""
        return (self.multiplier * i + self.offset) // self.divisor

    def last_at_most(self, subscript: int) -> int | None:
        """The largest i with at(i) <= subscript; None if that is every i, or none."""
        if self.multiplier == 0:
            return None
        return (self.divisor * subscript + self.divisor - 1 - self.offset) // self.multiplier

    def first_at_least(self, subscript: int) -> int | None:
        """The smallest i with at(i) >= subscript; None if that is every i, or none."""
        if self.multiplier == 0:
            return None
        return -((self.offset - self.divisor * subscript) // self.multiplier)


@dataclass(frozen=True)
class PartsRead:
    """m[low..high] in a query, which reads it as a source of the name `name`."""

    name: str
    source: str
    low: Subscript
    high: Subscript

    def span_at(self, i: int) -> tuple[int, int]:
        """The first and last subscript that part i reads."""
        return self.low.at(i), self.high.at(i)

    def readers(self, subscript: int, first: int, last: int) -> range:
        """The parts i from `first` to `last` that read this part of the source."""
        if self.low.multiplier == 0 or self.high.multiplier == 0:
            found = [i for i in (first,) if self.low.at(i) <= subscript <= self.high.at(i)]
            return range(first, last + 1) if found else range(0)
        start, stop = self.high.first_at_least(subscript), self.low.last_at_most(subscript)
        assert start is not None
        assert stop is not None
        return range(max(first, start), min(last, stop) + 1)


@dataclass(frozen=True)
class PartQuery:
    """A query over parts, and over whole tables that have none."""

    query: Relation
    references: tuple[PartsRead, ...]
    whole: tuple[str, ...] = ()  # sources that are read whole: dimension tables


@dataclass(frozen=True)
class PartQueries:
    """A body that says how a view's first part and its next parts are computed."""

    view: str
    initialize: PartQuery
    update: PartQuery
    length: int  # seconds

    def query_at(self, i: int, first: int) -> PartQuery:
        """The query that computes part i."""
        return self.initialize if i == first else self.update


class PartInfo(NamedTuple):
    """A row of the catalog of parts. Times are UTC microseconds."""

    subscript: int
    rows: int
    loaded: int
    updated: int
    version: int  # of the last update


class Stamps:
    """When parts changed, in UTC microseconds: later changes have later stamps, even if the clock
    is set back in between."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """The stamp of a change that happens now."""
        self._last = max(time.time_ns() // 1000, self._last + 1)
        return self._last

    def follow(self, infos: Iterable[PartInfo]) -> None:
        """Go on after changes that were stamped before the mill was opened."""
        self._last = max(self._last, max((each.updated for each in infos), default=0))


class Unwritten:
    """The parts of a source that its files do not show as they are."""

    def __init__(self, changed: Iterable[int]) -> None:
        self.changed = set(changed)
        self.ended: set[int] = set()

    def change(self, subscripts: Iterable[int]) -> None:
        """Parts came, came back or changed."""
        self.changed.update(subscripts)
        self.ended.difference_update(self.changed)

    def end(self, subscript: int) -> None:
        """A part is dropped."""
        self.changed.discard(subscript)
        self.ended.add(subscript)


class PartSource(Protocol):
    """What has parts: a table, or a temporal view. What is not yet committed is included."""

    length: int
    holders: WeakSet[Any]  # of `Holder`

    def first_part(self) -> int | None:
        """The oldest part that is kept; None if there is none yet."""

    def newest_part(self) -> int | None:
        """The newest part."""

    def oldest_shown(self) -> int | None:
        """The oldest part that retention leaves to readers; None if all are shown."""

    def oldest_changing(self) -> int | None:
        """The oldest part that readers must expect to change; None if there is none yet."""

    def changed_parts(self) -> Iterable[int]:
        """The parts that changed since the last commit."""

    def catalog(self) -> list[PartInfo]:
        """The committed parts, ascending."""

    def part(self, subscript: int) -> Delta:
        """The rows of a part; of one that does not exist, none."""

    def parts_within(self, low: int, high: int) -> list[int]:
        """The parts from low to high that have rows, ascending."""
