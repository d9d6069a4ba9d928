"""Placement shards on Spark: the views equal those of one process, through faults and restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.harness import write_orders

import viewmill as vm
from viewmill.errors import EvaluationFailed, ForbiddenChange, InvalidArgument
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.shards.views import gathering_table
from viewmill.testing.oracle import differences

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, customer STRING, amount BIGINT, op STRING"
REGIONS = [("ann", "north"), ("bob", "south"), ("cy", "north")]
VIEWS = {
    "by_customer": "SELECT customer, sum(amount) AS s, max(amount) AS m FROM orders"
    " GROUP BY customer",
    "by_region": "SELECT region, sum(amount) AS s, count(*) AS n, avg(amount) AS a"
    " FROM orders o JOIN regions r ON o.customer = r.name GROUP BY region",
    "total": "SELECT count(*) AS n, sum(amount) AS s FROM orders WHERE amount > 2",
    "largest": "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer"
    " ORDER BY s DESC LIMIT 1",
    "above": "SELECT count(*) AS n FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "middle": "SELECT listagg(customer) WITHIN GROUP (ORDER BY customer) AS m FROM orders",
    "of_view": "SELECT count(*) AS n FROM by_customer WHERE s > 5",
}  # fmt: skip


def orders(number: int) -> list[tuple[Any, ...]]:
    """The rows of a file: some orders come, one of the file before goes."""
    names = [name for name, _ in REGIONS] + ["dee"]
    rows = [(10 * number + i, names[i % 4], (number + i) % 7, "insert") for i in range(8)]
    if number:
        rows.append((10 * (number - 1), names[0], (number - 1) % 7, "delete"))
    return rows


def pipeline(spark: Any, root: Path, views: dict[str, str] = VIEWS, *, shards: int = 2) -> Pipeline:
    """Orders by file, one in each batch, and the regions as a batch source."""
    (root / "orders").mkdir(exist_ok=True)
    pipe: Pipeline = vm.Pipeline(spark, root / "storage", placement="shards", shards=shards)
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    pipe.source("orders", reader.parquet(str(root / "orders")), change="op")
    pipe.source("regions", spark.createDataFrame(REGIONS, "name STRING, region STRING"))
    for name, sql in views.items():
        pipe.view(name, sql)
    return pipe


def in_process(root: Path, views: dict[str, str] = VIEWS) -> dict[str, Counter[Any]]:
    """What the views show when one mill takes all files."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount BIGINT) UNCHECKED")
        mill.sql("CREATE TABLE regions (name STRING, region STRING)")
        mill.insert("regions", REGIONS)
        mill.apply("orders", pq.read_table(root / "orders"), change="op")
        for name, sql in views.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        return {name: Counter(mill[name].rows()) for name in views}


def shown(pipe: Pipeline, views: dict[str, str] = VIEWS) -> dict[str, Counter[Any]]:
    return {name: Counter(pipe[name].rows()) for name in views}


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((2, 1), id="two-one", marks=pytest.mark.slow),
        pytest.param((1, 1, 3, 2), id="more", marks=pytest.mark.slow),
    ],
)
def test_views_in_shards_equal_those_of_one_process_at_any_number(spark, tmp_path, counts):
    write_orders(tmp_path / "orders", "a", orders(0))
    for number, shards in enumerate(counts, start=1):
        write_orders(tmp_path / "orders", f"b{number}", orders(number))
        with pipeline(spark, tmp_path, shards=shards) as pipe:
            pipe.run_once()
            assert shown(pipe) == in_process(tmp_path), f"{shards} shards"
            assert pipe.status()["shards"]["count"] == shards
            if number == 1:
                assert pipe.status()["rows_in"] == {"orders": 17, "regions": 3}
                said = {name: str(pipe[name].explain()) for name in VIEWS}
                assert {name: pipe.verify(name) for name in VIEWS} == {name: [] for name in VIEWS}
                for name in VIEWS:  # from the slots, or what the driver made of them
                    assert Counter(map(tuple, pipe[name].to_spark().collect())) == Counter(
                        pipe[name].rows()
                    ), name
                lost = pipe.mill.sql(f"SELECT * FROM {gathering_table('by_customer')}").rows()[:1]
                pipe.mill.delete(gathering_table("by_customer"), lost)
                assert pipe["by_customer"].verify() == []  # which knows only what was gathered
                (difference,) = pipe.verify("By_Customer")
                assert (difference.row, difference.expected, difference.actual) == (lost[0], 1, 0)
                pipe.mill.insert(gathering_table("by_customer"), lost)
    assert "by key customer" in said["by_customer"]
    assert "hypercube" in said["by_region"]
    assert "merges the parts" in said["by_region"]
    assert "partial aggregates" in said["total"]
    assert "one shard" in said["above"]
    assert "one shard, the driver: recompute" in said["middle"]
    assert "it reads the view by_customer" in said["of_view"]


