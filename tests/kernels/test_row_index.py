"""The row index against a Counter and a dict."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from viewmill.kernels import Problem, RowIndex
from viewmill.kernels.row_index import IntArray

Row = tuple[int, ...]
Change = tuple[Row, int]

small = st.integers(0, 2)
changes = st.lists(st.tuples(st.tuples(small, small), st.sampled_from([1, 1, 2, -1, -1, -2])))
steps = st.lists(changes, max_size=3)
histories = st.lists(st.tuples(steps, st.booleans()), max_size=10)


def arrays(step: list[Change], width: int = 2) -> tuple[IntArray, IntArray]:
    words = np.array([row for row, _ in step], np.int64).reshape(-1, width)
    return words, np.array([m for _, m in step], np.int64)


def rows_of(index: RowIndex) -> list[Change]:
    words, multiplicity = index.export()
    pairs = zip(words.tolist(), multiplicity.tolist(), strict=True)
    return [(tuple(row), m) for row, m in pairs]


@settings(deadline=None)
@given(histories)
def test_a_bag_counts_rows(history: list[tuple[list[list[Change]], bool]]) -> None:
    index, bag = RowIndex(2), Counter[Row]()
    for batch, keep in history:
        after = Counter(bag)
        for step in batch:
            index.stage(*arrays(step))
            for row, m in step:
                after[row] += m
        problem, missing = index.check(), {row for row, m in after.items() if m < 0}
        assert (problem is not None) == bool(missing)
        assert problem is None or (problem.kind == "missing" and problem.words in missing)
        if problem is None and keep:
            index.commit()
            bag = Counter({row: m for row, m in after.items() if m})
        else:
            index.rollback()
        assert dict(rows_of(index)) == dict(bag)
        assert len(index) == bag.total()


@settings(deadline=None)
@given(histories)
def test_a_primary_key_is_judged_on_the_net_effect(
    history: list[tuple[list[list[Change]], bool]],
) -> None:
    index, table = RowIndex(1, 1, unique=True), Counter[Row]()
    for batch, keep in history:
        after = Counter(table)
        for step in batch:
            index.stage(*arrays(step))
            for row, m in step:
                after[row] += m
        after = Counter({row: m for row, m in after.items() if m})
        keys = Counter(row[0] for row in after.elements())
        right = all(m > 0 for m in after.values()) and all(m == 1 for m in keys.values())
        problem = index.check()
        assert (problem is None) == right, (table, batch)
        if right and keep:
            index.commit()
            table = after
        else:
            index.rollback()
        assert dict(rows_of(index)) == dict(table)
        stored = {row[0]: row[1] for row in table.elements()}
        found, rows = index.find(np.arange(4).reshape(-1, 1))
        assert found.tolist() == [key in stored for key in range(4)]
        assert all(rows[key, 1] == stored[key] for key in stored)


def test_problems_name_the_row() -> None:
    index = RowIndex(1, 2, unique=True)
    index.stage(*arrays([((1, 10, 11), 1), ((2, 20, 21), 1)], 3))
    assert index.check() is None
    index.commit()
    index.stage(*arrays([((1, 10, 12), -1)], 3))
    assert index.check() == Problem("missing", (1, 10, 12))
    index.rollback()
    index.stage(*arrays([((2, 0, 0), 1)], 3))
    assert index.check() == Problem("duplicate", (2, 0, 0))
    index.rollback()
    index.stage(*arrays([((2, 0, 0), 1), ((2, 20, 21), -1)], 3))
    assert index.check() is None
    index.commit()
    assert rows_of(index) == [((1, 10, 11), 1), ((2, 0, 0), 1)]


def test_rows_come_out_in_the_order_they_came() -> None:
    index, random = RowIndex(1), np.random.default_rng(3)
    order = random.permutation(20_000).reshape(-1, 1)
    for part in np.array_split(order, 7):
        index.stage(part, np.ones(len(part), np.int64))
        index.commit()
    words, _ = index.export()
    assert np.array_equal(words, order)
    index.stage(order[:19_000], np.full(19_000, -1))
    assert index.check() is None
    index.commit()
    assert np.array_equal(index.export()[0], order[19_000:])
    assert len(index) == 1000


def test_load_replaces_everything() -> None:
    index = RowIndex(2)
    index.stage(*arrays([((9, 9), 1)]))
    words = np.arange(200_000).reshape(-1, 2)
    assert index.load(words, np.full(len(words), 2)) is None
    assert len(index) == 200_000
    assert np.array_equal(index.export()[0], words)
