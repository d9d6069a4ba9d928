"""A view over a stream of inserts and deletes, at four batch sizes, against recompute.

A view is created over empty UNCHECKED tables. The whole data comes in batches of 10,000 rows, and
in another mill in batches of 1,000; what is held back there comes in batches of 100 and of 1, and a
part of it is deleted again. DuckDB, with one thread and all rows loaded, takes a few batches of
each size and computes the query after each. At the end every view is compared with DuckDB.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

import viewmill as vm
from viewmill.bench.clock import time_calls
from viewmill.bench.report import Report, Say
from viewmill.bench.stream import Batch, row_count, stream, tables_of
from viewmill.engines.duckdb import connect
from viewmill.mill.mill import Mill
from viewmill.sql.render import render

LARGE, MIDDLE, SMALL, SINGLE = 10_000, 1_000, 100, 1
SMALL_BATCHES, DELETED, SINGLES = 150, 50, 300
RECOMPUTES = 5  # of DuckDB, at each size


@dataclass(frozen=True)
class Workload:
    """A query, the tables that it reads, and their columns."""

    query: int
    sql: str
    tables: Mapping[str, pa.Table]
    columns: Mapping[str, str]

    def create(self, mill: Mill) -> None:
        """Make tables and view."""
        for name in self.tables:
            mill.sql(f"CREATE TABLE {name} ({self.columns[name]}) UNCHECKED")
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL AS {self.sql}")

    def first_result_s(self) -> float:
        """Seconds until a view has seen rows of every table come and go, in batches small and
        large: what it needs is compiled and loaded then, also what takes rows summed by key."""
        start = time.perf_counter()
        with vm.connect() as mill:
            self.create(mill)
            for change in (mill.insert, mill.delete):
                for size in (SMALL, MIDDLE):
                    for name, rows in self.tables.items():
                        change(name, rows.slice(0, size))
            mill["v"].rows()
        return time.perf_counter() - start


@contextmanager
def kernel_cache(*, fresh: bool) -> Iterator[None]:
    """With `fresh`, an empty directory for kernels, so that compile times are those of a start."""
    if not fresh:
        yield
        return
    before = os.environ.get("VIEWMILL_CACHE")
    with tempfile.TemporaryDirectory(prefix="viewmill-bench-") as directory:
        os.environ["VIEWMILL_CACHE"] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ["VIEWMILL_CACHE"]
            else:
                os.environ["VIEWMILL_CACHE"] = before


def run_queries(
    report: Report,
    queries: Mapping[int, str],
    tables: Mapping[str, pa.Table],
    columns: Mapping[str, str],
    say: Say,
    *,
    quick: bool,
) -> Report:
    """Every query over the tables that it reads; verified if all results are right."""
    right = []
    with kernel_cache(fresh=not quick):
        for number, sql in queries.items():
            read = {name: tables[name] for name in tables_of(sql, columns)}
            right.append(run_workload(report, Workload(number, sql, read, columns), say))
    summarize(report)
    report.verified = all(right)
    return report


def run_workload(report: Report, workload: Workload, say: Say) -> bool:
    """Feed and time one view; whether it is equal to DuckDB's at the end."""
    number, tables = workload.query, workload.tables
    say(f"Q{number}: viewmill, batches of {MIDDLE:,}, {SMALL} and {SINGLE}")
    batches, small, singles = _parts(tables)
    report.add("viewmill", {"query": number}, compile_s=workload.first_result_s())
    with vm.connect() as mill:
        workload.create(mill)
        _feed(report, mill, number, MIDDLE, batches)
        _feed(report, mill, number, SMALL, small)
        _feed(report, mill, number, SINGLE, singles)
        held = mill["v"].status()["state_bytes"]
        report.add("viewmill", {"query": number}, state_bytes=held)
        is_right = mill["v"].verify() == []
    say(f"Q{number}: viewmill, batches of {LARGE:,}")
    with vm.connect() as mill:
        workload.create(mill)
        _feed(report, mill, number, LARGE, stream(tables, LARGE))
        is_right = is_right and mill["v"].verify() == []
        sql = render(mill.core.catalog.view("v").query, "duckdb", lambda name: name)
    say(f"Q{number}: duckdb")
    _recompute(report, workload, sql)
    return is_right


def _parts(tables: Mapping[str, pa.Table]) -> tuple[list[Batch], list[Batch], list[Batch]]:
    """The stream in large batches, its end in small ones, and the very end one by one."""
    batches = stream(tables, MIDDLE)
    tail = max(1, min(SMALL_BATCHES * SMALL // MIDDLE + 1, len(batches) // 4))
    batches, end = batches[:-tail], batches[-tail:]
    *end, last = end
    small = [each for batch in end for each in batch.cut(SMALL)]
    deleted = [Batch(each.table, each.rows, is_delete=True) for each in small[:DELETED]]
    return batches, small + deleted, list(last.cut(SINGLE))[:SINGLES]


def _feed(report: Report, mill: Mill, number: int, size: int, batches: list[Batch]) -> None:
    def change(batch: Batch) -> None:
        (mill.delete if batch.is_delete else mill.insert)(batch.table, batch.rows)

    if not batches:
        return
    timing = time_calls(change, batches, row_count(batches))
    report.add("viewmill", {"query": number, "batch": size}, **timing.metrics())


def _recompute(report: Report, workload: Workload, sql: str) -> None:
    with connect() as connection:
        connection.execute("SET threads = 1")
        for name, rows in workload.tables.items():
            connection.register("rows", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")

        def change(batch: Batch) -> None:
            connection.register("rows", batch.rows)
            connection.execute(f"INSERT INTO {batch.table} SELECT * FROM rows")
            connection.execute(f"CREATE OR REPLACE TABLE v AS {sql}")

        largest = max(workload.tables, key=lambda name: workload.tables[name].num_rows)
        change(Batch(largest, workload.tables[largest].slice(0, 1)))  # warm, as after a start
        for size in (LARGE, MIDDLE, SMALL, SINGLE):
            given = [Batch(largest, workload.tables[largest].slice(0, size))] * RECOMPUTES
            timing = time_calls(change, given, row_count(given))
            about = {"query": workload.query, "batch": size}
            report.add("duckdb", about, **timing.metrics())
            for each in list(report.results):
                ours = (each.system, each.metric, each.workload)
                if ours == ("viewmill", "us_per_update", about):
                    speedup = timing.cpu_s / timing.calls * 1e6 / each.value
                    report.add("viewmill", about, speedup=speedup)


def summarize(report: Report) -> None:
    """The geometric mean of the speedups of all queries, by batch."""
    for size in (LARGE, MIDDLE, SMALL, SINGLE):
        found = [
            math.log(each.value)
            for each in report.results
            if each.metric == "speedup" and each.workload.get("batch") == size
        ]
        if len(found) > 1:
            mean = math.exp(sum(found) / len(found))
            report.add("viewmill", {"query": "all", "batch": size}, speedup=mean)
