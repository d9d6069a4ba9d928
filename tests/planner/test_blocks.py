"""A query is cut into blocks, and what a mill does to a view it does to all of its blocks."""

from __future__ import annotations

import pytest

import viewmill as vm

NESTED = """
SELECT n, count(*) AS k FROM (SELECT a, count(*) AS n FROM t GROUP BY a) GROUP BY n"""


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as made:
        made.sql("CREATE TABLE t (a INT, b INT)")
        made.sql("CREATE TABLE u (a INT, b INT)")
        made.insert("t", [(1, 1), (1, 2), (2, 1)])
        yield made


def test_a_group_by_over_a_group_by_is_two_blocks(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {NESTED}")
    blocks = mill["v"].explain()["blocks"]
    assert [block["name"] for block in blocks] == ["v#1", "v"]
    assert [block["strategy"] for block in blocks] == ["dataflow", "dataflow"]
    assert all(state["bytes"] > 0 for block in blocks for state in block["states"])
    assert mill["v"].status()["strategy"] == "dataflow"


def test_explain_shows_every_block_in_every_form(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {NESTED}")
    text = mill["v"].explain()
    assert "cut into 2 blocks" in text
    assert "Scan: v#1" in text
    assert '"v#1"' in mill["v"].explain("json")
    assert mill["v"].explain("svg").startswith("<svg")


def test_inner_blocks_move_with_their_view(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {NESTED}")
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT max(n) AS m FROM v")
    mill.insert("t", [(3, 1), (3, 2), (3, 3)])
    assert sorted(mill["v"].rows()) == [(1, 1), (2, 1), (3, 1)]
    assert mill["w"].rows() == [(3,)]
    mill["v"].refresh(full=True)
    assert mill["v"].verify() == mill["w"].verify() == []


def test_a_dropped_view_takes_its_blocks_along(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {NESTED}")
    mill.sql("DROP MATERIALIZED VIEW v")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    mill.insert("t", [(9, 9)])
    assert mill["v"].verify() == []


def test_a_replaced_view_may_have_another_number_of_blocks(mill):
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a AS n, count(*) AS k FROM t GROUP BY a")
    mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {NESTED}")
    mill.insert("t", [(2, 7)])
    assert mill["v"].rows() == [(2, 2)]
    assert mill["v"].verify() == []


def test_a_deferred_view_brings_all_its_blocks_up_to_date(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {NESTED}")
    mill.insert("t", [(2, 7)])
    assert mill["v"].verify() == []
    mill["v"].refresh()
    assert mill["v"].rows() == [(2, 2)]


def test_a_view_is_recomputed_if_a_part_is_taken_by_nobody_and_explain_names_it(mill):
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT q.s, u.b FROM u JOIN "
        "(SELECT a, first(b) AS s FROM t GROUP BY a) q ON q.a = u.a"
    )
    record = mill["v"].explain().record
    assert record["strategy"] == "recompute"
    reasons = {each["strategy"]: each["reason"] for each in record["rejected"]}
    assert "first" in reasons["dataflow"]


def test_strict_names_the_part_in_the_way(mill):
    with pytest.raises(vm.errors.UnsupportedQuery, match="incrementally") as refused:
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            "SELECT n FROM (SELECT a, first(b) AS n FROM t GROUP BY a) ORDER BY n LIMIT 2"
        )
    assert "first" in str(refused.value)
