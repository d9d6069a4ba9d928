"""Rows through `mill.insert` into one GROUP BY view, at four batch sizes, against recompute.

Both systems hold the same rows. DuckDB appends each batch and computes the view again, with one
thread. At the end the view is compared with what DuckDB computes from all rows.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.clock import Timing, time_calls
from viewmill.bench.report import Report, Say

COLUMNS = "k BIGINT NOT NULL, n BIGINT NOT NULL, x DOUBLE NOT NULL"
QUERY = "SELECT k, COUNT(*) AS orders, SUM(n) AS total, AVG(x) AS average FROM t GROUP BY k"
GROUPS = 10_000
TABLES = {"unchecked": "UNCHECKED", "checked": ""}

# Batch size and number of batches. The largest come first and fill the table.
FULL = ((100_000, 10), (1_000, 500), (10, 3_000), (1, 20_000))
QUICK = ((100_000, 2), (1_000, 50), (10, 200), (1, 500))

# A process that makes the view and its first result, from whatever the kernel cache holds.
START = f"""
import time, viewmill as vm
mill = vm.connect()
mill.sql("CREATE TABLE t ({COLUMNS}) UNCHECKED")
start = time.perf_counter()
mill.sql("CREATE MATERIALIZED VIEW v AS {QUERY}")
mill.insert("t", [(1, 2, 3.0)])
assert mill["v"].rows() == [(1, 1, 2, 3.0)]
print(time.perf_counter() - start)
"""


@dataclass
class Rows:
    """Random rows, kept so that the end result can be computed once more."""

    seed: int
    arrow: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def batches(self, size: int, count: int) -> list[pa.Table]:
        """So many Arrow tables of `size` rows."""
        rows = size * count
        table = pa.table(
            {
                "k": self._random.integers(0, GROUPS, rows),
                "n": self._random.integers(-1000, 1000, rows),
                "x": self._random.normal(100, 10, rows),
            }
        )
        self.arrow.append(table)
        return [pa.table(table.slice(i * size, size)) for i in range(count)]


def groupby(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("groupby", seed)
    sizes = QUICK if quick else FULL
    verified = []
    for table, option in TABLES.items():
        say(f"viewmill, {table} table")
        verified.append(_viewmill(report, seed, sizes, table, option))
    say("duckdb, appending and computing again")
    _duckdb(report, seed, sizes)
    for (size, _), table in itertools.product(sizes, TABLES):
        ours = report.value("viewmill", "rows_per_s", batch=size, table=table)
        theirs = report.value("duckdb", "rows_per_s", batch=size)
        workload = {"batch": size, "table": table}
        report.add("viewmill", workload, speedup=ours / theirs)
    say("compiling, in processes of their own")
    for cache, seconds in _compile_times().items():
        report.add("viewmill", {"cache": cache}, compile_s=seconds)
    report.verified = all(verified)
    return report


def _viewmill(
    report: Report, seed: int, sizes: tuple[tuple[int, int], ...], table: str, option: str
) -> bool:
    rows = Rows(seed)
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE t ({COLUMNS}) {option}")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        mill.insert("t", rows.batches(1, 1)[0])  # compiled before the clock starts
        for size, count in sizes:
            timing = time_calls(
                lambda batch: mill.insert("t", batch), _given(rows, size, count), size * count
            )
            report.add("viewmill", {"batch": size, "table": table}, **timing.metrics())
        held = mill["v"].status()["state_bytes"]
        report.add("viewmill", {"table": table, "groups": GROUPS}, state_bytes=held)
        return same(mill["v"].to_arrow(), pa.concat_tables(rows.arrow))


def _given(rows: Rows, size: int, count: int) -> list[object]:
    """Large batches as Arrow; small ones as tuples, which is how people insert a few rows."""
    batches = rows.batches(size, count)
    if size > 10:
        return list(batches)
    return [list(zip(*batch.to_pydict().values(), strict=True)) for batch in batches]


def _duckdb(report: Report, seed: int, sizes: tuple[tuple[int, int], ...]) -> None:
    """Append and recompute, for as long as it takes to be sure: at most a few hundred times."""
    rows = Rows(seed)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("CREATE TABLE t (k BIGINT, n BIGINT, x DOUBLE)")
        _time_duckdb(connection, rows.batches(1, 1), 1)
        for size, count in sizes:
            batches = rows.batches(size, count)
            timed = batches[: min(count, 100)]
            timing = _time_duckdb(connection, timed, size)
            report.add("duckdb", {"batch": size}, **timing.metrics())
            if len(timed) < count:
                rest = pa.concat_tables(batches[len(timed) :])
                connection.register("batch", rest)
                connection.execute("INSERT INTO t SELECT * FROM batch")


def _time_duckdb(
    connection: duckdb.DuckDBPyConnection, batches: list[pa.Table], size: int
) -> Timing:
    def append_and_recompute(batch: pa.Table) -> None:
        connection.register("batch", batch)
        connection.execute("INSERT INTO t SELECT * FROM batch")
        connection.execute(f"CREATE OR REPLACE TABLE v AS {QUERY}")

    return time_calls(append_and_recompute, batches, size * len(batches))


def same(view: pa.Table, rows: pa.Table) -> bool:
    """Whether the view holds what DuckDB computes from the rows; floats within 1e-9."""
    with duckdb.connect() as connection:
        connection.register("t", rows)
        expected = connection.sql(f"{QUERY} ORDER BY k").fetchall()
    found = sorted(zip(*view.to_pydict().values(), strict=True))
    return len(found) == len(expected) and all(
        ours[:3] == (theirs[0], theirs[1], int(theirs[2]))
        and abs(ours[3] - theirs[3]) <= 1e-9 * max(1.0, abs(theirs[3]))
        for ours, theirs in zip(found, expected, strict=True)
    )


def _compile_times() -> dict[str, float]:
    """Seconds from CREATE to the first result, with an empty kernel cache and with a filled one."""
    with tempfile.TemporaryDirectory(prefix="viewmill-bench-") as cache:
        environment = {**os.environ, "VIEWMILL_CACHE": cache}
        return {word: _start(environment) for word in ("cold", "warm")}


def _start(environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", START]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
