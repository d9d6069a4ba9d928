"""One schedule: random changes of a durable mill, and what must hold after each.

takes  a seed and an empty folder
does   changes tables while the disk fails as the schedule says; opens the mill again, after a
       power loss from what that leaves
gives  nothing, or Broken: a row that was acknowledged is gone, a change that was refused is there,
       or a view is not what DuckDB makes of the rows

The rows that must be there are kept in plain Python lists. What was under way when the power went,
and a change whose outcome is unknown, may be there or not, but never half of it.
"""

from __future__ import annotations

import datetime
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa

import viewmill as vm
from viewmill.engines.duckdb import DuckdbEngine
from viewmill.errors import DamagedFile, MillClosed, OutcomeUnknown, StorageFailed, ViewmillError
from viewmill.mill import core, store
from viewmill.testing.faults.disk import FaultyDisk
from viewmill.testing.faults.schedule import PowerLoss, Schedule
from viewmill.testing.faults.sqlite_disk import sqlite_on

Rows = dict[str, list[tuple[Any, ...]]]

TABLES = {
    "t": "CREATE TABLE t (k BIGINT, s STRING, x BIGINT)",
    "r": "CREATE TABLE r (k BIGINT PRIMARY KEY, y BIGINT)",
    "p": "CREATE TABLE p (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60",
}
COLUMNS = {
    "t": ("k", "s", "x"), "r": ("k", "y"), "p": ("ts", "x"), "n": ("k", "xs"), "e": ("a", "b"),
}  # fmt: skip
VIEWS = {
    "grouped": "SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k",
    "joined": "SELECT t.s, r.y, t.x FROM t JOIN r ON t.k = r.k",
    "minutes": "SELECT count(*) AS n, sum(x) AS s FROM p",
}
# One schedule of five has these, too: lists, and what a recursive query reaches.
MORE_TABLES = {
    "n": "CREATE TABLE n (k BIGINT, xs ARRAY<BIGINT>)",
    "e": "CREATE TABLE e (a BIGINT, b BIGINT)",
}
MORE_VIEWS = {
    "exploded": "SELECT k, x FROM n LATERAL VIEW explode(xs) z AS x",
    "reached": "WITH RECURSIVE r AS (SELECT a, b FROM e WHERE a < 3 UNION "
    "SELECT r.a, e.b FROM r JOIN e ON r.b = e.a) SELECT a, b FROM r",
    "ranked": "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS i FROM t",
    "chained": "SELECT s, count(*) AS n FROM grouped GROUP BY s",
}
_IN_DUCKDB = {  # what it says in another way
    "exploded": "SELECT k, unnest(xs) FROM n",
    "chained": f"SELECT s, count(*) FROM ({VIEWS['grouped']}) GROUP BY s",
}
LATER = "CREATE MATERIALIZED VIEW later REFRESH WITHIN INTERVAL '1' HOUR AS SELECT k FROM t"
_MINUTE = datetime.datetime(2024, 1, 1)
_STEPS = 14


class Broken(AssertionError):
    """What must hold does not."""


def play(seed: int, folder: Path) -> Schedule:
    """One schedule."""
    world = _World(Schedule(seed), folder)
    with _ctrl_c(), _cheaply():
        try:
            world.run()
        except Broken as why:
            raise Broken(f"{why} [{Schedule(seed)}]") from why
        except ViewmillError as why:
            raise Broken(f"{why} [{Schedule(seed)}]") from why
    return world.schedule


@contextmanager
def _ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _cheaply() -> Iterator[None]:
    """Deltas become files when they have few rows already, and there is one bulk engine."""
    before, store.LARGE_BYTES = store.LARGE_BYTES, 3000
    engine, core.ENGINES["duckdb"] = core.ENGINES["duckdb"], f"{__name__}:SharedEngine"
    try:
        yield
    finally:
        store.LARGE_BYTES, core.ENGINES["duckdb"] = before, engine


