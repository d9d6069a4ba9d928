"""Compiled and plain kernels agree, batch by batch, and both go back exactly."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.kernel_programs import Row, T, delta, rows_of, same, statistics

from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import InvalidArgument, Overflow
from viewmill.kernels import build
from viewmill.kernels.build import TriggerMaintainer

PROGRAM = statistics()
Batch = list[tuple[Row, int]]

integers = st.one_of(
    st.integers(-5, 5), st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 10**15])
)
floats = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, -7.5, 1e15, 1e-9, math.nan, math.inf, -math.inf]),
    st.floats(-1e6, 1e6),
)
table_rows = st.tuples(
    st.none() | st.integers(0, 6),
    st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    st.none(),
    st.none() | integers,
    st.none() | floats,
)
batches = st.lists(st.tuples(table_rows, st.sampled_from([1, 1, 1, 2, -1, -2])), max_size=12)
histories = st.lists(st.tuples(batches, st.booleans()), max_size=8)


@pytest.fixture(params=[True, False], ids=["compiled", "plain"])
def maintainer(request: pytest.FixtureRequest) -> TriggerMaintainer:
    """Every test that takes it runs twice."""
    return build(PROGRAM, Dictionary(), compiled=request.param)


def feed(maintainer: TriggerMaintainer, batch: Batch) -> None:
    maintainer.apply("t", delta(T, [row for row, _ in batch], [m for _, m in batch]))


def outcome(maintainer: TriggerMaintainer, batch: Batch) -> list[Row] | str:
    """The change of the output, or the error."""
    try:
        feed(maintainer, batch)
        return rows_of(maintainer.flush())
    except Overflow as error:
        return str(error)


def agree(got: list[Row] | str, wanted: list[Row] | str) -> bool:
    if isinstance(got, str) or isinstance(wanted, str):
        return got == wanted
    return same(got, wanted)


def snapshot(maintainer: TriggerMaintainer) -> list[Any]:
    """The state's rows, in order, exactly."""
    rows = [row for batch in maintainer.snapshot("groups") for row in batch.to_pylist()]
    return sorted(map(repr, rows))


def simple(k: int, v: int | None = 1, x: float | None = None) -> Row:
    return (k, 0.0, None, v, x)


@settings(deadline=None, max_examples=150)
@given(histories)
def test_compiled_and_plain_agree(history: list[tuple[Batch, bool]]) -> None:
    compiled = build(PROGRAM, Dictionary(), compiled=True)
    plain = build(PROGRAM, Dictionary(), compiled=False)
    for batch, keep in history:
        before, exact = rows_of(compiled.contents()), snapshot(compiled)
        got, wanted = outcome(compiled, batch), outcome(plain, batch)
        assert agree(got, wanted)
        # Until the commit, readers see the old contents.
        assert same(rows_of(compiled.contents()), before)
        if keep and isinstance(got, list):
            compiled.commit()
            plain.commit()
        else:
            compiled.rollback()
            plain.rollback()
            assert snapshot(compiled) == exact
            assert same(rows_of(compiled.contents()), before)
        assert same(rows_of(compiled.contents()), rows_of(plain.contents()))


@settings(deadline=None, max_examples=50)
@given(histories)
def test_the_changes_add_up_to_the_contents(history: list[tuple[Batch, bool]]) -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    total: dict[str, int] = {}
    for batch, _ in history:
        change = outcome(maintainer, batch)
        if isinstance(change, str):
            maintainer.rollback()
            continue
        maintainer.commit()
        for *row, m in change:
            total[repr(row)] = total.get(repr(row), 0) + m
    contents = {repr(list(row[:-1])): row[-1] for row in rows_of(maintainer.contents())}
    assert {row: m for row, m in total.items() if m} == contents


def test_a_batch_that_cancels_itself_emits_nothing(maintainer: TriggerMaintainer) -> None:
    feed(maintainer, [(simple(1, 5), 1)])
    maintainer.commit()
    feed(maintainer, [(simple(1, 7), 1), (simple(1, 7), -1), (simple(2), 1), (simple(2), -1)])
    assert maintainer.flush().size == 0


