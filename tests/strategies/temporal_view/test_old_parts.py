"""Old parts are rolled up, archived and dropped; what is read stays the same."""

import datetime as dt
import random

import pyarrow.parquet as pq
import pytest

import viewmill as vm
from viewmill.errors import MalformedSQL, UnsupportedQuery

START = dt.datetime(2024, 1, 1)
OPTIONS = "TIMESTAMP BY ts PARTITION LENGTH 60"
ROLL_UP = "ROLL UP LENGTH 600 AFTER INTERVAL '20' MINUTES"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def minute(i, second=0):
    return START + dt.timedelta(minutes=i, seconds=second)


def create(mill, more=""):
    mill.sql(f"CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) {OPTIONS} {more}")
    mill.sql(
        "CREATE VIEW h AS INITIALIZE h[i] AS SELECT k, sum(x) AS t FROM m[i] GROUP BY k "
        "UPDATE h[j] AS SELECT k, sum(x) FROM m[j] GROUP BY k PARTITION LENGTH 60"
    )
    mill.sql(
        "CREATE VIEW p AS SELECT k, count(*) AS n, last(x) AS x FROM m PATTERN [a, b+] "
        "WHERE b.x > PREV(b.x) AND a.x > 2 GROUP BY k"
    )
    mill.sql(
        "CREATE MATERIALIZED VIEW w STRATEGY temporal_view AS SELECT k, max(x) AS x "
        "FROM m [WINDOW 5 MINUTES SLIDE 1 MINUTE] GROUP BY k"
    )


def history(mill):
    found = {}
    for name in ("m", "h", "p", "w"):
        found[name] = sorted(map(repr, mill.sql(f"SELECT *, PART_TIMESTAMP FROM {name}").rows()))
    return found


def batches(count, chance):
    for i in range(count):
        rows = [(minute(i, s), chance.choice("abc"), chance.randrange(9)) for s in range(0, 60, 20)]
        late = max(0, i - chance.randrange(50))
        yield [*rows, *[(minute(late, 59), "a", chance.randrange(9))] * (i % 4 == 3)]


def test_rolled_up_parts_read_as_before_also_when_late_rows_and_deletes_come(tmp_path):
    chance = random.Random(3)
    with vm.connect() as plain, vm.connect(tmp_path / "rolled.mill") as mill:
        create(plain)
        create(mill, ROLL_UP)
        for i, rows in enumerate(batches(70, chance)):
            for each in (plain, mill):
                each.insert("m", rows)
                if i % 9 == 8:
                    each.delete("m", rows[-1:])
            if i == 50:
                mill.checkpoint()
        assert history(plain) == history(mill)
        assert sorted(plain.sql("SELECT * FROM m").rows()) == sorted(
            mill.sql("SELECT * FROM m").rows()
        )
        for name in ("m", "h", "p", "w"):
            lengths = [part["length"] for part in mill.parts(name)]
            assert 600 in lengths
            assert lengths[-1] == 60
            assert len(lengths) < 35 < len(plain.parts(name))
            assert sum(p["rows"] for p in mill.parts(name)) == sum(
                p["rows"] for p in plain.parts(name)
            )
        for name in ("h", "p", "w"):
            assert mill[name].verify() == []
        version = mill.version
        mill.insert("m", [(minute(1, 30), "a", 100)])
        assert minute(0) in [p["part_timestamp"] for p in mill.parts("h", changed_since=version)]
        before = history(mill)
    with vm.connect(tmp_path / "rolled.mill") as mill:
        assert history(mill) == before
        assert len(mill.parts("m")) < 35


@pytest.mark.parametrize("roll_up", ["", ROLL_UP], ids=["single", "rolled_up"])
def test_what_retention_ends_is_archived(tmp_path, roll_up):
    folder = tmp_path / "archive"
    more = f"RETENTION INTERVAL '30' MINUTES LATENESS INTERVAL '2' MINUTES ARCHIVE '{folder}'"
    with vm.connect(tmp_path / "a.mill") as mill:
        create(mill, f"{more} {roll_up}")
        everything = [(minute(i), "k", i % 7) for i in range(120)]
        for row in everything:
            mill.insert("m", [row])
        kept = mill.sql("SELECT * FROM m").rows()
        assert len(kept) == 30
    table = pq.read_table(folder / "m", partitioning=None)
    archived = sorted(zip(*(table.column(c).to_pylist() for c in ("ts", "k", "x")), strict=True))
    assert archived == everything[: len(archived)]
    assert len(archived) in ((90,) if not roll_up else range(80, 91))
    assert list((folder / "h").glob("part_timestamp=2024-01-01T00-*"))
    # What was ended but not yet archived when the mill was closed is archived later.
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.insert("m", [(minute(200), "k", 1)])
        assert mill.sql("SELECT * FROM m").rows() == [(minute(200), "k", 1)]
    table = pq.read_table(folder / "m", partitioning=None)
    assert sorted(table.column("ts").to_pylist())[:110] == [minute(i) for i in range(110)]


def test_a_part_that_cannot_be_archived_is_kept_until_it_can(tmp_path, caplog):
    blocked = tmp_path / "archive"
    blocked.write_text("a file where the folder should be")
    with vm.connect() as mill:
        create(mill, f"RETENTION INTERVAL '7' MINUTES ARCHIVE '{blocked}'")
        for i in range(20):
            mill.insert("m", [(minute(i), "k", i)])
        assert len(mill.sql("SELECT * FROM m").rows()) == 7
        assert "cannot be archived" in caplog.text
        blocked.unlink()
        mill.insert("m", [(minute(20), "k", 20)])
    assert len(list((blocked / "m").iterdir())) == 14


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ("ROLL UP LENGTH 90 AFTER INTERVAL '1' HOUR", UnsupportedQuery),
        ("ROLL UP LENGTH 60 AFTER INTERVAL '1' HOUR", UnsupportedQuery),
        ("ROLL UP 600", MalformedSQL),
        ("ROLL UP LENGTH 600", MalformedSQL),
        ("ARCHIVE 'folder'", UnsupportedQuery),
        ("ARCHIVE 7", MalformedSQL),
    ],
    ids=["not_a_multiple", "no_larger", "no_length", "no_after", "no_retention", "no_folder"],
)
def test_wrong_options_are_refused(more, error):
    with vm.connect() as mill, pytest.raises(error):
        mill.sql(f"CREATE TABLE m (ts TIMESTAMP, k STRING, x BIGINT) {OPTIONS} {more}")
