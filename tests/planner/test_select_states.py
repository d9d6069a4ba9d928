"""The dynamic program against exhaustive search, and its own promises."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.planner.operators import Holding, Operator
from viewmill.planner.select_states import (
    UNITS,
    Curves,
    bisect_steps,
    cost_of,
    least_sums,
    select_states,
)

costs = st.integers(0, 40).map(float)


@st.composite
def operator_trees(draw: st.DrawFn, depth: int = 3) -> Operator:
    """Small trees of every kind of operator, some inputs without delta."""
    counter = [0]

    def holding(side: int) -> Holding:
        counter[0] += 1
        return Holding(
            f"s{counter[0]}",
            draw(st.integers(0, 6)),
            draw(st.booleans()),
            draw(st.booleans()),
            side,
            *(draw(costs) for _ in range(4)),
        )

    def make(depth: int) -> Operator:
        kinds = ["scan"] if depth == 0 else ["scan", "materialize", "sort", "aggregate", "join"]
        kind = draw(st.sampled_from(kinds))
        if kind == "scan":
            delta = float(draw(st.integers(0, 2)))
            return Operator("scan", "t", delta=delta, full_us=draw(costs), delta_us=draw(costs))
        count = draw(st.integers(2, 3)) if kind == "join" else 1
        children = tuple(make(depth - 1) for _ in range(count))
        sides = range(count) if counter[0] < 8 else ()
        holdings = tuple(holding(i) for i in sides if draw(st.booleans()))
        delta = sum(each.delta for each in children)
        bulk = draw(st.none() | costs)
        return Operator(
            kind,  # type: ignore[arg-type]
            kind,
            children,
            holdings,
            1.0,
            delta,
            draw(costs),
            draw(costs),
            bulk,
        )

    return make(depth)


def _exhaustive(root: Operator, budget: int) -> float:
    holdings = [each for op in root.walk() for each in op.holdings]
    found = []
    for size in range(len(holdings) + 1):
        for kept in combinations(holdings, size):
            if sum(each.bytes for each in kept) <= budget:
                found.append(cost_of(root, frozenset(each.name for each in kept)))
    return min(found)


@given(operator_trees(), st.integers(0, 30))
def test_the_dynamic_program_equals_exhaustive_search(root: Operator, budget: int) -> None:
    selection = select_states(root, budget)
    assert selection.cost_us == pytest.approx(_exhaustive(root, budget))
    assert cost_of(root, selection.kept) <= selection.cost_us + 1e-6
    assert selection.bytes <= budget


@given(operator_trees())
def test_more_memory_never_costs_more(root: Operator) -> None:
    curve = Curves(root, 40).costs()
    assert (np.diff(curve) <= 1e-9).all()


@given(operator_trees(), st.integers(513, 5000))
def test_rounded_units_never_exceed_the_budget(root: Operator, budget: int) -> None:
    assert select_states(root, budget).bytes <= budget


falling = st.lists(st.integers(0, 5), min_size=9, max_size=9).map(
    lambda xs: np.array(sorted(xs, reverse=True), float)
)


@given(falling, falling)
def test_sums_at_steps_equal_sums_everywhere(first: np.ndarray, second: np.ndarray) -> None:
    slow = [min(first[i] + second[m - i] for i in range(m + 1)) for m in range(len(first))]
    assert least_sums(first, second).tolist() == slow


@given(falling)
def test_halving_fills_a_falling_curve(curve: np.ndarray) -> None:
    result = np.full(len(curve), np.nan)
    asked: list[int] = []

    def evaluate(m: np.ndarray) -> None:
        asked.extend(m.tolist())
        result[m] = curve[m]

    bisect_steps(evaluate, result)
    assert result.tolist() == curve.tolist()
    assert len(asked) == len(set(asked))


def _scan(name: str, rows: float, delta: float) -> Operator:
    return Operator("scan", name, rows=rows, delta=delta, full_us=rows)


def _figure_2(lineitem: float, orders: float, customer: float) -> Operator:
    """Lineitem x (Orders x Customer), with a hash table on every side."""

    def table(name: str, rows: float, side: int, needed: bool, exists: bool) -> Holding:
        return Holding(name, int(rows), exists, needed, side, 0.0, rows, rows, rows)

    inner = Operator(
        "join",
        "oc",
        (_scan("orders", 1500, orders), _scan("customer", 150, customer)),
        (
            table("O", 1500, 0, customer > 0, exists=False),
            table("C", 150, 1, orders > 0, exists=True),
        ),
        1500,
        orders + customer,
        1650,
        orders + customer,
    )
    delta = inner.delta
    return Operator(
        "join",
        "loc",
        (_scan("lineitem", 6000, lineitem), inner),
        (
            table("L", 6000, 0, delta > 0, exists=False),
            table("OC", 1500, 1, lineitem > 0, exists=True),
        ),
        6000,
        lineitem + delta,
        7500,
        lineitem + delta,
    )


def test_figure_2b_keeps_the_top_table_when_only_lineitem_changes() -> None:
    assert select_states(_figure_2(60, 0, 0), 10_000).kept == {"OC"}


def test_figure_2c_builds_the_left_tables_when_only_customer_changes() -> None:
    assert select_states(_figure_2(0, 0, 1), 10_000).kept == {"L", "O"}


def test_without_memory_nothing_is_kept() -> None:
    selection = select_states(_figure_2(60, 15, 1), 0)
    assert not selection.kept
    assert selection.mode == "full"


def _chain(width: int) -> Operator:
    """A left-deep join of `width` tables with sizes of their own, hash tables on both sides."""
    root = _scan("t0", 100_000, 100)
    for i in range(1, width):
        rows = 1000.0 * (i * 37 % 101 + 1)
        side = _scan(f"t{i}", rows, rows / 100)
        holdings = tuple(
            Holding(
                f"h{i}.{j}", int(70 * each.rows), j == 1, True, j, 1.0, each.rows, 1.0, each.rows
            )
            for j, each in enumerate((root, side))
        )
        delta = root.delta + side.delta
        root = Operator("join", f"j{i}", (root, side), holdings, 100_000, delta, 5e3, delta)
    return root


def test_a_join_of_sixteen_is_planned_in_fifty_milliseconds() -> None:
    root = _chain(17)
    best = min(_planning_s(root) for _ in range(3))
    assert best < 0.05


def _planning_s(root: Operator) -> float:
    start = time.thread_time()
    selection = select_states(root, 64 << 20)
    assert 0 < len(selection.kept) < 32
    assert Curves(root, 64 << 20).unit * UNITS >= 64 << 20
    return time.thread_time() - start
