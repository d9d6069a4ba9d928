"""All 22 queries of TPC-H as views over streams of inserts and deletes, against recompute.

A view is created over empty UNCHECKED tables. The whole data comes in batches of 10,000 rows, and
in another mill in batches of 1,000; what is held back there comes in batches of 100 and of 1, and a
part of it is deleted again. DuckDB, with one thread and all rows loaded, takes a few batches of
each size and computes the query after each. At the end every view is compared with DuckDB.
"""

from __future__ import annotations

import gc
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb
import pyarrow as pa

import viewmill as vm
from viewmill.bench.clock import time_calls
from viewmill.bench.report import Report, Say
from viewmill.bench.tpch.data import TpchData
from viewmill.bench.tpch.queries import QUERIES, TABLES
from viewmill.bench.tpch.stream import Batch, row_count, stream, tables_of
from viewmill.errors import InvalidArgument
from viewmill.mill.mill import Mill

LARGE, MIDDLE, SMALL, SINGLE = 10_000, 1_000, 100, 1
SMALL_BATCHES, DELETED, SINGLES = 150, 50, 300
RECOMPUTES = 5  # of DuckDB, at each size


def tpch(
    *, seed: int, quick: bool, say: Say, scale: float | None = None, query: int | None = None
) -> Report:
    """Run one query or all."""
    if query is not None and query not in QUERIES:
        raise InvalidArgument(f"TPC-H has no query {query}", hint="They are numbered 1 to 22.")
    scale = scale or (0.01 if quick else 0.1)
    say(f"making the tables at scale {scale}")
    tables = TpchData(scale, seed).tables()
    report = Report("tpch", seed, plotted="rows_per_cpu_s", across="query")
    right = []
    with _kernel_cache(fresh=not quick):
        for number in QUERIES if query is None else (query,):
            right.append(_query(report, number, {n: tables[n] for n in tables_of(number)}, say))
    _summary(report)
    report.verified = all(right)
    return report


@contextmanager
def _kernel_cache(*, fresh: bool) -> Iterator[None]:
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


def _query(report: Report, number: int, tables: Mapping[str, pa.Table], say: Say) -> bool:
    say(f"Q{number}: viewmill, batches of {MIDDLE:,}, {SMALL} and {SINGLE}")
    batches, small, singles = _parts(tables)
    with vm.connect() as mill:
        compile_s = _create(mill, number, tables)
        report.add("viewmill", {"query": number}, compile_s=compile_s)
        _feed(report, mill, number, MIDDLE, batches)
        _feed(report, mill, number, SMALL, small)
        _feed(report, mill, number, SINGLE, singles)
        held = mill["v"].status()["state_bytes"]
        report.add("viewmill", {"query": number}, state_bytes=held)
        is_right = mill["v"].verify() == []
    say(f"Q{number}: viewmill, batches of {LARGE:,}")
    with vm.connect() as mill:
        _create(mill, number, tables)
        _feed(report, mill, number, LARGE, stream(tables, LARGE))
        is_right = is_right and mill["v"].verify() == []
    say(f"Q{number}: duckdb")
    _recompute(report, number, tables, batches)
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


def _create(mill: Mill, number: int, tables: Mapping[str, pa.Table]) -> float:
    """The tables and the view; the seconds it took until the first row could come."""
    for name in tables:
        mill.sql(f"CREATE TABLE {name} ({TABLES[name]}) UNCHECKED")
    start = time.perf_counter()
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {QUERIES[number]}")
    return time.perf_counter() - start


def _feed(report: Report, mill: Mill, number: int, size: int, batches: list[Batch]) -> None:
    def change(batch: Batch) -> None:
        (mill.delete if batch.is_delete else mill.insert)(batch.table, batch.rows)

    if not batches:
        return
    gc.collect()
    timing = time_calls(change, batches, row_count(batches))
    report.add("viewmill", {"query": number, "batch": size}, **timing.metrics())


def _recompute(
    report: Report, number: int, tables: Mapping[str, pa.Table], batches: list[Batch]
) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, rows in tables.items():
            connection.register("rows", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")

        def change(batch: Batch) -> None:
            connection.register("rows", batch.rows)
            connection.execute(f"INSERT INTO {batch.table} SELECT * FROM rows")
            connection.execute(f"CREATE OR REPLACE TABLE v AS {QUERIES[number]}")

        change(batches[-1])
        for size in (LARGE, MIDDLE, SMALL, SINGLE):
            largest = max(batches, key=lambda each: tables[each.table].num_rows)
            given = [Batch(largest.table, tables[largest.table].slice(0, size))] * RECOMPUTES
            timing = time_calls(change, given, row_count(given))
            workload = {"query": number, "batch": size}
            report.add("duckdb", workload, **timing.metrics())
            ours = [
                each.value
                for each in report.results
                if (each.system, each.metric) == ("viewmill", "us_per_update")
                and each.workload == workload
            ]
            if ours:
                speedup = timing.cpu_s / timing.calls * 1e6 / ours[0]
                report.add("viewmill", workload, speedup=speedup)


def _summary(report: Report) -> None:
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
