"""Recursive CTEs as views: equal to DuckDB's WITH RECURSIVE after every change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewmill as vm

Edge = tuple[int | None, int | None]

_REACHES = """
    CREATE MATERIALIZED VIEW reaches AS
    WITH RECURSIVE r(a, b) MAX RECURSION LEVEL 1000 AS (
      SELECT a, b FROM edges UNION SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a
    ) SELECT a, b FROM r
"""
_PATHS = """
    CREATE MATERIALIZED VIEW paths AS
    WITH RECURSIVE r(a, b, hops) MAX RECURSION LEVEL 1000 AS (
      SELECT a, b, 1 FROM edges UNION ALL
      SELECT r.a, e.b, hops + 1 FROM r JOIN edges e ON r.b = e.a
    ) SELECT a, b, hops FROM r
"""
_COUNTED = """
    CREATE MATERIALIZED VIEW counted AS
    WITH RECURSIVE r(a, b) MAX RECURSION LEVEL 1000 AS (
      SELECT a, b FROM edges UNION SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a
    ) SELECT a, COUNT(*) AS n FROM r WHERE b <> 0 GROUP BY a
"""
_EXPECTED = {
    "reaches": """WITH RECURSIVE r AS (
        SELECT a, b FROM edges UNION SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a
      ) SELECT a, b FROM r""",
    "paths": """WITH RECURSIVE r AS (
        SELECT a, b, 1 AS hops FROM edges UNION ALL
        SELECT r.a, e.b, hops + 1 FROM r JOIN edges e ON r.b = e.a
      ) SELECT a, b, hops FROM r""",
    "counted": """WITH RECURSIVE r AS (
        SELECT a, b FROM edges UNION SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a
      ) SELECT a, count(*) FROM r WHERE b <> 0 GROUP BY a""",
}


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _duckdb_rows(view: str, edges: Iterable[Edge]) -> Counter[Any]:
    connection = _connection()
    connection.execute("CREATE OR REPLACE TABLE edges (a INTEGER, b INTEGER)")
    if rows := list(edges):
        connection.executemany("INSERT INTO edges VALUES (?, ?)", rows)
    return Counter(connection.execute(_EXPECTED[view]).fetchall())


def _mill(*views: str, path: Path | None = None) -> vm.Mill:
    mill = vm.connect(path, compile="off") if path else vm.connect(compile="off")
    mill.sql("CREATE TABLE edges (a INT, b INT)")
    for each in views:
        mill.sql(each)
    return mill


def _edge(draw: random.Random, nodes: int, *, is_acyclic: bool) -> Edge:
    if not is_acyclic and draw.random() < 0.03:
        return None, draw.randrange(nodes)
    a, b = draw.randrange(nodes), draw.randrange(nodes)
    return (min(a, b), max(a, b) + 1) if is_acyclic else (a, b)


def _play_graphs(seeds: Iterable[int], *, is_acyclic: bool) -> None:
    """Views over one random graph after another; between them all edges go."""
    names = ("reaches", "counted", "paths") if is_acyclic else ("reaches", "counted")
    with _mill(_REACHES, _COUNTED, *([_PATHS] if is_acyclic else [])) as mill:
        calls = {name: mill[name].status()["engine_calls"] for name in names}
        for seed in seeds:
            edges = _play_graph(mill, seed, names, is_acyclic=is_acyclic)
            mill.delete("edges", edges)
            assert not any(mill[name].rows() for name in names), seed
        for name in names:
            assert mill[name].status()["refresh_kind"] == "incremental"
            assert mill[name].status()["engine_calls"] == calls[name]


def _play_graph(mill: vm.Mill, seed: int, names: Iterable[str], *, is_acyclic: bool) -> list[Edge]:
    """Random edges come and go, some twice; all views equal DuckDB's after every batch."""
    draw, edges = random.Random(seed), list[Edge]()
    nodes = draw.randrange(2, 12)
    for _ in range(draw.randrange(2, 6)):
        gone = draw.sample(edges, min(len(edges), draw.randrange(4)))
        come = [_edge(draw, nodes, is_acyclic=is_acyclic) for _ in range(draw.randrange(1, 6))]
        with mill.batch():
            mill.delete("edges", gone)
            mill.insert("edges", come)
        for each in gone:
            edges.remove(each)
        edges += come
        for name in names:
            assert Counter(mill[name].rows()) == _duckdb_rows(name, edges), (seed, name)
    return edges


