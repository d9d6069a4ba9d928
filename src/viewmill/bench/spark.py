"""Files through the Spark pipeline into a join-aggregate view, against Spark doing it itself.

Ways to the revenue of each region: the pipeline (in the driver, in one shard and in two), Spark
computing the query again over all files, and Structured Streaming's own stateful aggregation. In
the end all agree.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import viewmill as vm
from viewmill.bench.cpu import tree_cpu_s
from viewmill.bench.report import Report, Say

COLUMNS = "id BIGINT, customer BIGINT, amount BIGINT"
QUERY = (
    "SELECT c.region, sum(o.amount) AS revenue, count(*) AS n"
    " FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region"
)
CUSTOMERS, REGIONS = 10_000, 50
VARIANTS: tuple[dict[str, Any], ...] = (
    {"placement": "driver", "shards": 1},
    {"placement": "shards", "shards": 1},
    {"placement": "shards", "shards": 2},
)
SMALL = 1000
_WARM, _TIMED = 4, 8  # recomputes
_FILE_ROWS = 250_000


class Files:
    """A directory of orders that grows."""

    def __init__(self, root: Path, seed: int) -> None:
        self.folder, self._random = root / "orders", np.random.default_rng(seed)
        self.folder.mkdir(parents=True)
        self.count = self.rows = 0
        self.customers = pa.table(
            {
                "id": np.arange(CUSTOMERS),
                "region": self._random.integers(0, REGIONS, CUSTOMERS),
            }
        )

    def add(self, files: int, rows: int) -> None:
        """So many files of so many rows."""
        for _ in range(files):
            table = pa.table(
                {
                    "id": np.arange(self.rows, self.rows + rows),
                    "customer": self._random.integers(0, CUSTOMERS, rows),
                    "amount": self._random.integers(0, 10_000, rows),
                }
            )
            pq.write_table(table, self.folder / f"{self.count:06d}.parquet")
            self.count, self.rows = self.count + 1, self.rows + rows

    def stream(self, spark: Any, per_batch: int) -> Any:
        """The files as a stream."""
        reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", per_batch)
        return reader.parquet(str(self.folder))


def spark(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("spark", seed, plotted="p50_ms", oracle="Spark's own")
    bulk_files, bulk_rows, warm, batches = (4, 50_000, 30, 15) if quick else (20, 250_000, 360, 60)
    say("starting Spark")
    session = vm.spark.session("viewmill bench")
    try:
        with tempfile.TemporaryDirectory(prefix="viewmill-bench-") as folder:
            sizes = (bulk_files, bulk_rows, warm, batches)
            ours = []
            for number, variant in enumerate(VARIANTS):
                root = Path(folder) / str(number)
                files = Files(root, seed)  # the same rows for each
                files.add(2, SMALL)  # compiled and warm before the clock starts
                ours.append(_ours(report, session, root, files, sizes, variant, say))
            say(f"spark computes the view again over {files.rows:,} rows")
            expected = _recompute(report, session, root, files)
            say(f"viewmill refreshes the view after {SMALL:,} rows more, without a stream")
            ours.append(_refresh(report, session, files, batches))
            say("structured streaming's own aggregation")
            theirs = _structured(report, session, root, files, batches)
            report.verified = theirs == expected and all(each == expected for each in ours)
            _compare(report, files.rows)
    finally:
        session.stop()
    return report


def _compare(report: Report, rows: int) -> None:
    """How many times cheaper than Spark computing the view again, three ways.

    A whole micro-batch by the clock; the CPU time that it takes in all processes; and the refresh
    itself, without a stream around it.
    """
    refreshed = {"placement": "connect(spark=)", "measure": "refresh"}
    for kind, result in product(("as they came", "large"), ("table", "collected")):
        clock, cpu = (
            report.value("spark", metric, rows=rows, result=result, files=kind)
            for metric in ("p50_ms", "cpu_ms")
        )
        workload = {"batch": SMALL, "rows": rows, "against": result, "files": kind}
        for variant in VARIANTS:
            fast = report.value("viewmill", "p50_ms", batch=SMALL, **variant)
            report.add(
                "viewmill", {**variant, **workload, "measure": "clock"}, speedup=clock / fast
            )
            fast = report.value("viewmill", "cpu_ms", batch=SMALL, **variant)
            report.add("viewmill", {**variant, **workload, "measure": "cpu"}, speedup=cpu / fast)
        fast = report.value("viewmill", "p50_ms", batch=SMALL, **refreshed)
        report.add("viewmill", {**refreshed, **workload}, speedup=clock / fast)


def _refresh(report: Report, session: Any, files: Files, batches: int) -> set[tuple[Any, ...]]:
    """Time refreshes of the view in `connect(spark=)`: delete the last files, insert them again."""
    workload = {"placement": "connect(spark=)", "batch": SMALL, "measure": "refresh"}
    with vm.connect(spark=session) as mill:
        mill.sql(f"CREATE TABLE orders ({COLUMNS}) UNCHECKED")
        mill.sql("CREATE TABLE customers (id BIGINT, region BIGINT) UNCHECKED")
        mill.insert("customers", files.customers)
        mill.insert("orders", pq.read_table(files.folder))
        mill.sql(f"CREATE MATERIALIZED VIEW revenue AS {QUERY}")
        names = sorted(files.folder.iterdir())[-batches:]
        small = [pq.read_table(each) for each in names]
        times = []
        for change in (mill.delete, mill.insert):
            for rows in small:
                start = time.perf_counter()
                change("orders", rows)
                times.append((time.perf_counter() - start) * 1000)
        _add(report, "viewmill", workload, times[5:])
        return set(mill["revenue"].rows())


def _ours(
    report: Report,
    session: Any,
    root: Path,
    files: Files,
    sizes: tuple[int, int, int, int],
    workload: dict[str, Any],
    say: Say,
) -> set[tuple[Any, ...]]:
    bulk_files, bulk_rows, warm, batches = sizes
    words = ", ".join(f"{key} {value}" for key, value in workload.items())
    with _pipeline(session, root, files, workload, per_batch=4) as pipe:
        pipe.run_once()
        loaded = _kernel_ms(pipe, workload)  # what loading the kernels took is no part of a rate
        files.add(bulk_files, bulk_rows)
        say(f"viewmill ({words}) takes {bulk_files * bulk_rows:,} rows from Parquet")
        start = time.perf_counter()
        pipe.run_once()
        seconds = time.perf_counter() - start
        rate = bulk_files * bulk_rows / seconds
        report.add("viewmill", {**workload, "batch": 4 * bulk_rows}, rows_per_s=rate)
        spent_ms = max(b - a for a, b in zip(loaded, _kernel_ms(pipe, workload), strict=True))
        if spent_ms:
            report.add(
                "kernel", dict(workload), rows_per_cpu_s=bulk_files * bulk_rows / spent_ms * 1000
            )
    with _pipeline(session, root, files, workload, per_batch=1) as pipe:
        files.add(warm, SMALL)
        pipe.run_once()  # the JVM compiles what it runs often: a stream runs longer than a bench
        files.add(batches, SMALL)
        say(f"viewmill ({words}) takes {batches} batches of {SMALL:,} rows")
        spent = tree_cpu_s()
        query = pipe.run_once()
        spent = (tree_cpu_s() - spent) / batches * 1000
        _add_latencies(report, "viewmill", workload, query.spark_query)
        report.add("viewmill", {**workload, "batch": SMALL}, cpu_ms=spent)
        held = pipe["revenue"].status()["state_bytes"]
        report.add("viewmill", {**workload, "batch": SMALL}, state_bytes=held)
        return set(pipe["revenue"].rows())


def _kernel_ms(pipe: Any, workload: dict[str, Any]) -> list[float]:
    """What the kernels of each shard took so far, in CPU time."""
    if workload["placement"] != "shards":
        return [0.0]
    slots, count = pipe.status()["shards"]["kernel_ms"], workload["shards"]
    return [sum(slots[shard::count]) for shard in range(count)]


def _pipeline(
    session: Any, root: Path, files: Files, variant: dict[str, Any], *, per_batch: int
) -> Any:
    settings = variant if variant["placement"] == "shards" else {}
    pipe = vm.Pipeline(session, storage=root / "storage", **settings)
    pipe.source("orders", files.stream(session, per_batch))
    pipe.source("customers", session.createDataFrame(files.customers))
    pipe.view("revenue", QUERY)
    pipe.sink("revenue", path=root / "out")
    return pipe


def _recompute(report: Report, session: Any, root: Path, files: Files) -> set[tuple[Any, ...]]:
    """Into a table, as the pipeline's sink keeps one, and only computed.

    Over the files as they came, many of them small, and over the same rows in few large ones.
    """
    session.createDataFrame(files.customers).createOrReplaceTempView("customers")
    table = str(root / "recomputed")
    runs: dict[str, Callable[[], Any]] = {
        "table": lambda: session.sql(QUERY).write.mode("overwrite").parquet(table),
        "collected": lambda: session.sql(QUERY).collect(),
    }
    for kind, folder in (("as they came", files.folder), ("large", _compact(root, files))):
        session.read.schema(COLUMNS).parquet(str(folder)).createOrReplaceTempView("orders")
        for name, run in runs.items():
            for _ in range(_WARM):
                run()
            spent, times = tree_cpu_s(), []
            for _ in range(_TIMED):
                start = time.perf_counter()
                run()
                times.append((time.perf_counter() - start) * 1000)
            workload = {"batch": SMALL, "rows": files.rows, "result": name, "files": kind}
            _add(report, "spark", workload, times)
            report.add("spark", workload, cpu_ms=(tree_cpu_s() - spent) / _TIMED * 1000)
    return {tuple(row) for row in session.read.parquet(table).collect()}


def _compact(root: Path, files: Files) -> Path:
    """Copy the rows of many small files into a few large ones."""
    folder, whole = root / "compact", pq.read_table(files.folder)
    folder.mkdir()
    for i, start in enumerate(range(0, whole.num_rows, _FILE_ROWS)):
        pq.write_table(whole.slice(start, _FILE_ROWS), folder / f"{i}.parquet")
    return folder


def _structured(
    report: Report, session: Any, root: Path, files: Files, batches: int
) -> set[tuple[Any, ...]]:
    """A stream-static join into a stateful aggregation; a batch hands over the changed groups."""
    shown: dict[Any, tuple[Any, ...]] = {}

    def keep(frame: Any, _: int) -> None:
        shown.update({row[0]: tuple(row) for row in frame.collect()})

    def run(per_batch: int) -> Any:
        files.stream(session, per_batch).createOrReplaceTempView("orders")
        writer = session.sql(QUERY).writeStream.outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(root / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    # The last files are the small ones: Spark reads all before them in large batches.
    small = sorted(files.folder.iterdir())[-batches:]
    aside = root / "aside"
    aside.mkdir()
    for file in small:
        file.rename(aside / file.name)
    start = time.perf_counter()
    run(4)
    seconds = time.perf_counter() - start
    rows = files.rows - batches * SMALL
    report.add("structured streaming", {"batch": rows}, rows_per_s=rows / seconds)
    for file in small:
        (aside / file.name).rename(file)
    _add_latencies(report, "structured streaming", {}, run(1))
    return set(shown.values())


def _add_latencies(report: Report, system: str, workload: dict[str, Any], query: Any) -> None:
    taken = [each for each in query.recentProgress if each["numInputRows"]]
    times = [each["durationMs"]["triggerExecution"] for each in taken]
    _add(report, system, {**workload, "batch": SMALL}, times)


def _add(report: Report, system: str, workload: dict[str, Any], times: Iterable[float]) -> None:
    p50, p99 = np.percentile(list(times), [50, 99])
    report.add(system, workload, p50_ms=float(p50), p99_ms=float(p99))
