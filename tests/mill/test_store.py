import errno
import os
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewmill.errors
from viewmill.errors import (
    DamagedFile,
    InvalidArgument,
    MillClosed,
    MillLocked,
    StorageFailed,
    WrongFormat,
)
from viewmill.mill import store as store_module
from viewmill.mill.storage import crash_points, disk
from viewmill.mill.storage import files as files_module
from viewmill.mill.storage import head as head_module
from viewmill.mill.storage.log import Kind, check_links, link_row
from viewmill.mill.storage.log_file import LOG, LogReader, create_log
from viewmill.mill.store import Entry, Store

SOURCES = Path(viewmill.errors.__file__).parents[1]


def orders(*amounts: int) -> pa.Table:
    return pa.table(
        {
            "customer": pa.array([f"ann {amount}" for amount in amounts], pa.string()),
            "amount": pa.array(amounts, pa.int64()),
            "_multiplicity": pa.array([1] * len(amounts), pa.int64()),
        }
    )


def large_orders() -> pa.Table:
    return orders(*range(60_000))


def held(store: Store) -> tuple[object, ...]:
    """Everything the store gives back."""
    entries = [
        (entry.version, entry.statements, dict(entry.deltas), dict(entry.catalog))
        for entry in store.replay()
    ]
    tables = [store.load_table(name) for name in ("orders", "lines")]
    states = [store.load_state(name) for name in ("revenue", "none")]
    return (store.last_version(), store.catalog(), entries, tables, states, store.notes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.mill"


@pytest.fixture
def visit() -> Iterator[Callable[[Callable[[str], None] | None], None]]:
    """Set the visitor of crash points; taken back after the test."""

    def set_visit(function: Callable[[str], None] | None) -> None:
        crash_points.visit = function

    yield set_visit
    crash_points.visit = None


# What is written is read.


def test_a_new_mill_is_empty(path: Path) -> None:
    with Store.open(path) as store:
        assert held(store) == (0, {}, [], [None, None], [None, None], {})
        assert store.log_bytes() == 0


def test_missing_parents_are_made(tmp_path: Path) -> None:
    Store.open(tmp_path / "a" / "b" / "orders.mill").close()
    assert (tmp_path / "a" / "b" / "orders.mill" / "HEAD").exists()


def test_the_path_may_be_relative_and_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.open("a?b#c%20 d.mill")
    monkeypatch.chdir("/")
    store.append(1, {"orders": large_orders()})
    store.checkpoint(1, {"orders": orders(1)}, {})
    store.close()
    assert [each.name for each in tmp_path.iterdir()] == ["a?b#c%20 d.mill"]
    with Store.open(tmp_path / "a?b#c%20 d.mill") as store:
        assert store.load_table("orders") == orders(1)


def test_a_version_is_there_after_reopening(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {}, {"orders": '{"columns": []}'}, ["CREATE TABLE orders ()"])
        store.append(2, {"orders": orders(10, 5), "lines": orders()})
        store.append(3, {})
        before = held(store)
    with Store.open(path) as store:
        assert held(store) == before
        assert list(store.replay()) == [
            Entry(1, ("CREATE TABLE orders ()",), {}, {"orders": '{"columns": []}'}),
            Entry(2, (), {"orders": orders(10, 5), "lines": orders()}, {}),
            Entry(3, (), {}, {}),
        ]


def test_arrow_types_and_metadata_come_back(path: Path) -> None:
    delta = pa.table(
        {
            "kind": pa.array(["a", None, "a"]).dictionary_encode(),
            "price": pa.array([None, 1, 2], pa.decimal128(12, 2)),
            "tags": pa.array([["x"], [], None], pa.list_(pa.string())),
            "t": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
            "_multiplicity": pa.array([1, -1, 2], pa.int64()),
        }
    ).replace_schema_metadata({"k": "v"})
    two_chunks = pa.concat_tables([delta, delta.slice(1)])
    with Store.open(path) as store:
        store.append(1, {"t": two_chunks})
        store.checkpoint(1, {"t": two_chunks.to_batches()}, {})
        store.append(2, {"t": two_chunks})
    with Store.open(path) as store:
        (entry,) = store.replay()
        assert entry.deltas["t"].equals(two_chunks, check_metadata=True)
        loaded = store.load_table("t")
        assert loaded is not None
        assert loaded.equals(two_chunks, check_metadata=True)


def test_names_and_texts_may_be_anything(path: Path) -> None:
    names = ["", "a b", "a/../b", "ÄÖ€😀", "nul\0nul", "quote'\"", "x" * 10_000]
    catalog = {name: name + " body" for name in names}
    with Store.open(path) as store:
        store.append(1, {name: orders(1) for name in names}, catalog, names)
        store.checkpoint(0, {name: orders(1) for name in names}, {}, catalog)
    with Store.open(path) as store:
        assert store.catalog() == store.notes() == catalog
        (entry,) = store.replay()
        assert list(entry.deltas) == names == list(entry.statements)
        assert all(store.load_table(name) == orders(1) for name in names)


def test_catalog_keeps_the_order_of_creation(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {}, {"a": "1", "b": "1"})
        store.append(2, {}, {"c": "1", "a": "2"})
        store.append(3, {}, {"b": None, "gone": None})
        store.append(4, {}, {"b": "3"})
        before = list(store.catalog().items())
    with Store.open(path) as store:
        assert list(store.catalog().items()) == before == [("a", "2"), ("c", "1"), ("b", "3")]


def test_a_large_delta_is_a_file_until_the_checkpoint(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {"orders": large_orders(), "lines": orders(1)})
        assert len(list(path.glob("delta-*.arrow"))) == 1
        assert store.log_bytes() > 100_000
    with Store.open(path) as store:
        (entry,) = store.replay()
        assert entry.deltas == {"orders": large_orders(), "lines": orders(1)}
        assert store.log_bytes() > 100_000
        store.checkpoint(1, {}, {})
        assert list(path.glob("*.arrow")) == []
        assert store.log_bytes() == 0


def test_one_long_string_is_a_large_delta_too(path: Path) -> None:
    delta = pa.table({"text": ["x" * 3_000_000], "_multiplicity": [1]})
    with Store.open(path) as store:
        store.append(1, {"t": delta})
        assert len(list(path.glob("delta-*.arrow"))) == 1
        assert next(store.replay()).deltas == {"t": delta}


def test_a_checkpoint_replaces_the_log(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)}, {"orders": "{}"})
        store.append(2, {"orders": orders(2)})
        batches = iter(orders(1, 2).to_batches(max_chunksize=1))
        store.checkpoint(2, {"orders": batches}, {"revenue": orders(3)}, {"plan": "x"})
        assert (store.checkpoint_version(), list(store.replay())) == (2, [])
        store.append(3, {"orders": orders(3)})
    with Store.open(path) as store:
        assert store.load_table("orders") == orders(1, 2)
        assert store.load_state("revenue") == orders(3)
        assert store.load_state("orders") is None
        assert store.notes() == {"plan": "x"}
        assert store.catalog() == {"orders": "{}"}
        assert [entry.version for entry in store.replay()] == [3]


