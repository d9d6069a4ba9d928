"""Sinks: a table is replaced whole, and the net of the changes is the view."""

import datetime as dt

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from viewmill.cli.spec import Sink
from viewmill.cli.write_sinks import (
    as_changes,
    catch_up,
    claim,
    difference,
    write_changes,
    write_table,
)
from viewmill.errors import InvalidArgument, WrongFormat

ANN_TWICE = pa.table({"name": ["ann", "ann", None], "n": pa.array([1, 1, 2], pa.int64())})
BOB = pa.table({"name": ["ann", "bob"], "n": pa.array([1, 7], pa.int64())})


def query(sql):
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def files(sink):
    return sorted(path.name for path in sink.path.iterdir())


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_table_is_replaced_and_leaves_nothing_else(format, tmp_path):
    sink = Sink("v", tmp_path / "out", format)
    write_table(sink, ANN_TWICE)
    path = write_table(sink, BOB)
    assert files(sink) == [f"table.{format}"]
    assert sorted(query(f"SELECT * FROM '{path}'")) == [("ann", 1), ("bob", 7)]


def test_a_path_that_names_the_format_is_the_file(tmp_path):
    assert write_table(Sink("v", tmp_path / "a.csv", "csv"), BOB) == tmp_path / "a.csv"


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_catching_up_writes_what_the_files_lack_once(format, tmp_path):
    sink = Sink("v", tmp_path / "out", format, "changes")
    catch_up(sink, ANN_TWICE, 1)
    catch_up(sink, BOB, 5)
    assert catch_up(sink, BOB, 6) is None
    assert files(sink) == [f"changes-{1:012d}.{format}", f"changes-{5:012d}.{format}"]
    written = query(f"SELECT * FROM '{tmp_path}/out/*5.{format}'")
    assert sorted(written, key=str) == [
        ("ann", 1, "delete", 5),
        ("bob", 7, "insert", 5),
        (None, 2, "delete", 5),
    ]


def test_changes_followed_batch_by_batch_need_no_catching_up(tmp_path):
    sink = Sink("v", tmp_path, "parquet", "changes")
    write_changes(sink, as_changes(ANN_TWICE.slice(0, 1), [2]), 1)
    write_changes(sink, as_changes(BOB, [-1, 1]), 2)
    assert catch_up(sink, BOB, 3) is None


def test_a_multiplicity_becomes_as_many_rows(tmp_path):
    changes = as_changes(BOB, [2, -1]).to_pylist()
    assert [(row["name"], row["_change_type"]) for row in changes] == [
        ("bob", "delete"),
        ("ann", "insert"),
        ("ann", "insert"),
    ]


def test_no_difference_between_equal_bags():
    changes = as_changes(ANN_TWICE, [1, 1, 1])
    assert difference(ANN_TWICE, changes).num_rows == 0


def test_places_of_others_are_left_alone(tmp_path):
    sink = Sink("v", tmp_path / "out", "parquet")
    claim([sink], tmp_path)
    write_table(sink, BOB)
    claim([sink], tmp_path)  # what was written before is ours
    with pytest.raises(InvalidArgument, match="in the place of"):
        claim([Sink("w", tmp_path / "out", "parquet")], tmp_path)
    (tmp_path / "mine.csv").write_text("precious")
    for other in (Sink("v", tmp_path / "mine.csv", "csv"), Sink("v", tmp_path, "csv", "changes")):
        with pytest.raises(WrongFormat, match="files of others"):
            claim([other], tmp_path)


def test_moments_say_that_they_are_utc_and_are_read_back(tmp_path):
    rows = pa.table({"t": pa.array([dt.datetime(2024, 7, 1, 12)], pa.timestamp("us"))})
    sink = Sink("v", tmp_path / "out", "parquet", "changes")
    path = catch_up(sink, rows, 1)
    assert pq.read_schema(path).field("t").type.tz == "UTC"
    assert catch_up(sink, rows, 2) is None
