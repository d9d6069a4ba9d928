"""A mill that another process writes can be read, at a version that was committed."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.recovery import bank

import viewmill as vm
from viewmill.mill.storage.head import reading
from viewmill.mill.store import Store

pytestmark = pytest.mark.usefixtures("uncompiled")
TOTAL = bank.ACCOUNTS * bank.EACH


class Writer:
    """The bank at work in another process, and the last version it has committed."""

    def __init__(self, path: Path) -> None:
        source = str(Path(vm.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": source, "VIEWMILL_COMPILER": "off"}
        command = [sys.executable, str(Path(bank.__file__)), str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.version = 0
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.version = int(line)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    writer = Writer(path)
    try:
        yield writer
    finally:
        writer.kill()


def check_bank(mill: vm.Mill) -> None:
    assert mill["total"].rows() == [(TOTAL, bank.ACCOUNTS)]
    assert sum(s for _, s in mill["by_branch"].rows()) == TOTAL
    balance = dict.fromkeys(range(bank.ACCOUNTS), bank.EACH)
    for source, target, amount in mill.sql("SELECT source, target, money FROM moves").rows():
        balance[source] -= amount
        balance[target] += amount
    assert dict(mill.sql("SELECT id, money FROM accounts").rows()) == balance
    assert [mill[name].verify() for name in mill.views()] == [[], []]


def test_a_reader_sees_a_committed_version_while_another_process_writes(tmp_path: Path) -> None:
    with writing(tmp_path / "m") as writer:
        seen = []
        for _ in range(6):
            acknowledged = writer.version
            with vm.connect(tmp_path / "m", read_only=True) as mill:
                check_bank(mill)
                assert mill.version >= acknowledged  # what was acknowledged is seen
                seen.append(mill.version)
        assert seen == sorted(seen)
        assert seen[-1] > seen[0]
        assert writer.process.poll() is None  # it has noticed nothing
    with vm.connect(tmp_path / "m") as mill:
        check_bank(mill)
        assert mill.version >= seen[-1]


def test_a_reader_opens_what_a_killed_writer_left(tmp_path: Path) -> None:
    for _ in range(3):
        with writing(tmp_path / "m") as writer:
            while writer.version == 0:
                pass
        files = _contents(tmp_path / "m")
        with vm.connect(tmp_path / "m", read_only=True) as mill:
            check_bank(mill)
            assert mill.version >= writer.version
        assert _contents(tmp_path / "m") == files  # a reader writes nothing there


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


WRITES: dict[str, Any] = {
    "insert": lambda m: m.insert("t", [(1, 1)]),
    "delete": lambda m: m.delete("t", [(1, 1)]),
    "upsert": lambda m: m.upsert("t", [(1, 1)]),
    "sql": lambda m: m.sql("INSERT INTO t VALUES (7, 7)"),
    "update": lambda m: m.sql("UPDATE t SET y = 9"),
    "create table": lambda m: m.sql("CREATE TABLE u (x INT)"),
    "create view": lambda m: m.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM t"),
    "plain view": lambda m: m.sql("CREATE VIEW w AS SELECT * FROM t"),
    "replace": lambda m: m.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS n FROM t"),
    "drop": lambda m: m.sql("DROP MATERIALIZED VIEW v"),
    "alter": lambda m: m.sql("ALTER MATERIALIZED VIEW v REFRESH ON DEMAND"),
    "checkpoint": lambda m: m.checkpoint(),
}


def test_every_change_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with vm.connect(tmp_path / "m") as writer:
        writer.sql("CREATE TABLE t (x INT, y INT, PRIMARY KEY (x))")
        writer.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        writer.insert("t", [(1, 1), (2, 2)])
        with vm.connect(tmp_path / "m", read_only=True) as reader:
            for name, write in WRITES.items():
                with pytest.raises(vm.ReadOnlyMill):
                    write(reader)
                assert reader["v"].rows() == [(2,)], name
                assert sorted(reader.sql("SELECT * FROM t").rows()) == [(1, 1), (2, 2)], name
                assert (reader.tables(), reader.views()) == (["t"], ["v"]), name
            writer.insert("t", [(3, 3)])
            assert reader["v"].rows() == [(2,)]  # it stays at its version
        with vm.connect(tmp_path / "m", read_only=True) as reader:
            assert reader["v"].rows() == [(3,)]
            assert reader.status()["path"] == str(tmp_path / "m")


def test_there_must_be_a_mill_to_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(vm.InvalidArgument, match="no mill"):
            vm.connect(path, read_only=True)
    with pytest.raises(vm.InvalidArgument, match="path"):
        vm.connect(read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_parts_are_read_at_the_version_of_the_rest(tmp_path: Path) -> None:
    with vm.connect(tmp_path / "m") as writer:
        writer.sql("CREATE TABLE s (t TIMESTAMP, x INT) TIMESTAMP BY t PARTITION LENGTH 60")
        for n in range(1, 6):
            writer.insert("s", [(f"2024-01-01 00:0{n}:00", n)])
            if n % 2:
                writer.checkpoint()
            with vm.connect(tmp_path / "m", read_only=True) as reader:
                assert sorted(reader.sql("SELECT x FROM s").rows()) == [
                    (i,) for i in range(1, n + 1)
                ]


def test_a_forked_child_leaves_the_copy_to_its_parent(tmp_path: Path) -> None:
    with vm.connect(tmp_path / "m") as writer:
        writer.sql("CREATE TABLE t (x INT)")
        writer.insert("t", [(1,)])
    with vm.connect(tmp_path / "m", read_only=True) as reader:
        store = reader.core.store
        assert store is not None
        child = os.fork()
        if child == 0:
            try:
                reader.close()
                store.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert store.path.is_dir()
        assert reader.sql("SELECT * FROM t").rows() == [(1,)]
    assert not store.path.exists()


def test_an_automatic_checkpoint_waits_for_a_process_that_copies(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Each checkpoint during a copy made it begin again, up to a hundred times."""
    with Store.open(tmp_path / "m") as store:
        assert store.is_checkpoint_welcome()
        with reading(tmp_path / "m"):
            assert not store.is_checkpoint_welcome()
            monkeypatch.setattr("viewmill.mill.store._PATIENCE_S", 0.0)
            assert store.is_checkpoint_welcome()  # a reader that is stopped stops nobody else
        assert store.is_checkpoint_welcome()


