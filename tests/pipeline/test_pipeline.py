"""Streams to views to sinks."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.pipeline.harness import (
    net_of_changes,
    orders_stream,
    revenue_pipeline,
    shown_table,
    write_orders,
)

import viewmill as vm
from viewmill.errors import (
    ForbiddenChange,
    InvalidArgument,
    SourceBroken,
    UnknownName,
    WrongFormat,
)

pytestmark = pytest.mark.spark

FIRST = [(1, "ann", 10, "insert"), (2, "bob", 5, "insert"), (3, "ann", 7, "insert")]
SECOND = [(3, "ann", 7, "delete"), (2, "bob", 5, "delete"), (4, "cy", 1, "insert")]


def test_rows_become_a_view_and_the_view_a_table(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
        assert sorted(pipe["revenue"].rows()) == [("ann", 17, 2), ("bob", 5, 1)]
        assert sorted(shown_table(tmp_path / "table")) == [("ann", 17, 2), ("bob", 5, 1)]
        write_orders(tmp_path / "orders", "b", SECOND)
        query = pipe.run_once()
        assert sorted(shown_table(tmp_path / "table")) == [("ann", 10, 1), ("cy", 1, 1)]
        assert net_of_changes(tmp_path / "changes") == {("ann", 10, 1): 1, ("cy", 1, 1): 1}
        assert pipe["revenue"].verify() == []
        status = query.status()
    assert status["rows_in"] == {"orders": 6}
    assert status["batches"] == 2
    assert status["views"]["revenue"]["refresh_kind"] == "incremental"


def test_reopened_pipeline_goes_on_where_it_ended(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
    write_orders(tmp_path / "orders", "b", SECOND)
    with revenue_pipeline(spark, tmp_path) as pipe:
        assert sorted(pipe["revenue"].rows()) == [("ann", 17, 2), ("bob", 5, 1)]
        query = pipe.run_once()
        assert query.status()["rows_in"] == {"orders": 3}
        assert query.status()["recoveries"] == 1
        assert sorted(pipe["revenue"].rows()) == [("ann", 10, 1), ("cy", 1, 1)]
    assert net_of_changes(tmp_path / "changes") == {("ann", 10, 1): 1, ("cy", 1, 1): 1}


def test_running_query_takes_files_as_they_come(spark, tmp_path):
    with revenue_pipeline(spark, tmp_path) as pipe:
        query = pipe.start(trigger="100 milliseconds")
        write_orders(tmp_path / "orders", "a", FIRST)
        deadline = time.monotonic() + 60
        while not len(pipe["revenue"]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert query.status()["active"]
        with pytest.raises(InvalidArgument, match="running"):
            pipe.run_once()
        query.stop()
        assert not query.status()["active"]
        assert sorted(pipe["revenue"].rows()) == [("ann", 17, 2), ("bob", 5, 1)]
        write_orders(tmp_path / "orders", "b", SECOND)
        pipe.run_once()
        assert sorted(pipe["revenue"].rows()) == [("ann", 10, 1), ("cy", 1, 1)]


def test_several_sources_come_in_one_batch_and_batch_frames_once(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.json").write_text('{"customer": "ann", "stars": 5}\n')
    regions = spark.sql("VALUES ('ann', 'north'), ('bob', 'south')").toDF("customer", "r")

    def build():
        pipe = vm.Pipeline(spark, storage=tmp_path / "storage")
        pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
        notes = spark.readStream.schema("customer STRING, stars INT").json(str(tmp_path / "notes"))
        pipe.source("notes", notes)
        pipe.source("regions", regions)

        @pipe.materialized_view(name="by_region")
        def by_region():
            return "SELECT r, sum(amount) AS s FROM orders JOIN regions USING (customer) GROUP BY r"

        pipe.view("stars", "SELECT customer, sum(stars) AS s FROM notes GROUP BY customer")
        return pipe

    with build() as pipe:
        status = pipe.run_once().status()
        assert status["rows_in"] == {"orders": 3, "notes": 1, "regions": 2}
        assert sorted(pipe["by_region"].rows()) == [("north", 17), ("south", 5)]
        assert pipe["stars"].rows() == [("ann", 5)]
    with build() as pipe:
        assert pipe.run_once().status()["rows_in"] == {}
        assert sorted(pipe["by_region"].rows()) == [("north", 17), ("south", 5)]


def test_view_defined_otherwise_is_built_anew_and_its_changes_say_the_difference(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
        pipe.view(
            "revenue", "SELECT customer, sum(amount) AS revenue, count(*) AS n FROM orders"
            " WHERE amount > 6 GROUP BY customer",
        )  # fmt: skip
        pipe.sink("revenue", path=tmp_path / "table")
        pipe.sink("revenue", path=tmp_path / "changes", mode="changes")
        pipe.run_once()
        assert shown_table(tmp_path / "table") == [("ann", 17, 2)]
    assert net_of_changes(tmp_path / "changes") == {("ann", 17, 2): 1}


def test_new_changes_sink_starts_with_all_rows(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
        pipe.sink("revenue", path=tmp_path / "later", mode="changes")
        pipe.run_once()
    assert net_of_changes(tmp_path / "later") == {("ann", 17, 2): 1, ("bob", 5, 1): 1}


def test_view_in_memory_is_read_with_spark_sql(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    for number in (1, 2):
        with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
            pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
            pipe.view("Spent", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
            with pytest.raises(InvalidArgument, match="in memory, so it has no path"):
                pipe.sink("spent", path=tmp_path / "out", format="memory")
            pipe.sink("spent", format="memory")
            pipe.sink("spent", format="memory", mode="changes")
            pipe.run_once()
            if number == 1:
                write_orders(tmp_path / "orders", "b", SECOND)
                pipe.run_once()
            assert sorted(map(tuple, spark.table("Spent").collect())) == [("ann", 10), ("cy", 1)]
            changes = spark.sql(
                "SELECT customer, s, sum(if(_change_type = 'insert', 1, -1)) AS n"
                " FROM Spent_changes GROUP BY 1, 2 HAVING n <> 0"
            )
            assert sorted(map(tuple, changes.collect())) == [("ann", 10, 1), ("cy", 1, 1)]
            versions = spark.sql("SELECT count(DISTINCT _commit_version) FROM Spent_changes")
            assert versions.collect()[0][0] == (2 if number == 1 else 1)


def test_function_gets_every_change(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    write_orders(tmp_path / "orders", "b", SECOND)
    seen = []
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
        pipe.view("spent", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
        pipe.sink("spent", lambda change: seen.append((sorted(change), change.version)))
        pipe.run_once()
    (first, at), (second, later) = seen
    assert first == [(("ann", 17), 1), (("bob", 5), 1)]
    assert second == [(("ann", 10), 1), (("ann", 17), -1), (("bob", 5), -1), (("cy", 1), 1)]
    assert at < later


def test_delta_shows_versions_and_changes(spark, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    write_orders(tmp_path / "orders", "a", FIRST)
    write_orders(tmp_path / "orders", "b", SECOND)
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
        pipe.view("spent", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
        pipe.sink("spent", path=tmp_path / "table", format="delta")
        pipe.sink("spent", path=tmp_path / "changes", format="delta", mode="changes")
        pipe.run_once()
    table = deltalake.DeltaTable(tmp_path / "table")
    assert sorted(map(str, pa.table(table.to_pyarrow_table()).to_pylist())) == [
        "{'customer': 'ann', 's': 10}", "{'customer': 'cy', 's': 1}",
    ]  # fmt: skip
    assert len(table.history()) == 3  # empty, then two batches
    changes = deltalake.DeltaTable(tmp_path / "changes").to_pyarrow_table().to_pylist()
    assert len(changes) == 6


# What cannot be right is refused.


def test_source_that_changed_is_refused(spark, tmp_path):
    with revenue_pipeline(spark, tmp_path):
        pass
    other = spark.readStream.schema("id BIGINT, op STRING").parquet(str(tmp_path / "orders"))
    with (
        vm.Pipeline(spark, storage=tmp_path / "storage") as pipe,
        pytest.raises(ForbiddenChange, match="declared otherwise"),
    ):
        pipe.source("orders", other, change="op")


def test_foreign_directory_is_refused(spark, tmp_path):
    (tmp_path / "letter.txt").write_text("dear ann")
    with pytest.raises(WrongFormat, match="not the storage"):
        vm.Pipeline(spark, storage=tmp_path)
    with pytest.raises(WrongFormat, match="cannot be the directory"):
        vm.Pipeline(spark, storage=tmp_path / "letter.txt")


def test_lost_checkpoint_is_noticed(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
    remove(tmp_path / "storage" / "checkpoint")
    with revenue_pipeline(spark, tmp_path) as pipe, pytest.raises(SourceBroken, match="checkpoint"):
        pipe.run_once()


def test_lost_mill_is_noticed(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", FIRST)
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
    remove(tmp_path / "storage" / "mill")
    with revenue_pipeline(spark, tmp_path) as pipe, pytest.raises(SourceBroken, match="mill"):
        pipe.run_once()


def test_changes_of_another_pipeline_are_left_alone(spark, tmp_path):
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
    remove(tmp_path / "storage")
    with pytest.raises(WrongFormat, match="another pipeline"):
        revenue_pipeline(spark, tmp_path)


def test_mistakes_show_at_once(spark, tmp_path):
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        stream = orders_stream(spark, tmp_path / "orders")
        with pytest.raises(UnknownName, match="opp"):
            pipe.source("orders", stream, change="opp")
        with pytest.raises(InvalidArgument, match="DataFrame"):
            pipe.source("orders", [1, 2])
        pipe.source("orders", stream, change="op")
        with pytest.raises(UnknownName):
            pipe.view("v", "SELECT nothing FROM orders")
        with pytest.raises(InvalidArgument, match="no view"):
            pipe.sink("v", path=tmp_path / "out")


def remove(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    folder.rmdir()
