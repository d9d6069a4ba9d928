"""MIN, MAX, MAX_BY and MIN_BY of strings in windows, whatever order strings come in."""

import datetime as dt
import random
from itertools import pairwise

import numpy as np
import pytest

import viewmill as vm
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels import string_order
from viewmill.kernels.string_order import StringOrder

EPOCH = dt.datetime(2024, 1, 1)
WAYS = {
    "ascending": [f"{i:05d}" for i in range(300)],
    "descending": [f"{i:05d}" for i in range(300, 0, -1)],
    "inside": ["a", "z", *(f"b{i:05d}" for i in range(300))],
    "narrowing": [text for i in range(150) for text in ("a" * i, "a" * i + "b")],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batch", [1, 7])
def test_labels_are_ordered_as_strings_are(way, batch):
    dictionary, texts = Dictionary(), WAYS[way]
    order = StringOrder(dictionary)
    ids = np.array([dictionary.intern(text) for text in texts])
    for i in range(0, len(ids), batch):
        if order.is_tight:
            order.give_anew()
        order.labels(ids[i : i + batch])
        known = sorted(zip(texts[: i + batch], order.labels(ids[: i + batch]), strict=True))
        labels = [label for _, label in dict(known).items()]
        assert all(a < b for a, b in pairwise(labels))


@pytest.mark.parametrize("tight", [2**20, 2**60], ids=["usual", "often"])
@pytest.mark.parametrize("seed", [1, 2])
def test_strings_in_windows(monkeypatch, tight, seed):
    """Also where labels are given anew all the time."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    monkeypatch.setattr(string_order, "_TIGHT", tight)
    chance = random.Random(seed)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, k BIGINT, x STRING, y BIGINT) TIMESTAMP BY t")
        window = "[WINDOW 10 SECONDS SLIDE 2 SECONDS]"
        mill.sql(
            "CREATE MATERIALIZED VIEW a AS SELECT k, min(x) AS lo, max(x) AS hi, max_by(y, x) AS b,"
            f" min_by(x, y) AS c FROM s {window} GROUP BY k;"
            f"CREATE MATERIALIZED VIEW b AS SELECT max(x) AS hi FROM s {window} WHERE y > 1;"
            "CREATE MATERIALIZED VIEW c AS SELECT k, window.start, min(x) AS lo FROM s"
            " GROUP BY k, window(t, '10 seconds', '5 seconds')"
        )
        mill["b"].subscribe(lambda _: None)
        live: list[tuple[object, ...]] = []
        for step in range(20):
            time = EPOCH + dt.timedelta(seconds=step - chance.choice([0, 0, 4]))
            text = chance.choice([None, "", "ä", f"a{step}", f"b{999 - step:03d}", "zz"])
            live.append((time, chance.randint(0, 1), text, chance.choice([None, 1, 2])))
            mill.insert("s", live[-1:])
            if chance.random() < 0.3:
                mill.delete("s", [live.pop(chance.randrange(len(live)))])
            if step % 4 == 3:
                assert [mill[name].verify() for name in "abc"] == [[], [], []]
        assert {mill[name].status()["strategy"] for name in "abc"} == {"shared_window"}
        assert mill["a"].status()["engine_calls"] == 0


def test_labels_that_become_tight_lose_no_row_of_the_change_under_way():
    """Reading a deferred window before its commit used to fill it again without the new rows."""
    mill = vm.connect()
    mill.sql(
        "CREATE TABLE s (at TIMESTAMP NOT NULL, k STRING) APPEND ONLY TIMESTAMP BY at"
        " PARTITION LENGTH 60 RETENTION INTERVAL '600' SECONDS"
    )
    query = "SELECT window(at, '27 seconds', '3 seconds').start AS w, min(k) AS c FROM s"
    query += " GROUP BY window(at, '27 seconds', '3 seconds')"
    batches = [
        [(213, "k2"), (238, "b")],
        [(346, "k18")],
        [(832, "k120"), (830, "c"), (831, "k160")],
        [(850, "a"), (822, "k13"), (851, "a")],
        [(852, "a"), (854, "k15"), (825, "k13")],
    ]
    start = dt.datetime(2023, 11, 14, 22, 13, 20)
    for i, batch in enumerate(batches):
        mill.insert("s", [(start + dt.timedelta(seconds=at), k) for at, k in batch])
        if i == 0:
            mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH EVERY 3 ROWS AS {query}")
    assert mill["v"].status()["freshness"] == "fresh"
    assert sorted(mill["v"].rows()) == sorted(mill.sql(query).rows())
