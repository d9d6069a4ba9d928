"""Placement shards with an archive: views come, change and come back over the same storage."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.pipeline.harness import net_of_changes, shown_table, write_orders
from tests.pipeline.test_shards import COLUMNS, REGIONS, VIEWS, in_process, orders, shown

import viewmill as vm
from viewmill.errors import DamagedFile, ForbiddenChange
from viewmill.mill.storage import crash_points
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.shards import archive

pytestmark = pytest.mark.spark

MORE = {
    "by_customer": "SELECT customer, count(*) AS n, min(amount) AS m FROM orders GROUP BY customer",
    "total": VIEWS["total"],
    "by_region": VIEWS["by_region"],
    "largest": VIEWS["largest"],
    "middle": VIEWS["middle"],  # which the driver keeps, with the rows it reads
    "of_view": "SELECT count(*) AS n FROM by_customer WHERE m > 1",
}


def pipeline(
    spark: Any,
    root: Path,
    views: dict[str, str],
    *,
    archived: bool | None = None,
    shards: int = 2,
) -> Pipeline:
    """Orders by file, one in each batch, and the regions as a batch source."""
    (root / "orders").mkdir(exist_ok=True)
    pipe: Pipeline = vm.Pipeline(
        spark, root / "storage", placement="shards", shards=shards, archive=archived
    )
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    pipe.source("orders", reader.parquet(str(root / "orders")), change="op")
    pipe.source("regions", spark.createDataFrame(REGIONS, "name STRING, region STRING"))
    for name, sql in views.items():
        pipe.view(name, sql)
    return pipe


def assert_right(pipe: Pipeline, root: Path) -> None:
    """Rows in the driver and in the slots equal those of one process."""
    expected = in_process(root, MORE)
    assert shown(pipe, MORE) == expected
    rows = Counter(map(tuple, pipe["by_customer"].to_spark().collect()))
    assert rows == expected["by_customer"]


def test_views_come_and_change_over_the_same_storage(spark, tmp_path, monkeypatch):
    few = {"by_customer": VIEWS["by_customer"]}
    for number in range(2):
        write_orders(tmp_path / "orders", f"{number}", orders(number))
    with pipeline(spark, tmp_path, few, archived=True) as pipe:
        pipe.run_once()
        assert pipe.status()["shards"]["archive"]["rows"] == 17
    # One view is another one, and three come; what is there goes on, in the same slots.
    with pipeline(spark, tmp_path, MORE) as pipe:
        pipe.sink("by_customer", path=tmp_path / "table")
        assert shown(pipe, MORE) == in_process(tmp_path, MORE)
        pipe.run_once()
        assert_right(pipe, tmp_path)
        write_orders(tmp_path / "orders", "2", orders(2))
        pipe.run_once()
        assert_right(pipe, tmp_path)
        assert Counter(shown_table(tmp_path / "table")) == shown(pipe, MORE)["by_customer"]
    # The first definition again. The driver commits a batch that Spark never notes as done.
    write_orders(tmp_path / "orders", "3", orders(3))
    with pipeline(spark, tmp_path, {**MORE, **few}, shards=1) as pipe:
        monkeypatch.setattr(crash_points, "visit", _fail_at("batch taken"))
        with pytest.raises(Exception, match="batch taken"):
            pipe.run_once()
        monkeypatch.setattr(crash_points, "visit", None)
    monkeypatch.setattr(archive, "_MOST_FILES", 2)
    with pipeline(spark, tmp_path, MORE, shards=1) as pipe:
        pipe.sink("by_customer", path=tmp_path / "changes", mode="changes")
        assert shown(pipe, MORE) == in_process(tmp_path, MORE)
        write_orders(tmp_path / "orders", "4", orders(4))
        pipe.run_once()
        assert_right(pipe, tmp_path)
        assert net_of_changes(tmp_path / "changes") == shown(pipe, MORE)["by_customer"]
        status = pipe.status()["shards"]["archive"]
        # Of the batches up to the last one that Spark had noted there is one file.
        assert (status["files"], status["rows"]) == (3, 44)  # 8 + 4 * 9
        # Spark ran the batch again that the driver had; the next start removes what that wrote.
        assert len(list((tmp_path / "storage" / "archive" / "orders").iterdir())) == 4
        assert {name: pipe.verify(name) for name in MORE} == {name: [] for name in MORE}
        # Results and states may agree and be wrong: rows know better.
        pipe.mill.sql("DELETE FROM _viewmill_archive WHERE batch = 4")
        assert pipe.verify("by_customer") != []
        assert pipe.verify("of_view") == []  # its rows are those of another view


def _fail_at(point: str) -> Any:
    def visit(reached: str) -> None:
        if reached == point:
            raise RuntimeError(point)

    return visit


def test_an_archive_that_lost_a_file_refuses_new_views_only(spark, tmp_path):
    views = {"by_region": VIEWS["by_region"]}
    write_orders(tmp_path / "orders", "0", orders(0))
    with pipeline(spark, tmp_path, views, archived=True) as pipe:
        pipe.run_once()
    with pytest.raises(ForbiddenChange, match="archive=True"):
        pipeline(spark, tmp_path, views, archived=False)
    (file,) = (tmp_path / "storage" / "archive" / "orders").iterdir()
    assert pq.read_table(file).num_rows == 8
    file.unlink()
    write_orders(tmp_path / "orders", "1", orders(1))
    with pipeline(spark, tmp_path, views) as pipe:
        with pytest.raises(DamagedFile, match='the archive of "orders" has lost rows'):
            pipe.view("by_customer", VIEWS["by_customer"])
        assert "by_customer" not in pipe.mill
        pipe.run_once()
        assert shown(pipe, views) == in_process(tmp_path, views)
