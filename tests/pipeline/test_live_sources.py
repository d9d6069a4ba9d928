"""Sources that go on by themselves, tables of Spark's catalog, and sources that lose something."""

from __future__ import annotations

import time

import pytest
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from tests.pipeline.harness import orders_stream, revenue_pipeline, write_orders

import viewmill as vm
from viewmill.errors import InvalidArgument, SourceBroken, UnknownName, ViewmillError
from viewmill.mill.storage import crash_points

pytestmark = pytest.mark.spark

# Five commits of a table, as its change feed tells them.
FEED = [
    [(1, "ann", 10, "insert"), (2, "bob", 5, "insert")],
    [(1, "ann", 10, "update_preimage"), (1, "ann", 12, "update_postimage")],
    [(2, "bob", 5, "delete")],
    [(3, "ann", 1, "insert")],
    [(3, "ann", 1, "delete"), (4, "cy", 7, "insert")],
]


class ChangeFeed(DataSource):  # type: ignore[misc]
    """A table whose changes can be read."""

    @classmethod
    def name(cls):
        return "viewmill_test_feed"

    def schema(self):
        return (
            "id BIGINT, customer STRING, amount BIGINT, _change_type STRING,"
            " _commit_version BIGINT, _commit_timestamp TIMESTAMP"
        )

    def simpleStreamReader(self, schema):  # noqa: N802 (Spark's name)
        return _FeedReader()


class _FeedReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def initialOffset(self):  # noqa: N802 (Spark's name)
        return {"commit": 0}

    def read(self, start):
        at = start["commit"]
        rows = [(*row, at, None) for row in FEED[at]] if at < len(FEED) else []
        return iter(rows), {"commit": min(at + 1, len(FEED))}

    def readBetweenOffsets(self, start, end):  # noqa: N802 (Spark's name)
        commits = range(start["commit"], end["commit"])
        return iter([(*row, at, None) for at in commits for row in FEED[at]])


def wait_until(query, is_so) -> None:
    deadline = time.monotonic() + 120
    while not is_so() and time.monotonic() < deadline:
        assert query.is_active, query.status()["message"]
        time.sleep(0.05)
    assert is_so(), query.status()


