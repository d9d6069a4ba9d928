"""A change of a large view rewrites only the files that it touches, and readers see one version.

The tables here are cut into buckets at a few rows, so that little data makes many files.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from viewmill.errors import SinkBroken, ViewmillError
from viewmill.mill.storage import crash_points
from viewmill.pipeline.sinks import bucketed_table, buckets
from viewmill.pipeline.sinks.delta_table import DeltaTableSink
from viewmill.pipeline.sinks.parquet import ParquetTable

deltalake = pytest.importorskip("deltalake")

FORMATS = ("parquet", "delta")
CREATE = (
    "CREATE TABLE t (k BIGINT, s STRING, d DECIMAL(12,2), f DOUBLE, at TIMESTAMP, a ARRAY<BIGINT>)"
)
KEYED = "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(d) AS d FROM t GROUP BY k"
BAG = "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE k IS NULL OR k >= 0"


@pytest.fixture(autouse=True)
def _small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "ROWS", 40)
    monkeypatch.setattr(bucketed_table, "ROWS", 40)


def made_sink(format: str, path: Path) -> Any:
    return ParquetTable(path) if format == "parquet" else DeltaTableSink(path)


def begun(format: str, path: Path, view: Any, version: int) -> Any:
    sink = made_sink(format, path)
    sink.open(view, "a pipeline")
    sink.check(view, has_all=True)
    sink.recover(version, view, has_all=True)
    sink.begin(version, view)
    return sink


def shown(format: str, path: Path) -> Counter[Any]:
    """The rows as DuckDB reads them; of Delta, from the files of its log."""
    files = [f"{path}/*.parquet"]
    if format == "delta":
        files = deltalake.DeltaTable(path).file_uris()
    found = duckdb.connect().read_parquet(files).to_arrow_table()
    return bag(zip(*(column.to_pylist() for column in found.columns), strict=True))


def bag(rows: Any) -> Counter[Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        return tuple(value) if isinstance(value, list) else value

    return Counter(tuple(plain(each) for each in row) for row in rows)


def random_row(chance: random.Random, keys: int) -> tuple[Any, ...]:
    key = chance.choice([None, *range(keys)])
    text = chance.choice([None, "", "ann", "bób \u2603", "'; DROP TABLE t; --"])
    moment = chance.choice([None, "2026-01-01 00:00:00", "1969-12-31 23:59:59.999999"])
    number = chance.choice([0.0, -0.0, float("inf"), 1e300, 0.1])
    some = chance.choice([None, [], [1, None], [2, 3]])
    at = None if moment is None else dt.datetime.fromisoformat(moment)
    return (key, text, chance.randrange(-500, 500), number, at, some)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("statement", [KEYED, BAG])
def test_table_equals_the_view_while_it_grows_and_shrinks(mill, tmp_path, format, statement):
    chance = random.Random(7)
    mill.sql(CREATE)
    mill.sql(statement)
    view, path = mill["v"], tmp_path / "out"
    sink = begun(format, path, view, mill.version)
    rows: list[Any] = []
    for step in range(18):
        if step in (10, 11):  # nearly everything goes
            gone = [rows.pop(chance.randrange(len(rows))) for _ in range(len(rows) * 4 // 5)]
            mill.delete("t", gone)
        else:
            come = [random_row(chance, 300) for _ in range(chance.choice([1, 5, 90]))]
            gone = [rows.pop(chance.randrange(len(rows))) for _ in range(min(len(rows), 3))]
            with mill.batch():
                mill.insert("t", come)
                if gone:
                    mill.delete("t", gone)
            rows += come
        sink.publish(mill.version, view)
        assert shown(format, path) == bag(view.rows()), f"after step {step}"
        if step % 6 == 5:
            sink = begun(format, path, view, mill.version)
            assert shown(format, path) == bag(view.rows()), f"reopened after step {step}"


def files_of(format: str, path: Path) -> set[str]:
    if format == "delta":
        return {Path(each).name for each in deltalake.DeltaTable(path).file_uris()}
    return {f"{each.name} {each.stat().st_ino}" for each in path.glob("*.parquet")}


def filled(mill: Any, count: int = 500) -> Any:
    mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS x FROM t GROUP BY k")
    mill.insert("t", [(k, k) for k in range(count)])
    return mill["v"]


@pytest.mark.parametrize("format", FORMATS)
def test_changed_group_rewrites_one_file(mill, tmp_path, format):
    view = filled(mill)
    sink = begun(format, tmp_path / "out", view, mill.version)
    before = files_of(format, tmp_path / "out")
    assert len(before) > 10
    mill.insert("t", [(7, 1)])
    sink.publish(mill.version, view)
    after = files_of(format, tmp_path / "out")
    assert (len(before - after), len(after - before)) == (1, 1)
    assert shown(format, tmp_path / "out") == bag(view.rows())


@pytest.mark.parametrize("format", FORMATS)
def test_reopened_table_without_changes_is_not_written(mill, tmp_path, format):
    view = filled(mill)
    begun(format, tmp_path / "out", view, mill.version)
    before = files_of(format, tmp_path / "out")
    begun(format, tmp_path / "out", view, mill.version)
    assert files_of(format, tmp_path / "out") == before


@pytest.mark.parametrize("format", FORMATS)
def test_column_with_another_name_is_written_everywhere(mill, tmp_path, format):
    view = filled(mill)
    begun(format, tmp_path / "out", view, mill.version)
    mill.sql("DROP MATERIALIZED VIEW v")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS other FROM t GROUP BY k")
    begun(format, tmp_path / "out", mill["v"], mill.version)
    for file in files_of(format, tmp_path / "out"):
        assert pq.read_schema(tmp_path / "out" / file.split()[0]).names == ["k", "other"]
    assert shown(format, tmp_path / "out") == bag(mill["v"].rows())


class Crashed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("format", FORMATS)
def test_crash_at_any_point_shows_one_version_whole(mill, tmp_path, monkeypatch, format):
    view = filled(mill, 300)
    sink = begun(format, tmp_path / "out", view, mill.version)
    points = []
    for point in range(10):
        before = bag(view.rows())
        mill.insert("t", [(k, 1) for k in range(point, 300, 40)])
        left = [point]

        def visit(name: str, left: list[int] = left) -> None:
            points.append(name)
            left[0] -= 1
            if left[0] < 0:
                raise Crashed

        monkeypatch.setattr(crash_points, "visit", visit)
        try:
            sink.publish(mill.version, view)
            crashed = False
        except (Crashed, ViewmillError):
            crashed = True
        finally:
            monkeypatch.setattr(crash_points, "visit", None)
        assert shown(format, tmp_path / "out") in (before, bag(view.rows()))
        sink = begun(format, tmp_path / "out", view, mill.version)
        assert shown(format, tmp_path / "out") == bag(view.rows())
        if not crashed:
            break
    assert not crashed
    assert "table written" in points
    if format == "parquet":
        assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_file_that_others_put_beside_the_buckets_stops_the_sink(mill, tmp_path):
    view = filled(mill)
    path = tmp_path / "out"
    sink = begun("parquet", path, view, mill.version)
    (path / "_README").write_text("ours")
    mill.insert("t", [(1, 1)])
    sink.publish(mill.version, view)
    (path / "more.parquet").write_bytes((next(path.glob("bucket-*"))).read_bytes())
    mill.insert("t", [(1, 1)])
    with pytest.raises(SinkBroken, match=r"more\.parquet"):
        sink.publish(mill.version, view)
    assert (path / "more.parquet").exists()
    assert (path / "_README").read_text() == "ours"
    (path / "more.parquet").unlink()
    sink.publish(mill.version, view)
    assert shown("parquet", path) == bag(view.rows())


@pytest.mark.parametrize("rows", [10, 500])
def test_file_that_others_replaced_is_left_alone(mill, tmp_path, rows):
    view = filled(mill, rows)
    path = tmp_path / "out"
    sink = begun("parquet", path, view, mill.version)
    file = sorted(path.glob("*.parquet"))[0]
    file.write_bytes(b"precious")
    mill.insert("t", [(1, 1)])
    with pytest.raises(SinkBroken, match="changed by others"):
        sink.prepare(mill.version, next(iter([object()])))
    with pytest.raises(SinkBroken, match="changed by others"):
        begun("parquet", path, view, mill.version)
    assert file.read_bytes() == b"precious"


def test_rows_that_others_add_to_a_delta_table_stop_the_sink(mill, tmp_path):
    view = filled(mill)
    path = tmp_path / "out"
    sink = begun("delta", path, view, mill.version)
    foreign = deltalake.DeltaTable(path).to_pyarrow_table().slice(0, 1)
    deltalake.write_deltalake(str(path), foreign, mode="append")
    mill.insert("t", [(1, 1)])
    with pytest.raises(SinkBroken, match="by others in its version 1"):
        sink.publish(mill.version, view)
    with pytest.raises(SinkBroken, match="by others in its version 1"):
        begun("delta", path, view, mill.version)
    assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == 501


def test_delta_table_that_others_compacted_goes_on(mill, tmp_path):
    view = filled(mill)
    path = tmp_path / "out"
    sink = begun("delta", path, view, mill.version)
    deltalake.DeltaTable(path).optimize.compact()
    assert len(files_of("delta", path)) == 1
    mill.insert("t", [(1, 1)])
    sink.publish(mill.version, view)
    assert shown("delta", path) == bag(view.rows())
    mill.insert("t", [(1, 1)])
    sink.publish(mill.version, view)
    assert shown("delta", path) == bag(view.rows())


def test_reader_sees_one_version_or_a_missing_file(mill, tmp_path):
    """Every version has the same sum; a reader that mixed two would see another."""
    view = filled(mill, 300)
    path = tmp_path / "out"
    sink = begun("parquet", path, view, mill.version)
    total, sums, stop = sum(range(300)), [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                sums.append(sum(pq.read_table(path).column("x").to_pylist()))
            except FileNotFoundError:  # listed before a version, opened after it
                continue

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for step in range(30):
            mill.insert("t", [(step, -1), (299 - step, 1)])
            sink.publish(mill.version, view)
    finally:
        stop.set()
        reader.join()
    assert set(sums) <= {total}
    assert shown("parquet", path) == bag(view.rows())


def test_table_that_cannot_exchange_names_is_one_file(mill, tmp_path, monkeypatch):
    monkeypatch.setattr("viewmill.pipeline.sinks.parquet.can_exchange", lambda folder: False)
    view = filled(mill)
    begun("parquet", tmp_path / "out", view, mill.version)
    assert [each.name for each in (tmp_path / "out").glob("*.parquet")] == ["table.parquet"]


def test_ordered_view_is_one_file_in_its_order(mill, tmp_path):
    mill.sql("CREATE TABLE t (k BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t ORDER BY k DESC")
    mill.insert("t", [(k,) for k in range(300)])
    begun("parquet", tmp_path / "out", mill["v"], mill.version)
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(file).column("k").to_pylist() == list(range(299, -1, -1))


def test_view_that_is_filled_anew_with_other_values_is_compared_whole(mill, tmp_path):
    view = filled(mill)
    sink = begun("parquet", tmp_path / "out", view, mill.version)
    sink._pending = [  # as if the view had shown another value of the group before
        view.to_arrow().slice(0, 1).append_column("_multiplicity", [[-2]])
    ]
    sink._is_due = True
    sink.publish(mill.version, view)
    assert shown("parquet", tmp_path / "out") == bag(view.rows())