def test_a_checkpoint_may_be_older_than_the_log(path: Path) -> None:
    with Store.open(path) as store:
        for version in range(1, 6):
            store.append(version, {"orders": large_orders() if version % 2 else orders(version)})
        store.checkpoint(3, {"orders": orders(1)}, {})
        assert len(list(path.glob("delta-*.arrow"))) == 1
        size = store.log_bytes()
    with Store.open(path) as store:
        assert [entry.version for entry in store.replay()] == [4, 5]
        assert store.log_bytes() == size
        assert (store.last_version(), store.checkpoint_version()) == (5, 3)


def test_only_the_last_checkpoint_keeps_a_file(path: Path) -> None:
    with Store.open(path) as store:
        for version in range(1, 5):
            store.append(version, {})
            store.checkpoint(version, {"orders": orders(version)}, {})
        assert len(list(path.glob("*.arrow"))) == 1
        assert store.load_table("orders") == orders(4)


def test_empty_snapshots_are_not_missing_ones(path: Path) -> None:
    with Store.open(path) as store:
        store.checkpoint(0, {"orders": orders(), "lines": iter(())}, {})
    with Store.open(path) as store:
        assert store.load_table("orders") == orders()
        assert store.load_table("lines") == pa.table({})
        assert store.load_table("other") is None


