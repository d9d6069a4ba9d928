"""Threads and processes: a batch belongs to its thread, a forked child leaves the mill alone."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")


def in_thread(act: Callable[[], object]) -> None:
    """Run `act` in another thread; its error is ours."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as why:  # noqa: BLE001 (it is raised below)
            errors.append(why)

    other = threading.Thread(target=run)
    other.start()
    other.join(30)
    assert not other.is_alive()
    if errors:
        raise errors[0]


@pytest.fixture
def mill() -> vm.Mill:
    made = vm.connect()
    made.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, x BIGINT)")
    made.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
    return made


def test_another_thread_commits_on_its_own(mill: vm.Mill) -> None:
    with mill.batch():
        mill.insert("t", [(1, 1)])
        in_thread(lambda: mill.insert("t", [(2, 2)]))
        assert mill["v"].rows() == [(2,)]
    assert mill["v"].rows() == [(3,)]
    with pytest.raises(KeyError), mill.batch():  # noqa: PT012
        mill.insert("t", [(3, 3)])
        in_thread(lambda: mill.sql("INSERT INTO t VALUES (4, 4)"))
        raise KeyError
    assert sorted(mill.sql("SELECT k FROM t").rows()) == [(1,), (2,), (4,)]


def test_two_threads_have_a_batch_each(mill: vm.Mill) -> None:
    def other() -> None:
        with mill.batch():
            mill.insert("t", [(2, 2)])
            mill.delete("t", [(2, 2)])
            mill.upsert("t", [(5, 5)])

    with mill.batch():
        mill.insert("t", [(1, 1)])
        in_thread(other)
        with pytest.raises(vm.InvalidArgument), mill.batch():
            pass
        mill.upsert("t", [(1, 7), (2, 8)])
        mill.upsert("t", [(2, 9)])
    assert sorted(mill.sql("SELECT k, x FROM t").rows()) == [(1, 7), (2, 9), (5, 5)]


def test_an_upsert_replaces_what_came_while_the_batch_was_open(mill: vm.Mill) -> None:
    with mill.batch():
        mill.upsert("t", [(1, 1)])
        in_thread(lambda: mill.insert("t", [(1, 5)]))
    assert mill.sql("SELECT k, x FROM t").rows() == [(1, 1)]
    mill.sql("CREATE TABLE r (x BIGINT)")
    with mill.batch(), pytest.raises(vm.InvalidArgument, match="PRIMARY KEY"):
        mill.upsert("r", [(1,)])


def test_a_table_that_goes_takes_no_rows_of_a_namesake(mill: vm.Mill) -> None:
    def anew() -> None:
        mill.sql("DROP TABLE r")
        mill.sql("CREATE TABLE r (x STRING)")

    mill.sql("CREATE TABLE r (x BIGINT)")
    with pytest.raises(vm.InvalidArgument, match="dropped"), mill.batch():  # noqa: PT012
        mill.insert("r", [(1,)])
        mill.insert("t", [(1, 1)])
        with pytest.raises(vm.InvalidArgument, match="batch"):
            mill.sql("DROP TABLE r")
        in_thread(anew)
    assert mill.sql("SELECT count(*) FROM t").rows() == [(0,)]
    assert mill.sql("SELECT count(*) FROM r").rows() == [(0,)]


def test_many_threads_lose_nothing(mill: vm.Mill) -> None:
    def write(thread: int) -> None:
        for i in range(10):
            if i % 2:
                mill.insert("t", [(100 * thread + i, 1)])
            else:
                with mill.batch():
                    mill.insert("t", [(100 * thread + i, 1)])
                    mill.upsert("t", [(100 * thread + i, 1)])

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert mill["v"].rows() == [(40,)]
    assert mill["v"].verify() == []