def test_change_feed_of_a_table_is_followed(spark, tmp_path):
    spark.dataSource.register(ChangeFeed)
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        feed = spark.readStream.format("viewmill_test_feed").load()
        pipe.source("orders", feed, change="_change_type")
        pipe.view("revenue", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
        query = pipe.start()
        wait_until(query, lambda: pipe.status()["rows_in"].get("orders", 0) == 8)
        query.stop()
        assert sorted(pipe["revenue"].rows()) == [("ann", 12), ("cy", 7)]
        assert pipe["revenue"].verify() == []


def test_rate_goes_on_until_it_is_stopped(spark, tmp_path):
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        pipe.source("ticks", spark.readStream.format("rate").option("rowsPerSecond", 50).load())
        pipe.view("total", "SELECT count(*) AS n, sum(value) AS s FROM ticks")
        query = pipe.start()
        wait_until(query, lambda: pipe["total"].rows()[0][0] > 50)
        query.stop()
        ((n, total),) = pipe["total"].rows()
        assert total == n * (n - 1) // 2  # every value once, none missing
        before = n
        query = pipe.start(trigger="100 milliseconds")
        wait_until(query, lambda: pipe["total"].rows()[0][0] > before)
        query.stop()
        assert pipe.is_noted()
        ((n, total),) = pipe["total"].rows()
        assert total == n * (n - 1) // 2


def test_tables_of_the_catalog_in_one_call(spark, tmp_path):
    spark.sql("CREATE DATABASE IF NOT EXISTS viewmill_sales")
    spark.sql("DROP TABLE IF EXISTS viewmill_sales.orders")
    spark.sql(
        f"CREATE TABLE viewmill_sales.orders USING parquet LOCATION '{tmp_path}/orders' AS SELECT"
        " id, concat('c', id % 2) AS customer, CAST(id AS DECIMAL(12,2)) AS amount FROM range(6)"
    )
    spark.range(3).createOrReplaceTempView("viewmill_three")
    try:
        with vm.connect(spark=spark) as mill:
            mill.table("viewmill_sales.orders", key="id")
            mill.table("viewmill_three", name="three")
            mill.sql("CREATE MATERIALIZED VIEW v AS SELECT customer, count(*) AS n FROM orders"
                     " JOIN three ON orders.id = three.id GROUP BY customer")  # fmt: skip
            assert sorted(mill["v"].rows()) == [("c0", 2), ("c1", 1)]
            mill.upsert("orders", [(2, "c1", 5)])
            assert sorted(mill["v"].rows()) == [("c0", 1), ("c1", 2)]
            with pytest.raises((UnknownName, ViewmillError), match="no_such_table"):
                mill.table("viewmill_sales.no_such_table")
            with pytest.raises(InvalidArgument, match="no column uid"):
                mill.table("viewmill_three", name="four", key="uid")
            assert mill.tables() == ["orders", "three"]
            spark.range(3).write.saveAsTable("viewmill_sales.items")
            with pytest.raises(UnknownName) as failure:
                mill.sql("SELECT * FROM viewmill_sales.items")
            assert 'mill.table("viewmill_sales.items") makes' in failure.value.hint
            with pytest.raises(UnknownName) as failure:
                mill.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM viewmill_sales.orders")
            assert failure.value.hint == 'It is here as "orders".'
        with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
            with pytest.raises(UnknownName) as failure:
                pipe.view("w", "SELECT count(*) AS n FROM viewmill_sales.items")
            assert 'pipe.source("items", spark.table("viewmill_sales.items"))' in failure.value.hint
            with pytest.raises(UnknownName, match="no table or view"):
                pipe.view("w", "SELECT count(*) AS n FROM a.b.c")
    finally:
        spark.sql("DROP DATABASE viewmill_sales CASCADE")


def test_file_that_is_gone_is_a_source_that_lost_data(spark, tmp_path, monkeypatch):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "insert")])

    def fail(name: str) -> None:
        if name == "batch read":
            raise RuntimeError(name)

    with revenue_pipeline(spark, tmp_path) as pipe:
        monkeypatch.setattr(crash_points, "visit", fail)
        with pytest.raises(ViewmillError):
            pipe.run_once()  # Spark has noted the batch, nobody has taken it
    monkeypatch.setattr(crash_points, "visit", None)
    (tmp_path / "orders" / "a.parquet").unlink()
    write_orders(tmp_path / "orders", "b", [(2, "bob", 5, "insert")])
    pipe = revenue_pipeline(spark, tmp_path)
    with pipe, pytest.raises(SourceBroken, match="a source lost data") as failure:
        pipe.run_once()
    assert "a.parquet" in failure.value.detail
    assert "another storage" in failure.value.hint


def test_column_that_changed_its_type_between_runs(spark, tmp_path):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "insert")])
    with revenue_pipeline(spark, tmp_path) as pipe:
        pipe.run_once()
    wider = orders_stream(spark, tmp_path / "orders").selectExpr(
        "id", "customer", "CAST(amount AS DECIMAL(12,2)) AS amount", "op"
    )
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        with pytest.raises(ViewmillError, match="declared otherwise") as failure:
            pipe.source("orders", wider, change="op")
        assert "`amount` BIGINT" in failure.value.detail
        assert "`amount` DECIMAL(12,2)" in failure.value.detail


def test_a_view_is_a_table_of_the_catalog_and_never_replaces_one_of_others(spark, tmp_path):
    spark.sql("DROP TABLE IF EXISTS shown")
    spark.sql("DROP TABLE IF EXISTS of_others")
    spark.sql("CREATE TABLE of_others USING parquet AS SELECT 1 AS x")
    for rows, expected in (([(1, "a"), (2, "b")], 2), ([(1, "a"), (2, "b"), (3, "c")], 3)):
        with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
            pipe.source("t", spark.createDataFrame(rows, "id INT, k STRING"))
            pipe.view("v", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
            with pytest.raises(ViewmillError, match="of_others was not made for the view v"):
                pipe.sink("v", table="of_others")
            pipe.sink("v", table="default.shown")
            pipe.run_once()
            assert spark.table("shown").count() == expected
    spark.sql("DROP TABLE shown")
    spark.sql("DROP TABLE of_others")
