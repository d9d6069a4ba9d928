"""Aggregates that are made of counts are merged from shards, whatever came and went.

The oracle folds a list of rows in Python. Slots over stores in memory stand for Spark here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pyarrow as pa
import pytest

from viewmill.pipeline.shards import slot as slots
from viewmill.testing.local_shards import LocalShards

CALLS = "bit_or(n) AS o, bit_and(n) AS a, bit_xor(y) AS x, every(b) AS e, any(b) AS s"
VIEWS = {
    "total": f"SELECT {CALLS} FROM t",
    "by_half": f"SELECT id % 2 AS h, {CALLS} FROM t GROUP BY id % 2",
    "joined": "SELECT v.w, bit_or(n) AS o, bit_and(n) AS a, bit_xor(y) AS x, every(b) AS e,"
    " any(b) AS s FROM t JOIN v ON t.id % 3 = v.id GROUP BY v.w",
}
WHOLE = ((1 << 31) - 1, -(1 << 31), -1, 7, 12, 0, None)
TINY = (-128, 127, -1, 1, 64, None)

Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch):
    """A snapshot after every third batch."""
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 2)
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    yield
    slots._MEMORY.clear()


def folded(fold: Callable[[int, int], int], values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return reduce(fold, known) if known else None


def row_of(rows: list[Row]) -> Row:
    n, y, b = ([row[i] for row in rows] for i in (1, 2, 3))
    known = [each for each in b if each is not None]
    every, some = (all(known), any(known)) if known else (None, None)
    return (folded(or_, n), folded(and_, n), folded(xor, y), every, some)


def table(rows: list[Row], signs: list[int]) -> pa.Table:
    columns = zip(*((*row, sign) for row, sign in zip(rows, signs, strict=True)), strict=True)
    types = (pa.int64(), pa.int32(), pa.int8(), pa.bool_(), pa.int64())
    arrays = [pa.array(list(each), type_) for each, type_ in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=["id", "n", "y", "b", "m"])


def check(shards: LocalShards, live: list[Row]) -> None:
    halves = {row[0] % 2 for row in live}
    thirds = {row[0] % 3 for row in live}
    assert list(shards.mill["total"]) == [row_of(live)]
    expected = {(h, *row_of([row for row in live if row[0] % 2 == h])) for h in halves}
    assert set(shards.mill["by_half"]) == expected
    expected = {(10 * k, *row_of([row for row in live if row[0] % 3 == k])) for k in thirds}
    assert set(shards.mill["joined"]) == expected


def test_bits_and_truths_of_shards_are_those_of_the_rows(tmp_path):
    chance = random.Random(1)
    tables = {"t": "id BIGINT, n INT, y TINYINT, b BOOLEAN", "v": "id BIGINT, w INT"}
    shards = LocalShards(tmp_path, tables, VIEWS)
    keys = {"id": [0, 1, 2], "w": pa.array([0, 10, 20], pa.int32())}
    shards.take({"v": pa.table({**keys, "m": pa.array([1, 1, 1], pa.int64())})})
    live: list[Row] = []
    for number in range(6):
        new = [
            (10 * number + j, chance.choice(WHOLE), chance.choice(TINY),
             chance.choice([True, False, None]))
            for j in range(chance.randint(1, 6))
        ]  # fmt: skip
        gone = chance.sample(live, len(live) // 2) if chance.random() < 0.6 else []
        live = [each for each in live if each not in gone] + new
        shards.take({"t": table(new + gone, [1] * len(new) + [-1] * len(gone))})
        if chance.random() < 0.2:
            slots._MEMORY.clear()  # a worker is lost
        check(shards, live)
    assert "partial aggregates" in str(shards.mill["total"].explain())
