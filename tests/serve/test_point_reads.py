"""Rows by key: what the index of a prepared statement finds is what the engine finds."""

import random
from collections import Counter
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import viewmill as vm
from viewmill.mill.compact_dictionary import compact
from viewmill.serve.client_sql import parse_query, split
from viewmill.serve.mill_queries import MillReader
from viewmill.serve.running import Running


def query(sql):
    return parse_query(split(sql)[0])


@contextmanager
def reading(mill):
    reader = MillReader(mill._core, 10_000, 1 << 20)
    try:
        yield reader
    finally:
        reader.close()


def by_engine(reader, asked, given):
    """The rows without the index."""
    reads, reader._points.reads = reader._points.reads, lambda query: ""
    try:
        return bag(reader.run(asked, given, None, Running(), None))
    finally:
        reader._points.reads = reads


def bag(table):
    return table.schema.names, Counter(map(tuple, (each.values() for each in table.to_pylist())))


def changes(mill, random):
    """One random change of a table with duplicates and NULLs, and of one with a key."""
    rows = mill.sql("SELECT * FROM loose").rows()
    row = (random.choice([None, "a", "b", "sé", ""]), random.choice([None, 1, 2, -3]), 1.5)
    match random.randrange(4):
        case 0 if rows:
            mill.delete("loose", [random.choice(rows)])
        case 1:
            mill.upsert("keyed", [(random.randrange(4), row[0], row[1])])
        case 2:
            with mill.batch():
                mill.insert("loose", [row, row])
                mill.upsert("keyed", [(random.randrange(4), row[0], row[1])])
        case _:
            mill.insert("loose", [row])


@pytest.mark.parametrize("seed", range(3))
def test_the_index_finds_what_the_engine_finds(uncompiled, seed):
    draw = random.Random(seed)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE loose (s STRING, n INT, x DOUBLE) UNCHECKED")
        mill.sql("CREATE TABLE keyed (id BIGINT, `S s` STRING, n BIGINT, PRIMARY KEY (id))")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS "
            "SELECT s, count(*) AS c, sum(x) AS x, avg(n) AS m FROM loose GROUP BY s"
        )
        asked: list[tuple[Any, list[Any]]] = [
            (query("SELECT * FROM loose WHERE s = $1"), ["a", "b", "sé", "", "nobody", None]),
            (query("SELECT x AS y, n FROM loose AS l WHERE l.n = $1"), [1, 2, -3, 9, 2**70, "2"]),
            (query('SELECT "S s", id FROM keyed WHERE id = $1'), [0, 1, 2, 3, -1]),
            (query("SELECT m, c, x FROM v WHERE S = $1"), ["a", "b", "sé", None]),
        ]
        pair = query("SELECT x FROM loose WHERE s = $2 AND n = $1")
        with reading(mill) as reader:
            for step in range(25):
                changes(mill, draw)
                if step == 15:
                    compact(mill._core)
                each, values = draw.choice(asked)
                for value in values:
                    found = bag(reader.run(each, [value], None, Running(), None))
                    assert found == by_engine(reader, each, [value]), (step, value)
                found = bag(reader.run(pair, [1, "a"], None, Running(), None))
                assert found == by_engine(reader, pair, [1, "a"])
            assert reader._points._indexes


def test_what_is_no_plain_read_by_key_is_left_to_the_engine(served):
    with reading(served) as reader:
        for sql in (
            "SELECT amount FROM orders WHERE weight = $1",
            "SELECT DISTINCT id FROM orders WHERE id = $1",
            "SELECT id + 1 AS n FROM orders WHERE id = $1",
            "SELECT id FROM orders WHERE id = $1 OR id = 2",
            "SELECT id FROM orders WHERE id > $1",
            "SELECT id FROM orders WHERE id = $1 LIMIT 1",
            "SELECT count(*) AS n FROM orders WHERE id = $1",
            "SELECT a.id FROM orders a, orders b WHERE a.id = $1",
        ):
            assert reader._points.reads(query(sql)) == "", sql
        assert reader._points.reads(query("SELECT id FROM orders WHERE id = $1")) == "orders"


def test_a_statement_goes_on_when_its_table_is_made_anew(served, connect):
    sql = "SELECT customer FROM orders WHERE id = %s"
    with served.serve(port=0) as server:
        client = connect(server, autocommit=True)
        for _ in range(10):
            assert client.execute(sql, (1,), prepare=True).fetchall() == [("ann",)]
        served.sql("DROP MATERIALIZED VIEW revenue")
        served.sql("DROP TABLE orders")
        with pytest.raises(psycopg.errors.UndefinedTable):
            client.execute(sql, (1,), prepare=True)
        served.sql("CREATE TABLE orders (customer STRING, id BIGINT)")
        served.insert("orders", [("eve", 1), ("eve", 1)])
        for _ in range(5):
            assert client.execute(sql, (1,), prepare=True).fetchall() == [("eve",), ("eve",)]


def test_a_transaction_that_reads_by_key_stays_at_its_version(served, connect):
    sql = "SELECT total FROM revenue WHERE customer = %s"
    with served.serve(port=0) as server:
        client, other = connect(server), connect(server, autocommit=True)
        for _ in range(10):
            assert client.execute(sql, ("ann",), prepare=True).fetchone()[0] == 10
            assert other.execute(sql, ("ann",), prepare=True).fetchone()[0] == 10
        served.insert("orders", [(3, "ann", 5, None, None, None)])
        assert client.execute(sql, ("ann",), prepare=True).fetchone()[0] == 10
        assert other.execute(sql, ("ann",), prepare=True).fetchone()[0] == 15
        client.commit()
        assert client.execute(sql, ("ann",), prepare=True).fetchone()[0] == 15


def test_an_index_that_nobody_reads_keeps_no_changes(uncompiled):
    asked = query("SELECT x FROM t WHERE k = $1")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        mill.insert("t", [(1, 1)])
        with reading(mill) as reader:
            for _ in range(10):
                assert reader.run(asked, [1], None, Running(), None).num_rows == 1
            assert reader._points._indexes
            for i in range(3):
                mill.insert("t", [(2, i)] * 500)
            assert not reader._points._indexes
            assert reader.run(asked, [2], None, Running(), None).num_rows == 1_500
