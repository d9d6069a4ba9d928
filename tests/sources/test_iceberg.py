"""A mill follows an Iceberg table that someone else writes, without a JVM."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, StringType

import viewmill as vm

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.string()), ("x", pa.float64())])


@pytest.fixture
def catalog(tmp_path):
    made = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    made.create_namespace("shop")
    yield made
    made.close()


def rows(first, count):
    ids = [*range(first, first + count)]
    return pa.table({"id": ids, "k": [f"k{i % 4}" for i in ids], "x": [i / 4 for i in ids]})


def read(table):
    found = table.refresh().scan().to_arrow().to_pylist()
    return Counter((each["id"], each["k"], each["x"]) for each in found)


def shown(mill):
    return Counter(mill.sql("SELECT id, k, x FROM t").rows())


@pytest.mark.parametrize("commits", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_the_table_equals_a_read_after_every_catch_up(catalog, uncompiled, commits):
    seed = random.randrange(1 << 30)
    print("seed", seed)  # noqa: T201
    chance = random.Random(seed)
    table = catalog.create_table("shop.orders", COLUMNS)
    with vm.connect() as mill:
        mill.follow("t", vm.sources.iceberg(catalog, "shop.orders"), background=False)
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(id) AS s FROM t GROUP BY k")
        for i in range(commits):
            kind = chance.choice(["append", "append", "delete", "overwrite", "upsert"])
            some = rows(chance.randrange(200), chance.randint(1, 20))
            if kind == "append":
                table.append(some)
            elif kind == "delete":
                table.delete(f"id < {chance.randrange(120)}")
            elif kind == "upsert":
                table.delete(f"id >= {some['id'][0].as_py()}")
                table.append(some)
            elif chance.random() < 0.2:
                table.overwrite(some)
            print(i, kind)  # noqa: T201
            if chance.random() < 0.5:
                assert mill.catch_up()
                assert shown(mill) == read(table)
                sums: Counter[str] = Counter()
                for (id_, k, _), times in read(table).items():
                    sums[k] += id_ * times
                assert dict(mill["v"].rows()) == sums
        assert mill.catch_up()
        assert shown(mill) == read(table)


def test_columns_that_are_renamed_and_added_keep_their_place(catalog, uncompiled, tmp_path):
    table = catalog.create_table("shop.orders", COLUMNS)
    table.append(rows(0, 3))
    source = vm.sources.iceberg(catalog, "shop.orders")
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (id BIGINT, k STRING, x DOUBLE, later BIGINT) UNCHECKED")
        mill.follow("t", source, background=False)
        assert mill.catch_up()
    with table.update_schema() as update:
        update.rename_column("k", "customer")
        update.add_column("later", LongType())
        update.add_column("other", StringType())
    more = pa.table({"id": [9], "customer": ["new"], "x": [1.0], "later": [5], "other": ["o"]})
    table.append(more)
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.follow("t", source, background=False)
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT id, k, later FROM t").rows()) == [
            (0, "k0", None), (1, "k1", None), (2, "k2", None), (9, "new", 5)
        ]  # fmt: skip
        table.delete("id = 1")
        assert mill.catch_up()
        assert sorted(mill.sql("SELECT id FROM t").rows()) == [(0,), (2,), (9,)]
        with table.update_schema() as update:
            update.delete_column("x")
        table.append(more.drop_columns(["x"]))
        with pytest.raises(vm.ViewmillError, match="no longer has the column x"):
            mill.catch_up()


def test_what_cannot_be_followed_is_named(catalog, uncompiled):
    with vm.connect() as mill:
        for source in (
            vm.sources.iceberg(catalog, "shop.nothing"),
            vm.sources.iceberg(catalog, "nowhere.orders"),
            vm.sources.iceberg({"type": "sql", "uri": "sqlite:////no/such.db"}, "shop.orders"),
        ):
            with pytest.raises(vm.ViewmillError, match="Iceberg table"):
                mill.follow("t", source, background=False)
        table = catalog.create_table("shop.orders", COLUMNS)
        table.append(rows(0, 3))
        mill.follow("t", vm.sources.iceberg(catalog, "shop.orders"), background=False)
        mill.catch_up()
        first = table.refresh().current_snapshot().snapshot_id
        table.append(rows(5, 1))
        table.maintenance.expire_snapshots().by_id(first).commit()
        with pytest.raises(vm.ViewmillError, match="no longer has the changes") as why:
            mill.catch_up()
        assert "unfollow" in why.value.hint
        assert shown(mill) == Counter(zip(*rows(0, 3).to_pydict().values(), strict=True))
        catalog.drop_table("shop.orders")
        catalog.create_table("shop.orders", COLUMNS)
        with pytest.raises(vm.ViewmillError, match="created anew"):
            mill.catch_up()


def test_a_tag_stays_where_it_is(catalog, uncompiled):
    table = catalog.create_table("shop.orders", COLUMNS)
    table.append(rows(0, 2))
    snapshot = table.refresh().current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(snapshot, "monday").commit()
    table.append(rows(2, 2))
    with vm.connect() as mill:
        source = vm.sources.iceberg(catalog, "shop.orders", branch="monday")
        mill.follow("t", source, background=False)
        assert mill.catch_up()
        assert len(mill.sql("SELECT * FROM t").rows()) == 2
