"""ANY and ALL of a query under inserts and deletes, against DuckDB's own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

SIGNS = ("<", "<=", ">", ">=", "=", "<>")
QUERIES = (
    "SELECT a, b FROM r WHERE b {} (SELECT b FROM s)",
    "SELECT a, b, b {} (SELECT b FROM s) AS x FROM r",
    "SELECT a, b FROM r WHERE NOT (b {} (SELECT s.b FROM s WHERE s.a = r.a))",
    "SELECT a, b, b {} (SELECT s.b FROM s WHERE s.a = r.a) AS x FROM r",
)


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mill]:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as made:
        yield made


@pytest.mark.parametrize("word", ["ANY", "ALL"])
def test_any_and_all_are_incremental_and_honest_about_null(mill: Mill, word: str) -> None:
    source, engine = random.Random(word), duckdb.connect()
    live: dict[str, list[tuple[int | None, int | None]]] = {"r": [], "s": []}
    for table in live:
        mill.sql(f"CREATE TABLE {table} (a INT, b BIGINT)")
        engine.execute(f"CREATE TABLE {table} (a INT, b BIGINT)")
    queries = [query.format(f"{sign} {word}") for query in QUERIES for sign in SIGNS]
    for i, query in enumerate(queries):
        mill.sql(f"CREATE MATERIALIZED VIEW v{i} REFRESH POLICY INCREMENTAL STRICT AS {query}")
    for _ in range(8):
        table = source.choice("rs")
        rows = live[table]
        if rows and source.random() < 0.4:
            mill.delete(table, [rows.pop(source.randrange(len(rows)))])
        else:
            new = [(source.choice((1, 2, None)), source.choice((None, 1, 2, 3))) for _ in "ab"]
            rows += new
            mill.insert(table, new)
        engine.execute(f"DELETE FROM {table}")
        engine.executemany(f"INSERT INTO {table} VALUES (?, ?)", [*rows, (None, None)])
        engine.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
        for i, query in enumerate(queries):
            want = engine.execute(query).fetchall()
            assert sorted(mill[f"v{i}"].rows(), key=repr) == sorted(want, key=repr), query


def test_like_any_and_like_all(mill: Mill) -> None:
    mill.sql("CREATE TABLE t (c STRING)")
    for name, test in {"one": "LIKE ANY ('a%', '%b')", "none": "NOT LIKE ALL ('a%', '%b')"}.items():
        mill.sql(f"CREATE MATERIALIZED VIEW v_{name} REFRESH POLICY INCREMENTAL STRICT AS "
                 f"SELECT c FROM t WHERE c {test}")  # fmt: skip
    mill.insert("t", [("ab",), ("xb",), ("x",), (None,)])
    assert sorted(mill["v_one"].rows()) == [("ab",), ("xb",)]
    assert mill["v_none"].rows() == [("x",)]


def test_several_columns_are_an_error(mill: Mill) -> None:
    mill.sql("CREATE TABLE t (a INT, b INT)")
    with pytest.raises(vm.ViewmillError, match="one column"):
        mill.sql("SELECT a FROM t WHERE a > ALL (SELECT a, b FROM t)")
