"""A pipeline over directories that grow, and what its sinks show."""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import viewmill as vm
from viewmill.pipeline.pipeline import Pipeline

ORDERS = "id BIGINT, customer STRING, amount BIGINT, op STRING"
REVENUE = "SELECT customer, sum(amount) AS revenue, count(*) AS n FROM orders GROUP BY customer"

Row = tuple[Any, ...]

_TIMES = count(int(time.time()) - 100_000)


def write_orders(folder: Path, name: str, rows: list[Row]) -> None:
    """A file of (id, customer, amount, op), put in place whole."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True))
    table = pa.table(dict(zip(["id", "customer", "amount", "op"], columns, strict=True)))
    pq.write_table(table, folder / f".{name}")
    # Spark takes files in the order of their times, which need a clock that never stands still.
    now = next(_TIMES)
    os.utime(folder / f".{name}", (now, now))
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def orders_stream(spark: Any, folder: Path) -> Any:
    """One file per batch."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(ORDERS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def revenue_pipeline(spark: Any, root: Path, placement: str = "driver") -> Pipeline:
    """Orders as changes to the revenue of each customer, shown as a table and as changes."""
    archive = True if placement == "archive" else None
    pipe: Pipeline = vm.Pipeline(
        spark,
        storage=root / "storage",
        placement="shards" if archive else placement,
        archive=archive,
    )
    pipe.source("orders", orders_stream(spark, root / "orders"), change="op")
    pipe.view("revenue", REVENUE)
    pipe.sink("revenue", path=root / "table")
    pipe.sink("revenue", path=root / "changes", mode="changes")
    return pipe


def shown_table(folder: Path) -> list[Row]:
    """The rows of a Parquet table, as any engine would read it."""
    return [tuple(row.values()) for row in pq.read_table(folder).to_pylist()]


def net_of_changes(folder: Path) -> Counter[Row]:
    """The rows that the changes make up; none may be taken away before it came."""
    bag: Counter[Row] = Counter()
    for file in sorted(folder.glob("changes-*.parquet")):
        for row in pq.read_table(file).to_pylist():
            word, _ = row.pop("_change_type"), row.pop("_commit_version")
            bag[tuple(row.values())] += 1 if word == "insert" else -1
            assert bag[tuple(row.values())] >= 0, f"{row} in {file.name}"
    return +bag
