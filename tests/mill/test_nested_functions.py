"""explode and functions of arrays, maps and structs in views: values by hand, and Spark's own."""

from __future__ import annotations

import math
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

_COLUMNS = (
    "id INT, a ARRAY<INT>, b ARRAY<INT>, w ARRAY<STRING>, m MAP<STRING, INT>, "
    "s STRUCT<x: INT, y: STRING>, st ARRAY<STRUCT<x: INT, y: STRING>>, aa ARRAY<ARRAY<INT>>, "
    "d ARRAY<DOUBLE>, c STRING, n INT"
)
_NAN = float("nan")
_ROWS: list[tuple[Any, ...]] = [
    (1, [1, 2, None, 2], [2, 3], ["x", "é", None], [("k", 1), ("l", None)], {"x": 7, "y": "q"},
     [{"x": 1, "y": "b"}, {"x": 2, "y": None}, None], [[1, 2], []], [1.5, _NAN, None], "a,b,,c", 0),
    (2, [9], [], ["Z", "xa", "b"], [("k", 5)], {"x": None, "y": "é"}, [{"x": 5, "y": "y"}],
     [[5], None], [float("inf"), 0.0], "", 0),
    (3, None, None, ["x"], None, None, None, None, None, None, None),
    (4, [3, 1], [1, 1, 3], ["z", "y"], [("k", 2), ("z", 3), ("aa", 0)], {"x": 3, "y": ""},
     [{"x": None, "y": "z"}, {"x": 3, "y": "a"}], [[3]], [2.0, _NAN, _NAN], "x", 1),
]  # fmt: skip
_GENERATORS = (
    "SELECT id, x FROM t LATERAL VIEW explode(a) e AS x",
    "SELECT id, p, x FROM t LATERAL VIEW OUTER posexplode(a) e AS p, x WHERE x > 1 OR x IS NULL",
    "SELECT id, explode(a) AS x FROM t",
    "SELECT id, posexplode(a) AS (p, x) FROM t",
    "SELECT id, inline(st) FROM t",
    "SELECT id, k, v FROM t LATERAL VIEW explode(m) e AS k, v",
    "SELECT x, count(*) AS n, sum(id) AS s FROM t LATERAL VIEW explode(a) e AS x GROUP BY x",
    "SELECT id, explode_outer(m) FROM t",
    "SELECT t.id, e.x FROM t, LATERAL explode(t.a) AS e(x)",
    "SELECT id, x, y FROM t LATERAL VIEW explode(a) e AS x LATERAL VIEW explode(b) f AS y"
    " WHERE x < y",
    "SELECT id, p, k, v FROM t LATERAL VIEW OUTER posexplode(m) q AS p, k, v",
    "SELECT id, word FROM t LATERAL VIEW explode(split(c, ',')) q AS word",
    "SELECT e.x, count(*) AS n FROM t LATERAL VIEW explode(st) f AS e GROUP BY e.x",
    "SELECT id, y FROM t LATERAL VIEW explode(aa) e AS x LATERAL VIEW OUTER explode(x) f AS y",
    "SELECT s.y, count(*) AS n FROM t WHERE size(a) > 0 GROUP BY s.y",
)
_EXPRESSIONS = (
    "s.x", "a[0]", "m['k']", "element_at(w, 1)", "element_at(w, -1)", "element_at(m, 'l')",
    "get(a, n)", "try_element_at(a, 9)", "size(a)", "size(m)", "cardinality(a)", "array_size(w)",
    "array_contains(a, 2)", "array_contains(w, 'x')", "array_position(a, 2)", "array_remove(a, 2)",
    "array_distinct(a)", "array_compact(a)", "array_union(a, b)", "array_intersect(a, b)",
    "array_except(a, b)", "arrays_overlap(a, b)", "array_max(a)", "array_min(d)", "array_max(d)",
    "sort_array(a)", "sort_array(a, false)", "sort_array(d)", "array_sort(a)", "sort_array(st)",
    "reverse(a)", "slice(a, 1, 2)", "slice(a, -2, 2)", "flatten(aa)", "concat(a, b)",
    "array_join(w, '-')", "array_join(w, '-', '?')", "map_keys(m)", "map_values(m)",
    "map_entries(m)", "map_contains_key(m, 'k')", "map_from_arrays(array('p', 'q'), array(n, 2))",
    "map_from_entries(map_entries(m))", "map_concat(m, map('zz', n))", "array(n, 1)",
    "map('a', n, 'b', 2)", "named_struct('p', n, 'q', c)", "split(c, ',')",
    "transform(a, x -> x + 1)", "transform(a, (x, i) -> x * i + n)", "filter(a, x -> x > 1)",
    "filter(st, e -> e.x > 1)", "exists(a, x -> x = 2)", "forall(a, x -> x > 0)",
    "aggregate(a, 0, (acc, x) -> acc + coalesce(x, 0))",
    "aggregate(a, 0, (acc, x) -> acc + coalesce(x, 0), acc -> acc * 2)",
    "map_filter(m, (k, v) -> v > 1)", "transform_values(m, (k, v) -> v + 1)",
    "transform_keys(m, (k, v) -> upper(k))", "zip_with(a, b, (x, y) -> x + y)",
    "transform(w, x -> upper(x))", "st.x", "st[0].y", "aa[0][0]", "transform(aa, v -> size(v))",
)  # fmt: skip


def _made(query: str) -> Mill:
    mill = vm.connect()
    mill.sql(f"CREATE TABLE t ({_COLUMNS})")
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
    return mill


