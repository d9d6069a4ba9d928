"""What the oracle knows: tables as plain rows at each version of the mill, and views over them.

Nothing here uses the product. Tables have plain names of their own (t0, t1, ...) and columns named
by their role (k, x, d, ...), whatever the user calls them, so odd names cannot mislead the oracle.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from viewmill.testing.oracle import Row, canonical

_ARROW = {
    "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(),
    "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip

_NESTED = {
    "ARRAY<INT>": pa.list_(pa.int32()),
    "MAP<STRING, INT>": pa.map_(pa.string(), pa.int32()),
    "STRUCT<p: INT, q: STRING>": pa.struct([("p", pa.int32()), ("q", pa.string())]),
}  # fmt: skip

EPOCH = dt.datetime(1970, 1, 1)


class Impossible(Exception):
    """The change is against the rules of its table, so the mill must refuse it too."""


@dataclass(frozen=True)
class Column:
    """A column: its role is its name in the oracle, `name` is what the user calls it."""

    role: str
    type: str
    name: str


@dataclass(frozen=True)
class Stream:
    """The time options of a table; seconds."""

    role: str
    lateness: float = 0.0
    part: int | None = None
    retention: int | None = None


@dataclass
class Table:
    """A table as a bag of rows; `counted` maps a row's canonical form to the row and its count.

    With retention it holds the rows that are over, too: matches and parts made of them stay.
    """

    name: str
    alias: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    is_unchecked: bool = False
    is_append_only: bool = False
    stream: Stream | None = None
    counted: dict[Row, tuple[Row, int]] = field(default_factory=dict)
    newest: float | None = None  # seconds of the latest row
    tick: float | None = None
    _shown: list[Row] | None = None

    @cached_property
    def roles(self) -> list[str]:
        """The names of the columns in the oracle."""
        return [column.role for column in self.columns]

    def column(self, role: str) -> Column:
        """The column with a role."""
        return self.columns[self.roles.index(role)]

    def held(self) -> list[Row]:
        """Each row that was admitted, as often as it is there."""
        return [row for row, times in self.counted.values() for _ in range(times)]

    def rows(self) -> list[Row]:
        """Each row that readers see: those that retention leaves."""
        if self._shown is None:
            first, held = self.first_kept, self.held()
            self._shown = held if first is None else [r for r in held if self.part_of(r) >= first]
        return self._shown

    @property
    def is_settled(self) -> bool:
        """Whether no row has been deleted more often than it was inserted."""
        return not self.is_unchecked or all(times > 0 for _, times in self.counted.values())

    def copy(self) -> Table:
        """A copy that can be changed alone."""
        return Table(
            self.name, self.alias, self.columns, self.key, self.is_unchecked, self.is_append_only,
            self.stream, dict(self.counted), self.newest, self.tick,
        )  # fmt: skip

    def change(self, changes: Iterable[tuple[Row, int]]) -> None:
        """Add and remove rows, but those that come too late; `check` judges the net effect."""
        horizon = self.horizon
        for row, times in changes:
            if horizon is not None and self.part_of(row) < horizon:
                continue
            name = tuple(map(canonical, row))
            total = self.counted.get(name, (row, 0))[1] + times
            if total:
                self.counted[name] = (row, total)
            else:
                self.counted.pop(name, None)
            if times > 0:
                self._see(row)

    @property
    def watermark(self) -> float | None:
        """How far time has come: the latest row less the lateness, or the last tick."""
        assert self.stream is not None
        by_rows = [] if self.newest is None else [self.newest - self.stream.lateness]
        return max([*by_rows, *([] if self.tick is None else [self.tick])], default=None)

    def _see(self, row: Row) -> None:
        if self.stream is not None:
            moment = row[self.roles.index(self.stream.role)]
            if moment is not None:
                seconds = seconds_of(moment)
                self.newest = seconds if self.newest is None else max(self.newest, seconds)

    # Parts.

    def part_of(self, row: Row) -> int:
        """The part that a row is in."""
        assert self.stream is not None
        assert self.stream.part is not None
        return int(seconds_of(row[self.roles.index(self.stream.role)]) // self.stream.part)

    @property
    def newest_part(self) -> int | None:
        """The part that rows or ticks have reached."""
        if self.stream is None or self.stream.part is None:
            return None
        reached = [each for each in (self.newest, self.tick) if each is not None]
        return int(max(reached) // self.stream.part) if reached else None

    @property
    def first_kept(self) -> int | None:
        """The oldest part that retention leaves."""
        stream, newest = self.stream, self.newest_part
        if stream is None or stream.part is None or stream.retention is None or newest is None:
            return None
        return newest + 1 - -(-stream.retention // stream.part)

    @property
    def horizon(self) -> int | None:
        """The oldest part that may still change."""
        stream, newest = self.stream, self.newest_part
        if stream is None or stream.part is None or newest is None:
            return None
        bounds = [] if self.first_kept is None else [self.first_kept]
        if stream.lateness:
            bounds.append(int((newest * stream.part - stream.lateness) // stream.part))
        return max(bounds, default=None)

    # Keys.

    def replaced(self, rows: Sequence[Row]) -> list[tuple[Row, int]]:
        """The changes of an upsert; of rows with one key the last counts."""
        last = {self._key_of(row): row for row in rows}
        gone = [(row, -n) for row, n in self.counted.values() if self._key_of(row) in last]
        return gone + [(row, 1) for row in last.values()]

    def _key_of(self, row: Row) -> Row:
        return tuple(canonical(row[self.roles.index(role)]) for role in self.key)

    def check(self) -> None:
        """Raise `Impossible` if a row is missing or a key is there twice."""
        if not self.is_unchecked and any(times < 0 for _, times in self.counted.values()):
            raise Impossible("a row that is not there was deleted")
        if self.key:
            keys = Counter(self._key_of(row) for row in self.rows())
            if any(times > 1 for times in keys.values()):
                raise Impossible("a key is there twice")
            positions = [self.roles.index(role) for role in self.key]
            if any(row[i] is None for row in self.rows() for i in positions):
                raise Impossible("a key is NULL")

    def arrow(self) -> Any:
        """The rows as an Arrow table with the oracle's column names."""
        return arrow_table(self.columns, self.rows())