def test_versions_must_grow(path: Path) -> None:
    with Store.open(path) as store:
        store.append(3, {})
        with pytest.raises(InvalidArgument, match="version 3 does not follow version 3"):
            store.append(3, {})
        with pytest.raises(InvalidArgument, match="no checkpoint at version 4"):
            store.checkpoint(4, {}, {})


def test_a_closed_store_says_so(path: Path) -> None:
    store = Store.open(path)
    store.close()
    store.close()
    with pytest.raises(MillClosed, match=r"orders\.mill"):
        store.append(1, {})
    with pytest.raises(MillClosed):
        store.replay()


# One at a time.


def test_a_second_opening_in_this_process_is_refused(path: Path) -> None:
    with (
        Store.open(path),
        pytest.raises(MillLocked, match=r"orders\.mill\" is open in this process already"),
    ):
        Store.open(path)
    Store.open(path).close()


def test_a_dropped_store_is_not_locked(path: Path) -> None:
    store = Store.open(path)
    store.append(1, {})
    del store
    with Store.open(path) as store:
        assert store.last_version() == 1


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_another_process_is_refused_with_our_number(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {})
        result = run_python(
            "import sys; from viewmill.mill.store import Store; Store.open(sys.argv[1])", path
        )
        assert f'orders.mill" is open in another process, {os.getpid()}' in result.stderr
        (path / "LOCK").unlink()  # SQLite's own lock is the second fence
        result = run_python(
            "import sys; from viewmill.mill.store import Store; Store.open(sys.argv[1])", path
        )
        assert "MillLocked" in result.stderr
        store.append(2, {})
    with Store.open(path) as store:
        assert store.last_version() == 2


def test_a_forked_child_cannot_hurt_the_parent(path: Path) -> None:
    result = run_python(
        """
        import os, sys
        from viewmill.errors import MillClosed
        from viewmill.mill.store import Store
        store = Store.open(sys.argv[1])
        store.append(1, {})
        child = os.fork()
        if child == 0:
            try:
                store.append(2, {})
            except MillClosed:
                store.close()
                del store
                sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert os.path.exists(sys.argv[1] + "/mill.db-wal")
        store.append(2, {})
        os.kill(os.getpid(), 9)
        """,
        path,
    )
    assert (result.returncode, result.stderr) == (-signal.SIGKILL, "")
    with Store.open(path) as store:
        assert store.last_version() == 2


# Not ours.


def test_a_directory_with_other_things_is_refused(path: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_text("dear ann")
    with pytest.raises(WrongFormat, match="is not a mill, and not empty") as caught:
        Store.open(path)
    assert "letter.txt" in str(caught.value)
    assert [each.name for each in path.iterdir()] == ["letter.txt"]


def test_a_git_directory_is_not_taken_for_a_mill(path: Path) -> None:
    path.mkdir()
    (path / "HEAD").write_text("ref: refs/heads/main")
    with pytest.raises(WrongFormat, match="is not a mill, and not empty"):
        Store.open(path)
    assert [each.name for each in path.iterdir()] == ["HEAD"]


def test_a_file_is_refused(path: Path) -> None:
    path.write_text("dear ann")
    with pytest.raises(WrongFormat, match="is a file"):
        Store.open(path)


def test_another_format_is_refused_with_both_numbers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(head_module, "FORMAT", 7)
        Store.open(path).close()
    with pytest.raises(WrongFormat, match="has format 7, this Viewmill reads format 3"):
        Store.open(path)


def test_a_lost_head_is_damage_once_something_was_committed(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {})
    (path / "HEAD").unlink()
    with pytest.raises(DamagedFile, match="HEAD"):
        Store.open(path)


def test_a_database_from_a_backup_is_noticed(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)}, {"orders": "{}"})
    backup = (path / "mill.db").read_bytes()
    with Store.open(path) as store:
        store.append(2, {"orders": orders(2)}, {"orders": "{2}"})
    (path / "mill.db").write_bytes(backup)
    with pytest.raises(DamagedFile, match=r"mill\.db") as caught:
        Store.open(path)
    assert "ends at version 1" in caught.value.detail
    assert "remembers version 2" in caught.value.detail
    assert (path / "mill.db").read_bytes() == backup


