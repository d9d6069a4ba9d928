"""The places of strings move as their number grows: kernels read them where they are now.

A kernel that compared strings had the old places while its arguments already held new ids, and read
past the end: 98,304 strings in a table whose rows are not checked ended the process.
"""

from __future__ import annotations

import gc
import random

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels import column_reader
from viewmill.kernels.text_store import Texts, TextStore

FEW = {
    "leading": "SELECT s, x FROM t ORDER BY s, x LIMIT 5",
    "liked": "SELECT g, count(*) AS n FROM t WHERE s LIKE '%00%' OR u LIKE '9%' GROUP BY g",
    "turned": "SELECT reverse(s) AS r, x FROM t WHERE x % 50 = 0 ORDER BY r, x LIMIT 7",
}
MANY = FEW | {
    "two_each": (
        "SELECT g, s FROM (SELECT g, s, row_number() OVER (PARTITION BY g ORDER BY s DESC, x) AS n "
        "FROM t) WHERE n <= 2"
    ),
    "extremes": "SELECT g, min(s) AS low, max(u) AS high FROM t GROUP BY g",
    "above": "SELECT high, count(*) AS n FROM extremes GROUP BY high",
    "compared": ("SELECT t.g, count(*) AS n FROM t JOIN k ON t.g = k.g AND t.s < k.s GROUP BY t.g"),
    "counted": "SELECT g, count(DISTINCT s) AS n FROM t GROUP BY g",
    "computed": (
        "SELECT w, max(u) AS u FROM (SELECT substr(translate(s, '0123', 'abcd'), 3) AS w, u FROM t "
        "WHERE x % 7 = 0) GROUP BY w"
    ),
    "greatest_of": "SELECT g, max(greatest(s, u)) AS m FROM t WHERE s < u GROUP BY g",
    "lagging": (
        "SELECT g, s, lag(u) OVER (PARTITION BY g ORDER BY s, x) AS before FROM t WHERE x % 100 = 1"
    ),
    "nested": (
        "SELECT sum(t.x) AS n FROM t WHERE t.s LIKE '1%' AND 0.5 * (SELECT sum(a.x) FROM t a) < "
        "(SELECT sum(b.x) FROM t b WHERE b.x <= t.x)"
    ),
}
SCHEMA = pa.schema([("g", pa.int32()), ("s", pa.string()), ("u", pa.string()), ("x", pa.int64())])
MOVE = 98_304  # the number of strings at which places move first, and at each doubling


def texts(source: random.Random, count: int) -> list[str]:
    return [f"{source.getrandbits(60):020d}" for _ in range(count)]


def rows(source: random.Random, count: int) -> pa.Table:
    columns = [
        [source.randrange(5) for _ in range(count)],
        texts(source, count),
        [each if source.random() < 0.9 else None for each in texts(source, count)],
        [source.randrange(100_000) for _ in range(count)],
    ]
    arrays = [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def test_the_first_rows_by_a_string_outlive_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    source = random.Random(1)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (s STRING NOT NULL, x BIGINT NOT NULL) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT s, x FROM t ORDER BY s, x LIMIT 5")
        for _ in range(20):
            mill.insert("t", pa.table({"s": texts(source, 6000), "x": range(6000)}))
        assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "views", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_views_that_compare_strings_outlive_a_move(
    views: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of odd sizes, and such that change both sides of a join."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    source, end = random.Random(3), MOVE * (5 if views is MANY else 2) // 2
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (g INT NOT NULL, s STRING NOT NULL, u STRING, x BIGINT) UNCHECKED")
        mill.sql("CREATE TABLE k (g INT NOT NULL, s STRING NOT NULL)")
        for name, sql in views.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT AS {sql}")
        while len(mill._core.dictionary) <= end:
            count = source.choice([1, 17, 999, 4001, 7919])
            coming = rows(source, count)
            if source.random() < 0.3:
                with mill.batch():
                    mill.insert("k", [(source.randrange(5), each) for each in texts(source, 3)])
                    mill.insert("t", coming)
            else:
                mill.insert("t", coming)
            if source.random() < 0.4:
                mill.delete("t", coming.slice(0, count // 2))
        for name in views:
            assert mill[name].verify() == [], name


def test_whoever_reads_places_is_told_where_they_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewmill.kernels.text_store._FIRST_ENTRIES", 64)
    monkeypatch.setattr("viewmill.kernels.text_store._SOME_ENTRIES", 64)
    dictionary = Dictionary()
    dictionary.speed_up(column_reader)
    store = dictionary.strings
    assert isinstance(store, TextStore)
    readers = [Texts([], lookups) for lookups in (1, 3)]
    for each in readers:
        each.learn_texts(len(each._tables) - 1, np.empty(0, np.int64), dictionary)
    gone = Texts([], 1)
    gone.learn_texts(0, np.empty(0, np.int64), dictionary)
    del gone
    gc.collect()
    seen = set()
    for first in range(0, 1000, 7):
        dictionary.encode(pa.array([str(i) for i in range(first, first + 7)]))
        place = store.places.ctypes.data
        seen.add(place)
        assert [int(each._addresses[len(each._tables) - 1]) for each in readers] == [place] * 2
    assert len(seen) == 6
    assert len(store._readers) == 2
