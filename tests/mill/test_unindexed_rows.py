"""Deletes after a large insert: right for every value, without an index of all rows at once."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

import viewmill as vm
from viewmill.errors import MissingRow
from viewmill.mill import unindexed_rows

pytestmark = pytest.mark.usefixtures("uncompiled")

_COLUMNS = "a BIGINT, s STRING, d DOUBLE, t TIMESTAMP, w DECIMAL(38,4), b BOOLEAN"


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unindexed_rows, "SLICE_ROWS", 500)


def _row(rng: random.Random) -> tuple[Any, ...]:
    moment = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=rng.randrange(50))
    values = (
        rng.choice([rng.randrange(40), 2**63 - 1, -(2**63)]),
        rng.choice(["", "a", "é", "a\0b"]),
        rng.choice([0.0, -0.0, math.nan, math.inf, 0.1]),
        moment,
        rng.choice([Decimal("1.5"), Decimal("9" * 34), Decimal("0.0001")]),
        rng.random() < 0.5,
    )
    return tuple(None if rng.random() < 0.1 else value for value in values)


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row as SQL compares it: NaN equals NaN, -0.0 equals 0.0."""
    return tuple("NaN" if value != value else value + 0 if value == 0 else value for value in row)


def _table(mill: vm.Mill) -> Any:
    (entry,) = mill._core.catalog.tables()
    return entry.table


@pytest.mark.parametrize("seed", range(2))
def test_deletes_find_their_rows_in_slices(seed: int) -> None:
    rng = random.Random(seed)
    mill = vm.connect()
    mill.sql(f"CREATE TABLE t ({_COLUMNS})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n, max(a) AS a FROM t GROUP BY s")
    live: list[tuple[Any, ...]] = []
    for _ in range(20):
        size = rng.choice([1, 3, 5000])
        if rng.random() < 0.4 or not live:
            rows = [_row(rng) for _ in range(size)]
            mill.insert("t", rows)
            live += rows
        else:
            rng.shuffle(live)
            count = min(len(live), rng.choice([1, 2, 40, 100]))
            mill.delete("t", live[:count])
            del live[:count]
        missing = (*_row(rng)[:3], dt.datetime(2020, 1, 1), None, None)
        with pytest.raises(MissingRow):
            mill.delete("t", [missing])
    shown = Counter(map(_key, mill.sql("SELECT * FROM t").rows()))
    assert shown == Counter(map(_key, live))
    assert mill["v"].verify() == []


def test_few_deletes_index_few_slices_and_in_the_end_all() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (a BIGINT)")
    mill.insert("t", [(i,) for i in range(10_000)])
    table = _table(mill)
    mill.delete("t", [(9_999,)])
    assert 0 < len(table._index) <= 3 * unindexed_rows.SLICE_ROWS
    for i in range(20):
        mill.delete("t", [(i,)])
    assert len(table._index) == 10_000 - 21
    assert table._unindexed.is_empty


def test_a_delete_from_a_large_unchecked_table_does_not_list_it() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (a BIGINT) UNCHECKED")
    mill.insert("t", [(i,) for i in range(70_000)])
    segments = _table(mill)._segments
    mill.delete("t", [(1,)])
    assert [each.size for each in segments._large] == [70_000]
    assert mill.sql("SELECT count(*) FROM t").rows() == [(69_999,)]
