"""Streams and window views as plain Python lists: what `window_sessions` compares a mill with."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)
Rows = list[tuple[Any, ...]]


def moment(seconds: int) -> dt.datetime:
    """A time of the streams."""
    return EPOCH + dt.timedelta(seconds=seconds)


@dataclass
class Stream:
    """A table as it should be: rows in order of arrival, and how far time has come."""

    name: str
    append_only: bool
    lateness: int
    length: int | None  # of parts, seconds
    retention: int | None
    held: Rows = field(default_factory=list)  # (t, k, x)
    newest: int | None = None
    tick: int | None = None

    @property
    def watermark(self) -> int | None:
        found = [] if self.newest is None else [self.newest - self.lateness]
        found += [] if self.tick is None else [self.tick]
        return max(found, default=None)

    @property
    def newest_part(self) -> int | None:
        found = [each for each in (self.newest, self.tick) if each is not None]
        return max(found) // self.length if found and self.length else None

    @property
    def first_kept(self) -> int | None:
        if self.newest_part is None or self.retention is None or self.length is None:
            return None
        return self.newest_part + 1 - -(-self.retention // self.length)

    @property
    def rows(self) -> Rows:
        """What readers see."""
        first = self.first_kept
        return [r for r in self.held if first is None or r[0] // self.length >= first]

    def is_late(self, t: int) -> bool:
        """Whether a row is refused."""
        if self.length is None or self.newest_part is None:
            return False
        bounds = [] if self.first_kept is None else [self.first_kept]
        if self.has_lateness:
            bounds.append((self.newest_part * self.length - self.lateness) // self.length)
        return bool(bounds) and t // self.length < max(bounds)

    @property
    def has_lateness(self) -> bool:
        return self.lateness > 0

    def insert(self, rows: Rows) -> None:
        taken = [row for row in rows if not self.is_late(row[0])]
        self.held += taken
        self.newest = max([t for t, *_ in taken] + ([] if self.newest is None else [self.newest]),
                          default=None)  # fmt: skip

    def delete(self, rows: Rows) -> None:
        for row in rows:
            if not self.is_late(row[0]):
                self.held.remove(row)


@dataclass
class Shown:
    """A view: how its rows are computed, and what it should show."""

    name: str
    sql: str
    reads: list[str]  # streams and views
    compute: Callable[[], Rows]
    policy: str = ""
    last: Rows = field(default_factory=list)
    told: Counter[Any] | None = None
    stop: Any = None
    start: int | None = None  # the first part, of a view in parts
    is_new: bool = True  # it is being created
    has_part: bool = False


def aggregated(
    rows: Rows, keyed: bool, having: int, least: int | None, *, in_order: bool = False
) -> Rows:
    """count, sum, min, max of x, and the least and greatest k; of rows that arrive in order also
    the first and the last x, and the k of the earliest row with the greatest x."""
    groups: dict[Any, Rows] = {} if keyed else {None: []}
    for row in rows:
        if least is None or (row[2] is not None and row[2] > least):
            groups.setdefault(row[1] if keyed else None, []).append(row)
    found = []
    for key, members in groups.items():
        values = [x for _, _, x in members if x is not None]
        texts = [k for _, k, _ in members if k is not None]
        made: tuple[Any, ...] = (
            len(members),
            sum(values) if values else None,
            *(min(values, default=None), max(values, default=None)),
            *(min(texts, default=None), max(texts, default=None)),
        )
        if in_order:
            members = sorted(members, key=lambda row: row[0])
            best = [row for row in members if row[2] is not None and row[2] == max(values)]
            ends = (members[0][2], members[-1][2]) if members else (None, None)
            made += (*ends, best[0][1] if best else None)
        if len(members) > having:
            found.append((key, *made) if keyed else made)
    return found


AGGREGATES = "count(*) AS n, sum(x) AS s, min(x) AS a, max(x) AS b, min(k) AS c, max(k) AS d"
IN_ORDER = f"{AGGREGATES}, first(x) AS e, last(x) AS f, max_by(k, x) AS g"