def test_a_checkpoint_waits_for_readers_only_a_moment(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("viewmill.mill.store._READERS_S", 0.01)
    with vm.connect(tmp_path / "m") as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        with reading(tmp_path / "m"):
            mill.checkpoint()
        with reading(tmp_path / "m"), reading(tmp_path / "m"):  # readers do not wait for readers
            mill.insert("t", [(1,)])
        mill.checkpoint()
        with vm.connect(tmp_path / "m", read_only=True) as copy:
            assert copy.sql("SELECT x FROM t").rows() == [(1,)]


def test_a_part_that_ends_while_it_is_copied_is_found_set_aside(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """The file was renamed or removed after its folder was listed, and shutil.Error came out."""
    with vm.connect(tmp_path / "m") as mill:
        mill.sql(
            "CREATE TABLE e (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 10 "
            "RETENTION INTERVAL 20 SECONDS"
        )
        start = datetime.datetime(2026, 1, 1)
        mill.insert("e", [(start, 1)])
        mill.checkpoint()
        ends = iter([start + datetime.timedelta(seconds=each) for each in (10, 20, 30, 40, 50)])
        listed = os.listdir

        def list_and_go_on(folder: Any) -> list[str]:
            names = listed(folder)
            moment = next(ends, None)
            if moment is not None:
                mill.insert("e", [(moment, 1)])
            return names

        monkeypatch.setattr("viewmill.mill.storage.copy.os.listdir", list_and_go_on)
        for _ in range(3):
            with vm.connect(tmp_path / "m", read_only=True) as copy:
                assert len(copy.sql("SELECT x FROM e").rows()) <= 2
        assert next(ends, None) is None
