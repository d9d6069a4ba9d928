"""A mill that follows a Delta table, and what it has to show; `python delta_follower.py FOLDER`.

As a process it follows until it is killed.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

import viewmill as vm

VIEW = "SELECT k, COUNT(*) AS n, SUM(id) AS s, SUM(x) AS f FROM t GROUP BY k"


def read(path, columns):
    """The rows of a Delta table as pyarrow reads them."""
    table = DeltaTable(path).to_pyarrow_table()
    missing = [each for each in columns if each not in table.column_names]
    for name in missing:
        table = table.append_column(name, pa.nulls(table.num_rows, pa.int32()))
    return table.select(columns)


def assert_same(mill, path, columns=("id", "k", "x")):
    """The mill's table and view are what pyarrow and DuckDB make of the newest version."""
    t = read(path, [*columns])
    expected = Counter(zip(*(t[name].to_pylist() for name in columns), strict=True))
    shown = mill.sql(f"SELECT {', '.join(columns)} FROM t").rows()
    assert Counter(shown) == expected
    with duckdb.connect() as engine:
        engine.register("t", t)
        groups = Counter(engine.sql(VIEW).fetchall())
    assert Counter(mill["v"].rows()) == groups
    assert mill.status()["tables"]["t"]["negative_rows"] == 0


def follow(mill, path, create="CREATE TABLE IF NOT EXISTS t (id BIGINT, k STRING, x DOUBLE, "
           "added_a INT) UNCHECKED"):  # fmt: skip
    if create:
        mill.sql(create)
    mill.follow("t", vm.sources.delta(path), background=False)
    if "v" not in mill:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
    assert mill.catch_up()


if __name__ == "__main__":
    followed = vm.connect(f"{sys.argv[1]}/m.mill")
    follow(followed, f"{sys.argv[1]}/lake")
    os.write(1, b"ready\n")
    while True:
        followed.catch_up()