STATEMENTS = {
    "UPDATE t SET x = x + 1 WHERE k = 1": (13,),
    "UPDATE t SET k = k + 1, x = 1": (1,),
    "DELETE FROM t WHERE k = 1": (None,),
    "INSERT INTO t SELECT max(k) + 1, 1 FROM t": (13,),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_of_two_threads_do_not_come_between_reading_and_changing(
    mill: vm.Mill, statement: str
) -> None:
    """The second read what the first had not changed yet, and found no row to delete."""
    mill.insert("t", [(1, 1)])

    def work() -> None:
        for _ in range(4):
            mill.sql(statement)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            for each in [pool.submit(work) for _ in range(3)]:
                each.result(60)
    finally:
        sys.setswitchinterval(switch)
    assert mill["v"].rows() == [STATEMENTS[statement]]
    assert mill["v"].verify() == []


CHANGES: dict[str, Callable[[vm.Mill], object]] = {
    "insert": lambda mill: mill.insert("t", [(2, 2)]),
    "delete": lambda mill: mill.delete("t", [(1, 1)]),
    "upsert": lambda mill: mill.upsert("t", [(1, 2)]),
    "apply": lambda mill: mill.apply("t", [{"k": 2, "x": 2, "n": 1}], multiplicity="n"),
    "update": lambda mill: mill.sql("UPDATE t SET x = 2"),
    "replay": lambda mill: mill.replay("t", [(2, 2)], view="v"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_subscriber_may_wait_for_a_thread_that_reads(mill: vm.Mill, change: str) -> None:
    mill.insert("t", [(1, 1)])
    read: list[object] = []
    mill["v"].subscribe(lambda _: in_thread(lambda: read.extend(mill["v"].rows())))
    CHANGES[change](mill)
    assert read == mill["v"].rows()


def require_told_at_once(mill: vm.Mill) -> None:
    """Whoever writes tells the subscribers, before the call returns."""
    told: list[int] = []
    mill["v"].subscribe(lambda change: told.extend(threading.get_ident() for _ in [list(change)]))
    for i in range(100):
        mill.insert("t", [(i, 1)])
        assert told == [threading.get_ident()] * (i + 1)


def test_the_clock_does_not_take_the_notices_of_a_writer(mill: vm.Mill) -> None:
    """It woke at each write, told the subscribers itself, and the writer went on meanwhile."""
    mill.sql("CREATE MATERIALIZED VIEW w REFRESH EVERY INTERVAL '1' HOUR AS SELECT x FROM t")
    is_over = threading.Event()
    other = threading.Thread(target=is_over.wait)  # so that calls are made in twins
    other.start()
    try:
        require_told_at_once(mill)
    finally:
        is_over.set()
        other.join(30)


def test_a_reader_does_not_take_the_notices_of_a_writer(mill: vm.Mill) -> None:
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            mill["v"].rows()

    other = threading.Thread(target=read)
    other.start()
    try:
        require_told_at_once(mill)
    finally:
        is_over.set()
        other.join(30)


def test_a_reader_tells_what_a_thread_that_ended_did_not(
    mill: vm.Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[tuple[tuple[int, ...], int]]] = []
    mill["v"].subscribe(lambda change: told.append(list(change)))
    with monkeypatch.context() as interrupted:
        interrupted.setattr("viewmill.mill.mill.deliver_notices", lambda core: None)
        interrupted.setattr("viewmill.mill.uninterruptible.deliver_notices", lambda core: None)
        in_thread(lambda: mill.insert("t", [(1, 1)]))
    assert told == []
    mill["v"].rows()
    assert len(told) == 1


def test_a_reader_does_not_wait_for_more_than_the_commit_under_way(mill: vm.Mill) -> None:
    """A writer that commits without a pause leaves every reader its turn."""
    commits: list[float] = []
    reads: list[float] = []
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            start = time.perf_counter()
            mill.upsert("t", [(i, i) for i in range(200)])
            commits.append(time.perf_counter() - start)

    writer = threading.Thread(target=write)
    writer.start()
    end = time.perf_counter() + 1.0
    try:
        while time.perf_counter() < end:
            start = time.perf_counter()
            mill["v"].rows()
            reads.append(time.perf_counter() - start)
    finally:
        done.set()
        writer.join()
    assert len(reads) > 5
    assert len(commits) > 5
    assert sorted(reads)[len(reads) // 2] < 5 * max(commits)


def forked(act: Callable[[], None]) -> int:
    """The exit code of a child that does `act` and ends as processes end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_and_leaves_the_directory_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "m.mill"
    mill = vm.connect(path)
    mill.sql("CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60")
    mill.sql("CREATE TABLE r (x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM r")
    mill.insert("r", [(1,)])
    mill.sql("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 00:00:00', 1)")

    def child() -> None:
        assert mill["v"].rows() == [(1,)]
        for act in (
            lambda: mill.insert("r", [(2,)]),
            lambda: mill.sql("CREATE TABLE q (x BIGINT)"),
            mill.checkpoint,
        ):
            with pytest.raises(vm.ViewmillError):
                act()
        assert mill["v"].rows() == [(1,)]
        mill.close()

    files = sorted(each.relative_to(path) for each in path.rglob("*"))
    assert forked(child) == 0
    assert sorted(each.relative_to(path) for each in path.rglob("*")) == files
    mill.insert("r", [(3,)])
    mill.close()
    with vm.connect(path) as mill:
        assert mill["v"].rows() == [(4,)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_while_another_thread_writes_does_not_wait_for_it() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE t (x BIGINT)")
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with mill.core.lock:
            held.set()
            go.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(30)

    def child() -> None:
        with pytest.raises(vm.MillClosed):
            mill.insert("t", [(1,)])
        mill.close()

    try:
        assert forked(child) == 0
    finally:
        go.set()
        other.join()
    mill.insert("t", [(1,)])

    def writes() -> None:
        mill.insert("t", [(2,)])
        assert mill.sql("SELECT sum(x) FROM t").rows() == [(3,)]
        mill.close()

    assert forked(writes) == 0
    assert mill.sql("SELECT x FROM t").rows() == [(1,)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("durable", [False, True])
def test_children_forked_while_a_thread_writes_end_well(durable: bool, tmp_path: Path) -> None:
    mill = vm.connect(tmp_path / "m.mill" if durable else None)
    mill.sql("CREATE TABLE t (x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    mill.sql("CREATE MATERIALIZED VIEW w REFRESH WITHIN INTERVAL '1' HOUR AS SELECT x FROM t")
    done, count = threading.Event(), 0

    def write() -> None:
        nonlocal count
        while not done.is_set():
            mill.insert("t", [(1,)])
            count += 1

    def child() -> None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (what is left to DuckDB at the end)
        try:
            mill.insert("t", [(2,)])
            assert not durable
        except vm.MillClosed:
            pass  # it is the parent's, or was forked in the middle of a change
        mill.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert [forked(child) for _ in range(5)] == [0] * 5
    finally:
        done.set()
        writer.join()
    assert mill["v"].rows() == [(count,)]
    mill.close()
    if durable:
        with vm.connect(tmp_path / "m.mill") as mill:
            assert mill["v"].rows() == [(count,)]
