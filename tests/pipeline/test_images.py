"""Images of rows by key, in any order: the newest counts, and what was deleted stays dead."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.frames import Frame

import viewmill as vm
from viewmill.errors import ForbiddenChange, InvalidArgument
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.placement import Arrived
from viewmill.pipeline.take_batch import Ledger, take_batch
from viewmill.pipeline.tombstones import tombstones_of

NAMES = ("k", "x", "at", "op")
Image = tuple[int, int, Any, str]


def table(images: list[Image]) -> Any:
    columns = zip(*images, strict=True) if images else ([],) * len(NAMES)
    return pa.table(dict(zip(NAMES, map(list, columns), strict=True)))


def opened(root: Any, **more: Any) -> Pipeline:
    pipe: Pipeline = vm.Pipeline(None, storage=root / "storage")
    kind = "TIMESTAMP" if more.get("timestamp") else "BIGINT"
    frame = Frame(table([]))
    columns = f"k BIGINT NOT NULL, x BIGINT, at {kind}"
    pipe.source("t", frame, change="op", key="k", order="at", schema=columns, **more)
    pipe.view("now", "SELECT k, x FROM t")
    return pipe


def take(pipe: Pipeline, number: int, images: list[Image]) -> int:
    (source,) = pipe._sources.values()
    arrived = Arrived({"t": table(images)})
    return take_batch(pipe.mill, Ledger(pipe.mill), "query q", number, [source], arrived).letters


def test_row_older_than_its_delete_stays_dead(tmp_path):
    with opened(tmp_path) as pipe:
        take(pipe, 0, [(1, 10, 1, "insert"), (2, 20, 5, "delete")])
        take(pipe, 1, [(1, 10, 4, "delete")])
        take(pipe, 2, [(1, 11, 3, "insert"), (2, 21, 4, "insert")])
        assert pipe["now"].rows() == []
    with opened(tmp_path) as pipe:  # tombstones are on disk
        take(pipe, 3, [(1, 12, 3, "insert"), (2, 22, 6, "insert")])
        assert pipe["now"].rows() == [(2, 22)]
        take(pipe, 4, [(2, 23, 5, "insert"), (1, 13, 4, "insert")])
        assert sorted(pipe["now"].rows()) == [(1, 13), (2, 22)]


def test_order_by_another_column_is_refused(tmp_path):
    with opened(tmp_path) as pipe:
        take(pipe, 0, [(1, 10, 4, "delete")])
    with vm.Pipeline(None, storage=tmp_path / "storage") as pipe:
        columns = "k BIGINT NOT NULL, x BIGINT, at BIGINT"
        with pytest.raises(ForbiddenChange, match="ordered by another column"):
            pipe.source("t", Frame(table([])), change="op", key="k", order="x", schema=columns)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_images_gives_the_newest(tmp_path, seed):
    chance = random.Random(seed)
    images = [
        (chance.randrange(4), n, n, chance.choice(["insert", "update_postimage", "delete"]))
        for n in range(40)
    ]
    newest = {k: (x, op) for k, x, _, op in images}
    chance.shuffle(images)
    pipe = opened(tmp_path)
    for number in range(8):
        take(pipe, number, images[5 * number : 5 * number + 5])
        if chance.random() < 0.2:
            pipe.close()
            pipe = opened(tmp_path)
    with pipe:
        alive = sorted((k, x) for k, (x, op) in newest.items() if op != "delete")
        assert sorted(pipe["now"].rows()) == alive


def test_tombstones_go_when_no_older_row_may_come(tmp_path):
    def at(minute: int) -> dt.datetime:
        return dt.datetime(2024, 1, 1) + dt.timedelta(minutes=minute)

    late = {"timestamp": "at", "options": "LATENESS INTERVAL '10' MINUTES"}
    with opened(tmp_path, **late) as pipe:
        (source,) = pipe._sources.values()
        take(pipe, 0, [(1, 10, at(0), "insert"), (1, 10, at(1), "delete")])
        assert take(pipe, 1, [(1, 10, at(0), "insert")]) == 0
        assert len(pipe.mill.sql(f"SELECT * FROM {tombstones_of(source)}").rows()) == 1
        take(pipe, 2, [(2, 20, at(30), "insert")])
        assert pipe.mill.sql(f"SELECT * FROM {tombstones_of(source)}").rows() == []
        assert take(pipe, 3, [(1, 10, at(0), "insert"), (2, 21, at(31), "insert")]) == 1
        assert pipe["now"].rows() == [(2, 21)]
        assert "older than LATENESS" in pipe.dead_letters().rows()[0][2]
        take(pipe, 4, [(2, 21, at(32), "delete")])  # the newest row goes, time does not go back
        assert take(pipe, 5, [(3, 30, at(5), "insert")]) == 1


def test_order_is_a_number_or_a_time(tmp_path):
    with vm.Pipeline(None, storage=tmp_path / "storage") as pipe:
        frame = Frame(pa.table({"k": [1], "at": ["x"], "op": ["insert"]}))
        with pytest.raises(InvalidArgument, match="is STRING"):
            pipe.source("t", frame, change="op", key="k", order="at", schema="k INT, at STRING")