def arrow_table(columns: Sequence[Column], rows: Sequence[Row], *, named: bool = False) -> Any:
    """Rows as an Arrow table, with the roles or the user's names as column names."""
    arrays = [
        pa.array([plain_value(row[i]) for row in rows], arrow_type(column.type))
        for i, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, names=[c.name if named else c.role for c in columns])


def plain_value(value: Any) -> Any:
    """A list or a map, which steps hold as a tuple, as users give it."""
    return list(value) if isinstance(value, tuple) else value


def arrow_type(name: str) -> Any:
    """Arrow's type for a type of Spark's."""
    if name in _NESTED:
        return _NESTED[name]
    if name.startswith("DECIMAL"):
        precision, scale = name[len("DECIMAL(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[name]


def seconds_of(moment: dt.datetime) -> float:
    """Seconds since 1970."""
    return (moment - EPOCH) / dt.timedelta(seconds=1)


@dataclass
class View:
    """A view: its definition (see `definitions.py`), and what the player has seen of it."""

    name: str
    sql: str
    definition: Mapping[str, Any]
    is_deferred: bool = False
    followed: Counter[Row] | None = None
    stop: Any = None
    engine_calls: int = -1
    strategy: str = ""
    has_failed: bool = False  # a refresh since its status was compared
    last: list[Row] | None = None  # the rows when it was last fresh
    was_settled: bool = True  # then: no row below had been deleted too often
    first_part: int | None = None  # of a view in parts: where it starts
    since: dict[str, int | None] = field(default_factory=dict)  # of a pattern: the first part seen

    @property
    def follows_clock(self) -> bool:
        """Whether its rows come and go by the clock."""
        return "@now" in self.definition.get("duckdb", "")

    @property
    def reads(self) -> list[str]:
        """The tables and views it reads, by the user's names."""
        return list(self.definition["reads"])


@dataclass
class World:
    """All tables and views."""

    tables: dict[str, Table] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    made: int = 0
    serial: int = 0  # of rows with a time
    is_wide: bool = False  # tables have columns of nodes, lists and moments, too
    now: float = 0.0  # the clock of a wide world: seconds since 1970
    has_begun: bool = False  # a pipeline has started: tables and views are fixed

    def readers(self, name: str) -> list[str]:
        """The views that read a table or view."""
        return [view.name for view in self.views.values() if name in view.reads]

    def readers_of_all(self, names: Iterable[str]) -> set[str]:
        """The views that read any of these, or a view that does, and so on."""
        found, waiting = set[str](), list(names)
        while waiting:
            more = [each for each in self.readers(waiting.pop()) if each not in found]
            found.update(more)
            waiting += more
        return found

    def tables_below(self, view: View) -> list[str]:
        """The tables that a view reads, itself or through others."""
        found: list[str] = []
        for name in view.reads:
            found += [name] if name not in self.views else self.tables_below(self.views[name])
        return found

    def reached(self, view: View) -> float | None:
        """How far time has come for a view: the least of its tables with a time."""
        below = [self.tables[name] for name in self.tables_below(view)]
        times = [table.watermark for table in below if table.stream is not None]
        return None if None in times else min((t for t in times if t is not None), default=None)

    def is_settled(self, view: View) -> bool:
        """Whether no table below has a row that was deleted too often."""
        return all(self.tables[name].is_settled for name in self.tables_below(view))
