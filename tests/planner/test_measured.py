"""What refreshes have cost corrects what is estimated for the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

import viewmill as vm
from viewmill.mill import held_states, memory
from viewmill.planner.measured import Measured
from viewmill.planner.operators import Costs, Holding, Operator, Situation
from viewmill.planner.select_states import full_cost
from viewmill.policies.arrivals import Expectation

ROWS, CHANGED = 1000.0, 200.0


def situation() -> Situation:
    return Situation({"r": ROWS}, {"r": Expectation(CHANGED)}, {})


def root(costs: Costs) -> Operator:
    scan = Operator("scan", "r", rows=ROWS, delta=CHANGED, bulk_us=costs.scan * ROWS)
    return Operator("aggregate", "a", (scan,), delta_us=costs.apply * CHANGED,
                    bulk_us=(costs.hash + costs.scan) * ROWS)  # fmt: skip


def held(costs: Costs, build_us: float) -> Operator:
    """The same with a state that takes so long to build, once for all deltas to come."""
    state = Holding("v/s", 1000, build_us=build_us / situation().deltas)
    return replace(root(costs), holdings=(state,))


def test_nothing_measured_corrects_nothing() -> None:
    before = situation()
    assert Measured().correct(before, root(before.costs)) == before


def test_the_corrected_costs_give_what_was_measured() -> None:
    measured, before = Measured(), situation()
    measured.note_full(spent_us=1.0 * ROWS)
    for row_us in (90.0, 3.0):  # the first refresh has other things to do
        measured.note_delta(row_us * CHANGED, rows=int(CHANGED))
    after = measured.correct(before, root(before.costs))
    made = root(after.costs)
    assert full_cost(made) == pytest.approx(1.0 * ROWS)
    assert made.delta_us == pytest.approx(3.0 * CHANGED)


def test_small_deltas_say_nothing_and_longer_times_count_half() -> None:
    measured = Measured()
    for _ in range(2):
        measured.note_delta(1e6, 5)
    assert measured.delta is None
    before = situation()
    for spent, known in ((100.0, 1.0), (300.0, 2.0), (50.0, 0.5)):
        measured.note_build(("v", "s"), spent)
        made = measured.correct(before, held(before.costs, 100.0))
        assert made.builds == {("v", "s"): known * 100.0}


def test_the_first_build_does_not_count_what_is_done_once() -> None:
    """Code is compiled then; afterwards the state is built in the time that was estimated."""
    measured, before = Measured(), situation()
    measured.note_build(("v", "s"), 1e6)
    assert measured.correct(before, held(before.costs, 100.0)).builds == {("v", "s"): 100.0}
    measured.note_build(("v", "s"), 40.0)
    assert measured.correct(before, held(before.costs, 100.0)).builds == {("v", "s"): 40.0}


def test_what_a_small_table_takes_is_no_measure_for_each_row_of_a_large_one() -> None:
    measured, small = Measured(), situation()
    measured.note_build(("v", "s"), 100.0)
    measured.correct(small, held(small.costs, 100.0))  # as estimated, of which most is the call
    assert measured.correct(small, held(small.costs, 500.0)).builds == {("v", "s"): 500.0}


def test_a_view_that_is_dear_to_build_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few deltas are to come: states that took long to build are not built for them once more."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    mill = vm.connect()
    mill.sql("CREATE TABLE r (a INT, b INT) UNCHECKED")
    mill.insert("r", [(i % 500, i) for i in range(5000)])
    mill.expect("r", rows=100, deltas=3)
    mill.sql("CREATE MATERIALIZED VIEW v MEMORY '10 MB' AS SELECT a, sum(b) AS s FROM r GROUP BY a")
    budgeted = mill.core.catalog.view("v").budgeted
    assert budgeted is not None
    budgeted.measured.note_full(1000.0)
    for unit, _ in held_states.units(budgeted):
        budgeted.measured.builds[unit] = 50.0
    held_states.switch_to_full(mill.core, mill.core.catalog.view("v"), budgeted)
    budgeted.selection = None
    memory.release_states(mill.core)
    assert budgeted.mode == "full"
    mill.insert("r", [(1, 1)] * 100)
    assert mill["v"].verify() == []


def test_a_view_that_builds_states_at_each_delta_learns_what_computing_it_again_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    mill = vm.connect()
    for table in "rs":
        mill.sql(f"CREATE TABLE {table} (a INT, b INT) UNCHECKED")
        mill.insert(table, [(i % 500, i) for i in range(1000)])
        mill.expect(table, rows=1, deltas=1000)
    mill.sql(
        "CREATE MATERIALIZED VIEW v MEMORY '10 MB' AS "
        "SELECT r.a, sum(r.b * s.b) AS x FROM r JOIN s ON r.a = s.a GROUP BY r.a"
    )
    budgeted = mill.core.catalog.view("v").budgeted
    assert budgeted is not None
    mill.insert("r", [(1, 1)])
    assert not budgeted.measured.knows_full  # nothing was missing
    released = {("v", "by_a")}
    held_states.release(budgeted, {unit for unit, _ in held_states.units(budgeted)} - released)
    mill.insert("r", [(2, 2)])
    assert budgeted.rebuilt
    assert budgeted.measured.knows_full
    assert mill["v"].verify() == []
