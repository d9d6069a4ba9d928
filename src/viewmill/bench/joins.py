"""Streams into a view over several tables: round-robin batches, against recompute in DuckDB.

takes  `JoinWorkload`: tables with their rows, the view's query, the same query factorized
gives  figures of viewmill through the API, of its kernel alone, and of DuckDB, all in one run

The tables are UNCHECKED and all rows are inserts, shuffled. A small batch size is timed on the last
rows of the stream only, when the states are full. DuckDB appends and computes again: `duckdb` the
query as it is written, on the first batches until its time is up, when the tables are still small;
`reevaluate` the query with aggregates pushed below the joins, when they are full.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

import viewmill as vm
from viewmill.bench.clock import time_calls
from viewmill.bench.report import Report, Say

Batch = tuple[str, pa.Table]

# How many calls are timed at most, by batch size.
CALLS = {1: 10_000, 100: 3_000, 1_000: 10_000, 10_000: 1_000}
_DUCKDB_SECONDS = 10.0


@dataclass(frozen=True)
class JoinWorkload:
    """A view over several tables and the rows that stream into them."""

    name: str
    columns: Mapping[str, str]
    rows: Mapping[str, pa.Table]
    query: str
    factorized: str

    def batches(self, size: int) -> list[Batch]:
        """Batches of `size` rows, one table after the other, until all rows are used."""
        longest = max(table.num_rows for table in self.rows.values())
        return [
            (name, pa.table(table.slice(start, size)))
            for start in range(0, longest, size)
            for name, table in self.rows.items()
            if start < table.num_rows
        ]


def run(workload: JoinWorkload, report: Report, sizes: Sequence[int], say: Say) -> None:
    """All figures of a workload; the report is verified if every final result is right."""
    expected = _expected(workload)
    verified = []
    for size in sizes:
        say(f"viewmill, batches of {size}, updates to all tables")
        verified.append(_viewmill(workload, report, size, expected))
    largest = max(workload.rows, key=lambda name: workload.rows[name].num_rows)
    say(f"viewmill, batches of 1000, updates to {largest} only")
    verified.append(_largest_only(workload, report, largest, expected))
    say("the kernel alone, batches of 1000")
    _kernel(workload, report)
    say("duckdb, appending and computing again")
    _duckdb(workload, report)
    report.verified = all(verified)


def _expected(workload: JoinWorkload) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, rows in workload.rows.items():
            connection.register(name, rows)
        return connection.sql(workload.factorized).fetchall()


def _create(mill: Any, workload: JoinWorkload, options: Mapping[str, str] | None = None) -> None:
    for name, columns in workload.columns.items():
        mill.sql(f"CREATE TABLE {name} ({columns}) {(options or {}).get(name, 'UNCHECKED')}")


def _view(mill: Any, workload: JoinWorkload) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {workload.query}")


def _viewmill(
    workload: JoinWorkload, report: Report, size: int, expected: list[tuple[Any, ...]]
) -> bool:
    batches = workload.batches(size)
    timed = batches[-CALLS[size] :]
    with vm.connect() as mill:
        _create(mill, workload)
        _view(mill, workload)
        _fill(mill, workload, batches[: -CALLS[size]])
        insert = _inserter(mill)
        timing = time_calls(insert, timed, _row_count(timed))
        key = {"batch": size, "updates": "all"}
        report.add("viewmill", key, **timing.metrics())
        report.add("viewmill", key, state_bytes=_state_bytes(mill))
        return bool(mill["v"].rows() == expected)


def _inserter(mill: Any) -> Callable[[Batch], None]:
    return lambda batch: mill.insert(batch[0], batch[1])


def _fill(mill: Any, workload: JoinWorkload, batches: Sequence[Batch]) -> None:
    """Insert what is not timed, in one piece for each table."""
    for name in workload.rows:
        pieces = [rows for table, rows in batches if table == name]
        if pieces:
            mill.insert(name, pa.concat_tables(pieces))


def _largest_only(
    workload: JoinWorkload, report: Report, largest: str, expected: list[tuple[Any, ...]]
) -> bool:
    options = {name: "STATIC" for name in workload.columns if name != largest}
    batches = [batch for batch in workload.batches(1000) if batch[0] == largest]
    with vm.connect() as mill:
        _create(mill, workload, options)
        for name in options:
            mill.insert(name, workload.rows[name])
        _view(mill, workload)
        timing = time_calls(_inserter(mill), batches, _row_count(batches))
        key = {"batch": 1000, "updates": "largest"}
        report.add("viewmill", key, **timing.metrics())
        report.add("viewmill", key, state_bytes=_state_bytes(mill))
        return bool(mill["v"].rows() == expected)


def _kernel(workload: JoinWorkload, report: Report) -> None:
    """The same program without the mill around it."""
    batches = workload.batches(1000)
    with vm.connect() as mill:
        _create(mill, workload)
        _view(mill, workload)
        core = mill._core
        program = core.catalog.view("v").plan.program
        build = pkgutil.resolve_name("viewmill.kernels.build:build")
        to_delta = pkgutil.resolve_name("viewmill.deltas.rows:to_delta")
        maintainer = build(program, core.dictionary)
        inputs = {each.source.lower(): each.name for each in program.inputs}
        schemas = {name: core.catalog.table(name).table.schema for name in workload.rows}
        deltas = [
            (inputs[name.lower()], to_delta(rows, schemas[name], core.dictionary))
            for name, rows in batches
        ]

        def apply(item: tuple[str, Any]) -> None:
            maintainer.apply(*item)
            maintainer.flush()
            maintainer.commit()

        timing = time_calls(apply, deltas, _row_count(batches))
        report.add("kernel", {"batch": 1000, "updates": "all"}, **timing.metrics())


def _duckdb(workload: JoinWorkload, report: Report) -> None:
    batches = workload.batches(1000)
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, rows in workload.rows.items():
            connection.register("empty", rows.slice(0, 0))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM empty")
        done = _time_duckdb(connection, workload, report, batches)
        for name in workload.rows:
            rest = [rows for table, rows in batches[done:-10] if table == name]
            if rest:
                connection.register("batch", pa.concat_tables(rest))
                connection.execute(f"INSERT INTO {name} SELECT * FROM batch")
        append = _appender(connection, workload.factorized)
        timing = time_calls(append, batches[-10:], _row_count(batches[-10:]))
        report.add("reevaluate", {"batch": 1000, "updates": "all"}, **timing.metrics())


def _time_duckdb(
    connection: Any, workload: JoinWorkload, report: Report, batches: Sequence[Batch]
) -> int:
    """Time the query as written until the seconds are over; how many batches that were."""
    append = _appender(connection, workload.query)
    stop, count = time.perf_counter() + _DUCKDB_SECONDS, 0

    def until_late() -> Any:
        nonlocal count
        for batch in batches:
            if time.perf_counter() > stop:
                return
            count += 1
            yield batch

    timing = time_calls(append, until_late(), 1)
    metrics = timing.metrics()
    rows = _row_count(batches[:count])
    metrics |= {"rows_per_cpu_s": rows / timing.cpu_s, "rows_per_s": rows / timing.wall_s}
    report.add("duckdb", {"batch": 1000, "updates": "all"}, **metrics)
    return count


def _appender(connection: Any, query: str) -> Callable[[Batch], None]:
    def append(batch: Batch) -> None:
        connection.register("batch", batch[1])
        connection.execute(f"INSERT INTO {batch[0]} SELECT * FROM batch")
        connection.execute(f"CREATE OR REPLACE TABLE v AS {query}")

    return append


def _row_count(batches: Sequence[Batch]) -> int:
    return sum(rows.num_rows for _, rows in batches)


def _state_bytes(mill: Any) -> float:
    return float(mill["v"].status()["state_bytes"])
