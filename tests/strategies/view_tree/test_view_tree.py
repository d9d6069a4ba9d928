"""What a view tree takes, what it refuses and why, and what it does when a batch fails."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

import viewmill as vm
from viewmill.errors import Overflow, ViewmillError
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import Query
from viewmill.strategies.strategy import Rejection, Statistics
from viewmill.strategies.view_tree.strategy import ViewTree

TABLES = """
CREATE TABLE r (a BIGINT, b BIGINT, f DOUBLE) UNCHECKED;
CREATE TABLE s (a BIGINT, c BIGINT, e BIGINT, g DOUBLE) UNCHECKED;
CREATE TABLE t (c BIGINT, d DECIMAL(10,2)) UNCHECKED
"""


@pytest.fixture
def tables(mill):
    mill.sql(TABLES)
    return mill


def create(mill, query: str):
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {query}")
    return mill["v"]


def test_a_join_aggregate_is_maintained_by_a_view_tree(tables):
    tables.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(r.b * s.e) AS x FROM r JOIN s ON r.a = s.a"
    )
    assert tables["v"].status()["strategy"] == "view_tree"


def test_explain_shows_the_order_the_tree_and_the_costs(tables):
    view = create(tables, "SELECT COUNT(*) AS n FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c")
    text = str(view.explain())
    assert "variable order   a(c)" in text
    assert "kept: joined when t changes" in text
    assert "update of t   O(n)" in text


def test_a_sum_over_no_rows_is_null_and_a_count_zero(tables):
    view = create(tables, "SELECT SUM(r.b * s.e) AS x, COUNT(*) AS n FROM r JOIN s ON r.a = s.a")
    assert view.rows() == [(None, 0)]
    tables.insert("r", [(1, None, 1.0)])
    tables.insert("s", [(1, 1, 5, 1.0)])
    assert view.rows() == [(None, 1)]
    tables.delete("r", [(1, None, 1.0)])
    assert view.rows() == [(None, 0)]


def test_a_group_stays_while_it_has_rows_though_its_sum_is_zero(tables):
    view = create(tables, "SELECT r.a, SUM(r.b * s.e) AS x FROM r JOIN s ON r.a = s.a GROUP BY r.a")
    tables.insert("s", [(1, 1, 1, 1.0)])
    tables.insert("r", [(1, 5, 1.0), (1, -5, 1.0)])
    assert view.rows() == [(1, 0)]


def test_null_keys_meet_nothing(tables):
    view = create(tables, "SELECT COUNT(*) AS n FROM r JOIN s ON r.a = s.a")
    tables.insert("r", [(None, 1, 1.0)])
    tables.insert("s", [(None, 1, 1, 1.0)])
    assert view.rows() == [(0,)]


def test_nan_and_infinities_leave_no_trace_when_they_go(tables):
    view = create(tables, "SELECT SUM(r.f * s.g) AS x FROM r JOIN s ON r.a = s.a")
    tables.insert("s", [(1, 1, 1, 2.0), (1, 1, 1, -0.5)])
    tables.insert("r", [(1, 1, 3.0)])
    assert view.rows() == [(4.5,)]
    tables.insert("r", [(1, 1, math.inf)])
    assert math.isnan(view.rows()[0][0])  # inf * 2 and inf * -0.5
    tables.delete("s", [(1, 1, 1, -0.5)])
    assert view.rows() == [(math.inf,)]
    tables.insert("r", [(1, 1, math.nan)])
    assert math.isnan(view.rows()[0][0])
    tables.delete("r", [(1, 1, math.nan)])
    tables.delete("r", [(1, 1, math.inf)])
    assert view.rows() == [(6.0,)]
    assert view.verify() == []


def test_equal_infinities_do_not_cancel(tables):
    view = create(tables, "SELECT SUM(r.f * s.g - r.f * s.g) AS x FROM r JOIN s ON r.a = s.a")
    tables.insert("s", [(1, 1, 1, 2.0)])
    tables.insert("r", [(1, 1, 3.0)])
    assert view.rows() == [(0.0,)]
    tables.insert("r", [(1, 1, math.inf)])
    assert math.isnan(view.rows()[0][0])


def test_an_overflow_is_judged_on_the_result_and_undone(tables):
    view = create(tables, "SELECT SUM(r.b * s.e) AS x FROM r JOIN s ON r.a = s.a")
    tables.insert("s", [(1, 1, 2**62, 1.0)])
    tables.insert("r", [(1, 1, 1.0)])
    with pytest.raises(Overflow):
        tables.insert("r", [(1, 1, 1.0), (2, 7, 1.0)])
    assert view.rows() == [(2**62,)]
    tables.insert("r", [(1, 1, 1.0), (1, -1, 1.0)])  # what passes on the way is not judged
    assert view.rows() == [(2**62,)]
    assert view.verify() == []


def test_sums_of_products_are_exact_beyond_64_bits_inside(tables):
    view = create(
        tables,
        "SELECT r.a, SUM(r.b * s.e - r.b * s.e + 1) AS x FROM r JOIN s ON r.a = s.a GROUP BY r.a",
    )
    tables.insert("r", [(1, 2**31, 1.0)])
    tables.insert("s", [(1, 1, 2**31, 1.0)])
    assert view.rows() == [(1, 1)]


@pytest.mark.parametrize("compiler", ["on", "off"])
def test_a_failing_row_undoes_the_whole_batch(tables, monkeypatch, compiler):
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    view = create(
        tables,
        "SELECT s.c, SUM((10 div s.e) * t.d) AS x, SUM(r.f * s.g) AS y "
        "FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c GROUP BY s.c",
    )
    tables.insert("r", [(1, 1, 0.1), (1, 2, 0.2)])
    tables.insert("t", [(1, Decimal("1.50")), (2, Decimal("2.50"))])
    tables.insert("s", [(1, 1, 5, 0.3)])
    before, held = view.rows(), snapshots(tables)
    with pytest.raises(ViewmillError, match="division by zero"):
        tables.insert("s", [(1, 1, 2, 1e16), (1, 2, 1, 0.7), (1, 1, 0, 0.1), (1, 1, 3, 0.1)])
    assert view.rows() == before
    assert snapshots(tables) == held
    tables.insert("s", [(1, 2, 5, 0.1)])
    assert view.verify() == []


def snapshots(mill) -> dict[str, list[object]]:
    """Every state of view v."""
    block = mill._core.catalog.view("v").blocks[-1]
    return {
        each.name: sorted(
            (tuple(row.values()) for batch in block.maintainer.snapshot(each.name)
             for row in batch.to_pylist()), key=repr,
        )
        for each in block.program.states
    }  # fmt: skip


def test_self_joins_see_their_own_change_once(tables):
    view = create(
        tables, "SELECT x.a, SUM(x.b * y.b) AS p FROM r x JOIN r y ON x.a = y.a GROUP BY x.a"
    )
    tables.insert("r", [(1, 2, 0.0), (1, 3, 0.0)])
    assert view.rows() == [(1, 25)]
    tables.delete("r", [(1, 2, 0.0)])
    assert view.rows() == [(1, 9)]


def test_static_tables_have_no_trigger_and_keep_what_others_need(mill):
    mill.sql("CREATE TABLE d (k BIGINT NOT NULL, x BIGINT NOT NULL) STATIC")
    mill.sql("CREATE TABLE f (k BIGINT NOT NULL, y BIGINT NOT NULL) UNCHECKED")
    mill.insert("d", [(1, 10), (2, 20)])
    view = create(mill, "SELECT SUM(d.x * f.y) AS p FROM d JOIN f ON d.k = f.k")
    mill.insert("f", [(1, 3), (2, 1)])
    assert view.rows() == [(50,)]
    assert [state["name"] for state in view.explain()["states"]] == ["v_d", "root"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT MAX(r.b) AS x FROM r JOIN s ON r.a = s.a", "max is not maintained"),
        ("SELECT SUM(r.b) AS x FROM r JOIN s ON r.a < s.a", "no equality"),
        ("SELECT COUNT(DISTINCT r.b) AS x FROM r JOIN s ON r.a = s.a", "DISTINCT"),
        ("SELECT SUM(r.b) AS x FROM r LEFT JOIN s ON r.a = s.a", "left join"),
        ("SELECT SUM(r.b) AS x FROM r", "one table"),
        ("SELECT SUM(r.b % s.e) AS x FROM r JOIN s ON r.a = s.a", "can fail"),
        ("SELECT SUM(greatest(r.b, s.e)) AS x FROM r JOIN s ON r.a = s.a", "no sum of products"),
    ],
)
def test_a_refusal_says_what_is_in_the_way(tables, query, reason):
    (statement,) = parse(query)
    assert isinstance(statement, Query)
    relation = rewrite(lower(statement.query, query, tables._core.catalog))
    answer = ViewTree().match(relation, Statistics())
    assert isinstance(answer, Rejection)
    assert reason in answer.reason


def test_a_reopened_view_goes_on(tmp_path):
    with vm.connect(str(tmp_path / "m")) as mill:
        mill.sql(TABLES)
        create(mill, "SELECT r.a, SUM(r.f * s.g) AS x FROM r JOIN s ON r.a = s.a GROUP BY r.a")
        mill.insert("r", [(1, 1, 0.5)])
        mill.insert("s", [(1, 1, 1, 4.0)])
    with vm.connect(str(tmp_path / "m")) as mill:
        assert mill["v"].rows() == [(1, 2.0)]
        mill.insert("s", [(1, 1, 1, 2.0)])
        assert mill["v"].rows() == [(1, 3.0)]
        assert mill["v"].verify() == []


def test_a_constant_fraction_of_a_join_is_summed(uncompiled):
    """SUM(0.5) over a join has a coefficient that is no whole number of rows."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, x DOUBLE); CREATE TABLE u (k INT, x DOUBLE)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT u.k, SUM(CAST(0.5 AS DOUBLE)) AS s "
            "FROM t JOIN u ON t.k = u.k GROUP BY u.k"
        )
        mill.insert("t", [(1, 1.5), (1, 2.0)])
        mill.insert("u", [(1, 1.0)])
        assert mill["v"].status()["strategy"] == "view_tree"
        assert mill["v"].rows() == [(1, 1.0)]
        assert mill["v"].verify() == []
