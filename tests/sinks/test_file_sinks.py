"""Views as Parquet files and Delta tables, whole or as changes, that others read."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import viewmill as vm

TABLE = "CREATE TABLE t (id BIGINT, k STRING, x DOUBLE, at TIMESTAMP, PRIMARY KEY (id))"
VIEW = """CREATE MATERIALIZED VIEW v AS
    SELECT k, COUNT(*) AS n, SUM(x) AS s, MAX(at) AS m FROM t GROUP BY k"""


def read(path, format, mode):
    """The rows of a view as a stranger reads them."""
    if format == "delta":
        found = pa.table(DeltaTable(path).to_pyarrow_table())
    else:
        found = pa.concat_tables([pq.read_table(each) for each in path.glob("*.parquet")])
    rows = found.to_pylist()
    moments = [{**each, "m": each["m"] and each["m"].replace(tzinfo=None)} for each in rows]
    if mode == "table":
        return Counter(tuple(each.values()) for each in moments)
    net: Counter[object] = Counter()
    for each in moments:
        net[(each["k"], each["n"], each["s"], each["m"])] += (
            1 if each["_change_type"] == "insert" else -1
        )
    assert min(net.values(), default=0) >= 0
    return +net


def open_mill(folder, format, mode):
    mill = vm.connect(folder / "m.mill")
    if "t" not in mill:
        mill.sql(TABLE)
        mill.sql(VIEW)
    mill.sink("v", format=format, path=folder / "out", mode=mode)
    return mill


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("mode", ["table", "changes"])
def test_what_is_read_is_the_view_also_after_a_start(tmp_path, uncompiled, format, mode):
    chance = random.Random(3)
    for _ in range(3):
        with open_mill(tmp_path, format, mode) as mill:
            for _ in range(4):
                rows = [
                    (chance.randrange(30), chance.choice(["a", "b", None]), chance.randrange(9) / 4,
                     "2024-01-01 00:00:00")
                    for _ in range(10)
                ]  # fmt: skip
                mill.upsert("t", rows)
                mill.sql(f"DELETE FROM t WHERE id % 7 = {chance.randrange(7)}")
            assert mill.flush(60)
            assert read(tmp_path / "out", format, mode) == Counter(mill["v"].rows())
            mill.unsink("v")
            mill.upsert("t", [(100, "unseen", 1.0, None)])


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_changes_are_right_after_a_start_with_an_empty_view_and_from_a_backup(
    tmp_path, uncompiled, format
):
    """A view that was empty at a start left its rows there, and versions that a mill from a backup
    wrote for the second time were taken for written."""
    with open_mill(tmp_path, format, "changes") as mill:
        mill.upsert("t", [(1, "a", 1.0, None)])
        assert mill.flush(60)
        mill.unsink("v")
        mill.sql("DELETE FROM t")
    with open_mill(tmp_path, format, "changes") as mill:
        assert mill.flush(60)
        assert read(tmp_path / "out", format, "changes") == Counter()
        mill.backup(tmp_path / "backup" / "m.mill")
        mill.upsert("t", [(2, "b", 2.0, None)])
        mill.upsert("t", [(3, "c", 3.0, None)])
    with vm.connect(tmp_path / "backup" / "m.mill") as mill:
        mill.sink("v", format=format, path=tmp_path / "out", mode="changes")
        mill.upsert("t", [(4, "d", 4.0, None)])
        mill.upsert("t", [(5, "b", 2.0, None)])
        assert mill.flush(60)
        assert read(tmp_path / "out", format, "changes") == Counter(mill["v"].rows())


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_path_with_files_of_others_is_refused(tmp_path, uncompiled, format):
    with vm.connect() as mill:
        mill.sql(TABLE)
        mill.sql(VIEW)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.parquet").write_text("mine")
        (tmp_path / "file").write_text("mine")
        for name in ("out", "file"):
            with pytest.raises(vm.ViewmillError, match=f"{name} "):
                mill.sink("v", format=format, path=tmp_path / name)
        assert (tmp_path / "out" / "mine.parquet").read_text() == "mine"
        mill.sink("v", format=format, path=tmp_path / "good")
        assert mill.flush(60)
        mill.unsink("v")
        with pytest.raises(vm.ViewmillError, match="another view, format or mode"):
            mill.sink("v", format=format, path=tmp_path / "good", mode="changes")
        for wrong in ({"format": "xml", "path": tmp_path}, {"format": format}, {}):
            with pytest.raises(vm.ViewmillError):
                mill.sink("v", **wrong)
