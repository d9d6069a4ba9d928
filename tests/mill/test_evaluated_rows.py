"""Expressions are evaluated for the rows that SQL evaluates them for, and guards guard."""

from __future__ import annotations

import pytest

import viewmill as vm


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def mill_of(tables, view, policy=""):
    mill = vm.connect()
    mill.sql(tables)
    mill.sql(f"CREATE MATERIALIZED VIEW v {policy} AS {view}")
    return mill


PAIR = "CREATE TABLE r (k INT, x INT); CREATE TABLE s (k INT, y INT)"
JOIN = "FROM r JOIN s ON r.k = s.k"


def test_a_quotient_over_a_join_is_divided_row_by_row():
    view = f"SELECT r.k, SUM(r.x / s.y) AS q {JOIN} GROUP BY r.k HAVING SUM(r.x / s.y) >= 1"
    mill = mill_of(PAIR, view)
    mill.insert("r", [(1, 49)])
    mill.insert("s", [(1, 49)])
    assert mill["v"].rows() == [(1, 1.0)]


def test_a_product_over_a_join_is_divided_by_a_constant():
    mill = mill_of(PAIR, f"SELECT SUM(r.x * s.y / 49) AS q {JOIN}", "STRATEGY view_tree")
    mill.insert("r", [(1, 7)])
    mill.insert("s", [(1, 7)])
    assert mill["v"].rows() == [(1.0,)]
    assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "value",
    [
        "SUM(CASE WHEN s.y <> 0 THEN r.x / s.y END)",
        "SUM(IF(s.y = 0, NULL, r.x / s.y))",
        "SUM(r.x / s.y) FILTER (WHERE s.y <> 0)",
        "SUM(CASE WHEN s.y <> 0 AND r.x / s.y > 0 THEN r.x / s.y END)",
        "SUM(CASE WHEN s.y = 0 OR r.x / s.y < 0 THEN 0.0D ELSE r.x / s.y END)",
        "SUM(r.x / NULLIF(s.y, 0))",
        "SUM(COALESCE(IF(s.y = 0, 0.0D, NULL), r.x / s.y))",
    ],
)
@pytest.mark.parametrize("policy", ["", "REFRESH POLICY FULL"])
def test_guards_stop_a_division(value, policy):
    mill = mill_of(PAIR, f"SELECT {value} AS q {JOIN}", policy)
    mill.insert("r", [(1, 8)])
    mill.insert("s", [(1, 0), (1, 2)])
    assert mill["v"].rows() == [(4.0,)]
    assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "view",
    [
        f"SELECT SUM(r.x / s.y) AS q {JOIN}",
        f"SELECT SUM(1 / s.y) AS q {JOIN}",
        f"SELECT 1 / s.y AS q, COUNT(*) AS n {JOIN} GROUP BY 1 / s.y",
        f"SELECT COUNT(*) AS n {JOIN} WHERE 1 / s.y > 0",
        "SELECT COUNT(*) AS n FROM r JOIN s ON r.k = s.k AND 1 / s.y > 0",
        f"SELECT cofactor(1 / s.y, r.x) AS c {JOIN}",
        "SELECT SUM(1 / s.y) AS q FROM s WHERE s.k > (SELECT AVG(o.k) FROM s o WHERE o.y > 0)",
    ],
)
def test_a_row_that_no_query_asks_about_is_not_evaluated(view):
    mill = mill_of(PAIR, view)
    before = mill["v"].rows()
    mill.insert("s", [(9, 0)])
    assert mill["v"].rows() == before
    assert mill["v"].verify() == []


def test_a_row_that_fails_in_the_view_is_still_refused():
    mill = mill_of(PAIR, f"SELECT SUM(r.x / s.y) AS q {JOIN}")
    mill.insert("s", [(9, 0)])
    with pytest.raises(vm.EvaluationFailed):
        mill.insert("r", [(9, 1)])
    assert mill["v"].rows() == [(None,)]


def test_a_subquery_joined_beside_nested_aggregates():
    mill = mill_of(
        "CREATE TABLE a (p BIGINT); CREATE TABLE b (p BIGINT)",
        "SELECT SUM(b.p * c.n) AS s FROM b, (SELECT COUNT(*) AS n FROM a) c"
        " WHERE b.p > (SELECT AVG(p) FROM b b2)",
    )
    mill.insert("b", [(1,), (3,)])
    mill.insert("a", [(7,)])
    mill.insert("a", [(8,)])
    assert mill["v"].rows() == [(6,)]


def test_two_correlated_in_under_or():
    mill = mill_of(
        PAIR,
        "SELECT r.k FROM r WHERE r.x IN (SELECT y FROM s WHERE s.k = r.k)"
        " OR r.k IN (SELECT y FROM s WHERE s.k = r.x)",
    )
    mill.insert("r", [(1, 2), (3, 4)])
    mill.insert("s", [(1, 2), (4, 3)])
    assert sorted(mill["v"].rows()) == [(1,), (3,)]
    mill.delete("s", [(1, 2)])
    assert mill["v"].rows() == [(3,)]


def test_a_sum_of_floats_inside_a_sum_of_floats():
    mill = mill_of(
        "CREATE TABLE r (a DOUBLE, b DOUBLE)",
        "SELECT a, SUM(b * (SELECT SUM(o.a) FROM r o WHERE r.a = o.a)) AS q FROM r GROUP BY a",
    )
    mill.insert("r", [(1.0, 2.0), (1.0, 3.0), (2.0, 5.0)])
    assert sorted(mill["v"].rows()) == [(1.0, 10.0), (2.0, 10.0)]


@pytest.mark.parametrize("name", ["agg", "pivot", "filter", "values", "var_map", "Window"])
def test_a_ring_takes_no_name_that_sql_reads_as_something_else(name):
    ring = vm.Ring(
        zero=0, one=1, add=lambda a, b: a + b, negate=lambda a: -a,
        multiply=lambda a, b: a * b, lift=lambda x: x,
    )  # fmt: skip
    with pytest.raises(vm.NameInUse, match=name):
        vm.connect().register(name, ring)