def test_a_database_of_another_mill_is_noticed(path: Path, tmp_path: Path) -> None:
    for each in (path, tmp_path / "other.mill"):
        with Store.open(each) as store:
            store.append(1, {"orders": orders(1)})
    (path / "mill.db").write_bytes((tmp_path / "other.mill" / "mill.db").read_bytes())
    with pytest.raises(DamagedFile):
        Store.open(path)


def test_an_altered_row_is_noticed(path: Path) -> None:
    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)}, {"orders": "{}"})
    for change in (
        "UPDATE log SET name = 'lines'",
        "UPDATE log SET version = 2",
        "UPDATE log SET payload = 5",
        "DELETE FROM log",
        "UPDATE catalog SET body = '{ }'",
        "INSERT INTO notes VALUES (1, 'a', 'b')",
        "UPDATE head SET body = 'x'",
        "DELETE FROM head",
        "DROP TABLE pieces",
    ):
        content = (path / "mill.db").read_bytes()
        connection = sqlite3.connect(path / "mill.db")
        connection.execute(change)
        connection.commit()
        connection.close()
        with pytest.raises(DamagedFile, match=r"mill\.db"):
            Store.open(path)
        (path / "mill.db").write_bytes(content)
    Store.open(path).close()


def test_an_altered_row_is_not_given_out(tmp_path: Path) -> None:
    create_log(tmp_path)
    first = link_row(b"anchor", 1, Kind.STATEMENT, "", b"a")
    second = link_row(first.link, 2, Kind.STATEMENT, "", b"b")
    rows, records = [first, second._replace(payload=b"c")], LogReader(tmp_path)
    given = check_links(rows, records, b"anchor", second.link, Path("x"))
    assert next(given) == first
    with pytest.raises(DamagedFile, match="x"):
        next(given)
    records.close()


# The disk refuses.


def test_a_full_disk_changes_nothing_and_can_be_repaired(path: Path) -> None:
    limit = 300_000
    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)})
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        refused: list[StorageFailed] = []
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
            for count in (200, 2_000, 20_000, 60_000):
                before = held(store)
                for _ in range(30):
                    try:
                        store.append(store.last_version() + 1, {"orders": orders(*range(count))})
                        before = held(store)
                    except StorageFailed as error:
                        refused.append(error)
                        assert held(store) == before
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert len(refused) > 10
        assert all(str(path) in error.message and error.hint for error in refused)
        store.append(store.last_version() + 1, {"orders": orders(9)})
        before = held(store)
        listed = {each.name for each in path.glob("*.arrow")}
        assert len(listed) == 0
    with Store.open(path) as store:
        assert held(store) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_full_file_system(tmp_path: Path, *, large: bool) -> None:
    mount = tmp_path / "small disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        _fill(mount, large_orders() if large else orders(*range(1000)))
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        with pytest.raises(StorageFailed, match="may not be written"):
            Store.open(mount / "orders.mill")
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def append_forever(store: Store, delta: pa.Table) -> None:
    while True:
        store.append(store.last_version() + 1, {"orders": delta})


def _fill(mount: Path, delta: pa.Table) -> None:
    ballast = mount / "ballast"
    ballast.write_bytes(bytes(400_000))
    store = Store.open(mount / "orders.mill")
    with pytest.raises(StorageFailed, match="the disk is full"):
        append_forever(store, delta)
    before = held(store)
    assert [entry.deltas for entry in store.replay()] == [{"orders": delta}] * store.last_version()
    with pytest.raises(StorageFailed):
        store.checkpoint(store.last_version(), {"orders": large_orders()}, {})
    assert held(store) == before
    store.close()
    ballast.unlink()
    store = Store.open(mount / "orders.mill")
    assert held(store) == before
    store.append(store.last_version() + 1, {"orders": orders(1)})
    store.checkpoint(store.last_version(), {"orders": orders(1)}, {})
    store.close()
    with Store.open(mount / "orders.mill") as store:
        assert held(store)[3] == [orders(1), None]


