"""Recursive CTEs as views: equal to DuckDB's WITH RECURSIVE after every change."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewmill as vm
from viewmill.kernels import recursion
from viewmill.kernels.recursion import SetRecursion

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


def _all_right(mill: vm.Mill, edges: list[Edge], *names: str) -> None:
    for name in names:
        assert Counter(mill[name].rows()) == _duckdb_rows(name, edges)
        assert mill[name].status()["refresh_kind"] != "recompute"


def test_a_mill_whose_process_was_killed_has_all_rows_when_it_is_opened(tmp_path: Path) -> None:
    edges: list[Edge] = [(1, 2), (2, 3), (3, 1), (3, 4)]
    with _mill(_REACHES, _COUNTED, path=tmp_path / "m") as mill:
        mill.insert("edges", edges)
        mill.delete("edges", [(3, 1)])
        shutil.copytree(tmp_path / "m", tmp_path / "killed")  # nothing was closed
    edges.remove((3, 1))
    with vm.connect(tmp_path / "killed", compile="off") as mill:
        _all_right(mill, edges, "reaches", "counted")
        mill.insert("edges", [(4, 1)])
        _all_right(mill, [*edges, (4, 1)], "reaches", "counted")


def _overflowing(mill: vm.Mill) -> None:
    with mill.batch():
        mill.insert("e", [(2, 3), (1, 4)])
        mill.insert("f", [(3, 7), (4, 2_000_000_000)])


def test_a_step_that_overflows_leaves_what_it_joins_as_it_was() -> None:
    """What the step was fed in vain was taken back twice."""
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE s (a INT, n INT)")
        mill.sql("CREATE TABLE e (a INT, b INT)")
        mill.sql("CREATE TABLE f (b INT, times INT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(a, n) AS (SELECT a, n FROM s UNION ALL"
            " SELECT e.b, n * times FROM r JOIN e ON r.a = e.a JOIN f ON f.b = e.b)"
            " SELECT * FROM r"
        )
        assert "dataflow" in mill["v"].status()["strategy"]
        mill.insert("s", [(1, 5)])
        mill.insert("e", [(1, 2)])
        mill.insert("f", [(2, 10)])
        with pytest.raises(vm.ViewmillError, match="does not fit INT"):
            _overflowing(mill)
        assert sorted(mill["v"].rows()) == [(1, 5), (2, 50)]
        mill.insert("f", [(3, 7)])
        mill.insert("e", [(2, 3)])
        assert sorted(mill["v"].rows()) == [(1, 5), (2, 50), (3, 350)]


def test_a_recursion_that_runs_out_of_memory_is_filled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edges: list[Edge] = [(1, 2), (2, 3), (3, 1)]
    with _mill(_REACHES, _COUNTED) as mill:
        mill.insert("edges", edges)

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(SetRecursion, "_feed", fail)
            with pytest.raises(vm.ViewmillError, match="no memory"):
                mill.insert("edges", [(3, 4)])
            _all_right(mill, edges, "reaches", "counted")
        mill.insert("edges", [(4, 5)])
        _all_right(mill, [*edges, (4, 5)], "reaches", "counted")


def test_strings_that_only_a_recursion_holds_outlive_those_that_nobody_holds() -> None:
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE t (a STRING, b STRING)")
        query = (
            "WITH RECURSIVE r(a, path) AS (SELECT b, concat(a, '/', b) FROM t UNION"
            " SELECT t.b, concat(path, '/', t.b) FROM r JOIN t ON r.a = t.a) SELECT path FROM r"
        )
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        mill.sql(f"CREATE MATERIALIZED VIEW later REFRESH ON DEMAND AS {query}")
        mill.core.compact_at = mill.core.compact_at_least = 200
        held = []
        for i in range(120):
            mill.insert("t", [(f"n{i}", f"n{i + 1}")])
            if i >= 5:
                mill.delete("t", [(f"n{i - 5}", f"n{i - 4}")])
            held.append(mill.core.dictionary.held)
            if i == 60:
                mill["later"].refresh()
        assert sum(after < before for before, after in pairwise(held)) >= 2
        mill["later"].refresh()
        nodes = [f"n{i}" for i in range(115, 121)]
        paths = {"/".join(nodes[i:j]) for i in range(6) for j in range(i + 2, 7)}
        for name in ("v", "later"):
            assert {path for (path,) in mill[name].rows()} == paths
            assert mill[name].verify() == []


@pytest.mark.parametrize(
    "clause",
    ["REFRESH ON DEMAND", "REFRESH EVERY 3 ROWS", "MEMORY '0'", "REFRESH POLICY FULL"],
)
def test_policies_and_updates_give_the_same_rows(clause: str) -> None:
    with _mill(_REACHES.replace(" AS", f" {clause} AS", 1), _COUNTED) as mill:
        mill.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4)])
        mill.sql("UPDATE edges SET b = 9 WHERE a = 3 AND b = 1")
        mill.sql("DELETE FROM edges WHERE b = 4")
        mill.sql("REFRESH MATERIALIZED VIEW reaches")
        edges: list[Edge] = [(1, 2), (2, 3), (3, 9)]
        assert Counter(mill["reaches"].rows()) == _duckdb_rows("reaches", edges)
        mill.sql("ALTER MATERIALIZED VIEW reaches REFRESH IMMEDIATE")
        mill.sql(
            "CREATE MATERIALIZED VIEW above AS SELECT a, COUNT(*) AS n FROM reaches GROUP BY a"
        )
        mill.insert("edges", [(9, 1)])
        assert Counter(mill["reaches"].rows()) == _duckdb_rows("reaches", [*edges, (9, 1)])
        assert sorted(mill["above"].rows()) == [(1, 4), (2, 4), (3, 4), (9, 4)]


def test_more_rows_than_a_recursion_holds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursion, "_MAX_ROWS", 10)
    with _mill(_REACHES) as mill:
        mill.insert("edges", [(1, 2), (2, 3)])
        with pytest.raises(vm.ViewmillError, match="more than 10 rows") as caught:
            mill.insert("edges", [(3, 4), (4, 5), (5, 6)])
        assert caught.value.span is not None
        mill.insert("edges", [(3, 4)])
        _all_right(mill, [(1, 2), (2, 3), (3, 4)], "reaches")


def test_a_row_that_loses_its_first_two_ways_keeps_the_third() -> None:
    """It was looked for in the step of the second way only, which was gone as well."""
    long = [(1, 10), (10, 11), (11, 12), (12, 9)]
    with _mill(_REACHES) as mill:
        mill.insert("edges", [(1, 5), (5, 9), (5, 6), (6, 9), *long])
        mill.delete("edges", [(1, 5)])
        _all_right(mill, [(5, 9), (5, 6), (6, 9), *long], "reaches")