@pytest.mark.usefixtures("uncompiled")
def test_elements_come_and_go_with_their_rows() -> None:
    mill = _made("SELECT x, count(*) AS n FROM t LATERAL VIEW explode(a) e AS x GROUP BY x")
    calls = mill["v"].status()["engine_calls"]
    mill.insert("t", [*_ROWS, _ROWS[0]])
    assert sorted(mill["v"].rows(), key=repr) == [
        (1, 3), (2, 4), (3, 1), (9, 1), (None, 2),
    ]  # fmt: skip
    mill.delete("t", _ROWS[:2])
    assert sorted(mill["v"].rows(), key=repr) == [(1, 2), (2, 2), (3, 1), (None, 1)]
    assert mill["v"].status()["engine_calls"] == calls
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_outer_keeps_rows_without_elements() -> None:
    mill = _made("SELECT id, p, x FROM t LATERAL VIEW OUTER posexplode(b) e AS p, x")
    mill.insert("t", _ROWS)
    assert sorted(mill["v"].rows(), key=repr) == [
        (1, 0, 2), (1, 1, 3), (2, None, None), (3, None, None), (4, 0, 1), (4, 1, 1), (4, 2, 3),
    ]  # fmt: skip
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_functions_with_lambdas_see_columns_around_them() -> None:
    mill = _made(
        "SELECT id, transform(a, x -> x + n) AS t, filter(st, e -> e.y > 'a').x AS f,"
        " aggregate(b, 0, (s, x) -> s + x) AS r FROM t WHERE exists(w, v -> v LIKE '%x%')"
    )
    mill.insert("t", _ROWS)
    assert sorted(mill["v"].rows(), key=repr) == [
        (1, [1, 2, None, 2], [1], 5), (2, [9], [5], 0), (3, None, None, None),
    ]  # fmt: skip
    assert mill["v"].verify() == []


@pytest.mark.usefixtures("uncompiled")
def test_an_index_that_is_not_there_is_an_error_that_changes_nothing() -> None:
    mill = _made("SELECT id, a[1] AS x FROM t WHERE a IS NOT NULL")
    mill.insert("t", [_ROWS[0]])
    with pytest.raises(vm.EvaluationFailed, match="index 1 of an array of 1 elements"):
        mill.insert("t", [_ROWS[1]])
    assert mill["v"].rows() == [(1, 2)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT explode(n) FROM t", "explode needs an array or a map, got INT"),
        ("SELECT inline(a) FROM t", "inline needs an array of structs, got ARRAY<INT>"),
        ("SELECT explode(a), explode(b) FROM t", "one generator at most"),
        ("SELECT x FROM t LATERAL VIEW posexplode(a) e AS x", "the alias names 1 columns"),
        ("SELECT s.z FROM t", "has no field z"),
        ("SELECT transform(a, (x, y, z) -> x) FROM t", "the lambda takes 3 arguments, not 2"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(query: str, said: str) -> None:
    with pytest.raises(vm.ViewmillError, match=said) as refused:
        _made(query)
    assert refused.value.span is not None


@pytest.mark.spark
def test_every_generator_and_function_answers_as_spark_does(spark: Any, uncompiled: Any) -> None:
    # A dict on its way to Spark loses the order of its entries.
    as_entries = _COLUMNS.replace("MAP<STRING, INT>", "ARRAY<STRUCT<k: STRING, v: INT>>")
    given = spark.createDataFrame(_ROWS, as_entries)
    given.selectExpr(
        *(f"map_from_entries({n}) AS m" if n == "m" else n for n in given.columns)
    ).createOrReplaceTempView("t")
    mill = vm.connect()
    mill.sql(f"CREATE TABLE t ({_COLUMNS})")
    together = [_EXPRESSIONS[i : i + 13] for i in range(0, len(_EXPRESSIONS), 13)]
    shown = [", ".join(f"{e} AS v{i}" for i, e in enumerate(each)) for each in together]
    queries = [*_GENERATORS, *(f"SELECT id, {each} FROM t" for each in shown)]
    for i, query in enumerate(queries):
        mill.sql(f"CREATE MATERIALIZED VIEW v{i} REFRESH POLICY INCREMENTAL STRICT AS {query}")
    mill.insert("t", [*_ROWS, *_ROWS])
    mill.delete("t", _ROWS)
    for i, query in enumerate(queries):
        wanted = sorted(repr(_plain(tuple(row))) for row in spark.sql(query).collect())
        assert sorted(repr(_plain(row)) for row in mill[f"v{i}"].rows()) == wanted, query


def _is_map(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and type(value[0]) is tuple


def _plain(value: Any) -> Any:
    """A value in a form that PySpark's and ours share; an empty map is an empty array there."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if _is_map(value):
        value = dict(value)
    if isinstance(value, dict):
        return sorted((str(k), _plain(v)) for k, v in value.items()) if value else []
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT explode(array(1, 2)) AS x", [(1,), (2,)]),
        ("SELECT 7 AS k, posexplode(array('a', NULL))", [(7, 0, "a"), (7, 1, None)]),
        ("SELECT x + 1 AS y FROM (SELECT explode(sequence(1, 2)) AS x)", [(2,), (3,)]),
        ("SELECT explode(array(1, 2)) AS x WHERE 1 = 0", []),
    ],
)
def test_a_list_is_taken_apart_without_from(uncompiled, query, rows):
    """It once looked for a table that nobody had written."""
    with vm.connect() as mill:
        assert sorted(mill.sql(query).rows(), key=repr) == rows
