"""Files of Spark's own that are gone or cut off: said as what they are, before rows are taken."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.frames import Frame
from tests.pipeline.test_edited_pipelines import opened, rows

from viewmill.errors import DamagedFile
from viewmill.pipeline.shards.placement import InShards
from viewmill.pipeline.source import Source
from viewmill.pipeline.storage import Storage


def test_a_batch_that_was_done_and_has_no_offsets_is_told(tmp_path):
    with opened(tmp_path, Frame(rows((1, 10)))) as pipe:
        pipe.run_once()
        checkpoint = tmp_path / "storage" / "checkpoint"
        for name in ("commits", "offsets"):
            (checkpoint / name).mkdir(parents=True)
        (checkpoint / "commits" / "3").write_text("v1\n{}")
        (checkpoint / "offsets" / "2").write_text("v1\n{}")
        with pytest.raises(DamagedFile, match="checkpoint") as why:
            pipe.run_once()
        assert "Batch 3" in str(why.value.detail)
        (checkpoint / "offsets" / "3").write_text("v1\n{}")
        pipe.run_once()
        assert pipe["spent"].rows() == [(1, 10)]


@pytest.mark.parametrize(
    "said",
    ["Failed to read log file f. Incomplete log file",
     "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart"],
)  # fmt: skip
def test_what_spark_says_of_its_files_is_passed_on_with_what_to_do(tmp_path, said):
    with opened(tmp_path, Frame(rows((1, 10)))) as pipe:
        why = pipe.failure_of(RuntimeError(said))
        assert isinstance(why, DamagedFile)
        assert "copy" in str(why.hint)


def test_the_rows_of_a_batch_source_that_are_gone_are_told(tmp_path):
    storage = Storage.open(tmp_path / "storage", "shards")
    storage.checkpoint.mkdir()
    frame: Any = Frame(pa.table({"k": [1]}))
    shards = InShards(None, storage, 2)
    with pytest.raises(DamagedFile, match='batch source "regions" are gone'):
        shards.streaming([Source("regions", frame)])
