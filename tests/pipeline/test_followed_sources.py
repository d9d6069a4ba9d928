"""Pipelines take the sources and the sinks of a mill, beside Spark's own."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
import sqlalchemy as sa
from deltalake import DeltaTable, write_deltalake

import viewmill as vm

pytestmark = pytest.mark.spark


def shown(folder):
    engine = sa.create_engine(f"sqlite:///{folder}/shop.db")
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT k, s FROM v ORDER BY k")).fetchall()
    engine.dispose()
    return [tuple(each) for each in found]


def declared(spark, folder, told):
    pipe = vm.Pipeline(spark, storage=folder / "storage")
    pipe.source("lake", vm.sources.delta(folder / "lake"))
    pipe.source("names", spark.createDataFrame([(1, "a"), (2, "b")], "id INT, k STRING"))
    pipe.view("v", "SELECT k, SUM(x) AS s FROM lake JOIN names ON lake.Id = names.id GROUP BY k")
    pipe.sink("v", path=folder / "out")
    pipe.sink("v", path=folder / "changes", mode="changes")
    pipe.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{folder}/shop.db", "v", key="k"))
    pipe.sink("v", vm.sinks.function(told.append))
    return pipe


def test_a_pipeline_follows_a_source_of_a_mill_into_sinks_of_both(spark, tmp_path, uncompiled):
    lake = tmp_path / "lake"
    told: list[vm.Change] = []
    rows = pa.table({"Id": pa.array([1, 2], pa.int32()), "x": [10, 20]})
    write_deltalake(lake, rows)
    with declared(spark, tmp_path, told) as pipe:
        pipe.run_once()
        assert shown(tmp_path) == [("a", 10), ("b", 20)]
        query = pipe.start()
        assert query.is_active
        write_deltalake(lake, rows, mode="append")
        until = time.monotonic() + 30
        while shown(tmp_path) != [("a", 20), ("b", 40)] and time.monotonic() < until:
            time.sleep(0.05)
        query.stop()
        assert not query.is_active
        assert pipe.status()["sources"]["lake"]["rows"] == 4
        assert {each["error"] for each in pipe.status()["sinks"].values()} == {None}
    DeltaTable(lake).delete("Id = 2")
    with declared(spark, tmp_path, told) as pipe:
        pipe.run_once()
        assert pipe["v"].rows() == [("a", 20)]
    assert shown(tmp_path) == [("a", 20)]
    assert [tuple(each) for each in spark.read.parquet(str(tmp_path / "out")).collect()] == [
        ("a", 20)
    ]
    changes = spark.read.parquet(str(tmp_path / "changes")).collect()
    signs = [1 if each["_change_type"] == "insert" else -1 for each in changes]
    assert sum(sign * each["s"] for sign, each in zip(signs, changes, strict=True)) == 20
    assert told[-1].deleted == [("b", 40)]


def test_a_source_that_fails_is_raised_and_the_pipeline_goes_on(spark, tmp_path, uncompiled):
    write_deltalake(tmp_path / "lake", pa.table({"x": [1]}))
    with vm.Pipeline(spark, storage=tmp_path / "storage") as pipe:
        pipe.source("lake", vm.sources.delta(tmp_path / "lake"))
        pipe.view("v", "SELECT SUM(x) AS s FROM lake")
        (tmp_path / "lake").rename(tmp_path / "away")
        with pytest.raises(vm.ViewmillError, match=r"Delta table .* does not exist"):
            pipe.run_once()
        (tmp_path / "away").rename(tmp_path / "lake")
        pipe.run_once()
        assert pipe["v"].rows() == [(1,)]


@pytest.mark.parametrize("given", [{"change": "op"}, {"timestamp": "x"}, {"schema": "x INT"}])
def test_arguments_of_dataframes_are_refused(spark, tmp_path, uncompiled, given):
    write_deltalake(tmp_path / "lake", pa.table({"x": [1]}))
    pipe = vm.Pipeline(spark, storage=tmp_path / "storage")
    with pipe, pytest.raises(vm.ViewmillError, match="takes key= and options= only"):
        pipe.source("lake", vm.sources.delta(tmp_path / "lake"), **given)


def test_shards_take_dataframes_only(spark, tmp_path, uncompiled):
    write_deltalake(tmp_path / "lake", pa.table({"x": [1]}))
    pipe = vm.Pipeline(spark, storage=tmp_path / "storage", placement="shards", shards=2)
    with pipe, pytest.raises(vm.ViewmillError, match="read by the driver"):
        pipe.source("lake", vm.sources.delta(tmp_path / "lake"))
