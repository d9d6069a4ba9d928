"""What a change costs in the table that others read: a view as Parquet and as a Delta table.

A view with so many groups is written by the pipeline's sinks; then single groups change, and a
thousand groups all over the table at once. Timed is the sink alone, after the commit; bytes are
those of files that were not there before. In the end DuckDB reads each table and computes the view
from the rows that went in. Option `sizes`: groups.
"""

from __future__ import annotations

import pkgutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.report import Report, Say
from viewmill.pipeline.sinks.delta_table import DeltaTableSink
from viewmill.pipeline.sinks.parquet import ParquetTable

QUERY = "SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k"
SIZES, QUICK = (50_000, 500_000, 5_000_000), (50_000,)
SINGLE, SCATTERED = 15, 5
FORMATS = {"parquet": ParquetTable, "delta": DeltaTableSink}


def sinks(
    *, seed: int, quick: bool, say: Say, sizes: tuple[int, ...] | None = None, **_: Any
) -> Report:
    """Run the whole workload."""
    report = Report("sinks", seed, plotted="p50_ms", across="groups")
    found = [_measure(report, groups, seed, say) for groups in sizes or (QUICK if quick else SIZES)]
    report.verified = all(found)
    return report


def _measure(report: Report, groups: int, seed: int, say: Say) -> bool:
    say(f"{groups:,} groups")
    random, is_right = np.random.default_rng(seed), True
    given = [pa.table({"k": np.arange(groups), "x": np.arange(groups) % 1000})]
    with vm.connect() as mill, tempfile.TemporaryDirectory() as root:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT) UNCHECKED")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        mill.insert("t", given[0])
        for format, kind in FORMATS.items():
            folder, view = Path(root, format), mill["v"]
            sink: Any = kind(folder)
            sink.open(view, "bench")
            sink.check(view, has_all=True)
            first = _timed(sink.begin, mill.version, view)
            whole = sum(_files(folder).values())
            report.add(
                format, {"groups": groups, "change": "all"}, p50_ms=first, written_bytes=whole
            )
            for name, rows, times in (("1 row", 1, SINGLE), ("1,000 rows", 1000, SCATTERED)):
                taken, written = [], []
                for _ in range(times):
                    change = {"k": random.integers(0, groups, rows), "x": np.ones(rows, np.int64)}
                    given.append(pa.table(change))
                    mill.insert("t", given[-1])
                    before = _files(folder)
                    taken.append(_timed(sink.publish, mill.version, view))
                    now = _files(folder)
                    written.append(sum(now[each] for each in now.keys() - before.keys()))
                report.add(
                    format,
                    {"groups": groups, "change": name},
                    p50_ms=float(np.median(taken)),
                    worst_ms=max(taken),
                    written_bytes=float(np.median(written)),
                    written_share=100 * float(np.median(written)) / whole,
                )
            is_right &= _is_right(format, folder, pa.concat_tables(given))
    return is_right


def _timed(call: Callable[..., object], *given: Any) -> float:
    start = time.perf_counter()
    call(*given)
    return (time.perf_counter() - start) * 1000


def _files(folder: Path) -> dict[tuple[str, int, int], int]:
    """The sizes of all files; one that was written again is another one."""
    found = {}
    for file in folder.rglob("*"):
        if file.is_file():
            stat = file.stat()
            found[str(file), stat.st_ino, stat.st_mtime_ns] = stat.st_size
    return found


def _is_right(format: str, folder: Path, rows: pa.Table) -> bool:
    """Whether DuckDB finds in the files what it computes from all rows."""
    shown = str(folder / "*.parquet") if format == "parquet" else _delta_files(folder)
    with duckdb.connect() as connection:
        connection.register("t", rows)
        connection.read_parquet(shown).create_view("shown")
        differing = (
            f"SELECT count(*) FROM ((FROM shown EXCEPT ALL {QUERY})"
            f" UNION ALL ({QUERY} EXCEPT ALL FROM shown))"
        )
        found = connection.execute(differing).fetchone()
    return found == (0,)


def _delta_files(folder: Path) -> list[str]:
    return list(pkgutil.resolve_name("deltalake:DeltaTable")(str(folder)).file_uris())
