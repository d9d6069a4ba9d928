"""Which states a change reads, as the triggers tell it, and what the selection makes of that."""

from __future__ import annotations

import pytest

import viewmill as vm
from viewmill.planner.operators import Holding, Operator
from viewmill.planner.select_states import cost_of, select_states
from viewmill.program import uses

AMPLE = 1 << 40


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> vm.Mill:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    mill = vm.connect()
    mill.sql("CREATE TABLE o (k INT, c INT, p DOUBLE) UNCHECKED")
    mill.sql("CREATE TABLE c (c INT, n STRING) UNCHECKED")
    mill.insert("o", [(i, i % 50, i * 0.5) for i in range(3000)])
    mill.insert("c", [(i, f"n{i % 7}") for i in range(50)])
    return mill


@pytest.mark.parametrize("aggregate", ["sum(p)", "avg(p)", "count(*)"])
def test_a_side_of_a_join_is_read_by_the_other_only(mill: vm.Mill, aggregate: str) -> None:
    mill.sql(
        f"CREATE MATERIALIZED VIEW v MEMORY '1 MB' AS "
        f"SELECT n, {aggregate} FROM o JOIN c ON o.c = c.c GROUP BY n"
    )
    (block,) = mill.core.catalog.view("v").blocks
    found = uses.uses_of(block.program)
    assert found.by_input == {"o": frozenset({"v_c"}), "c": frozenset({"v_o"})}
    mill.expect("o", rows=100)
    mill.expect("c", complete=True)
    status = mill["v"].status()
    assert set(status["kept"]) == {"v/v_c", "v/root"}
    assert set(status["released"]) == {"v/v_o"}
    mill.insert("o", [(1, 1, 1.0)])
    assert mill["v"].status()["refresh_kind"] == "incremental"
    mill.insert("c", [(60, "n1")])
    assert mill["v"].verify() == []


def test_a_table_of_a_quiet_operator_is_kept_for_those_that_read_it() -> None:
    """Nothing comes to the aggregate, but what comes to the other side looks its groups up."""
    quiet = Operator("scan", "c", rows=1000, full_us=100, bulk_us=100)
    table = Holding("groups", 1000, load_us=500)
    groups = Operator("aggregate", "groups", (quiet,), (table,), 50, 0.0, 100, 0, bulk_us=200)
    busy = Operator("scan", "o", rows=1000, delta=10, full_us=100, bulk_us=100)
    root = Operator("join", "x", (groups, busy), (), 1000, 10, 2000, 5, bulk_us=2300)
    chosen = select_states(root, AMPLE)
    assert chosen.kept == {"groups"}
    assert chosen.cost_us == cost_of(root, frozenset({"groups"})) == 5
    assert cost_of(root, frozenset()) == 5 + 500 + 100 + 100
