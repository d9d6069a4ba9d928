"""What fails in a row names the row and changes nothing; what changes by itself is no view."""

from __future__ import annotations

import pytest

import viewmill as vm

FAILING = {
    "division": "SELECT a / b AS x FROM r",
    "remainder in a sum": "SELECT sum(a % b) AS s FROM r",
    "condition": "SELECT a, count(*) AS n FROM r WHERE 10 / b > 1 GROUP BY a",
    "cast": "SELECT cast(c AS INT) AS x FROM r",
    "window": "SELECT a, rank() OVER (ORDER BY a / b) AS n FROM r",
    "join": "SELECT x.a FROM r x JOIN r y ON x.a / y.b = y.a",
}


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT, b INT, c STRING)")
        yield mill


@pytest.mark.parametrize("kind", FAILING)
def test_a_failure_names_the_row_and_changes_nothing(mill, kind):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {FAILING[kind]}")
    mill.insert("r", [(1, 2, "5")])
    before = mill["v"].rows()
    with pytest.raises(vm.errors.EvaluationFailed) as failed:
        mill.insert("r", [(3, 1, "2"), (7, 0, "x7")])
    assert "row 1 of the batch" in failed.value.detail or "y.c = 'x7'" in failed.value.detail
    assert 'view "v"' in failed.value.detail
    assert "7" in failed.value.detail
    assert mill["v"].rows() == before
    assert mill.sql("SELECT * FROM r").rows() == [(1, 2, "5")]
    assert mill["v"].verify() == []


def test_time_and_chance_are_for_queries_that_are_answered_once(mill):
    mill.insert("r", [(1, 2, "5")])
    assert mill.sql("SELECT now() > TIMESTAMP '2020-01-01' AS x FROM r").rows() == [(True,)]
    assert mill.sql("SELECT count(*) AS n FROM r WHERE rand() < 2").rows() == [(1,)]
    with pytest.raises(vm.errors.UnsupportedQuery, match="cannot follow the time"):
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT now() AS x FROM r")


def test_strict_underlines_what_is_in_the_way_and_hints(mill):
    with pytest.raises(vm.errors.UnsupportedQuery) as refused:
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            "SELECT a, first(b) AS x FROM r GROUP BY a"
        )
    assert "first" in refused.value.detail
    assert refused.value.span is not None
    assert refused.value.hint


def test_a_subquery_of_several_rows_is_an_error(mill):
    mill.sql("CREATE TABLE s (a INT, b INT)")
    mill.sql(
        "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
        "SELECT a, (SELECT s.b FROM s WHERE s.a = r.a) AS x FROM r"
    )
    mill.insert("r", [(1, 2, "5"), (2, 0, "")])
    mill.insert("s", [(1, 10)])
    assert sorted(mill["v"].rows()) == [(1, 10), (2, None)]
    with pytest.raises(vm.errors.EvaluationFailed, match="more than one row"):
        mill.insert("s", [(1, 11)])
    assert mill["v"].verify() == []
    mill.insert("s", [(3, 11), (3, 12)])
    assert sorted(mill["v"].rows()) == [(1, 10), (2, None)]
