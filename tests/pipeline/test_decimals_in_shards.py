"""Decimals of 38 digits in shards: keys, sums, joins and filters equal those of DuckDB."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from viewmill.pipeline.shards import slot as slots
from viewmill.testing.local_shards import LocalShards
from viewmill.testing.oracle import differences

COLUMNS = "k INT, d DECIMAL(38,10), e DECIMAL(12,2)"
TYPES = (pa.int32(), pa.decimal128(38, 10), pa.decimal128(12, 2), pa.int64())
VIEWS = {
    "by_value": "SELECT d, count(*) AS n, sum(d) AS s, min(d) AS a, max(d) AS b FROM t GROUP BY d",
    "total": "SELECT sum(d) AS s, max(d) AS m, min(d) AS l, count(DISTINCT d) AS c FROM t",
    "by_key": "SELECT k, sum(d) AS s, max(e) AS e, sum(e) AS t FROM t GROUP BY k",
    "joined": "SELECT a.k, sum(a.e) AS s, count(*) AS n FROM t a JOIN t b ON a.d = b.d"
    " GROUP BY a.k",
    "large": "SELECT k, d FROM t WHERE d > 12345678901234567890",
    "pairs": "SELECT DISTINCT d, e FROM t",
}
WIDE = (
    Decimal("1234567890123456789012345.0123456789"), Decimal("-1e24"), Decimal("1e-10"),
    Decimal(0), Decimal("12345678901234567890.5"), None,
    Decimal("-99999999999999999999999999.9999999999"),
)  # fmt: skip
NARROW = (Decimal("1.50"), Decimal("-2.25"), Decimal("9999999999.99"), None)

Row = tuple[Any, ...]


def table(rows: list[Row], signs: list[int]) -> pa.Table:
    columns = [*([row[i] for row in rows] for i in range(3)), signs]
    arrays = [pa.array(each, type_) for each, type_ in zip(columns, TYPES, strict=True)]
    return pa.Table.from_arrays(arrays, names=["k", "d", "e", "m"])


def test_wide_decimals_in_shards_equal_those_of_duckdb(tmp_path, monkeypatch):
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 2)
    chance = random.Random(5)
    shards = LocalShards(tmp_path, {"t": COLUMNS}, VIEWS)
    live: list[Row] = []
    for _ in range(10):
        new = [
            (chance.randint(0, 3), chance.choice(WIDE), chance.choice(NARROW))
            for _ in range(chance.randint(1, 12))
        ]
        gone = chance.sample(live, len(live) // 2) if chance.random() < 0.5 else []
        for row in gone:
            live.remove(row)
        live += new
        shards.take({"t": table(new + gone, [1] * len(new) + [-1] * len(gone))})
        if chance.random() < 0.3:
            slots._MEMORY.clear()  # a worker is lost
        with duckdb.connect() as oracle:
            oracle.register("t", table(live, [1] * len(live)))
            for name, sql in VIEWS.items():
                expected = oracle.execute(sql).fetchall()
                assert differences(expected, shards.mill[name].rows()) == [], name
    slots._MEMORY.clear()
