"""What a pipeline refuses before Spark does anything, so no Spark is needed here."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from viewmill.errors import DamagedFile, ForbiddenChange, UnsupportedQuery, WrongFormat
from viewmill.pipeline.lean_configuration import forget_origins
from viewmill.pipeline.local_files import use_plain_files
from viewmill.pipeline.lost_files import lost_files
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.sinks.delta_lake import DeltaLake
from viewmill.pipeline.storage import Storage


def test_storage_of_another_format_version(tmp_path):
    Storage.open(tmp_path / "storage")
    file = tmp_path / "storage" / "pipeline.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))
    with pytest.raises(WrongFormat, match="storage format 99, this version reads") as failure:
        Storage.open(tmp_path / "storage")
    assert "version that wrote it" in failure.value.hint


def test_storage_of_shards_has_a_format_of_its_own(tmp_path):
    Storage.open(tmp_path / "storage", "shards")
    file = tmp_path / "storage" / "pipeline.json"
    saved = json.loads(file.read_text())
    assert saved["format"] == 4
    file.write_text(json.dumps({**saved, "format": 2}))
    with pytest.raises(WrongFormat, match="storage format 2, this version reads 4"):
        Storage.open(tmp_path / "storage", "shards")


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": 1}', "[]"], ids=["none", "cut", "few", "list"]
)
def test_damaged_note(tmp_path, text):
    Storage.open(tmp_path / "storage")
    (tmp_path / "storage" / "pipeline.json").write_text(text)
    with pytest.raises(DamagedFile, match=r"pipeline\.json"):
        Storage.open(tmp_path / "storage")


def test_storage_made_for_the_other_placement(tmp_path):
    Storage.open(tmp_path / "storage", "driver")
    with pytest.raises(ForbiddenChange, match="made with placement 'driver'"):
        Storage.open(tmp_path / "storage", "shards")


def test_directory_of_something_else(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(WrongFormat, match="not the storage of a pipeline"):
        Storage.open(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_streams_come_back_in_their_first_order(tmp_path):
    storage = Storage.open(tmp_path / "storage")
    assert storage.in_order(["orders", "lines"]) == ["orders", "lines"]
    storage.keep_order(["orders", "lines"])
    storage.checkpoint.mkdir()
    assert storage.in_order(["lines", "orders"]) == ["orders", "lines"]
    with pytest.raises(ForbiddenChange, match="were orders, lines, now they are orders"):
        storage.in_order(["orders"])


def test_shards_need_a_classic_session(tmp_path):
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(UnsupportedQuery, match="one of Spark Connect") as failure:
        Pipeline(connect(), tmp_path / "storage", placement="shards")
    assert "driver" in failure.value.hint
    assert not (tmp_path / "storage").exists()


def test_noted_files_that_are_gone_are_found(tmp_path):
    there, gone, old = (tmp_path / name for name in ("a b.parquet", "gone.parquet", "old.parquet"))
    there.write_text("")

    def note(path, batch):
        place = path.as_uri()
        return json.dumps({"path": place, "timestamp": 1, "batchId": batch, "action": "add"})

    for name in ("commits", "offsets", "sources/0", "sources/1"):
        (tmp_path / "checkpoint" / name).mkdir(parents=True)
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "sources/0/0").write_text(f"v1\n{note(old, 0)}")
    (checkpoint / "sources/0/1").write_text(f"v1\n{note(there, 1)}\n{note(gone, 1)}")
    (checkpoint / "sources/1/0").write_text("not what Spark writes today\n{}")
    assert lost_files(checkpoint) == [str(old), str(gone)]
    (checkpoint / "offsets/0").write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":0}\n-')
    (checkpoint / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert lost_files(checkpoint) == [str(gone)]
    gone.write_text("")
    assert lost_files(checkpoint) == []
    assert lost_files(tmp_path / "none") == []


@pytest.mark.spark
def test_local_files_are_written_without_other_processes(spark, tmp_path):
    assert use_plain_files(spark)
    assert use_plain_files(spark)  # a second session finds it done
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 3
    written = [each for each in (tmp_path / "rows").iterdir() if each.suffix == ".parquet"]
    umask = os.umask(0)
    os.umask(umask)
    assert {each.stat().st_mode & 0o777 for each in written} == {0o666 & ~umask}
    assert not list((tmp_path / "rows").glob(".*.crc"))


@pytest.mark.spark
def test_hadoop_keeps_its_settings_and_not_where_they_came_from(spark):
    conf = spark._jsc.hadoopConfiguration()
    conf.addResource("core-default.xml")  # read again, with origins
    count = conf.size()
    assert forget_origins(spark) > 100
    assert forget_origins(spark) == 0
    assert conf.size() == count > 100


def test_files_of_a_delta_table_go_when_only_old_versions_need_them(tmp_path):
    folder = tmp_path / "table"

    def files() -> int:
        return sum(each.suffix == ".parquet" for each in folder.iterdir())

    lake = DeltaLake(folder, mode="overwrite", keep_hours=0)
    lake.owner = "ours"
    for version in (1, 2, 3):
        lake.write(pa.table({"a": [version]}), version)
    assert files() == 3
    lake = DeltaLake(
        folder, mode="overwrite", keep_hours=0
    )  # another run, which may be a short one
    lake.owner = "ours"
    for _ in range(2):
        lake.write(pa.table({"a": [4]}), 4)
    assert files() == 1
    assert DeltaTable(str(folder)).to_pyarrow_table().to_pydict() == {"a": [4]}
    kept = DeltaLake(folder, mode="overwrite")
    kept.owner = "ours"
    kept.write(pa.table({"a": [5]}), 5)
    assert files() == 2
