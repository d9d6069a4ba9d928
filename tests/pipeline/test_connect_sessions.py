"""What Spark Connect cannot do is refused by its name, before anything is sent to the server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pipeline.frames import Frame
from tests.pipeline.test_edited_pipelines import rows

import viewmill as vm
from viewmill.errors import UnsupportedQuery


class Remote:
    """A session, as far as a pipeline without streams asks one."""


Remote.__module__ = "pyspark.sql.connect.session"


class Stream(Frame):
    isStreaming = True  # noqa: N815 (Spark's name)


def test_batches_are_taken_over_connect_and_streams_are_refused_by_name(tmp_path):
    spark: Any = Remote()
    with vm.Pipeline(spark, tmp_path / "storage") as pipe:
        with pytest.raises(UnsupportedQuery, match='"late" is a stream of Spark Connect') as why:
            pipe.source("late", Stream(rows((1, 10))), schema="k BIGINT, x BIGINT")
        assert "foreachBatch" in str(why.value.detail)
        assert "late" not in pipe.mill
        pipe.source("t", Frame(rows((1, 10), (1, 5))), schema="k BIGINT, x BIGINT")
        pipe.view("v", "SELECT k, sum(x) AS s FROM t GROUP BY k")
        pipe.run_once()
        assert pipe["v"].rows() == [(1, 15)]
    with pytest.raises(UnsupportedQuery, match="placement shards"):
        vm.Pipeline(spark, tmp_path / "other", placement="shards")
    assert not (tmp_path / "other").exists()
