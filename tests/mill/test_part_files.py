"""Parts of a mill with storage are Parquet files, whole at any time, each written once."""

import datetime as dt
import random
import shutil
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest

import viewmill as vm
from viewmill.errors import DamagedFile, StorageFailed
from viewmill.mill.storage import crash_points

START = dt.datetime(2015, 1, 1, 10)
OPTIONS = "TIMESTAMP BY ts PARTITION LENGTH 60"
CUMULATIVE = (
    "CREATE VIEW c AS INITIALIZE c[i] AS SELECT k, sum(x) AS t FROM m[i] GROUP BY k "
    "UPDATE c[j] AS SELECT k, sum(t) FROM (SELECT k, x AS t FROM m[j] "
    "UNION ALL SELECT k, t FROM c[j-1]) GROUP BY k PARTITION LENGTH 60"
)
PATTERN = (
    "CREATE VIEW p AS SELECT k, count(*) AS n FROM m PATTERN [a, b+] "
    "WHERE b.x > PREV(b.x) GROUP BY k"
)
RETENTION = "RETENTION INTERVAL '6' MINUTES LATENESS INTERVAL '4' MINUTES"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def minute(i, second=0):
    return START + dt.timedelta(minutes=i, seconds=second)


def create(mill, more=""):
    mill.sql(f"CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) {OPTIONS} {more}")
    mill.sql(CUMULATIVE)
    mill.sql(PATTERN)


def in_files(path, name):
    """What DuckDB finds in the files of a table or view."""
    found = sorted((path / "parts" / name).glob("*/*.parquet"))
    if not found:
        return []
    files = [str(each) for each in found]
    query = "SELECT * EXCLUDE (part_timestamp) FROM read_parquet(?, hive_partitioning=true)"
    return sorted(map(repr, duckdb.execute(query, [files]).fetchall()))


def history(mill, name):
    rows = mill.sql(f"SELECT *, PART_TIMESTAMP FROM {name}").rows()
    return sorted(repr(row[:-1]) for row in rows)


def test_files_show_each_part_once_it_is_over_and_all_after_closing(tmp_path):
    path = tmp_path / "parts.mill"
    with vm.connect(path) as mill:
        create(mill)
        for i in range(4):
            mill.insert("m", [(minute(i), "a", i), (minute(i, 30), "b", -i)])
        assert len(in_files(path, "m")) == 6, "the newest part may still change"
        mill.insert("m", [(minute(1, 10), "a", 9)])
        mill.delete("m", [(minute(2), "a", 2)])
        mill.insert("m", [(minute(4), "a", 4)])
        assert len(in_files(path, "m")) == 8 - 1 + 1
        kept = {name: history(mill, name) for name in ("m", "c", "p")}
        files = [each["file"] for each in mill.parts("m")]
        assert files[-1] is None
        assert all(ds.dataset(each).count_rows() for each in files[:-1])
    assert {name: in_files(path, name) for name in ("m", "c", "p")} == kept
    folder = path / "parts" / "m"
    whole = ds.dataset(folder, partitioning="hive").to_table()
    assert sorted(set(whole["part_timestamp"].to_pylist())) == [
        f"2015-01-01T10-0{i}-00" for i in range(5)
    ]


def test_checkpoint_writes_changed_parts_only_and_reopening_reads_the_files(tmp_path):
    path = tmp_path / "parts.mill"
    with vm.connect(path) as mill:
        create(mill)
        for i in range(8):
            mill.insert("m", [(minute(i), "a", i % 3)])
        mill.checkpoint()
        before = {each: each.stat().st_mtime_ns for each in path.glob("parts/m/*/*")}
        assert not list(path.glob("snapshot-*"))
        mill.insert("m", [(minute(3, 10), "b", 1)])
        mill.insert("m", [(minute(8), "a", 1)])
        mill.checkpoint()
        after = {each: each.stat().st_mtime_ns for each in path.glob("parts/m/*/*")}
        changed = [each for each in after if after[each] != before.get(each)]
        names = sorted(each.parent.name[-8:] for each in changed)
        assert names == ["10-03-00", "10-08-00"]
        kept = {name: history(mill, name) for name in ("m", "c", "p")}
        catalog = mill.parts("m")
    with vm.connect(path) as mill:
        assert {name: history(mill, name) for name in ("m", "c", "p")} == kept
        assert mill.parts("m") == catalog
        assert [mill[name].verify() for name in "cp"] == [[], []]
        assert mill["c"].status()["engine_calls"] == 0, "nothing was computed again"


