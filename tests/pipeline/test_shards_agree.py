"""Views in shards equal the same views in one process, whatever is forgotten or run twice.

Slots over stores in memory stand for Spark here, so that many queries can be tried.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.conftest import scaled
from tests.equivalence.harness import REFUSALS

import viewmill as vm
from viewmill.deltas.arrow import arrow_schema
from viewmill.pipeline.shards import slot as slots
from viewmill.testing.generate import Batch, Table, batches, feed, tables
from viewmill.testing.generate_queries import Query, views, wide_views
from viewmill.testing.local_shards import LocalShards
from viewmill.testing.oracle import differences


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch):
    """A snapshot after every third batch."""
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 2)


class Both:
    """The same tables and views in one mill and in shards."""

    def __init__(self, over: Sequence[Table], queries: Sequence[Query]) -> None:
        self.names = [f"v{i}" for i in range(len(queries))]
        texts = dict(zip(self.names, (query.spark for query in queries), strict=True))
        self.mill = vm.connect()
        for table in over:
            note(table.sql)
            self.mill.sql(table.sql)
        for name, text in texts.items():
            note(f"{name}: {text}")
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        columns = {table.name: _columns(table) for table in over}
        self.shards = LocalShards(Path(tempfile.mkdtemp()), columns, texts)

    def feed(self, batch: Batch, fault: str) -> None:
        """One batch to both, in shards with a fault on the way."""
        note(f"feed {batch}, {fault}")
        feed(self.mill, batch)
        rows = self.tables(batch)
        if fault == "rerun":
            before = {key: store.copy() for key, store in self.shards.stores.items()}
            self.shards.give(rows)
            self.shards.stores = before  # Spark did not commit, and runs the batch again
        if fault == "worker lost":
            slots._MEMORY.clear()
        if fault == "other worker":
            self.shards.move()
        self.shards.take(rows)
        self.compare()

    def compare(self) -> None:
        for name in self.names:
            found = differences(self.mill[name].rows(), self.shards.mill[name].rows())
            assert found == [], f"{name}: {self.shards.mill[name].explain()}"

    def tables(self, batch: Batch) -> dict[str, pa.Table]:
        """The rows of a batch with their multiplicity."""
        found: dict[str, list[pa.Table]] = {}
        for change in batch:
            schema = self.mill.core.catalog.table(change.table).table.schema
            sign = -1 if change.kind == "delete" else 1
            times = change.times or (sign,) * len(change.rows)
            fields = arrow_schema(schema)
            values = zip(*change.rows, strict=True) if change.rows else ([] for _ in fields)
            arrays = [pa.array(list(v), f.type) for v, f in zip(values, fields, strict=True)]
            table = pa.Table.from_arrays(arrays, names=fields.names)
            made = table.append_column("m", pa.array(list(times), pa.int64()))
            found.setdefault(change.table, []).append(made)
        return {name: pa.concat_tables(parts) for name, parts in found.items()}


def _columns(table: Table) -> str:
    return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)


# What stands in a view decides where it runs; what it shows never depends on that.
ODD_VIEWS = {
    "global subqueries": (
        "SELECT sum(b.price * b.volume) AS v FROM bids b WHERE 0.25 * (SELECT sum(x.volume) FROM"
        " bids x) < (SELECT sum(y.volume) FROM bids y WHERE y.price > b.price)",
        "one shard: a subquery looks at the rows of all shards",
    ),
    "subqueries by key": (
        "SELECT b.broker, sum(b.price) AS v FROM bids b WHERE 0.25 * (SELECT sum(x.volume) FROM"
        " bids x WHERE x.broker = b.broker) < (SELECT sum(y.volume) FROM bids y WHERE"
        " y.price > b.price AND y.broker = b.broker) GROUP BY b.broker",
        "by key broker",
    ),
    "missed trades by broker": (
        "SELECT b.broker, sum(a.price - b.price) AS v, count(*) AS n FROM bids b, bids a WHERE"
        " (SELECT sum(x.volume) FROM bids x) > 4 * coalesce((SELECT sum(y.volume) FROM bids y"
        " WHERE y.price > b.price), 0) AND a.volume > (SELECT avg(z.volume) FROM bids z)"
        " GROUP BY b.broker",
        "one shard: ",
    ),
    "column against its key": (
        "SELECT sum(b.price) AS v FROM bids b WHERE 2 * b.volume < (SELECT avg(x.volume) FROM"
        " bids x WHERE x.broker = b.broker)",
        "rows spread by broker",
    ),
    "group against all": (
        "SELECT sum(b.volume) AS v FROM bids b WHERE (SELECT sum(x.volume) FROM bids x WHERE"
        " x.broker = b.broker) > 0.2 * (SELECT sum(y.volume) FROM bids y)",
        "in a second step, groups are compared with all",
    ),
    "some of a group against some": (
        "SELECT b.broker, count(*) AS n, max(b.price) AS m FROM bids b WHERE b.price > 3 AND"
        " (SELECT count(*) FROM bids x WHERE x.broker = b.broker AND x.price < 9) >"
        " (SELECT avg(y.volume) FROM bids y WHERE y.id > 4) GROUP BY b.broker",
        "in a second step, groups are compared with all",
    ),
    "nothing of a group": (
        "SELECT count(*) AS n FROM bids b WHERE 1 > (SELECT count(*) FROM bids x WHERE"
        " x.broker = b.broker) * (SELECT sum(y.price) FROM bids y)",
        "in a second step, groups are compared with all",
    ),
    "rank": ("SELECT id, rank() OVER (PARTITION BY broker ORDER BY price) FROM bids", "by key"),
    "cofactor": ("SELECT broker, cofactor(volume, price) FROM bids GROUP BY broker", "by key"),
    "no type": ("SELECT broker, NULL AS x, count(*) FROM bids GROUP BY broker", "no VOID"),
    "window of time": (
        "SELECT sum(volume) AS v FROM bids [WINDOW 10 MINUTES SLIDE 1 MINUTE]",
        "partials of 1 minute of rows spread by",
    ),
    "window of time by key": (
        "SELECT broker, avg(volume) AS a, min(price) AS m, count(*) AS n FROM bids"
        " [WINDOW 1 MINUTE SLIDE 20 SECONDS] WHERE price <> 5 GROUP BY broker HAVING count(*) > 1",
        "partials of 20 seconds by key broker",
    ),
    "window that only the driver can keep": (
        "SELECT broker, last(price) AS l FROM bids [WINDOW 1 MINUTE SLIDE 20 SECONDS]"
        " GROUP BY broker",
        "one shard, the driver: shared_window",
    ),
    "window of rows": (
        "SELECT broker, max(price) FROM bids [WINDOW 20 ROWS SLIDE 5 ROWS] GROUP BY broker",
        "one shard, the driver: shared_window",
    ),
    "pattern": (
        "SELECT count(*) AS n FROM bids PATTERN [a, b] WHERE a.broker = b.broker AND"
        " a.price < b.price",
        "one shard: it has no groups",
    ),
}  # fmt: skip


def bids(number: int) -> list[tuple[object, ...]]:
    """Twelve bids of a minute and a half."""
    rows: list[tuple[object, ...]] = []
    for i in range(12 * number, 12 * number + 12):
        broker = None if i % 9 == 4 else i * 5 % 4
        at = datetime(2024, 1, 1) + timedelta(seconds=7 * i)
        rows.append((at, i, broker, 1 + i * 7 % 9, 1 + i % 13))
    return rows


@pytest.mark.parametrize("name", ODD_VIEWS)
def test_odd_views_show_the_same_wherever_they_run(tmp_path, name, uncompiled):
    sql, words = ODD_VIEWS[name]
    columns = "t TIMESTAMP, id BIGINT, broker INT, volume BIGINT, price BIGINT"
    options = "APPEND ONLY TIMESTAMP BY t PARTITION LENGTH 60"
    shards = LocalShards(tmp_path, {"bids": columns}, {"v": sql}, options)
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE bids ({columns}) {options}")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        for number in range(5):
            mill.insert("bids", bids(number))
            names = [each.split()[0] for each in columns.split(", ")]
            rows = pa.table(dict(zip(names, zip(*bids(number), strict=True), strict=True)))
            shards.take({"bids": rows.append_column("m", pa.array([1] * 12, pa.int64()))})
            assert differences(mill["v"].rows(), shards.mill["v"].rows()) == []
    assert words in str(shards.mill["v"].explain())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_panes_take_late_rows_and_deletes(tmp_path, seed, uncompiled):
    """Time goes on alike where shards keep panes, also by rows that WHERE leaves out."""
    chance = random.Random(seed)
    lateness = chance.choice(["", " LATENESS INTERVAL '15' SECONDS"])
    columns = "t TIMESTAMP, id BIGINT, broker INT, volume BIGINT"
    options = f"UNCHECKED TIMESTAMP BY t{lateness}"
    views = {
        "total": "SELECT sum(volume) AS v, max(id) AS m FROM bids"
        " [WINDOW 1 MINUTE SLIDE 10 SECONDS]",
        "some": "SELECT broker, avg(volume) AS a, count(*) AS n FROM bids"
        " [WINDOW 25 SECONDS SLIDE 10 SECONDS] WHERE volume > 3 GROUP BY broker",
    }
    shards = LocalShards(tmp_path, {"bids": columns}, views, options)
    live: list[tuple[object, ...]] = []
    now = 0
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE bids ({columns}) {options}")
        for name, sql in views.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        schema = arrow_schema(mill.core.catalog.table("bids").table.schema)
        for i in range(12):
            now += chance.randint(0, 12)
            gone = chance.sample(live, min(2, len(live))) if chance.random() < 0.4 else []
            live = [each for each in live if each not in gone]
            new = [_bid(chance, now, 9 * i + j) for j in range(chance.randint(1, 6))]
            live += new
            arrays = zip(*(new + gone), strict=True)
            rows = pa.Table.from_arrays(
                [pa.array(list(v), f.type) for v, f in zip(arrays, schema, strict=True)],
                names=schema.names,
            )
            rows = rows.append_column("m", pa.array([1] * len(new) + [-1] * len(gone), pa.int64()))
            mill.apply("bids", rows, multiplicity="m")
            shards.take({"bids": rows})
            for name in views:
                assert differences(mill[name].rows(), shards.mill[name].rows()) == [], (i, name)
                assert shards.mill[name].verify() == []
    assert "puts windows together from the shards' panes" in str(shards.mill["some"].explain())


def _bid(chance, now, number):
    at = datetime(2024, 1, 1) + timedelta(seconds=max(0, now - chance.choice([0, 0, 3, 20])))
    broker = chance.choice([None, 1, 2])
    return at, number, broker, chance.choice([None, 1, 4, 9])


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_worker_that_had_a_slot_before_catches_up(tmp_path, turns, uncompiled, monkeypatch):
    """Two workers take turns; who comes back lacks the batches of the other."""
    monkeypatch.setattr(slots, "_LOG_ENTRIES", 6)
    names = ["subqueries by key", "window of time by key", "rank"]
    views = {f"v{i}": ODD_VIEWS[name][0] for i, name in enumerate(names)}
    columns = "t TIMESTAMP, id BIGINT, broker INT, volume BIGINT, price BIGINT"
    options = "APPEND ONLY TIMESTAMP BY t PARTITION LENGTH 60"
    shards = LocalShards(tmp_path, {"bids": columns}, views, options)
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE bids ({columns}) {options}")
        for name, sql in views.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for number in range(8):
            if number % turns == 0:
                shards.move()
            mill.insert("bids", bids(number))
            given = [each.split()[0] for each in columns.split(", ")]
            rows = pa.table(dict(zip(given, zip(*bids(number), strict=True), strict=True)))
            shards.take({"bids": rows.append_column("m", pa.array([1] * 12, pa.int64()))})
            for name in views:
                assert differences(mill[name].rows(), shards.mill[name].rows()) == []
    assert shards.placement.status(shards.mill)["shards"]["caught_up"] > 0


FAULTS = st.sampled_from(["none", "none", "rerun", "worker lost", "other worker", "other worker"])


def run(both: Both, feeds: Sequence[Batch], data: st.DataObject) -> None:
    both.compare()
    for batch in feeds:
        try:
            both.feed(batch, data.draw(FAULTS))
        except REFUSALS:
            return  # which sums overflow first is not the same in parts


@settings(max_examples=scaled(0.12))
@given(data=st.data())
def test_views_of_one_table(data, uncompiled):
    table = data.draw(tables(keyed=False, unchecked=True))
    queries = data.draw(st.lists(views(table), min_size=1, max_size=3))
    feeds = data.draw(batches([table], tame=True, early_deletes=False))
    run(Both([table], queries), feeds, data)


@settings(max_examples=scaled(0.12))
@given(data=st.data())
def test_views_of_two_tables(data, uncompiled):
    left = data.draw(tables("t", keyed=False, unchecked=True))
    right = data.draw(tables("u", keyed=False, unchecked=True))
    queries = data.draw(st.lists(wide_views(left, right), min_size=1, max_size=2))
    feeds = data.draw(batches([left, right], tame=True))
    run(Both([left, right], queries), feeds, data)


def test_rows_deleted_before_they_come_are_unknown_in_shards(tmp_path, uncompiled):
    """Shards keep no rows to count, so the status must not say that there are none."""
    views = {
        "sums": "SELECT k, sum(x) AS s FROM t GROUP BY k",
        "rows_of_t": "SELECT k, x FROM t",
        "of_view": "SELECT count(*) AS n FROM sums",
        "kept": "SELECT listagg(CAST(x AS STRING)) AS b FROM t",
    }
    shards = LocalShards(tmp_path, {"t": "k BIGINT, x BIGINT"}, views, "UNCHECKED")
    orphan = pa.table({"k": [1], "x": [2], shards._multiplicity: [-1]})
    shards.take({"t": orphan})
    counted = {name: shards.mill[name].status()["negative_rows"] for name in views}
    assert counted == {"sums": None, "rows_of_t": None, "of_view": None, "kept": 1}