def test_an_update_deletes_the_old_row_and_inserts_the_new(maintainer: TriggerMaintainer) -> None:
    feed(maintainer, [(simple(1, 5, 0.5), 1)])
    maintainer.commit()
    feed(maintainer, [(simple(1, 5, 0.5), -1), (simple(1, 8, 2.5), 1)])
    assert rows_of(maintainer.flush()) == [
        (1, 0.0, 1, 5, 0.5, 50000, -1),
        (1, 0.0, 1, 8, 2.5, 80000, 1),
    ]


def test_an_entry_goes_only_when_its_whole_payload_is_zero(maintainer: TriggerMaintainer) -> None:
    # A delete that comes before its insert: no rows, but the sum is not zero.
    feed(maintainer, [(simple(1, 5), 1), (simple(1, 3), -1)])
    assert maintainer.flush().size == 0
    maintainer.commit()
    assert len(snapshot(maintainer)) == 1
    feed(maintainer, [(simple(1, 3), 1)])
    assert rows_of(maintainer.flush()) == [(1, 0.0, 1, 5, None, 50000, 1)]
    maintainer.commit()
    feed(maintainer, [(simple(1, 5), -1)])
    maintainer.commit()
    assert snapshot(maintainer) == []


def test_what_rounding_left_does_not_keep_an_entry(maintainer: TriggerMaintainer) -> None:
    values = [0.1, 1e17, 0.3, -1e17, 1e-8]
    feed(maintainer, [(simple(1, None, x), 1) for x in values])
    maintainer.commit()
    # A reload knows the sum as one float only.
    maintainer.load("groups", list(maintainer.snapshot("groups")))
    feed(maintainer, [(simple(1, None, x), -1) for x in sorted(values)])
    maintainer.commit()
    assert snapshot(maintainer) == []


def test_float_sums_come_back_after_many_updates() -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    random = np.random.default_rng(7)
    kept = random.normal(0, 1, 100)
    size = 100_000
    passing = random.normal(0, 1, size) * 10.0 ** random.integers(-6, 9, size)
    maintainer.apply("t", _floats_of(kept, 1))
    maintainer.apply("t", _floats_of(passing, 1))
    maintainer.commit()
    maintainer.apply("t", _floats_of(random.permutation(passing), -1))
    maintainer.commit()
    (row,) = rows_of(maintainer.contents())
    assert math.isclose(row[4], math.fsum(kept), rel_tol=1e-12)


def _floats_of(x: Any, m: int) -> Delta:
    size = len(x)
    zeros = np.zeros(size, np.int64)
    columns = (zeros, np.zeros(size), zeros, zeros, x)
    return Delta(T, columns, (None,) * 5, np.full(size, m), size)


def test_rollback_after_growth_restores_every_entry() -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    feed(maintainer, [(simple(k, k * 3, k / 7), 1) for k in range(500)])
    maintainer.commit()
    exact = snapshot(maintainer)
    feed(maintainer, [(simple(k, 11, 0.1), 1) for k in range(250, 20_000)])
    assert maintainer.flush().size == 250 * 2 + 19_500
    maintainer.rollback()
    assert snapshot(maintainer) == exact
    assert maintainer.flush().size == 0


def test_entries_survive_growth_and_shrinking() -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    feed(maintainer, [(simple(k, k), 1) for k in range(50_000)])
    maintainer.commit()
    large = maintainer.state_bytes()["groups"]
    feed(maintainer, [(simple(k, k), -1) for k in range(100, 50_000)])
    maintainer.commit()
    feed(maintainer, [(simple(7, 1), 1)])
    maintainer.commit()
    feed(maintainer, [(simple(7, 1), -1)])
    maintainer.commit()
    assert [row[3] for row in rows_of(maintainer.contents())] == list(range(100))
    assert maintainer.state_bytes()["groups"] < large / 20


def test_the_journal_of_a_large_batch_is_given_back() -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    feed(maintainer, [(simple(k, k), 1) for k in range(50_000)])
    maintainer.commit()
    large = maintainer.state_bytes()["groups"]
    for _ in range(10):
        feed(maintainer, [(simple(7, 1), 1)])
        maintainer.commit()
    assert maintainer.state_bytes()["groups"] < large * 3 / 4


