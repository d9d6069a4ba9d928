"""A policy that is changed while rows wait: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import time

import pytest

import viewmill as vm

KINDS = [
    "IMMEDIATE",
    "ON DEMAND",
    "EVERY 100 ROWS",
    "EVERY INTERVAL '100' SECONDS",
    "WITHIN INTERVAL '100' SECONDS",
    "ON READ AFTER INTERVAL '100' SECONDS",
]
FRESH = "SELECT count(*) AS n, sum(x) AS s FROM t"


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as made:
        made.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        yield made


@pytest.mark.parametrize("after", KINDS)
def test_rows_that_wait_are_taken_once(mill, after):
    others = [kind for kind in KINDS if kind != after]
    for i, before in enumerate(others):  # those that are equal and immediate share their blocks
        mill.sql(f"CREATE MATERIALIZED VIEW v{i} REFRESH {before} AS {FRESH}")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT n + 0 AS n FROM v1")
    mill.insert("t", [(1, 5), (1, 7)])
    for i in range(len(others)):
        mill[f"v{i}"].set_policies(after)
    mill.delete("t", [(1, 5)])
    mill.insert("t", [(2, 1)])
    for i in range(len(others)):
        if after == "IMMEDIATE":
            assert mill[f"v{i}"].status()["freshness"] == "fresh"
        mill[f"v{i}"].refresh()
        assert mill[f"v{i}"].rows() == [(2, 8)]
    assert mill["above"].rows() == [(2,)]


def test_immediate_again_takes_what_waits_at_once(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {FRESH}")
    mill.insert("t", [(1, 5)])
    mill["v"].set_policies("IMMEDIATE")
    assert mill["v"].rows() == [(1, 5)]
    mill.delete("t", [(1, 5)])
    assert mill["v"].rows() == [(0, None)]


def test_fewer_rows_than_wait_already_make_it_due(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH EVERY 100 ROWS AS {FRESH}")
    mill.insert("t", [(i, 1) for i in range(10)])
    mill["v"].set_policies("EVERY 5 ROWS")
    assert mill["v"].rows() == [(10, 10)]


def test_policy_stays_when_what_waits_cannot_be_taken(mill):
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT 10 div x AS q FROM t")
    mill.insert("t", [(1, 0)])
    with pytest.raises(vm.ViewmillError):
        mill["v"].set_policies("IMMEDIATE")
    assert mill["v"].status()["policies"] == ["REFRESH ON DEMAND"]
    mill.delete("t", [(1, 0)])
    mill["v"].set_policies("IMMEDIATE")
    assert mill["v"].rows() == []


def test_reading_a_view_reads_what_is_below_it(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON READ AFTER INTERVAL '0' SECONDS AS {FRESH}")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT n FROM v")
    mill.insert("t", [(1, 5)])
    assert mill["above"].rows() == [(1,)]


def test_readers_of_a_refreshed_view_are_due_at_once(mill):
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT k, x FROM t WHERE x > 0")
    mill.sql("CREATE MATERIALIZED VIEW a REFRESH EVERY 2 ROWS AS SELECT count(*) AS n FROM v")
    mill.sql(
        "CREATE MATERIALIZED VIEW b REFRESH WITHIN INTERVAL '50' MILLISECONDS"
        " AS SELECT count(*) AS n FROM v"
    )
    mill.insert("t", [(1, 5), (2, 6)])
    mill["v"].refresh()
    assert mill["a"].status()["freshness"] == "fresh"
    assert mill["a"].rows() == [(2,)]
    deadline = time.monotonic() + 5
    while mill["b"].rows() != [(2,)] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mill["b"].rows() == [(2,)]


def test_policy_changed_with_rows_waiting_survives_a_restart(uncompiled, tmp_path):
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {FRESH}")
        mill.insert("t", [(1, 5)])
        mill["v"].set_policies("EVERY 100 ROWS")
        mill.insert("t", [(1, 6)])
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill["v"].status()["policies"] == ["REFRESH EVERY 100 ROWS"]
        assert mill["v"].rows() == [(2, 11)]
        mill["v"].set_policies("IMMEDIATE")
        mill.delete("t", [(1, 6)])
        assert mill["v"].rows() == [(1, 5)]