def test_a_failed_sync_leaves_no_version_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "made to fail")

    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)})
        before = held(store)
        for name in ("sync", "sync_folder"):
            with monkeypatch.context() as patch:
                patch.setattr(files_module, name, fail)
                with pytest.raises(StorageFailed):
                    store.append(2, {"orders": large_orders()})
                with pytest.raises(StorageFailed):
                    store.checkpoint(1, {"orders": orders(1)}, {})
            assert held(store) == before
            assert list(path.glob("*.arrow")) == []
        store.append(2, {"orders": large_orders()})


def test_a_record_whose_sync_failed_does_not_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "made to fail")

    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)})
        with monkeypatch.context() as patch:
            patch.setattr(disk, "sync_data", fail)
            with pytest.raises(StorageFailed, match=LOG):
                store.append(2, {"orders": orders(2)})
        assert store.last_version() == 1
        shutil.copytree(path, path.with_name("killed.mill"))
        store.append(2, {"orders": orders(3)})
    with Store.open(path.with_name("killed.mill")) as store:
        assert [entry.deltas for entry in store.replay()] == [{"orders": orders(1)}]
    with Store.open(path) as store:
        assert next(islice(store.replay(), 1, None)).deltas == {"orders": orders(3)}


def test_a_disk_that_fails_for_good_closes_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, *more: int) -> None:
        raise OSError(errno.EIO, "made to fail")

    store = Store.open(path)
    store.append(1, {"orders": orders(1)})
    with monkeypatch.context() as patch:
        for name in ("sync", "sync_data"):
            patch.setattr(disk, name, fail)
        with pytest.raises(StorageFailed, match="outcome of this change is unknown"):
            store.append(2, {"orders": orders(2)})
    assert not store.is_open
    with Store.open(path) as store:
        assert store.last_version() in (1, 2)


def test_a_mill_of_the_first_format_opens_and_goes_on(path: Path) -> None:
    """A format 1 mill keeps its whole log in mill.db and has no deltas.log."""
    with Store.open(path) as store:
        store.append(1, {"orders": orders(1)}, {"orders": "{}"})
        before = held(store)
    (path / LOG).unlink()
    as_format_one(path)
    for _ in range(2):
        with Store.open(path) as store:
            assert held(store) == before
    with Store.open(path) as store:
        store.append(2, {"orders": orders(2)})
    with Store.open(path) as store:
        assert [entry.deltas["orders"] for entry in store.replay()] == [orders(1), orders(2)]
    (path / LOG).unlink()
    with pytest.raises(DamagedFile, match=LOG):
        Store.open(path)


def as_format_one(path: Path) -> None:
    """Give the heads of a mill the number of the first format."""
    connection = sqlite3.connect(path / "mill.db")
    ((body,),) = connection.execute("SELECT body FROM head").fetchall()
    old = body[:8] + struct.pack("<I", 1) + body[12:-16]
    old += files_module.digest(old)
    connection.execute("UPDATE head SET body = ?", (old,))
    connection.commit()
    connection.close()
    (path / "HEAD").write_bytes(old.ljust(512, b"\0") * 2)


def test_the_log_starts_again_after_a_checkpoint(path: Path) -> None:
    with Store.open(path) as store:
        for version in range(1, 6):
            store.append(version, {"orders": orders(version)})
        size = store.log_bytes()
        store.checkpoint(5, {"orders": orders(5)}, {})
        assert store.log_bytes() == 0
        store.append(6, {"orders": orders(6)})
        assert 0 < store.log_bytes() < size
    with Store.open(path) as store:
        assert [entry.version for entry in store.replay()] == [6]


