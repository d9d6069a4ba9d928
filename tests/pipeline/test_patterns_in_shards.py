"""Patterns, cofactors and budgets in shards equal those of one process, through faults.

Slots over stores in memory stand for Spark here; test_shards.py does the same on Spark.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.pipeline.shards import slot as slots
from viewmill.testing.local_shards import LocalShards
from viewmill.testing.oracle import differences

Row = tuple[Any, ...]

COLUMNS = "ts TIMESTAMP, k STRING, x BIGINT, y DOUBLE"
TYPES = (pa.timestamp("us"), pa.string(), pa.int64(), pa.float64())
TIMES = "TIMESTAMP BY ts PARTITION LENGTH 60"
PATTERNS = {
    "rising": "SELECT k, count(*) AS n, sum(x) AS s FROM m PATTERN [a, b+] WHERE b.x > PREV(b.x)"
    " GROUP BY k",
    "jumps": "SELECT k, first(a.x) AS f, last(c.x) AS l FROM m PATTERN [a, b, c] WHERE"
    " b.x > a.x AND c.x < b.x GROUP BY k",
    "of_all": "SELECT count(*) AS n, max(x) AS m FROM m PATTERN [a, b+] WHERE b.x > PREV(b.x)",
    "matched": "SELECT k, top, 2 * top AS more FROM m MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts"
    " MEASURES LAST(b.x) AS top PATTERN (a b+) DEFINE b AS b.x > PREV(b.x)) WHERE top > 3",
    "ungrouped": "SELECT top FROM m MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(b.x) AS top"
    " PATTERN (a b+) DEFINE b AS b.x > PREV(b.x))",
}  # fmt: skip
START = datetime(2024, 1, 1)


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch, uncompiled):
    """A snapshot after every third batch."""
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 2)
    yield
    slots._MEMORY.clear()


class Both:
    """The same table and views in one mill and in shards."""

    def __init__(self, folder, views: dict[str, str], options: str, memory: int | None = None):
        self.views = views
        self.shards = LocalShards(folder, {"m": COLUMNS}, views, options, memory)
        self.mill = vm.connect()
        self.mill.sql(f"CREATE TABLE m ({COLUMNS}) {options}")
        for name, sql in views.items():
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        self.refused = 0

    def feed(self, rows: list[Row], signs: list[int], fault: str = "none") -> None:
        arrays = [pa.array(list(v), t) for v, t in zip(zip(*rows, strict=True), TYPES, strict=True)]
        table = pa.Table.from_arrays(arrays, names=["ts", "k", "x", "y"])
        table = table.append_column("m", pa.array(signs, pa.int64()))
        self.mill.apply("m", table, multiplicity="m")
        if fault == "rerun":
            before = {key: store.copy() for key, store in self.shards.stores.items()}
            self.shards.give({"m": table})
            self.shards.stores = before
        if fault == "worker lost":
            slots._MEMORY.clear()
        if fault == "other worker":
            self.shards.move()
        self.refused += len(self.shards.take({"m": table}).refused)
        for name in self.views:
            found = differences(self.mill[name].rows(), self.shards.mill[name].rows())
            assert found == [], f"{name} after {fault}"

    def said(self, name: str) -> str:
        return str(self.shards.mill[name].explain())


def random_rows(chance: random.Random, now: int, late: int) -> list[Row]:
    rows = []
    for _ in range(chance.randint(1, 9)):
        at = START + timedelta(seconds=max(0, now - chance.choice([0, 0, 0, 7, late])))
        key = chance.choice(["a", "b", "c", "d", None])
        rows.append((at, key, chance.randint(0, 9), chance.choice([None, 0.5, 2.25, -1.0])))
    return rows


@pytest.mark.parametrize("options", ["", "LATENESS INTERVAL '2' MINUTES",
                                     "RETENTION INTERVAL '4' MINUTES"],
                         ids=["all", "lateness", "retention"])  # fmt: skip
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_patterns_by_group(tmp_path, options, seed):
    chance = random.Random(seed)
    both = Both(tmp_path, PATTERNS, f"UNCHECKED {TIMES} {options}")
    live: list[Row] = []
    now = 0
    for i in range(10):
        now += chance.choice([10, 40, 130, 130])
        rows = random_rows(chance, now, 600)
        gone = (
            chance.sample(live, min(2, len(live))) if chance.random() < 0.4 and not options else []
        )
        live = [each for each in live if each not in gone] + rows
        fault = chance.choice(["none", "rerun", "worker lost", "other worker"])
        both.feed(rows + gone, [1] * len(rows) + [-1] * len(gone), fault if i else "none")
    assert "by key k" in both.said("rising")
    assert "every shard is told the newest part" in both.said("rising")
    assert "by key k" in both.said("matched")
    assert "one shard: it has no groups" in both.said("of_all")
    late = both.mill.core.catalog.table("m").table.parts.refused_count
    assert both.refused == (late if options else 0)
    assert late > 0 or not options


def test_matches_outlive_their_rows_and_their_worker(tmp_path):
    """A slot that is made again knows which rows reported matches have used up."""
    chance = random.Random(1)
    views = {name: PATTERNS[name] for name in ("matched", "ungrouped")}
    both = Both(tmp_path, views, f"UNCHECKED {TIMES} RETENTION INTERVAL '4' MINUTES")
    now = 0
    for i in range(12):
        now += chance.choice([10, 40, 60, 130])
        rows = random_rows(chance, now, 200)
        fault = chance.choice(["none", "worker lost"])
        both.feed(rows, [1] * len(rows), fault if i else "none")


def test_a_quiet_shard_shows_no_old_part(tmp_path):
    """A group whose rows have stopped shows nothing once another group has a newer part."""
    both = Both(tmp_path, {"rising": PATTERNS["rising"]}, f"UNCHECKED {TIMES}")
    both.feed([(START, "a", 1, 0.0), (START + timedelta(seconds=1), "a", 2, 0.0)], [1, 1])
    assert both.shards.mill["rising"].rows() == [("a", 2, 3)]
    for i, key in enumerate("bcdefgh"):
        both.feed([(START + timedelta(minutes=2 + i), key, 1, 0.0)], [1])
        assert both.shards.mill["rising"].rows() == []


COFACTORS = {
    "by_group": "SELECT k, cofactor(x, y) AS c, count(*) AS n FROM m GROUP BY k",
    "of_all": "SELECT cofactor(x, y) AS c FROM m",
    "line": "SELECT k, linear_regression(y, x) AS l FROM m WHERE x <> 4 GROUP BY k",
    "line_of_all": "SELECT linear_regression(y, x) AS l, max(x) AS m FROM m",
    "beside": "SELECT k, linear_regression(y, x) AS l, max(x) AS m, regr_r2(y, x) AS r FROM m"
    " GROUP BY k",
    "beside_max": "SELECT k, cofactor(x, y) AS c, max(x) AS m, min(y) AS n FROM m GROUP BY k",
    "of_few": "SELECT cofactor(x) AS c FROM (SELECT x FROM m ORDER BY x LIMIT 3)",
    "joined": "SELECT cofactor(a.x, b.y) AS c FROM m a JOIN m b ON a.k = b.k",
    "odd": "SELECT k, cofactor(x) AS c, avg(DISTINCT y) AS v FROM m GROUP BY k",
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_cofactors_are_added_up(tmp_path, seed):
    chance = random.Random(seed)
    both = Both(tmp_path, COFACTORS, "UNCHECKED")
    live: list[Row] = []
    for i in range(8):
        rows = random_rows(chance, i, 0)
        gone = chance.sample(live, min(3, len(live))) if chance.random() < 0.6 else []
        live = [each for each in live if each not in gone] + rows
        fault = chance.choice(["other worker", "rerun", "worker lost"])
        both.feed(rows + gone, [1] * len(rows) + [-1] * len(gone), fault if i else "none")
    for name in COFACTORS:
        assert both.shards.mill[name].verify() == []
    assert "by key k" in both.said("by_group")
    assert "adds up the cofactors" in both.said("by_group")
    assert "partial aggregates of rows" in both.said("of_all")
    assert "by key k" in both.said("line")
    assert "partial aggregates of rows" in both.said("line_of_all")
    assert "by key k" in both.said("beside_max")
    for name in ("odd", "beside", "of_few"):
        assert "one shard, the driver" in both.said(name), name


def test_a_budget_releases_the_views_that_have_no_news(tmp_path):
    views = {
        "sums": "SELECT k, sum(x) AS s FROM m GROUP BY k",
        "tops": "SELECT k, max(y) AS t FROM m GROUP BY k",
        "rising": PATTERNS["rising"],
    }
    both = Both(tmp_path, views, f"UNCHECKED {TIMES}", memory=1)
    chance = random.Random(3)
    for i in range(9):
        rows = random_rows(chance, 20 * i, 7)
        both.feed(rows, [1] * len(rows), "worker lost" if i == 5 else "none")
    told = both.shards.placement.status(both.shards.mill)["shards"]
    assert told["share_bytes"] == 0
    assert told["state_bytes"] == 0
    assert told["released"] == 3 * both.shards.placement.slots
    assert told["rebuilt_views"] > 0


def test_a_budget_with_room_keeps_everything(tmp_path):
    both = Both(tmp_path, {"sums": "SELECT k, sum(x) AS s FROM m GROUP BY k"}, "UNCHECKED", 1 << 20)
    chance = random.Random(3)
    for i in range(4):
        rows = random_rows(chance, i, 0)
        both.feed(rows, [1] * len(rows))
    told = both.shards.placement.status(both.shards.mill)["shards"]
    assert told["share_bytes"] == (1 << 20) // both.shards.placement.slots
    assert 0 < told["state_bytes"] <= 1 << 20
    assert (told["released"], told["rebuilt_views"]) == (0, 0)


def test_a_row_without_a_time_is_refused(tmp_path):
    shards = LocalShards(
        tmp_path, {"m": COLUMNS}, {"rising": PATTERNS["rising"]}, f"UNCHECKED {TIMES}"
    )
    columns = {"ts": [START, None, START], "k": ["a", "b", "a"], "x": [1, 2, 3], "y": [0.0] * 3}
    rows = pa.table({**columns, "m": pa.array([1, 1, 1], pa.int64())})
    ((source, why, row),) = shards.take({"m": rows}).refused
    assert (source, '"k": "b"' in row) == ("m", True)
    assert "has no time" in why
    assert shards.mill["rising"].rows() == [("a", 2, 4)]
