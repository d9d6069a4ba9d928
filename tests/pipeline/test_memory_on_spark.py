"""Budgets on Spark: states are built again by Spark SQL, and a pipeline's views keep theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.pipeline.harness import REVENUE, orders_stream, write_orders
from tests.pipeline.test_spec import project

import viewmill as vm
from viewmill.errors import InvalidArgument
from viewmill.pipeline.spec import build

__all__ = ["project"]  # a fixture

pytestmark = pytest.mark.spark

TREE = "SELECT s.a, sum(r.b * t.d) AS v FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c GROUP BY s.a"


def test_states_that_are_away_are_built_by_spark(spark: Any) -> None:
    with vm.connect(spark=spark) as mill:
        mill.sql("CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT)")
        mill.sql("CREATE TABLE t (c INT, d INT)")
        for table in "rst":
            mill.insert(table, [(i % 50, i % 7) for i in range(500)])
        mill.expect("t", complete=True)  # so that what only t would read is released
        mill.sql(f"CREATE MATERIALIZED VIEW v MEMORY '1 GB' AS {TREE}")
        mill.insert("r", [(1, 5)])
        released = mill["v"].status()["released"]
        assert released
        mill.insert("t", [(1, 5), (2, 6)])  # after all
        assert mill["v"].verify() == []
        mill.sql(f"CREATE MATERIALIZED VIEW w MEMORY 0 AS {TREE}")
        mill.delete("s", [(1, 1)])
        assert mill["w"].status()["state_bytes"] == 0
        assert sorted(mill["w"].rows()) == sorted(mill["v"].rows())


def test_a_pipeline_keeps_its_budget(spark: Any, tmp_path: Any) -> None:
    write_orders(tmp_path / "orders", "1", [(1, "ann", 10, "i"), (2, "bob", 7, "i")])
    with vm.Pipeline(spark, storage=tmp_path / "storage", memory="1 KB") as pipe:
        pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
        pipe.view("revenue", REVENUE)
        pipe.run_once()
        assert pipe["revenue"].status()["budget_bytes"] == 1000
        assert pipe["revenue"].status()["state_bytes"] <= 1000
        assert sorted(pipe["revenue"].rows()) == [("ann", 10, 1), ("bob", 7, 1)]


def test_the_spec_gives_memory_and_policies(spark: Any, project: Any) -> None:
    given = replace(project, memory=1000, refresh={"spent": ("ON DEMAND",)})
    with build(spark, given) as pipe:
        assert pipe["spent"].status()["budget_bytes"] == 1000
        assert "ON DEMAND" in pipe["spent"].explain("json")
    with pytest.raises(InvalidArgument, match="refresh goes with placement"):
        build(spark, replace(project, storage=project.storage / "other", placement="shards",
                             refresh={"spent": ("ON DEMAND",)}))  # fmt: skip


def test_shards_keep_their_budget(spark: Any, tmp_path: Any) -> None:
    write_orders(tmp_path / "orders", "1", [(1, "ann", 10, "i"), (2, "bob", 7, "i")])
    storage = tmp_path / "storage"
    for number, expected in ((2, [("ann", 10, 1), ("bob", 9, 2)]), (3, [("ann", 10, 1)])):
        with vm.Pipeline(
            spark, storage=storage, placement="shards", shards=2, memory="1 KB"
        ) as pipe:
            pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
            pipe.view("revenue", REVENUE)
            pipe.run_once()
            rows = [(2, "bob", 2, "i")] if number == 2 else [(2, "bob", 7, "d"), (2, "bob", 2, "d")]
            write_orders(tmp_path / "orders", str(number), rows)
            pipe.run_once()
            assert sorted(pipe["revenue"].rows()) == expected
            told = pipe.status()["shards"]
            assert told["share_bytes"] == 125  # half of it is the driver's, four slots
            assert told["state_bytes"] <= 500
            assert told["released"] > 0
            assert pipe["revenue"].status()["budget_bytes"] == 500
            assert pipe.verify("revenue") == []
