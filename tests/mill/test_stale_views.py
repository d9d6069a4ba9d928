"""Deferred views whose rows wait: restarts, kills, and states that are filled again."""

import shutil

import pytest

import viewmill as vm
from viewmill.mill.fill import restore_lost

pytestmark = pytest.mark.usefixtures("uncompiled")

SUMS = "SELECT k, sum(x) AS s FROM t GROUP BY k"
LARGE = 2**63 - 1


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_view_that_cannot_be_refreshed_comes_back_as_stale_as_it_was(tmp_path, has_checkpoint):
    """It was broken after a restart: opening filled it with the rows that it fails for."""
    mill = vm.connect(tmp_path / "a.mill")
    mill.sql("CREATE TABLE t (k INT, x BIGINT)")
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {SUMS}")
    mill.insert("t", [(1, 5), (2, 7)])
    mill["v"].refresh()
    mill.insert("t", [(1, LARGE)])
    if has_checkpoint:
        mill.checkpoint()
    mill.delete("t", [(2, 7)])
    before = mill["v"].status()
    shutil.copytree(tmp_path / "a.mill", tmp_path / "b.mill")  # what a kill leaves
    mill.close()
    with vm.connect(tmp_path / "b.mill") as again:
        assert again.broken() == {}
        assert sorted(again["v"].rows()) == [(1, 5), (2, 7)]
        assert again["v"].verify() == []
        for name in ("version", "freshness", "waiting_rows", "error"):
            assert again["v"].status()[name] == before[name]
    with vm.connect(tmp_path / "b.mill") as again:
        again.delete("t", [(1, LARGE)])
        again["v"].refresh()
        assert (again["v"].rows(), again["v"].status()["freshness"]) == ([(1, 5)], "fresh")


@pytest.mark.parametrize(
    "query",
    [
        SUMS,
        "SELECT k, sum(d) AS s FROM t GROUP BY k",
        "SELECT t.k, sum(x * y) AS s FROM t JOIN u ON t.k = u.k GROUP BY t.k",
        "SELECT x, y FROM t LEFT JOIN u ON t.k = u.k",
    ],
)
def test_states_filled_again_leave_out_what_waits(mill, query):
    """Rows that waited for a deferred view were counted twice after its states were lost."""
    mill.sql("CREATE TABLE t (k INT, x INT, d DOUBLE)")
    mill.sql("CREATE TABLE u (k INT, y INT)")
    mill.insert("t", [(1, 1, 0.5), (2, 2, 0.5)])
    mill.insert("u", [(1, 10), (2, 20)])
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {query}")
    mill.insert("t", [(1, 5, 0.25)])
    mill.delete("t", [(2, 2, 0.5)])
    shown = sorted(mill["v"].rows())
    for block in mill._core.catalog.view("v").blocks:
        block.maintainer.is_lost = True
    restore_lost(mill._core)
    assert sorted(mill["v"].rows()) == shown
    mill["v"].refresh()
    assert mill["v"].verify() == []


def test_a_full_refresh_fills_states_that_were_lost(mill):
    """It was the hint of the error that readers get, and raised that error itself."""
    mill.sql("CREATE TABLE t (k INT, x INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    mill.insert("t", [(1, 1), (1, 2)])
    for block in mill.core.catalog.view("v").blocks:
        block.maintainer.is_lost = mill.core.has_lost = True
    with pytest.raises(vm.errors.OutOfMemory):
        mill["v"].rows()
    mill.sql("REFRESH MATERIALIZED VIEW v FULL")
    assert mill["v"].rows() == [(1, 3)]