class _World:
    """A mill, and what it must hold."""

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.schedule, self.chance = schedule, random.Random(schedule.seed + 1)
        self._folder, self._lives = folder, 0
        self._next = 0
        has_more = schedule.seed % 5 == 0
        self._tables = {**TABLES, **MORE_TABLES} if has_more else TABLES
        self._views = {**VIEWS, **MORE_VIEWS} if has_more else VIEWS
        self.rows: Rows = {name: [] for name in self._tables}
        self.mill: vm.Mill | None = None
        self.maybe: Rows | None = None  # the rows if a change is there whose outcome is unknown

    def run(self) -> None:
        """Build, fail, look again, go on without faults, look again."""
        root = self._folder / "0"
        root.mkdir()
        disk = FaultyDisk(root, self.schedule)
        with disk.installed(), sqlite_on(disk), _jumping_clock(self.schedule):
            with suppress(PowerLoss):
                self._work(root)
            self._leave(disk)
        root = self._after(disk)
        with vm.connect(root / "m.mill") as self.mill:
            self._check()
            self._change(self._draw())
            self.mill.checkpoint()
        if self.chance.random() < 0.3:
            with vm.connect(root / "m.mill") as self.mill:
                self._check()

    def _work(self, root: Path) -> None:
        mill = self.mill = vm.connect(root / "m.mill")
        for statement in self._tables.values():
            mill.sql(statement)
        for name, query in self._views.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        mill.sql(LATER)
        self._change(self._draw())
        self.schedule.begin()
        for _ in range(_STEPS):
            if not self._step(root):
                return

    def _step(self, root: Path) -> bool:
        """A change or something else; whether the mill can still be changed."""
        self._require_power()
        mill, kind = self._open_mill(), self.chance.random()
        try:
            if kind < 0.12:
                with suppress(KeyboardInterrupt):
                    mill.checkpoint()
            elif kind < 0.2:
                try:
                    mill.close()
                except KeyboardInterrupt:
                    pass
                except StorageFailed as why:
                    raise Broken(f"closing fails: {why}") from why
                self.mill = self._again(root)
            else:
                return self._change(self._draw())
        except (OutcomeUnknown, MillClosed):  # of a checkpoint: this one, or one that Ctrl-C hid
            return False
        except StorageFailed:
            pass  # who asks for a checkpoint is told
        return True

    def _open_mill(self) -> vm.Mill:
        assert self.mill is not None
        return self.mill

    def _again(self, root: Path) -> vm.Mill:
        """Open while the disk fails: until it works, or without faults."""
        for _ in range(3):
            try:
                return vm.connect(root / "m.mill")
            except DamagedFile as why:
                raise Broken(f"taken for damage: {why}") from why
            except (StorageFailed, KeyboardInterrupt):
                self._require_power()
        self.schedule.heal()
        return vm.connect(root / "m.mill")

    def _require_power(self) -> None:
        if self.schedule.is_off:
            raise PowerLoss

    # Changes.

    def _draw(self) -> tuple[Callable[[vm.Mill], None], Rows]:
        """A change, and the rows after it."""
        chance, after = self.chance, {name: list(rows) for name, rows in self.rows.items()}
        come: Rows = {name: [] for name in self._tables}
        for name in chance.choice((("t",), ("t",), ("r",), ("p",), ("t", "r"), ("t", "p", "r"))):
            come[name] = self._new_rows(name, chance.choice((1, 2, 5, 60)))
        for name in [each for each in MORE_TABLES if each in self._tables]:
            come[name] = self._new_rows(name, 2)
        gone = []
        if chance.random() < 0.3 and after["t"]:
            gone = [chance.choice(after["t"])]
            after["t"].remove(gone[0])
        for name, rows in come.items():
            after[name] += rows

        def change(mill: vm.Mill) -> None:
            parts = [(name, rows) for name, rows in come.items() if rows]
            if len(parts) == 1 and not gone:
                mill.insert(*parts[0])
                return
            with mill.batch():
                for name, rows in parts:
                    mill.insert(name, rows)
                if gone:
                    mill.delete("t", gone)

        return change, after

    def _new_rows(self, table: str, count: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for _ in range(count):
            i = self._next = self._next + 1
            if table == "t":
                found.append((i % 7, f"text {i}", i))
            elif table == "r":
                found.append((i, i % 3))
            elif table == "n":
                found.append((i % 5, None if i % 7 == 0 else tuple(range(i % 4))))
            elif table == "e":
                found.append((i % 3, i % 11))
            else:
                found.append((_MINUTE + datetime.timedelta(seconds=10 * i), i))
        return found

    def _change(self, drawn: tuple[Callable[[vm.Mill], None], Rows]) -> bool:
        mill, (change, after) = self._open_mill(), drawn
        try:
            change(mill)
            self.rows = after
        except KeyboardInterrupt as why:
            if _is_after_unknown(why):
                self._require_closed(mill)
                self.maybe = after
                return False
            self.rows = self._settled(mill, after)
        except (OutcomeUnknown, PowerLoss):
            self._require_closed(mill)
            self.maybe = after
            if self.schedule.is_off:
                raise PowerLoss from None
            return False
        except MillClosed:
            return False  # a checkpoint on its own failed before
        except StorageFailed:
            pass
        if self.schedule.is_off:
            self.maybe = after
        self._require_power()
        if self.chance.random() < 0.3:
            self._check()
        return True

    def _require_closed(self, mill: vm.Mill) -> None:
        if self.schedule.is_off:
            return
        try:
            mill.insert("t", [(0, "never", 0)])
        except MillClosed as why:
            if "open it again" not in why.hint:
                raise Broken(f"no hint: {why}") from why
        else:
            raise Broken("a mill takes changes though the outcome of one is unknown")

    def _settled(self, mill: vm.Mill, after: Rows) -> Rows:
        """The rows with a change that was interrupted, or without it."""
        return after if _is_same(_held(mill, self._tables), after) else self.rows

    # Ends.

    def _leave(self, disk: FaultyDisk) -> None:
        """The process ends: sometimes by closing, mostly without."""
        self.schedule.heal()
        if self.mill is not None:
            with suppress(ViewmillError, PowerLoss, KeyboardInterrupt):
                self.mill.close()
            self.mill = None

    def _after(self, disk: FaultyDisk) -> Path:
        """Where the mill is found now."""
        if not self.schedule.is_off:
            return disk.machine.root
        left = self._folder / "left"
        disk.machine.lose_power(self.chance, left)
        self.schedule.is_off, self.schedule.lost_power = False, True
        return left

    # What must hold.

    def _check(self) -> None:
        mill = self._open_mill()
        held = _held(mill, self._tables)
        if self.maybe is not None:
            if _is_same(held, self.maybe):
                self.rows = self.maybe
            self.maybe = None
        for name, rows in self.rows.items():
            lost = Counter(rows) - Counter(held[name])
            more = Counter(held[name]) - Counter(rows)
            if lost or more:
                raise Broken(f"{name} has lost {len(lost)} rows and has {len(more)} too many")
        expected = _recomputed(self.rows, self._views)
        for name in self._views:
            if Counter(mill[name].rows()) != Counter(expected[name]):
                raise Broken(f"view {name} is not what DuckDB makes of the rows")
        self._check_clock(mill)

    def _check_clock(self, mill: vm.Mill) -> None:
        status = mill["later"].status()
        due = status["next_refresh_s"]
        if not 0 <= status["lag_s"] < 600 or not (due is None or 0 < due <= 3600):
            raise Broken(f"a clock that was set changes a policy: {status['lag_s']}, {due}")


def _held(mill: vm.Mill, tables: Iterable[str]) -> Rows:
    names = mill.tables()
    found = {n: mill.sql(f"SELECT * FROM {n}").rows() if n in names else [] for n in tables}
    return {n: [tuple(map(_hashable, row)) for row in rows] for n, rows in found.items()}


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_after_unknown(why: BaseException) -> bool:
    """Whether the signal was handled at the end of a change whose outcome is unknown."""
    return isinstance(why.__context__, OutcomeUnknown)


def _is_same(one: Rows, other: Rows) -> bool:
    return all(Counter(one[name]) == Counter(other[name]) for name in one)


_ENGINE: list[Any] = []  # the oracle's


class SharedEngine(DuckdbEngine):
    """One bulk engine for all mills of a process: making one takes longer than a schedule."""

    _made: ClassVar[list[SharedEngine]] = []

    def __new__(cls, *, is_safe: bool = False) -> SharedEngine:
        """The one there is."""
        if not cls._made:
            cls._made.append(super().__new__(cls))
            DuckdbEngine.__init__(cls._made[0])
        return cls._made[0]

    def __init__(self, *, is_safe: bool = False) -> None:
        """It was made before."""

    def close(self) -> None:
        """It is needed again."""


def _recomputed(rows: Rows, views: Mapping[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    """What DuckDB makes of the rows."""
    if not _ENGINE:
        _ENGINE.append(duckdb.connect(config={"threads": 1}))
    types = {"s": pa.string(), "ts": pa.timestamp("us"), "xs": pa.list_(pa.int64())}
    for table, found in rows.items():
        names = COLUMNS[table]
        columns = [[row[i] for row in found] for i in range(len(names))]
        arrays = [
            pa.array(c, types.get(n, pa.int64())) for n, c in zip(names, columns, strict=True)
        ]
        _ENGINE[0].register(table, pa.table(arrays, names=list(names)))
    queries = {name: _IN_DUCKDB.get(name, query) for name, query in views.items()}
    return {name: _ENGINE[0].execute(query).fetchall() for name, query in queries.items()}


@contextmanager
def _jumping_clock(schedule: Schedule) -> Iterator[None]:
    """The wall clock is set from time to time, back and forth by days."""
    chance = random.Random(schedule.seed + 2)
    really, really_ns = time.time, time.time_ns
    days = [0]

    def jump() -> int:
        if chance.random() < 0.05:
            days[0] = chance.randrange(-400, 400)
        return days[0] * 86_400

    time.time = lambda: really() + jump()
    time.time_ns = lambda: really_ns() + jump() * 10**9
    try:
        yield
    finally:
        time.time, time.time_ns = really, really_ns