@pytest.mark.parametrize("is_acyclic", [False, True])
def test_reachability_equals_duckdb_on_random_graphs(is_acyclic: bool) -> None:
    _play_graphs(range(25), is_acyclic=is_acyclic)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(10))
def test_reachability_equals_duckdb_on_a_thousand_random_graphs(hundred: int) -> None:
    _play_graphs(range(1000 + 100 * hundred, 1100 + 100 * hundred), is_acyclic=hundred % 2 == 1)


def test_a_cycle_does_not_keep_itself_alive() -> None:
    with _mill(_REACHES) as mill:
        mill.insert("edges", [(0, 1), (1, 2), (2, 1)])
        mill.delete("edges", [(0, 1)])
        assert sorted(mill["reaches"].rows()) == [(1, 1), (1, 2), (2, 1), (2, 2)]
        mill.delete("edges", [(2, 1)])
        assert sorted(mill["reaches"].rows()) == [(1, 2)]


def test_opening_the_mill_again_and_a_full_refresh_keep_the_rows(tmp_path: Path) -> None:
    edges: list[Edge] = [(1, 2), (2, 3), (3, 1), (3, 4)]
    with _mill(_REACHES, _COUNTED, path=tmp_path / "m") as mill:
        mill.insert("edges", edges)
    with vm.connect(tmp_path / "m", compile="off") as mill:
        assert Counter(mill["reaches"].rows()) == _duckdb_rows("reaches", edges)
        mill.insert("edges", [(4, 5)])
        mill.delete("edges", [(3, 1)])
        edges = [(1, 2), (2, 3), (3, 4), (4, 5)]
        mill.sql("REFRESH MATERIALIZED VIEW reaches FULL")
        mill.insert("edges", [(5, 6)])
        for name in ("reaches", "counted"):
            assert Counter(mill[name].rows()) == _duckdb_rows(name, [*edges, (5, 6)])
            assert mill[name].status()["refresh_kind"] == "incremental"


def test_a_view_over_rows_that_were_there_before_has_them_all() -> None:
    with _mill() as mill:
        mill.insert("edges", [(1, 2), (2, 3), (3, 1)])
        mill.sql(_REACHES)
        mill.delete("edges", [(2, 3)])
        assert sorted(mill["reaches"].rows()) == [(1, 2), (3, 1), (3, 2)]


def test_a_batch_that_fails_leaves_the_recursion_as_it_was() -> None:
    with _mill(_REACHES, _COUNTED) as mill:
        mill.sql(
            "CREATE MATERIALIZED VIEW failing AS WITH RECURSIVE r(a, b) AS (SELECT a, b FROM edges"
            " UNION SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a)"
            " SELECT a, 10 / (b - 9) AS x FROM r"
        )
        edges: list[Edge] = [(1, 2), (2, 3), (3, 1)]
        mill.insert("edges", edges)
        changes = [(2, 3, -1), (1, 4, 1), (4, 9, 1)]
        rows = [{"a": a, "b": b, "m": m} for a, b, m in changes]
        with pytest.raises(vm.ViewmillError, match="division by zero"):
            mill.apply("edges", rows, multiplicity="m")
        for name in ("reaches", "counted"):
            assert Counter(mill[name].rows()) == _duckdb_rows(name, edges)
        mill.insert("edges", [(1, 4)])
        mill.delete("edges", [(3, 1)])
        edges = [(1, 2), (2, 3), (1, 4)]
        for name in ("reaches", "counted"):
            assert Counter(mill[name].rows()) == _duckdb_rows(name, edges)


@pytest.mark.parametrize("way", ["", "REFRESH POLICY FULL"])
def test_rows_of_the_last_allowed_step_are_an_error(way: str) -> None:
    """As in Spark: of three steps the third must make nothing."""
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE top (n INT)")
        mill.sql(
            f"CREATE MATERIALIZED VIEW v {way} AS WITH RECURSIVE r(n) MAX RECURSION LEVEL 3 AS ("
            "SELECT 1 UNION ALL SELECT r.n + 1 FROM r JOIN top ON r.n < top.n) SELECT * FROM r"
        )
        mill.insert("top", [(3,)])
        assert sorted(mill["v"].rows()) == [(1,), (2,), (3,)]
        with pytest.raises(vm.ViewmillError, match="not ended after 3 steps"):
            mill.sql("UPDATE top SET n = 4")
        assert sorted(mill["v"].rows()) == [(1,), (2,), (3,)]
        mill.sql("UPDATE top SET n = 2")
        assert sorted(mill["v"].rows()) == [(1,), (2,)]