@settings(deadline=None, max_examples=50)
@given(batches, batches)
def test_load_is_the_inverse_of_snapshot(first: Batch, second: Batch) -> None:
    original = build(PROGRAM, Dictionary(), compiled=True)
    if isinstance(outcome(original, first), str):
        return
    original.commit()
    for compiled in (True, False):
        copy = build(PROGRAM, Dictionary(), compiled=compiled)
        feed(copy, [(simple(99), 1)])  # load replaces, also what is under way
        copy.load("groups", list(original.snapshot("groups")))
        assert same(rows_of(copy.contents()), rows_of(original.contents()))
        got, wanted = outcome(copy, second), outcome(original, second)
        original.rollback()
        assert agree(got, wanted)


def test_sums_beyond_64_bits_pass_and_fail_only_when_shown(maintainer: TriggerMaintainer) -> None:
    value = 4 * 10**14
    feed(maintainer, [(simple(1, value), 30_000), (simple(1, value), -10_000)])
    assert rows_of(maintainer.flush())[0][3] == 20_000 * value
    maintainer.commit()
    feed(maintainer, [(simple(1, value), 10_000)])
    with pytest.raises(Overflow) as caught:
        maintainer.flush()
    assert caught.value.span is not None
    assert caught.value.span.text == "sum(v)"
    maintainer.rollback()
    assert rows_of(maintainer.contents())[0][3] == 20_000 * value


def test_snapshot_keeps_wide_sums_exactly(maintainer: TriggerMaintainer) -> None:
    feed(maintainer, [(simple(1, 2**63 - 1), 1000), (simple(2, -(2**63)), 999)])
    maintainer.commit()
    rows = [row for batch in maintainer.snapshot("groups") for row in batch.to_pylist()]
    assert {row["k"]: int(row["sum_v"]) for row in rows} == {
        1: 1000 * (2**63 - 1),
        2: -999 * 2**63,
    }


def test_release_gives_memory_back(maintainer: TriggerMaintainer) -> None:
    feed(maintainer, [(simple(k), 1) for k in range(5000)])
    maintainer.commit()
    held = maintainer.state_bytes()["groups"]
    maintainer.release("groups")
    assert maintainer.state_bytes()["groups"] < held / 2
    assert maintainer.contents().size == 0


def test_more_rows_than_one_outlet_holds() -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    feed(maintainer, [(simple(k, None if k % 3 else k), 1) for k in range(30_000)])
    change = maintainer.flush()
    maintainer.commit()
    for result in (change, maintainer.contents()):
        rows = rows_of(result)
        assert [row[0] for row in rows] == list(range(30_000))
        assert all((row[3] is None) == bool(row[0] % 3) for row in rows)


def test_columns_are_checked_before_a_kernel_sees_them() -> None:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    good = delta(T, [simple(k, k) for k in range(10)])
    strided = Delta(T, tuple(c[::2] for c in good.columns), (None, None, None, None, None), None, 5)
    maintainer.apply("t", strided)
    assert [row[3] for row in rows_of(maintainer.flush())] == [0, 2, 4, 6, 8]
    maintainer.rollback()
    narrow: Any = (good.columns[0].astype(np.int32), *good.columns[1:])
    with pytest.raises(InvalidArgument, match="int64"):
        maintainer.apply("t", Delta(T, narrow, good.nulls, None, 10))
    short = (good.columns[0][:9], *good.columns[1:])
    with pytest.raises(InvalidArgument, match="10 values"):
        maintainer.apply("t", Delta(T, short, good.nulls, None, 10))


def test_a_one_row_change_costs_the_same_in_a_large_state() -> None:
    assert _cost_of_one_row(200_000) < 5 * _cost_of_one_row(2_000)


def _cost_of_one_row(groups: int) -> float:
    maintainer = build(PROGRAM, Dictionary(), compiled=True)
    keys = np.arange(groups)
    columns = (keys, np.zeros(groups), keys, keys, np.zeros(groups))
    maintainer.apply("t", Delta(T, columns, (None,) * 5, None, groups))
    maintainer.commit()
    changes = [delta(T, [simple(k * 7919 % groups, 1, 0.5)]) for k in range(200)]
    best = math.inf
    for _ in range(5):
        start = time.thread_time_ns()
        for change in changes:
            maintainer.apply("t", change)
            maintainer.flush()
            maintainer.commit()
        best = min(best, time.thread_time_ns() - start)
    return best
