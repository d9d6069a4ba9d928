"""A row for which an expression has no value: it is named, and nothing changes, in every place."""

from __future__ import annotations

import decimal

import pytest

import viewmill as vm

PLACES = {
    "filter": "SELECT k FROM t WHERE {e} > 1",
    "project": "SELECT k, {e} AS v FROM t",
    "join on": "SELECT t.k, u.y FROM t JOIN u ON {e} > u.y",
    "join key": "SELECT t.k, u.y FROM t JOIN u ON {e} = u.y",
    "left join on": "SELECT t.k, u.y FROM t LEFT JOIN u ON t.k = u.k AND {e} > u.y",
    "full join key": "SELECT t.k, u.y FROM t FULL JOIN u ON {e} = u.y",
    "over a join": "SELECT t.k, u.y + {e} AS v FROM t JOIN u ON t.k = u.k",
    "group key": "SELECT {e} AS g, count(*) AS c FROM t GROUP BY {e}",
    "argument": "SELECT k, sum({e}) AS v, max({e}) AS m FROM t GROUP BY k",
    "distinct": "SELECT k, count(DISTINCT {e}) AS v FROM t GROUP BY k",
    "median": "SELECT k, median({e}) AS v FROM t GROUP BY k",
    "max_by": "SELECT k, max_by(n, {e}) AS v FROM t GROUP BY k",
    "filter of a call": "SELECT k, count(*) FILTER (WHERE {e} > 1) AS v FROM t GROUP BY k",
    "having": "SELECT k, sum(z) AS c FROM t GROUP BY k HAVING sum({e}) > 1",
    "of groups": "SELECT k, sum(n) / sum(z) AS v FROM t GROUP BY k",
    "argument over": "SELECT k, sum({e}) OVER (PARTITION BY k ORDER BY n) AS v FROM t",
    "order over": "SELECT k, row_number() OVER (PARTITION BY k ORDER BY {e}) AS v FROM t",
    "partition over": "SELECT k, count(*) OVER (PARTITION BY {e}) AS v FROM t",
    "result over": "SELECT k, n / sum(z) OVER (PARTITION BY k) AS v FROM t",
    "exists": "SELECT y FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND {e} > 1)",
    "not in": "SELECT y FROM u WHERE y NOT IN (SELECT {e} FROM t)",
    "scalar": "SELECT y, (SELECT max({e}) FROM t WHERE t.k = u.k) AS v FROM u",
    "uncorrelated": "SELECT y FROM u WHERE y < (SELECT sum({e}) FROM t)",
    "union": "SELECT k FROM t UNION ALL SELECT {e} FROM t",
    "except": "SELECT k FROM t EXCEPT SELECT {e} FROM t",
    "top": "SELECT k, {e} AS v FROM t ORDER BY {e} DESC LIMIT 2",
    "rollup": "SELECT k, sum({e}) AS v FROM t GROUP BY ROLLUP (k)",
    "common table": "WITH q AS (SELECT k, {e} AS v FROM t) SELECT k, sum(v) AS s FROM q GROUP BY k",
    "lateral": "SELECT y, q.m FROM u, LATERAL (SELECT max({e}) AS m FROM t WHERE t.k = u.k) q",
}


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def views(mill):
    names = ("v", "other", "above")
    tables = mill.sql("SELECT * FROM t").rows(), mill.status()["version"]
    return [sorted(mill[name].rows(), key=repr) for name in names], tables


@pytest.mark.parametrize("place", PLACES)
def test_the_row_is_named_and_nothing_changes(place):
    check(PLACES[place].format(e="n / z"), (9, 5, 0, "7"))


@pytest.mark.parametrize("place", ["left join on", "join on", "group key", "partition over"])
def test_a_bad_cast_is_named_too(place):
    check(PLACES[place].format(e="CAST(s AS INT)"), (9, 5, 1, "seven"))


def change(mill, failing):
    with mill.batch():
        mill.insert("t", [(1, 2, 5, "4"), failing])
        mill.insert("u", [(1, 1)])


def check(query, failing):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, n INT, z INT, s STRING); CREATE TABLE u (k INT, y INT)")
        mill.insert("u", [(1, 1), (2, 2), (9, 3)])
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
        mill.sql("CREATE MATERIALIZED VIEW other AS SELECT k, sum(n) AS s FROM t GROUP BY k")
        mill.sql("CREATE MATERIALIZED VIEW above AS SELECT count(*) AS c FROM v")
        mill.insert("t", [(1, 4, 2, "1"), (2, 6, 3, "2"), (1, 1, 1, "3")])
        before = views(mill)
        with pytest.raises(vm.errors.EvaluationFailed) as refused:
            change(mill, failing)
        assert refused.value.span is not None
        assert "row" in refused.value.detail
        assert any(each in refused.value.detail for each in ("z = 0", "k = 9", "seven"))
        assert views(mill) == before
        mill.insert("t", [(2, 1, 1, "5")])
        assert [mill[name].verify() for name in ("v", "other", "above")] == [[], [], []]


def test_a_decimal_wider_than_64_bits_is_exact_and_one_wider_than_its_type_is_refused():
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, c STRING)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS"
            " SELECT k, sum(CAST(c AS DECIMAL(38,20))) AS v FROM t GROUP BY k"
        )
        mill.insert("t", [(1, "5"), (1, "0.05")])
        assert mill["v"].rows() == [(1, decimal.Decimal("5.05"))]
        with pytest.raises(vm.errors.ViewmillError) as refused:
            mill.insert("t", [(1, "1234567890123456789")])  # 19 digits before the point, 18 fit
        assert "1234567890123456789" in str(refused.value)
        assert mill["v"].rows() == [(1, decimal.Decimal("5.05"))]
        assert mill["v"].verify() == []


def test_a_quotient_has_the_digits_that_a_cast_shows():
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, a DECIMAL(7,2), b DECIMAL(7,2))")
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS"
            " SELECT k, CAST(sum(a) / sum(b) AS DECIMAL(9,4)) AS v FROM t GROUP BY k"
        )
        mill.insert("t", [(1, 5, 7)])
        assert str(mill["v"].rows()[0][1]) == "0.7143"
        assert mill["v"].verify() == []
