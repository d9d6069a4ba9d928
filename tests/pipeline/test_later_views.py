"""Views that come later to shards equal those that were there from the start, whatever happens.

Slots over stores in memory stand for Spark, and lists of tables for the archive's files.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.errors import DamagedFile
from viewmill.mill.storage import crash_points
from viewmill.pipeline.definitions import drop_others
from viewmill.pipeline.shards import filling
from viewmill.pipeline.shards import placement as placements
from viewmill.pipeline.shards import slot as slots
from viewmill.pipeline.shards.pack import Pack
from viewmill.testing.local_shards import LocalShards, with_coordinates
from viewmill.testing.oracle import differences

TABLES = {"t": "k BIGINT, x BIGINT, f DOUBLE", "u": "k BIGINT, y STRING"}
VIEWS = {
    "sums": "SELECT k, sum(x) AS s, count(*) AS n, sum(f) AS f FROM t GROUP BY k",
    "largest": "SELECT k, max(x) AS m, min(f) AS f FROM t GROUP BY k",
    "total": "SELECT count(*) AS n, sum(x) AS s, max(x) AS m FROM t",
    "both": "SELECT t.k, u.y, t.x FROM t JOIN u ON t.k = u.k",
    "by_name": "SELECT u.y, sum(t.x) AS s FROM t JOIN u ON t.k = u.k GROUP BY u.y",
    "names": "SELECT DISTINCT y FROM u",
    "above": "SELECT count(*) AS n FROM t WHERE x > (SELECT avg(x) FROM t)",
    "without": "SELECT k, x FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "best": "SELECT k, sum(x) AS s FROM t GROUP BY k ORDER BY s DESC, k LIMIT 2",
    "of_view": "SELECT count(*) AS n FROM sums WHERE n > 1",
}
OTHERS = {
    "sums": "SELECT k, count(x) AS n, max(k) AS s FROM t GROUP BY k",
    "total": "SELECT 1 AS n FROM u",
}


class Archived(LocalShards):
    """Shards whose batches are remembered; `restart` is a new process over the same storage."""

    def __init__(self, folder: Path, views: Mapping[str, str], memory: int | None = None) -> None:
        self.past: list[Mapping[str, pa.Table]] = []
        self.noted = 0  # as many of them as Spark has noted as done
        super().__init__(folder, TABLES, views, memory=memory)

    def _placement(self) -> Any:
        made = super()._placement()
        made._saved.archive = True
        made._last = lambda _: (self.noted - 1, len(self.past) - 1)
        made._past = self._past
        return made

    def _past(self, mill: Any, source: Any, packed: Any, after: int, upto: int) -> Any:
        batches = self.past[after + 1 : upto + 1]
        tables = [batch[source.name] for batch in batches if source.name in batch]
        return pa.concat_tables(tables) if tables else None

    def feed(self, rows: Mapping[str, pa.Table], *, noted: bool = True) -> None:
        """A batch that Spark notes as done, or that it will run again."""
        before = {key: store.copy() for key, store in self.stores.items()}
        self.take(rows)
        self.past.append(rows)
        self.noted = len(self.past) - (not noted)
        if not noted:
            self.stores = before

    def restart(self, views: Mapping[str, str]) -> None:
        self.placement = self._placement()
        drop_others(self.mill, views)
        self._define(views)
        self.placement.forget_others(self.mill)
        for rows in self.past[self.noted :]:
            self.give(rows)  # the driver has it already
        self.noted = len(self.past)


def fill_here(_: Any, layout: Any, program: Any, past: Sequence[Any]) -> Any:
    """What `fill_view` has Spark do."""
    packed = [
        {"slot": slot, "place": offset + place, "stream": stream, "first": first, "rows": blob}
        for each in past
        for rows, offset in ((each.kept, 0), (each.later, filling.LATER))
        if rows is not None
        for place, (slot, _, stream, first, blob) in enumerate(
            Pack(each.packed, layout.keys).packed(with_coordinates(rows, each.packed))
        )
    ]
    packed.sort(key=lambda each: (each["slot"], each["place"]))
    return filling.fill_packed(
        layout, program, lambda made: made(iter(pa.Table.from_pylist(packed).to_batches()))
    )


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch, uncompiled):
    monkeypatch.setattr(placements, "fill_view", fill_here)


def batch(rng: random.Random, live: list[tuple[Any, ...]]) -> dict[str, pa.Table]:
    """Some rows come and some of those that came go."""
    came = [(rng.randrange(4), rng.randrange(9), rng.choice([0.1, 1e17, -1e17])) for _ in range(6)]
    gone = [live.pop(rng.randrange(len(live))) for _ in range(min(3, len(live)))]
    live += came
    k, x, f = zip(*came, *gone, strict=True)
    signs = [1] * len(came) + [-1] * len(gone)
    made = {"t": pa.table({"k": k, "x": x, "f": f, "m": pa.array(signs, pa.int64())})}
    if rng.random() < 0.4:
        made["u"] = pa.table({"k": [rng.randrange(6)], "y": [rng.choice("abc")], "m": [1]})
    return made


@pytest.mark.parametrize("seed", range(4))
def test_views_that_come_later_equal_those_of_one_process(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(slots, "_LOG_ENTRIES", rng.choice([1, 2, 100]))
    live: list[tuple[Any, ...]] = []
    views = {"sums": VIEWS["sums"], **dict(rng.sample(sorted(VIEWS.items()), 2))}
    shards = Archived(tmp_path, views, memory=rng.choice([None, 4000]))
    for _ in range(5):
        for _ in range(rng.randrange(1, 4)):
            shards.feed(batch(rng, live), noted=rng.random() < 0.7)
            if shards.noted < len(shards.past):
                break
        if rng.random() < 0.4:
            slots._MEMORY.clear()
        views = dict(rng.sample(sorted(VIEWS.items()), rng.randrange(1, 6)))
        views = {"sums": VIEWS["sums"], **views}  # others read it
        views |= {name: sql for name, sql in OTHERS.items() if name in views and rng.random() < 0.3}
        shards.restart(views)
        assert_as_in_one_process(shards, views)
    shards.feed(batch(rng, live))
    assert_as_in_one_process(shards, views)


def assert_as_in_one_process(shards: Archived, views: Mapping[str, str]) -> None:
    with vm.connect() as mill:
        for name, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {name} ({columns}) UNCHECKED")
        for rows in shards.past:
            for name, part in rows.items():
                mill.apply(name, part, multiplicity="m")
        for name, sql in views.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            found = differences(mill[name].rows(), shards.mill[name].rows())
            assert found == [], f"{name}: {sql}: {shards.mill[name].explain()}"


@pytest.mark.parametrize("point", ["view filled", "view forgotten", "view gathered"])
def test_a_start_that_ends_anywhere_is_made_up_for_by_the_next(point, tmp_path, monkeypatch):
    rng, live = random.Random(point), list[tuple[Any, ...]]()
    now = {"sums": VIEWS["sums"], "of_view": VIEWS["of_view"]}
    shards = Archived(tmp_path, now)
    shards.feed(batch(rng, live))
    for views in ({**now, "sums": OTHERS["sums"]}, {**now, "both": VIEWS["both"]}):
        monkeypatch.setattr(crash_points, "visit", partial(_end_at, point))
        with pytest.raises(RuntimeError):
            shards.restart(views)
        monkeypatch.setattr(crash_points, "visit", None)
        shards.restart(now)  # as if nothing had been tried
        assert_as_in_one_process(shards, now)
        shards.feed(batch(rng, live))
        assert_as_in_one_process(shards, now)


def _end_at(point: str, reached: str) -> None:
    if reached == point:
        raise RuntimeError(point)


def test_a_lost_fill_is_told_before_anything_is_shown(tmp_path):
    live: list[tuple[Any, ...]] = []
    shards = Archived(tmp_path, {"names": VIEWS["names"]})
    shards.feed(batch(random.Random(0), live))
    shards.restart({"sums": VIEWS["sums"]})
    before = shards.mill["sums"].rows()
    for file in (tmp_path / "fills").glob("*/slot-*"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match="snapshot of a shard"):
        shards.feed(batch(random.Random(1), live))
    shutil.rmtree(tmp_path / "fills")
    with pytest.raises(DamagedFile, match="the states with which a view began"):
        shards.feed(batch(random.Random(1), live))
    assert shards.mill["sums"].rows() == before


def test_what_the_shards_were_made_for_must_be_there_and_whole(tmp_path):
    shards = Archived(tmp_path, {"sums": VIEWS["sums"]})
    shards.feed(batch(random.Random(0), []))
    file = tmp_path / "shards.json"
    whole = file.read_text()
    for damaged in ("[]", '{"slots": "x"}', whole.replace('"slots": 4', '"slots": 0'), whole[:-1]):
        file.write_text(damaged)
        with pytest.raises(DamagedFile, match="not what was written"):
            shards.restart({"sums": VIEWS["sums"]})
    file.unlink()
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    (tmp_path / "checkpoint" / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(DamagedFile, match=r"shards\.json is missing"):
        shards.restart({"sums": VIEWS["sums"]})
