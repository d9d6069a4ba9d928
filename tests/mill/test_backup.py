"""A backup is a mill at one version, whole or not there, and does not disturb who writes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import viewmill as vm
from viewmill.errors import InvalidArgument
from viewmill.mill import backup as module

pytestmark = pytest.mark.usefixtures("uncompiled")

_TABLE = "CREATE TABLE t (a BIGINT, s STRING, PRIMARY KEY (a))"
_VIEW = "CREATE MATERIALIZED VIEW v AS SELECT s, sum(a) AS total, count(*) AS n FROM t GROUP BY s"


@pytest.fixture
def mill(tmp_path: Path) -> vm.Mill:
    made = vm.connect(tmp_path / "m.mill")
    made.sql(_TABLE)
    made.sql(_VIEW)
    made.insert("t", [(i, f"s{i % 3}") for i in range(100)])
    return made


def _rows(path: Path) -> list[tuple[object, ...]]:
    with vm.connect(path, read_only=True) as opened:
        assert opened["v"].verify() == []
        rows: list[tuple[object, ...]] = sorted(opened["v"].rows())
        return rows


def test_a_backup_opens_as_it_was_and_lives_on_its_own(mill: vm.Mill, tmp_path: Path) -> None:
    before = sorted(mill["v"].rows())
    assert mill.backup(tmp_path / "deep" / "copy.mill") == mill.version
    mill.sql("DELETE FROM t")
    mill.checkpoint()
    mill.close()
    with vm.connect(tmp_path / "deep" / "copy.mill") as copy:
        assert sorted(copy["v"].rows()) == before
        copy.insert("t", [(1000, "s0")])
        assert copy["v"].verify() == []
    assert os.stat(tmp_path / "deep" / "copy.mill").st_mode & 0o077 == 0
    assert _rows(tmp_path / "m.mill") == []


def test_a_backup_shares_no_file_with_the_mill(mill: vm.Mill, tmp_path: Path) -> None:
    mill.insert("t", [(i, "x" * 100) for i in range(1000, 40_000)])  # a file of its own
    mill.checkpoint()
    mill.backup(tmp_path / "copy.mill")
    own = {os.stat(path).st_ino for path in (tmp_path / "m.mill").rglob("*")}
    assert not own & {os.stat(path).st_ino for path in (tmp_path / "copy.mill").rglob("*")}
    mill.close()


def test_a_backup_of_a_mill_that_is_written_has_whole_batches(
    mill: vm.Mill, tmp_path: Path
) -> None:
    is_over = threading.Event()

    def write() -> None:
        i = 1000
        while not is_over.is_set():
            mill.insert("t", [(i + j, "ten") for j in range(10)])
            i += 10
            if i % 100 == 0:
                mill.checkpoint()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            target = tmp_path / f"copy {number}.mill"
            version = mill.backup(target)
            with vm.connect(target, read_only=True) as copy:
                assert copy.version == version
            count = next((row[2] for row in _rows(target) if row[0] == "ten"), 0)
            assert isinstance(count, int)
            assert count % 10 == 0
    finally:
        is_over.set()
        writer.join()
    mill.close()


def test_a_backup_does_not_go_over_something(mill: vm.Mill, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(InvalidArgument, match="is there already"):
        mill.backup(tmp_path / "taken")
    with pytest.raises(InvalidArgument, match="inside of the mill"):
        mill.backup(tmp_path / "m.mill" / "copy")
    with pytest.raises(InvalidArgument, match="in memory"):
        vm.connect().backup(tmp_path / "memory")
    (tmp_path / "empty").mkdir()
    mill.backup(tmp_path / "empty")
    mill.close()


def test_a_backup_that_fails_leaves_nothing(
    mill: vm.Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "sync_files", fail)
    with pytest.raises(vm.ViewmillError, match="cannot back up to"):
        mill.backup(tmp_path / "copy.mill")
    assert [path.name for path in tmp_path.iterdir()] == ["m.mill"]
    mill.insert("t", [(5000, "after")])
    mill.close()
