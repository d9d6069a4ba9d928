"""Batches are summed by key first where that is the quicker way, and only there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import Integer
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Factor, Product
from viewmill.kernels.build import TriggerMaintainer
from viewmill.kernels.stores import LentWords
from viewmill.kernels.summing import _KEPT, _TRIED, Summing

SCHEMA = Schema((Field("k", Integer(64), nullable=False),))


def _delta(keys: int, size: int = 1000) -> Delta:
    return Delta(SCHEMA, [np.arange(size, dtype=np.int64) % keys], [None], None, size)


def _try(summing: Summing, row_by_row: int, summed: int) -> None:
    """Both ways take so many nanoseconds."""
    while summing.is_tried:
        assert summing.may_pay(1000)
        assert summing.repeat(_delta(20), 1000)
        is_last = summing._tried == _TRIED - 1
        summing.note(summed if summing.is_next else row_by_row, 1000)
        if is_last:
            return


def test_the_quicker_way_is_kept_and_tried_again() -> None:
    summing = Summing((0,))
    _try(summing, row_by_row=10, summed=5)
    assert not summing.is_tried
    for _ in range(_KEPT):
        assert summing.may_pay(1000)
        assert summing.is_next
        summing.note_summed()
    assert summing.is_tried
    _try(summing, row_by_row=5, summed=10)
    for _ in range(_KEPT):
        assert not summing.may_pay(1000)
    assert summing.may_pay(1000)
    assert summing.is_tried


def test_much_larger_batches_are_looked_at_at_once() -> None:
    summing = Summing((0,))
    _try(summing, row_by_row=5, summed=10)
    assert not summing.may_pay(1000)
    assert summing.may_pay(5000)


def test_keys_that_do_not_repeat_are_looked_at_less_often() -> None:
    summing, looked_at = Summing((0,)), 0
    for _ in range(40):
        if summing.may_pay(1000):
            looked_at += 1
            assert not summing.repeat(_delta(1000), 1000)
    assert 8 <= looked_at < 20
    assert not Summing((0,)).may_pay(64)  # few rows are not summed at all


def test_both_ways_keep_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row, summed, and so on: whichever way a batch goes, the view is right after it."""
    ways = {"_run": 0, "_apply_product": 0}

    def counted(name: str) -> None:
        plain = getattr(TriggerMaintainer, name)

        def count(self: TriggerMaintainer, *arguments: object) -> None:
            ways[name] += 1
            plain(self, *arguments)

        monkeypatch.setattr(TriggerMaintainer, name, count)

    for name in ways:
        counted(name)
    rng = np.random.default_rng(3)
    with vm.connect() as mill:
        for table in ("r (a INT, b INT)", "s (a INT, c INT)", "t (c INT, d INT)"):
            mill.sql(f"CREATE TABLE {table}")
        mill.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT s.a, SUM(r.b * t.d) AS x"
            " FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c GROUP BY s.a"
        )
        mill.insert("r", [(i % 7, i) for i in range(30)])
        mill.insert("s", [(i % 7, i % 20) for i in range(60)])
        kept = []
        for turn in range(10):
            rows = pa.table({"c": rng.integers(0, 20, 200), "d": rng.integers(-9, 9, 200)})
            kept.append(rows)
            mill.insert("t", rows)
            if turn % 3 == 2:
                mill.delete("t", kept.pop(0))
            assert mill["v"].verify() == []
    assert min(ways.values()) >= _TRIED // 2


def test_a_product_keeps_its_rows_though_they_were_lent() -> None:
    """What is summed is kept to be taken back, longer than the kernel lends what it emitted."""
    whole = [np.arange(4, dtype=np.int64), np.ones(4, np.int64)]
    lent = Delta(SCHEMA, LentWords(whole, 3), (None,), whole[-1][:3], 3, is_from_kernel=True)
    (factor,) = Product(SCHEMA, (Factor((0,), lent),)).factors
    whole[0][:] = whole[1][:] = -7
    assert factor.rows.columns[0].tolist() == [0, 1, 2]
    assert factor.rows.multiplicities().tolist() == [1, 1, 1]


def test_keys_are_not_looked_at_where_nothing_takes_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    repeat = Summing.repeat

    def counted(self: Summing, delta: Delta, size: int) -> bool:
        looked.append(size)
        return repeat(self, delta, size)

    monkeypatch.setattr(Summing, "repeat", counted)
    monkeypatch.setattr(TriggerMaintainer, "_product_feed", lambda *_: None)
    with vm.connect() as mill:
        for table in ("r (a INT, b INT)", "s (a INT, c INT)", "t (c INT, d INT)"):
            mill.sql(f"CREATE TABLE {table} UNCHECKED")
        mill.sql(
            "CREATE MATERIALIZED VIEW v STRATEGY view_tree AS SELECT s.a, SUM(r.b * t.d) AS x"
            " FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c GROUP BY s.a"
        )
        for _ in range(5):
            mill.insert("t", pa.table({"c": [1] * 300, "d": range(300)}))
        assert mill["v"].verify() == []
    assert len(looked) == 1