def test_bad_rows_are_refused_once_and_failures_are_told_as_they_are(spark, tmp_path):
    views = {name: VIEWS[name] for name in ("by_customer", "by_region", "total")}
    views["quotient"] = "SELECT customer, sum(100 / amount) AS q FROM orders GROUP BY customer"
    rows = [(1, "ann", 5, "insert"), (2, "bob", 5, "no such word"), (3, "cy", 4, "insert")]
    write_orders(tmp_path / "orders", "a", rows)
    with pipeline(spark, tmp_path, views) as pipe:
        pipe.run_once()
        (letter,) = pipe.dead_letters().rows()
        assert letter[0] == "orders"
        assert "no such word" in letter[2]
        before = shown(pipe, views)
        assert before["total"] == Counter([(2, 9)])
        write_orders(tmp_path / "orders", "b", [(4, "ann", 0, "insert")])
        with pytest.raises(EvaluationFailed, match="division by zero"):
            pipe.run_once()
        assert shown(pipe, views) == before
        write_orders(tmp_path / "orders", "c", [(4, "ann", 0, "delete")])
        with pytest.raises(EvaluationFailed, match="division by zero"):
            pipe.run_once()  # the batch is the same again, as Spark promised


def workers_of(parent: int) -> list[int]:
    """Python workers below a process: those that take work, not the one that forks them."""
    said = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in said.splitlines()]
    below, found = {parent}, []
    for _ in range(6):
        below |= {int(pid) for pid, above, _ in rows if int(above) in below}
    daemons = {int(pid) for pid, _, text in rows if int(pid) in below and "pyspark.daemon" in text}
    for pid, above, _ in rows:
        if int(pid) in daemons and int(above) in daemons:
            found.append(int(pid))
    return found


