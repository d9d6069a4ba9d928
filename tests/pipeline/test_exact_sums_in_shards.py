"""Float sums on shards are those of the rows, however these are spread and whatever came and went.

The oracle is fractions over a list of rows. Slots over stores in memory stand for Spark here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from viewmill.pipeline.shards import slot as slots
from viewmill.testing.local_shards import LocalShards

COLUMNS = "id BIGINT, k STRING, x DOUBLE, n BIGINT, i INT, d DECIMAL(38,10)"
TYPES = (
    pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.int32(), pa.decimal128(38, 10),
    pa.int64(),
)  # fmt: skip
VIEWS = {
    "total": "SELECT sum(x) AS s, avg(x) AS a, avg(n) AS b, avg(i) AS c, sum(d) AS d FROM t",
    "by_k": "SELECT k, sum(x) AS s, avg(x) AS a, avg(n) AS b, avg(i) AS c, sum(d) AS d FROM t"
    " GROUP BY k",
    "by_half": "SELECT id % 2 AS h, sum(x) AS s, avg(x) AS a, avg(n) AS b, avg(i) AS c,"
    " sum(d) AS d FROM t GROUP BY id % 2",
    "joined": "SELECT a.id % 2 AS h, sum(a.x * b.w) AS s FROM t a JOIN u b ON a.id % 3 = b.id"
    " GROUP BY a.id % 2",
}
WEIGHTS = {0: 0.1, 1: -3.0, 2: 1e-20}
FLOATS = (1e300, -1e300, 1e200, 1e16, -1e16, 1.00001, 0.1, 1e-300, -0.99999, 3.0, None)
LONGS = ((1 << 53) + 1, -(1 << 53), (1 << 63) - 1, -(1 << 63), 7, None)
DECIMALS = (Decimal("1234567890123456789012345.0123456789"), Decimal("-1e24"), Decimal("1e-10"))

Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch):
    """A snapshot after every third batch."""
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 2)
    yield
    slots._MEMORY.clear()


def table(rows: list[Row], signs: list[int]) -> pa.Table:
    columns = zip(*((*row, sign) for row, sign in zip(rows, signs, strict=True)), strict=True)
    arrays = [pa.array(list(each), type_) for each, type_ in zip(columns, TYPES, strict=True)]
    return pa.Table.from_arrays(arrays, names=["id", "k", "x", "n", "i", "d", "m"])


def shown(values: list[Any]) -> float | None:
    """The sum, rounded once."""
    return float(sum(map(Fraction, values))) if values else None


def average(values: list[Any]) -> float | None:
    return float(sum(map(Fraction, values)) / len(values)) if values else None


def row_of(rows: list[Row]) -> tuple[Any, ...]:
    """What each aggregate shows of some rows."""
    x, n, i, d = ([row[at] for row in rows if row[at] is not None] for at in (2, 3, 4, 5))
    return (shown(x), average(x), average(n), average(i), sum(map(Fraction, d)) if d else None)


def near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-12 * abs(one)
    return bool(one == (Fraction(other) if isinstance(one, Fraction) else other))


def check(shards: LocalShards, live: list[Row]) -> None:
    expected: dict[str, dict[Any, tuple[Any, ...]]] = {"total": {None: row_of(live)}}
    groups = {"by_k": lambda row: row[1], "by_half": lambda row: row[0] % 2}
    for name, key in groups.items():
        keys = set(map(key, live))
        expected[name] = {k: row_of([row for row in live if key(row) == k]) for k in keys}
    products = [
        (row[0] % 2, Fraction(row[2]) * Fraction(WEIGHTS[row[0] % 3]))
        for row in live
        if row[2] is not None
    ]
    expected["joined"] = {
        h: (shown([x for of, x in products if of == h]),) for h in {row[0] % 2 for row in live}
    }
    for name in shards.mill.views():
        rows = expected[name]
        found = {(row[0] if name != "total" else None): row for row in shards.mill[name].rows()}
        assert found.keys() == rows.keys(), name
        for key, row in rows.items():
            got = found[key] if name == "total" else found[key][1:]
            assert all(map(near, row, got)), (name, key, row, got)


def play(folder: Any, seed: int, batches: int, views: Sequence[str] = tuple(VIEWS)) -> None:
    chance = random.Random(seed)
    texts = {name: VIEWS[name] for name in views}
    shards = LocalShards(folder, {"t": COLUMNS, "u": "id BIGINT, w DOUBLE"}, texts)
    weights = {"id": [*WEIGHTS], "w": [*WEIGHTS.values()], "m": pa.array([1, 1, 1], pa.int64())}
    shards.take({"u": pa.table(weights)})
    live: list[Row] = []
    for number in range(batches):
        new = [
            (100 * number + j, chance.choice("abc"), chance.choice(FLOATS), chance.choice(LONGS),
             chance.choice([2**31 - 1, -(2**31), 5, None]), chance.choice(DECIMALS))
            for j in range(chance.randint(1, 12))
        ]  # fmt: skip
        gone = chance.sample(live, len(live) // 2) if chance.random() < 0.5 else []
        live = [each for each in live if each not in gone] + new
        shards.take({"t": table(new + gone, [1] * len(new) + [-1] * len(gone))})
        if chance.random() < 0.2:
            slots._MEMORY.clear()  # a worker is lost
        check(shards, live)
    assert "partial aggregates" in str(shards.mill["total"].explain())
    assert "hypercube" in str(shards.mill["joined"].explain())


@pytest.mark.parametrize("seed", [1, 2])
def test_sums_of_shards_are_those_of_the_rows(tmp_path, seed):
    play(tmp_path, seed, 12)


def test_compiled_sums_of_shards_are_those_of_the_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    play(tmp_path, 3, 20, ("total", "joined"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 14))
def test_sums_of_shards_many_times(tmp_path, monkeypatch, seed):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    play(tmp_path, seed, 60)
