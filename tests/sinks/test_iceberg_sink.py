"""Views as Iceberg tables that others read."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import viewmill as vm

VIEW = "SELECT k, COUNT(*) AS n, SUM(x) AS s, MAX(at) AS m FROM t GROUP BY k"


@pytest.fixture
def catalog(tmp_path):
    made = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    yield made
    made.close()


def read(catalog, mode):
    found = catalog.load_table("shop.v").scan().to_arrow().to_pylist()
    net: Counter[object] = Counter()
    for each in found:
        moment = each["m"] and each["m"].replace(tzinfo=None)
        gone = mode == "changes" and each["_change_type"] == "delete"
        net[(each["k"], each["n"], each["s"], moment)] += -1 if gone else 1
    assert min(net.values(), default=0) >= 0
    return +net


@pytest.mark.parametrize("mode", ["table", "changes"])
def test_what_is_read_is_the_view_also_after_a_start(catalog, tmp_path, uncompiled, mode):
    chance = random.Random(3)
    for round_ in range(3):
        with vm.connect(tmp_path / "m.mill") as mill:
            if not round_:
                mill.sql("CREATE TABLE t (id INT, k STRING, x DOUBLE, at TIMESTAMP, "
                         "PRIMARY KEY (id))")  # fmt: skip
                mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
            mill.sink("v", vm.sinks.iceberg(catalog, "shop.v", mode=mode))
            for _ in range(3):
                rows = [(chance.randrange(30), chance.choice(["a", "b", None]), 0.25, "2024-01-01")]
                mill.upsert("t", rows)
                mill.sql(f"DELETE FROM t WHERE id % 7 = {chance.randrange(7)}")
                assert mill.flush(60)
                assert read(catalog, mode) == Counter(mill["v"].rows())
            mill.unsink("v")
            mill.upsert("t", [(100 + round_, "unseen", 1.0, None)])


def test_a_view_that_is_replaced_brings_its_columns(catalog, uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id INT, k STRING)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        mill.insert("t", [(1, "a")])
        mill.sink("v", vm.sinks.iceberg(catalog, "shop.v"))
        assert mill.flush(60)
        query = "SELECT k, CAST(SUM(id) AS STRING) AS n, MAX(id) AS m FROM t GROUP BY k"
        mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        assert mill.flush(60)
        found = catalog.load_table("shop.v").scan().to_arrow().to_pylist()
        assert found == [{"k": "a", "n": "1", "m": 1}]


def test_a_table_of_others_is_refused(catalog, uncompiled):
    catalog.create_namespace("shop")
    catalog.create_table("shop.v", pa.schema([("k", pa.string())]))
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k STRING)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        with pytest.raises(vm.ViewmillError, match=r"Iceberg table shop\.v belongs to others"):
            mill.sink("v", vm.sinks.iceberg(catalog, "shop.v"))
        assert catalog.load_table("shop.v").current_snapshot() is None