def test_an_error_of_the_caller_passes_and_leaves_no_file(path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from orders(1).to_batches()
        raise FileNotFoundError("the caller's own")

    with Store.open(path) as store:
        with pytest.raises(FileNotFoundError, match="the caller's own"):
            store.checkpoint(0, {"orders": batches()}, {})
        assert list(path.glob("*.arrow")) == []
        assert store.load_table("orders") is None


class FailingCommit:
    """A connection whose next COMMIT fails, before or after it is done."""

    def __init__(self, connection: Any, *, done: bool) -> None:
        self._connection, self._done, self._armed = connection, done, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        if sql != "COMMIT" or not self._armed:
            return self._connection.execute(sql, *values)
        self._armed = False
        if self._done:
            self._connection.execute(sql)
        raise sqlite3.OperationalError("made to fail")


def test_a_refused_commit_is_undone_with_its_files(path: Path) -> None:
    store: Any = Store.open(path)
    store.append(1, {"orders": orders(1)})
    before = held(store)
    store._connection = FailingCommit(store._connection, done=False)
    with pytest.raises(StorageFailed, match=r"mill\.db"):
        store.append(2, {"orders": large_orders()}, {"orders": "{}"})
    assert held(store) == before
    assert list(path.glob("*.arrow")) == []
    store.append(2, {"orders": orders(2)})
    store.close()
    with Store.open(path) as store:
        assert [entry.deltas["orders"] for entry in store.replay()] == [orders(1), orders(2)]


def test_a_commit_that_was_done_is_not_reported_as_refused(path: Path) -> None:
    store: Any = Store.open(path)
    store._connection = FailingCommit(store._connection, done=True)
    store.append(1, {"orders": large_orders()}, {"orders": "{}"})
    assert store.last_version() == 1
    store.append(2, {"orders": orders(2)})
    before = held(store)
    store.close()
    with Store.open(path) as store:
        assert held(store) == before


def test_files_stay_while_a_refused_commit_may_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When only the sync failed, the commit is in SQLite's log, and a crash would revive it."""
    store: Any = Store.open(path)
    store._connection = FailingCommit(store._connection, done=False)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "empty_log", lambda connection: False)
        with pytest.raises(StorageFailed):
            store.append(1, {"orders": large_orders()}, {"orders": "{}"})
        assert store.last_version() == 0
        assert len(list(path.glob("delta-*"))) == 1
    store.append(1, {"orders": orders(1)})
    store.close()
    with Store.open(path) as store:
        assert next(store.replay()).deltas == {"orders": orders(1)}
        assert list(path.glob("*.arrow")) == []


class _Stop(BaseException):
    """As a KeyboardInterrupt, without stopping the tests."""


def test_interrupted_anywhere_the_store_knows_what_was_committed(
    path: Path, visit: Callable[[Callable[[str], None] | None], None]
) -> None:
    store = Store.open(path)
    stopped = set()
    for stop_at in range(1, 30):
        countdown = iter(range(stop_at - 1, -1, -1))

        def stop(point: str, countdown: Iterator[int] = countdown) -> None:
            if next(countdown, -1) == 0:
                stopped.add(point)
                raise _Stop

        version = store.last_version()
        expected = _model(store)
        visit(stop)
        try:
            store.append(version + 1, {"orders": orders(version), "large": large_orders()})
            store.checkpoint(version + 1, {"orders": orders(version)}, {})
        except _Stop:
            visit(None)
        visit(None)
        assert store.last_version() - version in (0, 1)
        after = _model(store)
        store.close()
        store = Store.open(path)
        assert _model(store) == after
        assert after[0] == version + 1 or after == expected
    store.close()
    assert {"transaction written", "transaction committed", "head written"} <= stopped


def _model(store: Store) -> tuple[object, ...]:
    return (
        store.last_version(),
        store.checkpoint_version(),
        store.load_table("orders"),
        [(entry.version, dict(entry.deltas)) for entry in store.replay()],
    )


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_checksum_does_not_depend_on_how_the_bytes_come(size: int) -> None:
    content = bytes(i * 7 % 251 for i in range(size))
    whole, parts, other = (files_module.Checksums() for _ in range(3))
    whole.update(content)
    for at in range(0, size, 4099):
        parts.update(content[at : at + 4099])
    assert whole.digest() == (known := parts.digest())
    other.update(content[:-1] + b"!" if size else b"!")
    assert other.digest() != known


def test_a_piece_with_a_checksum_of_an_earlier_version_is_read(path: Path) -> None:
    """Before format 3 the checksum was SHA-256 of all bytes."""
    path.mkdir()
    with files_module.ArrowFile(path, "snapshot") as file:
        piece = file.write(orders(1, 2))
        file.finish()
    content = (path / piece.file).read_bytes()[: piece.size]
    old = files_module.Piece(piece.file, 0, piece.size, files_module.digest(content))
    assert files_module.read_piece(path, old) == files_module.read_piece(path, piece)
    (path / piece.file).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    for each in (old, piece):
        with pytest.raises(DamagedFile):
            files_module.read_piece(path, each)
