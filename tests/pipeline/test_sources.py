"""What rows of a source mean, and what becomes of those that mean nothing."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.pipeline.harness import orders_stream, write_orders

import viewmill as vm
from viewmill.errors import InvalidArgument
from viewmill.pipeline.files import read_files
from viewmill.pipeline.listener import PipelineListener
from viewmill.pipeline.placement import InDriver
from viewmill.pipeline.source import Source

pytestmark = pytest.mark.spark


@pytest.fixture
def pipe(spark, tmp_path):
    with vm.Pipeline(spark, storage=tmp_path / "storage") as made:
        yield made


def letters(pipe):
    return [(source, reason, row) for source, _, reason, row in pipe.dead_letters().rows()]


def test_rows_that_cannot_be_read_are_dead_letters(spark, tmp_path, pipe):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,amount\n1,10\n2,ten\n3,5\n")
    frame = read_files(spark, "csv", "id BIGINT, amount INT", str(tmp_path / "in"))
    pipe.source("orders", frame)
    pipe.view("total", "SELECT sum(amount) AS s, count(*) AS n FROM orders")
    status = pipe.run_once().status()
    assert pipe["total"].rows() == [(15, 2)]
    assert status["dead_letters"] == 1
    assert letters(pipe) == [("orders", "the row cannot be read", "2,ten")]


def test_json_that_is_none_is_a_dead_letter(spark, tmp_path, pipe):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n{"id": \n{"id": 2}\n')
    pipe.source("ids", read_files(spark, "json", "id BIGINT", str(tmp_path / "in")))
    pipe.view("total", "SELECT sum(id) AS s FROM ids")
    pipe.run_once()
    assert pipe["total"].rows() == [(3,)]
    assert letters(pipe) == [("ids", "the row cannot be read", '{"id": ')]


def test_messages_are_read_as_json(spark, pipe):
    messages = spark.sql("""VALUES ('{"id": 1}'), ('{id'), ('{"id": 2}')""").toDF("value")
    pipe.source("ids", vm.spark.read_json(messages, "id BIGINT"))
    pipe.view("total", "SELECT sum(id) AS s FROM ids")
    pipe.run_once()
    assert pipe["total"].rows() == [(3,)]
    assert letters(pipe) == [("ids", "the row cannot be read", "{id")]


def test_word_that_is_no_change_is_a_dead_letter(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "insert"), (2, "bob", 5, "inserted")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
    pipe.view("total", "SELECT sum(amount) AS s FROM orders")
    pipe.run_once()
    assert pipe["total"].rows() == [(10,)]
    ((source, reason, row),) = letters(pipe)
    assert (source, reason) == ("orders", "'inserted' is no change")
    assert json.loads(row)["id"] == 2


def test_number_too_large_for_its_column_is_a_dead_letter(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "i"), (2, "bob", 1 << 40, "i")])
    pipe.source(
        "orders", orders_stream(spark, tmp_path / "orders"), change="op",
        schema="id BIGINT, customer STRING, amount INT",
    )  # fmt: skip
    pipe.view("total", "SELECT sum(amount) AS s FROM orders")
    pipe.run_once()
    assert pipe["total"].rows() == [(10,)]
    assert "amount" in letters(pipe)[0][1]


def test_delete_of_a_missing_row_is_a_dead_letter_when_checked(spark, tmp_path, pipe):
    rows = [(1, "ann", 10, "insert"), (2, "bob", 5, "delete"), (1, "ann", 10, "delete")]
    write_orders(tmp_path / "orders", "a", [*rows, (3, "cy", 1, "insert")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op", checked=True)
    pipe.view("total", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
    pipe.run_once()
    assert pipe["total"].rows() == [("cy", 1)]
    ((_, reason, row),) = letters(pipe)
    assert reason == "the row to delete is not there"
    assert json.loads(row) == {"id": 2, "customer": "bob", "amount": 5}


def test_delete_may_come_before_its_insert(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "delete")])
    write_orders(tmp_path / "orders", "b", [(1, "ann", 10, "insert"), (2, "bob", 5, "insert")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
    pipe.view("total", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
    pipe.run_once()
    assert pipe["total"].rows() == [("bob", 5)]


def test_images_without_their_predecessors_replace_by_key(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "insert"), (2, "bob", 5, "insert")])
    newer = [(2, "bob", 8, "update_postimage"), (2, "bob", 7, "update_postimage")]
    older = [(1, "ann", 9, "update_postimage"), (2, "bob", 8, "delete"), (4, "cy", 2, "insert")]
    write_orders(tmp_path / "orders", "b", newer)
    write_orders(tmp_path / "orders", "c", older)
    stream = orders_stream(spark, tmp_path / "orders")
    pipe.source("orders", stream, change="op", key="id", order="amount")
    pipe.view("all_orders", "SELECT id, customer, amount FROM orders")
    pipe.run_once()
    # amount is the order: 8 beats 7 inside a batch, 9 for id 1 comes too late.
    assert sorted(pipe["all_orders"].rows()) == [(1, "ann", 10), (4, "cy", 2)]


def test_multiplicities_count(spark, tmp_path, pipe):
    frame = spark.sql("VALUES ('ann', 3), ('bob', 1), ('ann', -1)").toDF("name", "m")
    pipe.source("names", frame, multiplicity="m")
    pipe.view("counts", "SELECT name, count(*) AS n FROM names GROUP BY name")
    pipe.run_once()
    assert sorted(pipe["counts"].rows()) == [("ann", 2), ("bob", 1)]


def test_trigger_is_checked_before_anything_is_taken(spark, pipe):
    pipe.source("names", spark.createDataFrame([("ann",)], "name STRING"))
    pipe.view("counts", "SELECT name, count(*) AS n FROM names GROUP BY name")
    with pytest.raises(InvalidArgument, match="is no interval"):
        pipe.start(trigger="now and then")
    assert pipe["counts"].rows() == []


def test_listener_hears_of_every_batch(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "insert")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
    pipe.view("total", "SELECT sum(amount) AS s FROM orders")
    heard: list[dict[str, Any]] = []
    stop = pipe.listen(heard.append)
    pipe.run_once()
    deadline = time.monotonic() + 30
    while not heard and time.monotonic() < deadline:
        time.sleep(0.05)
    stop()
    assert heard[0]["numInputRows"] == 1
    assert heard[0]["views"]["total"]["rows"] == 1
    for trigger in ("every now and then", "-5 seconds"):
        with pytest.raises(InvalidArgument, match="is no interval"):
            pipe.start(trigger=trigger)
    pipe.close()
    count = len(heard)
    late = PipelineListener(lambda: "1", pipe.status, heard.append)
    late.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(id="1")))
    assert len(heard) == count  # nobody is told


def test_prometheus_reads_the_counters(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "insert"), (2, "bob", 5, "what")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
    pipe.view("total", "SELECT sum(amount) AS s FROM orders")
    pipe.run_once()
    lines = pipe.prometheus().splitlines()
    assert 'viewmill_rows_in_total{source="orders"} 2' in lines
    assert "viewmill_dead_letters_total 1" in lines
    assert 'viewmill_view_rows{view="total"} 1' in lines


def test_spark_compiles_whole_plans_only_where_it_computes(spark, tmp_path, pipe):
    (tmp_path / "rows").mkdir()
    rows = spark.readStream.schema("k STRING, v BIGINT").json(str(tmp_path / "rows"))
    key = "spark.sql.codegen.wholeStage"
    for frame, whole in ((rows.where("v > 1").select("k"), "false"), (rows.distinct(), "true")):
        placement = InDriver(spark)
        placement.check(pipe.mill, [Source("rows", frame)])
        with placement.settings():
            assert spark.conf.get(key) == whole
        assert spark.conf.get(key) == "true"


def test_letters_are_replayed_once_after_their_rows_are_repaired(spark, tmp_path, pipe):
    rows = [(1, "ann", 10, "insert"), (2, "bob", 5, "inserted"), (2, "bob", 5, "inserted")]
    write_orders(tmp_path / "orders", "a", [*rows, (3, "cy", 1, "gone")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op")
    pipe.view("total", "SELECT sum(amount) AS s, count(*) AS n FROM orders")
    pipe.sink("total", path=tmp_path / "out")
    pipe.run_once()
    assert len(letters(pipe)) == 3

    def repair(letter):
        row = json.loads(letter.row)
        return {**row, "op": "insert"} if row["id"] == 2 else None

    done = pipe.replay_letters(repair)
    assert (done.taken, done.refused) == (2, [])
    assert pipe["total"].rows() == [(20, 3)]
    assert [tuple(each) for each in spark.read.parquet(str(tmp_path / "out")).collect()] == [
        (20, 3)
    ]
    done = pipe.replay_letters()
    assert (done.taken, [each.reason for each in done.refused]) == (0, ["'gone' is no change"])
    ((_, _, row),) = letters(pipe)
    assert json.loads(row)["id"] == 3
    (letter,) = done.refused
    bad = [{"id": "x", "op": "insert"}, {"nothing": 1, "op": "insert"}, {"id": 1}, "no", "[1]"]
    for each in bad:
        assert pipe.replay_letters(lambda _, row=each: row).taken == 0
    with pytest.raises(InvalidArgument, match="no dead letter"):
        pipe.replay_letters(rows=[("0123", {})])
    assert pipe["total"].rows() == [(20, 3)]
    assert letter.source == "orders"


def test_a_delete_that_was_refused_is_replayed_as_a_delete(spark, tmp_path, pipe):
    write_orders(tmp_path / "orders", "a", [(1, "ann", 10, "delete")])
    write_orders(tmp_path / "orders", "b", [(1, "ann", 10, "insert")])
    pipe.source("orders", orders_stream(spark, tmp_path / "orders"), change="op", checked=True)
    pipe.view("total", "SELECT count(*) AS n FROM orders")
    pipe.run_once()
    assert pipe["total"].rows() == [(1,)]
    assert pipe.replay_letters().taken == 1
    assert pipe["total"].rows() == [(0,)]