def test_killed_workers_cost_nothing_but_time(spark, tmp_path):
    views = {name: VIEWS[name] for name in ("by_customer", "by_region", "total")}
    for number in range(6):
        write_orders(tmp_path / "orders", f"{number}", orders(number))
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while not stop.wait(0.4) and len(killed) < 4:
            for pid in workers_of(os.getpid())[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    with pipeline(spark, tmp_path, views) as pipe:
        pipe.run_once()
        for number in range(6, 12):
            write_orders(tmp_path / "orders", f"{number}", orders(number))
        killer.start()
        try:
            pipe.run_once()
        finally:
            stop.set()
            killer.join()
        assert killed
        assert shown(pipe, views) == in_process(tmp_path, views)


def test_what_shards_cannot_do_is_said(spark, tmp_path):
    two = {name: VIEWS[name] for name in ("total", "by_customer")}
    write_orders(tmp_path / "orders", "a", orders(0))
    with pipeline(spark, tmp_path, two) as pipe:
        pipe.sink("by_customer", path=tmp_path / "table")
        pipe.run_once()
        before = {name: sorted(pipe[name].rows()) for name in two}
    # A view comes, or is another one: a refused start changes nothing.
    with pipeline(spark, tmp_path, {"total": VIEWS["total"]}) as pipe:
        for name in ("more", "by_customer"):
            with pytest.raises(ForbiddenChange, match=f"views changed: {name}"):
                pipe.view(name, "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    with pipeline(spark, tmp_path, two) as pipe:
        assert {name: sorted(pipe[name].rows()) for name in two} == before
        pipe.sink("by_customer", path=tmp_path / "table")
        pipe.run_once()
        table = pq.read_table(tmp_path / "table").to_pylist()
        assert sorted(tuple(row.values()) for row in table) == before["by_customer"]
        assert pipe.verify("by_customer") == []
        read = pipe["by_customer"].to_spark()
        assert sorted(map(tuple, read.collect())) == before["by_customer"]
    # A view is left out, and the others go on; it cannot come back, for shards forgot its rows.
    one = {"total": VIEWS["total"]}
    write_orders(tmp_path / "orders", "b", orders(1))
    with pipeline(spark, tmp_path, one) as pipe:
        pipe.run_once()
        assert shown(pipe, one) == in_process(tmp_path, one)
        assert gathering_table("by_customer") not in pipe.mill
    with (
        pipeline(spark, tmp_path, one) as pipe,
        pytest.raises(ForbiddenChange, match="views changed: by_customer"),
    ):
        pipe.view("by_customer", VIEWS["by_customer"])
    with pytest.raises(ForbiddenChange, match="made with placement 'shards'"):
        vm.Pipeline(spark, tmp_path / "storage")
    with pytest.raises(InvalidArgument, match="shards=0"):
        vm.Pipeline(spark, tmp_path / "other", placement="shards", shards=0)
    with pytest.raises(InvalidArgument, match="placement='driver'"):
        vm.Pipeline(spark, tmp_path / "other", shards=2)


STREAM = "ts TIMESTAMP, k STRING, x BIGINT, y DOUBLE, `a.b` BIGINT, op STRING"
ODD = {
    "rising": "SELECT k, count(*) AS n, sum(x) AS s FROM m PATTERN [a, b+] WHERE b.x > PREV(b.x)"
    " GROUP BY k",
    "matched": "SELECT k, top FROM m MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts"
    " MEASURES LAST(b.x) AS top PATTERN (a b+) DEFINE b AS b.x > PREV(b.x))",
    "of_all": "SELECT count(*) AS n FROM m PATTERN [a, b+] WHERE b.x > PREV(b.x)",
    "moments": "SELECT k, cofactor(x, y) AS c FROM q GROUP BY k",
    "line": "SELECT linear_regression(y, x) AS l FROM q",
    "total": "SELECT sum(x) AS s FROM m",
    "dotted": "SELECT `a.b` AS d, sum(y) AS s FROM q GROUP BY `a.b`",
}  # fmt: skip


def write_stream(folder: Path, number: int) -> None:
    """Two minutes of five groups; rows of the third file come late."""
    minutes = 2 * number if number != 2 else 0
    at = [datetime(2024, 1, 1, 0, minutes + i // 10, 6 * (i % 10)) for i in range(20)]
    rows = {
        "ts": pa.array(at, pa.timestamp("us", tz="UTC")),
        "k": ["abcde"[i * 3 % 5] for i in range(20)],
        "x": [i * (7 + number) % 11 for i in range(20)],
        "y": [float(i * i % 7) for i in range(20)],
        "a.b": [i % 3 for i in range(20)],
        "op": ["insert"] * 20,
    }
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(rows), folder / f"{number}.parquet")


def test_patterns_and_cofactors_in_shards(spark, tmp_path, uncompiled):
    options = "PARTITION LENGTH 60 LATENESS INTERVAL '1' MINUTE"
    with vm.connect() as mill:
        columns = STREAM.removesuffix(", op STRING")
        mill.sql(f"CREATE TABLE m ({columns}) UNCHECKED TIMESTAMP BY ts {options}")
        mill.sql(f"CREATE TABLE q ({columns}) UNCHECKED")
        for name, sql in ODD.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for numbers in ((0, 1), (2,)):
            for number in numbers:
                write_stream(tmp_path / "m", number)
                rows = pq.read_table(tmp_path / "m" / f"{number}.parquet")
                for table in ("m", "q"):
                    mill.apply(table, rows, change="op")
            with vm.Pipeline(spark, tmp_path / "storage", placement="shards", shards=2) as pipe:
                reader = spark.readStream.schema(STREAM).option("maxFilesPerTrigger", 1)
                frame = reader.parquet(str(tmp_path / "m"))
                pipe.source("m", frame, change="op", timestamp="ts", options=options)
                pipe.source("q", frame, change="op")
                for name, sql in ODD.items():
                    pipe.view(name, sql)
                pipe.run_once()
                for name in ODD:
                    found = differences(mill[name].rows(), pipe[name].rows())
                    assert found == [], (numbers, name)
                    assert pipe.verify(name) == []
                letters = pipe.dead_letters().rows()
                said = {name: str(pipe[name].explain()) for name in ODD}
        # Those of the driver's own table are listed there.
        assert len(letters) == len(mill.refused("m")) > 0
    assert {reason for _, _, reason, _ in letters} == {"the row came too late"}
    assert "by key k" in said["rising"]
    assert "by key k" in said["matched"]
    assert "one shard: it has no groups" in said["of_all"]
    assert "adds up the cofactors" in said["moments"]
    assert "partial aggregates" in said["line"]
    assert "by key a.b" in said["dotted"]
    assert "one shard, the driver: m takes and keeps rows by their time" in said["total"]