def test_a_cycle_under_union_all_is_an_error_and_not_a_wrong_answer() -> None:
    with _mill(_PATHS.replace("1000", "50")) as mill:
        mill.insert("edges", [(1, 2)])
        with pytest.raises(vm.ViewmillError, match="not ended after 50 steps") as caught:
            mill.insert("edges", [(2, 1)])
        assert "MAX RECURSION LEVEL" in caught.value.hint
        assert mill["paths"].rows() == [(1, 2, 1)]


def test_steps_may_join_filter_and_pad() -> None:
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE part (id INT, parent INT, name STRING)")
        mill.sql("CREATE TABLE hidden (name STRING)")
        query = """WITH RECURSIVE tree(id, path) AS (
            SELECT id, name FROM part WHERE parent IS NULL
            UNION ALL
            SELECT p.id, concat(t.path, '/', p.name)
            FROM tree t JOIN part p ON p.parent = t.id LEFT ANTI JOIN hidden h ON h.name = p.name
          ) SELECT path FROM tree"""
        mill.sql(f"CREATE MATERIALIZED VIEW paths AS {query}")
        mill.insert("part", [(1, None, "a"), (2, 1, "b"), (3, 2, "c"), (4, 1, "d")])
        assert sorted(mill["paths"].rows()) == [("a",), ("a/b",), ("a/b/c",), ("a/d",)]
        mill.insert("hidden", [("b",)])
        assert sorted(mill["paths"].rows()) == [("a",), ("a/d",)]
        assert mill["paths"].verify() == []
        mill.delete("hidden", [("b",)])
        mill.sql("UPDATE part SET name = 'x' WHERE id = 1")
        assert sorted(mill["paths"].rows()) == [("x",), ("x/b",), ("x/b/c",), ("x/d",)]
        assert sorted(mill.sql(query).rows()) == sorted(mill["paths"].rows())


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("SELECT COUNT(*), 1 FROM r", "an aggregate"),
        ("SELECT DISTINCT a, b FROM r", "DISTINCT"),
        ("SELECT e.a, e.b FROM edges e WHERE e.a NOT IN (SELECT a FROM r)", "a subquery"),
        ("SELECT e.a, e.b FROM edges e LEFT ANTI JOIN r ON r.a = e.a", "an anti join"),
        ("SELECT e.a, r.b FROM edges e LEFT JOIN r ON r.a = e.a", "a left join"),
        ("SELECT a, b FROM r EXCEPT SELECT a, b FROM edges", "set operation"),
        ("SELECT a, row_number() OVER (ORDER BY b) FROM r", "a window function"),
        ("SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a", "read twice"),
        ("SELECT a, 'x' FROM r", "the step makes"),
        ("SELECT a FROM r", "1 columns"),
    ],
)
def test_what_is_not_one_row_at_a_time_is_refused_with_its_place(step: str, said: str) -> None:
    with _mill() as mill:
        with pytest.raises(vm.ViewmillError, match=said) as caught:
            mill.sql(
                "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(a, b) AS ("
                f"SELECT a, b FROM edges UNION ALL ({step})) SELECT * FROM r"
            )
        assert caught.value.span is not None
        assert "v" not in [each["name"] for each in mill.status()["views"]]


def test_mutual_recursion_is_refused_with_its_place_and_a_hint() -> None:
    with _mill() as mill, pytest.raises(vm.ViewmillError, match="defined after it") as caught:
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE"
            " odd(a) AS (SELECT a FROM edges UNION ALL SELECT a + 1 FROM even),"
            " even(a) AS (SELECT a FROM odd UNION ALL SELECT a + 1 FROM odd) SELECT * FROM odd"
        )
    assert caught.value.span is not None
    assert "one CTE" in caught.value.hint
