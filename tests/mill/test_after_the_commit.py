"""After the commit point nothing raises; text that no file can hold is refused before it."""

from __future__ import annotations

import datetime as dt
import errno
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.errors import InvalidRow, StorageFailed
from viewmill.mill import mill as mill_module
from viewmill.mill import refresh
from viewmill.testing.faults.disk import FaultyDisk
from viewmill.testing.faults.schedule import Fault, Schedule
from viewmill.testing.faults.sqlite_disk import sqlite_on

pytestmark = pytest.mark.usefixtures("uncompiled")


def refuse(*_: Any, **__: Any) -> None:
    raise StorageFailed("the disk is full")


def test_a_failed_checkpoint_is_no_error_of_the_insert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        monkeypatch.setattr(mill_module, "is_checkpoint_due", lambda core: True)
        with monkeypatch.context() as patch:
            patch.setattr(mill_module, "checkpoint", refuse)
            mill.insert("t", [(1,)])
        assert "disk is full" in mill.status()["trouble"]
        mill.insert("t", [(2,)])
        assert mill.status()["trouble"] is None
        monkeypatch.setattr(mill_module, "checkpoint", refuse)
        with pytest.raises(StorageFailed):
            mill.checkpoint()  # who asks for it is told
    with vm.connect(path) as mill:
        assert sorted(mill.sql("SELECT x FROM t").rows()) == [(1,), (2,)]


def test_parts_that_cannot_be_written_are_no_error_of_the_insert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60")
        for name in ("write_parts", "keep_old_parts"):
            monkeypatch.setattr(refresh, name, refuse)
            mill.insert("t", [(dt.datetime(2024, 1, 1), 1)])
            assert "disk is full" in mill.status()["trouble"]
        assert mill.sql("SELECT count(*) FROM t").rows() == [(2,)]


@pytest.mark.parametrize("fault", ["sync EIO", "write EIO"])
def test_a_disk_that_fails_in_a_commit_closes_the_mill_and_says_why(
    fault: str, tmp_path: Path
) -> None:
    """Whether the change is there, only opening tells; nothing that was acknowledged is lost."""
    operation = fault.split()[0]
    schedule = Schedule(1)
    schedule.faults = [Fault(operation, errno.EIO, "always", 0)]
    schedule.power_at = schedule.signal_at = None
    disk, path = FaultyDisk(tmp_path, schedule), tmp_path / "m.mill"
    with disk.installed(), sqlite_on(disk):
        mill = vm.connect(path)
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.insert("t", [(1,)])
        schedule.begin()
        with pytest.raises(StorageFailed) as caught:
            mill.insert("t", [(2,)])
        assert mill.sql("SELECT x FROM t").rows() == [(1,)]
        schedule.heal()
        is_unknown = isinstance(caught.value, vm.errors.OutcomeUnknown)
        assert is_unknown or operation == "write"
        if is_unknown:
            assert "unknown" in caught.value.message
            with pytest.raises(vm.MillClosed, match="takes no more changes") as refused:
                mill.insert("t", [(3,)])
            assert "open it again" in refused.value.hint
        mill.close()
    with vm.connect(path) as mill:
        rows = sorted(mill.sql("SELECT x FROM t").rows())
        assert rows in ([(1,)], [(1,), (2,)] if is_unknown else [(1,)])


def test_setting_the_clock_changes_no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW v REFRESH WITHIN INTERVAL '1' HOUR AS SELECT x FROM t")
        mill.insert("t", [(1,)])
        for hours in (-48, 48):
            now = time.time_ns() + hours * 3_600 * 10**9
            with monkeypatch.context() as patch:
                patch.setattr(time, "time_ns", lambda now=now: now)
                patch.setattr(time, "time", lambda now=now: now / 1e9)
                mill.insert("t", [(2,)])
                status = mill["v"].status()
            assert status["waiting_rows"] > 0
            assert 0 <= status["lag_s"] < 600
            assert 3000 < status["next_refresh_s"] <= 3600


def texts(content: bytes, ends: list[int], type_: Any) -> pa.Array:
    offsets = np.array([0, *ends], np.int32 if type_ == pa.string() else np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(type_, len(ends), buffers)


def invalid_rows() -> list[Any]:
    numbers = pa.array([1, 2], pa.int64())
    bad = [texts(b"a\xff\xfe", [1, 3], type_) for type_ in (pa.string(), pa.large_string())]
    bad.append(texts(b"a\xed\xa0\x80", [1, 4], pa.string()))  # a lone surrogate, encoded
    tables = [pa.table({"x": numbers, "s": each}) for each in bad]
    tables.append(pa.table({"s": bad[0], "x": numbers}))
    return [*tables, tables[0].to_batches()[0], [(1, "a"), (2, "b\ud800")],
            [(1, "a")] + [(2, "\udfff")] * 100,
            [{"x": 1, "s": "a"}, {"x": 2, "s": "\ud83d"}]]  # fmt: skip


@pytest.mark.parametrize("rows", invalid_rows())
def test_what_is_no_text_is_refused_with_its_row_and_column(rows: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT, s STRING)")
        good = pa.table({"x": pa.array([1], pa.int64()), "s": pa.array(["ok"])})
        mill.insert("t", good)
        for _ in range(2):  # the second time the way of reading is known
            with pytest.raises(InvalidRow, match=r"row 1 .*s") as caught:
                mill.insert("t", rows)
            str(caught.value).encode()
        mill.insert("t", good)
    with vm.connect(path) as mill:
        assert mill.sql("SELECT x, s FROM t").rows() == [(1, "ok")] * 2


def test_parts_that_cannot_be_written_are_no_error_of_a_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60")
        mill.insert("t", [(dt.datetime(2024, 1, 1), 1)])
        for minute, name in enumerate(("write_parts", "keep_old_parts"), start=1):
            monkeypatch.setattr(refresh, name, refuse)
            mill.advance("t", to=dt.datetime(2024, 1, 1, 0, minute))
            assert "disk is full" in mill.status()["trouble"]


def test_a_view_that_is_due_and_fails_is_no_error_of_the_insert(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("whatever it is")

    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW v REFRESH EVERY 2 ROWS AS SELECT sum(x) AS s FROM t")
        with monkeypatch.context() as patch:
            patch.setattr(refresh, "refresh_view", fail)
            mill.insert("t", [(1,), (2,)])
        assert mill.sql("SELECT count(*) FROM t").rows() == [(2,)]
        assert "whatever it is" in mill["v"].status()["error"]
        mill.insert("t", [(3,), (4,)])
        assert mill["v"].rows() == [(10,)]
