"""Durable commits through `mill.insert` into a GROUP BY view, side by side with SQLite.

Both systems write the same rows to the same disk, and wait for it at every commit. SQLite runs with
`journal_mode = WAL` and `synchronous = FULL`; it inserts the rows and upserts their groups.
The systems take turns, so that what else the disk has to do falls on both. At the end the view and
SQLite's groups are compared with what DuckDB computes from all rows. TMPDIR says which disk it is.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.clock import Timing, time_calls
from viewmill.bench.report import Report, Say

COLUMNS = "id BIGINT NOT NULL, k BIGINT NOT NULL, n BIGINT NOT NULL, x DOUBLE NOT NULL"
QUERY = "SELECT k, COUNT(*) AS orders, SUM(n) AS total, SUM(x) AS weight FROM t GROUP BY k"
GROUPS = 1_000
KEYS = {"keyed": ", PRIMARY KEY (id)", "unchecked": ""}

# Batch size, number of batches in a turn, number of turns.
FULL = ((1, 250, 8), (1_000, 20, 8))
QUICK = ((1, 50, 2), (1_000, 5, 2))

Row = tuple[int, int, int, float]
Batch = list[Row]
Insert = Callable[[Batch], object]

_UPSERT = (
    "INSERT INTO g VALUES (?, 1, ?, ?) ON CONFLICT (k) DO UPDATE SET orders = orders + 1, "
    "total = total + excluded.total, weight = weight + excluded.weight"
)


class Sqlite:
    """A table and a table of its groups, kept by upserts."""

    def __init__(self, path: Path, key: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {setting}").fetchall()
        self._connection.execute(f"CREATE TABLE t ({COLUMNS}{key})".replace("BIGINT", "INTEGER"))
        self._connection.execute(
            "CREATE TABLE g (k INTEGER PRIMARY KEY, orders INTEGER, total INTEGER, weight REAL)"
        )

    def insert(self, batch: Batch) -> None:
        """Commit rows, and what they change in their groups."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        if len(batch) == 1:
            execute("INSERT INTO t VALUES (?, ?, ?, ?)", batch[0])
            execute(_UPSERT, batch[0][1:])
        else:
            self._connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", batch)
            self._connection.executemany(_UPSERT, [row[1:] for row in batch])
        execute("COMMIT")

    def groups(self) -> list[Row]:
        """The rows of the groups."""
        return self._connection.execute("SELECT * FROM g ORDER BY k").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Rows:
    """Random rows, kept so that the end result can be computed once more."""

    def __init__(self, seed: int) -> None:
        self._random, self._next = np.random.default_rng(seed), 0
        self._tables: list[pa.Table] = []

    def batches(self, size: int, count: int) -> list[Batch]:
        """So many batches of `size` rows."""
        rows = size * count
        columns = {
            "id": np.arange(self._next, self._next + rows),
            "k": self._random.integers(0, GROUPS, rows),
            "n": self._random.integers(-1000, 1000, rows),
            "x": self._random.normal(100, 10, rows),
        }
        self._next += rows
        self._tables.append(pa.table(columns))
        listed = list(zip(*(each.tolist() for each in columns.values()), strict=True))
        return [listed[i : i + size] for i in range(0, rows, size)]

    def groups(self) -> list[Row]:
        """What DuckDB computes from all rows."""
        with duckdb.connect() as connection:
            connection.register("t", pa.concat_tables(self._tables))
            return connection.sql(f"{QUERY} ORDER BY k").fetchall()


def durable(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("durable", seed)
    verified = []
    for table in KEYS:
        say(f"{table} table, viewmill and sqlite by turns")
        with tempfile.TemporaryDirectory(prefix="viewmill-bench-") as folder:
            verified.append(_compare(report, Path(folder), seed, table, QUICK if quick else FULL))
    report.verified = all(verified)
    return report


def _compare(
    report: Report, folder: Path, seed: int, table: str, sizes: tuple[tuple[int, int, int], ...]
) -> bool:
    key, rows = KEYS[table], Rows(seed)
    sqlite = Sqlite(folder / "sqlite.db", key)
    with vm.connect(folder / "viewmill.mill", compile="now") as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS}{key})" + ("" if key else " UNCHECKED"))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")

        def insert(batch: Batch) -> None:
            mill.insert("t", batch)

        systems: dict[str, Insert] = {"viewmill": insert, "sqlite": sqlite.insert}
        for size in (1, 1_000):  # compiled before the clock starts
            _take_turn(systems, rows.batches(size, 2))
        for size, count, turns in sizes:
            found = [_take_turn(systems, rows.batches(size, count)) for _ in range(turns)]
            _note(report, found, {"batch": size, "table": table})
        view = sorted(mill["v"].rows())
    groups, expected = sqlite.groups(), rows.groups()
    sqlite.close()
    return is_same(view, expected) and is_same(groups, expected)


def _take_turn(systems: dict[str, Insert], batches: Sequence[Batch]) -> dict[str, Timing]:
    rows = sum(map(len, batches))
    return {name: time_calls(insert, batches, rows) for name, insert in systems.items()}


def _note(report: Report, turns: list[dict[str, Timing]], workload: dict[str, object]) -> None:
    for system in turns[0]:
        timings = [turn[system] for turn in turns]
        commits = sum(each.calls for each in timings)
        cpu_s, wall_s = sum(each.cpu_s for each in timings), sum(each.wall_s for each in timings)
        report.add(
            system,
            workload,
            us_per_update=cpu_s / commits * 1e6,
            commits_per_s=commits / wall_s,
            rows_per_s=sum(each.rows for each in timings) / wall_s,
            p50_ms=float(np.median([each.p50_ms for each in timings])),
            p99_ms=max(each.p99_ms for each in timings),
        )


def is_same(found: list[Row], expected: list[Row]) -> bool:
    """Whether groups are equal; floats within 1e-9."""
    return len(found) == len(expected) and all(
        ours[:3] == (theirs[0], theirs[1], int(theirs[2]))
        and abs(ours[3] - theirs[3]) <= 1e-9 * max(1.0, abs(theirs[3]))
        for ours, theirs in zip(found, expected, strict=True)
    )