def test_files_follow_retention_dropping_and_namesakes(tmp_path):
    path = tmp_path / "parts.mill"
    with vm.connect(path) as mill:
        create(mill, RETENTION)
        for i in range(12):
            mill.insert("m", [(minute(i), "a", i % 3)])
            if i == 6:
                mill.checkpoint()
        names = sorted(each.parent.name[-8:] for each in path.glob("parts/m/*/*.parquet"))
        assert names[0] >= "10-05-00"
        mill.checkpoint()
        assert not list(path.glob("parts/m/*/_ended"))
        mill.sql("DROP VIEW c")
        mill.sql("DROP VIEW p")
        mill.sql("DROP TABLE m")
        mill.sql(f"CREATE TABLE m (ts TIMESTAMP, y DOUBLE) {OPTIONS}")
        mill.insert("m", [(minute(i), 0.5) for i in range(3)])
    with vm.connect(path) as mill:
        assert sorted(each.name for each in (path / "parts").iterdir()) == ["m"]
        assert len(mill.sql("SELECT * FROM m").rows()) == 3
    assert len(in_files(path, "m")) == 3


def test_rows_deleted_before_they_came_are_remembered(tmp_path):
    path = tmp_path / "parts.mill"
    with vm.connect(path) as mill:
        mill.sql(f"CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) UNCHECKED {OPTIONS}")
        mill.delete("m", [(minute(0), "a", 1)] * 2)
        mill.insert("m", [(minute(0), "b", 2)] * 3)
        mill.checkpoint()
        assert len(in_files(path, "m")) == 3
    with vm.connect(path) as mill:
        mill.insert("m", [(minute(0), "a", 1)] * 3)
        assert sorted(row[1] for row in mill.sql("SELECT * FROM m").rows()) == list("abbb")


def test_damaged_and_missing_parts_are_named(tmp_path):
    path = tmp_path / "parts.mill"
    with vm.connect(path) as mill:
        create(mill)
        mill.insert("m", [(minute(i), "a", i) for i in range(3)])
        mill.checkpoint()
    (file,) = path.glob("parts/m/*10-01-00/part.parquet")
    content = file.read_bytes()
    at = content.index(b"PAR1") + 40
    file.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
    with pytest.raises(DamagedFile, match=r"10-01-00.*damaged"):
        vm.connect(path)
    file.unlink()
    with pytest.raises(DamagedFile) as caught:
        vm.connect(path)
    assert caught.value.detail == "it is missing"
    file.write_bytes(content)
    with vm.connect(path) as mill:
        assert len(mill.sql("SELECT * FROM m").rows()) == 3


def test_a_part_that_cannot_be_written_is_written_later(tmp_path):
    path = tmp_path / "parts.mill"
    with vm.connect(path) as mill:
        create(mill)
        mill.insert("m", [(minute(0), "a", 0)])
        blocked = path / "parts" / "m"
        blocked.parent.mkdir()
        blocked.write_text("in the way")
        mill.insert("m", [(minute(1), "a", 1)])  # the log has it
        with pytest.raises(StorageFailed):
            mill.checkpoint()
        blocked.unlink()
        mill.insert("m", [(minute(2), "a", 2)])
        assert len(in_files(path, "m")) == 2
        mill.checkpoint()
    with vm.connect(path) as mill:
        assert len(mill.sql("SELECT * FROM m").rows()) == 3


def test_a_crash_at_any_step_loses_nothing(tmp_path):
    """The directory is copied at every step, as a killed process would leave it."""
    path, chance = tmp_path / "parts.mill", random.Random(5)
    copies: list[Any] = []
    inserted: list[Any] = []

    def copy(point):
        if chance.random() < 0.02:
            target = tmp_path / f"copy{len(copies)}"
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("LOCK"))
            copies.append((target, point, len(inserted)))

    batches = []
    for i in range(24):
        late = max(0, i - chance.randrange(4))
        batches.append([(minute(i, s), "ab"[s % 2], chance.randrange(5)) for s in range(2)])
        batches[-1] += [(minute(late, 59), "a", chance.randrange(5))] * (i % 3 == 2)
    with vm.connect(path) as mill:
        create(mill, RETENTION)
        crash_points.visit = copy
        try:
            for i, batch in enumerate(batches):
                inserted.append(batch)
                mill.insert("m", batch)
                if i % 7 == 6:
                    mill.checkpoint()
        finally:
            crash_points.visit = None
    assert {point for _, point, _ in copies} & {"part drafted", "part in place", "part ended"}
    for target, point, count in copies:
        with vm.connect(target) as mill, vm.connect() as other:
            create(other, RETENTION)
            found = {name: history(mill, name) for name in ("m", "c", "p")}
            expected = []
            for i, batch in enumerate(batches[:count]):
                other.insert("m", batch)
                if i >= count - 2:
                    expected.append({name: history(other, name) for name in ("m", "c", "p")})
            assert found in expected, point
            assert mill["p"].verify() == mill["c"].verify() == [], point
