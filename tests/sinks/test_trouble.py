"""Sinks when something goes wrong: lost answers, second writers, views that go, kills, silence."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

import viewmill as vm
from viewmill.mill import sink as delivery
from viewmill.sinks.sql_table import SqlTable

TABLE = "CREATE TABLE orders (id BIGINT, who STRING, PRIMARY KEY (id))"
NAMES = "CREATE MATERIALIZED VIEW v AS SELECT who FROM orders"
COUNTS = "CREATE MATERIALIZED VIEW v AS SELECT who, COUNT(*) AS n FROM orders GROUP BY who"


@pytest.fixture
def mill():
    with vm.connect(compile="off") as made:
        made.sql(TABLE)
        yield made


def _read(file, query):
    with closing(sqlite3.connect(file)) as connection:
        return sorted(connection.execute(query).fetchall())


def _wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "committed_just_after_the_look"])
def test_a_commit_whose_answer_was_lost_is_not_made_again(mill, tmp_path, monkeypatch, is_seen):
    file = tmp_path / "out.db"
    mill.sql(NAMES)
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v"))
    assert mill.flush(20)
    took = SqlTable._took
    lost: list[Any] = []

    def lose_first(self, attempt):
        if not lost:
            lost.append(attempt)
            raise ConnectionError("the answer was lost")
        took(self, attempt)

    monkeypatch.setattr(SqlTable, "_took", lose_first)
    if not is_seen:
        monkeypatch.setattr(SqlTable, "has_taken", lambda self, change: False)
    mill.insert("orders", [(1, "ann"), (2, "ann")])
    _wait_for(lambda: lost)
    _wait_for(lambda: mill.status()["sinks"]["v"]["version"] == mill.version)
    mill.insert("orders", [(3, "ann")])
    assert mill.flush(20)
    assert _read(file, "SELECT who, _viewmill_count FROM v") == [("ann", 3)]


def test_a_second_mill_takes_a_table_over_and_the_first_writes_it_no_more(mill, tmp_path):
    url = f"sqlite:///{tmp_path}/out.db"
    mill.sql(NAMES)
    mill.insert("orders", [(1, "first")])
    mill.sink("v", vm.sinks.sqlalchemy(url, "v"))
    assert mill.flush(20)
    with vm.connect(compile="off") as second:
        second.sql(TABLE)
        second.sql(NAMES)
        second.insert("orders", [(1, "second")])
        second.sink("v", vm.sinks.sqlalchemy(url, "v"))
        assert second.flush(20)
        mill.insert("orders", [(2, "first")])
        for _ in range(2):  # it stays so
            with pytest.raises(vm.ViewmillError, match="taken over"):
                mill.flush()
        assert mill.status()["sinks"]["v"]["state"] == "failed"
        assert _read(tmp_path / "out.db", "SELECT who FROM v") == [("second",)]
        mill.unsink("v")
        mill.sink("v", vm.sinks.sqlalchemy(url, "v"))
        assert mill.flush(20)
    assert _read(tmp_path / "out.db", "SELECT who, _viewmill_count FROM v") == [("first", 2)]


def test_a_sink_says_that_its_view_is_gone_and_goes_on_when_it_is_there_again(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.sql(NAMES)
    mill.insert("orders", [(1, "ann")])
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v"))
    assert mill.flush(20)
    mill.sql("DROP MATERIALIZED VIEW v")
    with pytest.raises(vm.ViewmillError, match='"v"'):
        mill.flush(20)
    assert _read(file, "SELECT who FROM v") == [("ann",)]
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT upper(who) AS who FROM orders")
    assert mill.flush(20)
    assert _read(file, "SELECT who FROM v") == [("ANN",)]
    mill.insert("orders", [(2, "bob")])
    assert mill.flush(20)
    assert _read(file, "SELECT who FROM v") == [("ANN",), ("BOB",)]


def test_a_replaced_view_replaces_the_rows_but_not_the_columns(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.sql(NAMES)
    mill.insert("orders", [(1, "ann"), (2, "bob")])
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v"))
    assert mill.flush(20)
    mill.sql(NAMES.replace("CREATE", "CREATE OR REPLACE") + " WHERE id > 1")
    assert mill.flush(20)
    assert _read(file, "SELECT who FROM v") == [("bob",)]
    mill.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id, who FROM orders")
    with pytest.raises(vm.ViewmillError, match="lacks columns: id"):
        mill.flush(20)
    assert _read(file, "SELECT who FROM v") == [("bob",)]


def test_deletes_that_come_before_their_inserts_leave_no_rows(tmp_path):
    file = tmp_path / "out.db"
    with vm.connect(compile="off") as mill:
        mill.sql("CREATE TABLE orders (id BIGINT, who STRING) UNCHECKED")
        mill.sql(NAMES)
        mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v"))
        mill.delete("orders", [(1, "ann")])
        assert mill.flush(20)
        assert _read(file, "SELECT who FROM v") == []
        mill.insert("orders", [(1, "ann"), (2, "bob")])
        assert mill.flush(20)
        assert _read(file, "SELECT who FROM v") == [("bob",)]
        mill.insert("orders", [(3, "ann")])
        assert mill.flush(20)
        assert _read(file, "SELECT who FROM v") == [("ann",), ("bob",)]


def test_what_waits_for_a_function_that_keeps_failing_is_bounded(mill, monkeypatch):
    monkeypatch.setattr(delivery, "_AT_MOST_EACH", 10)
    mill.sql(COUNTS)
    calls, is_refusing = [], [False]

    def receive(change):
        if is_refusing[0]:
            raise RuntimeError("not now")
        calls.append((change.is_whole, change.version, sorted(change)))

    mill.sink("v", vm.sinks.function(receive))
    assert mill.flush(20)
    is_refusing[0] = True
    for i in range(100):
        mill.insert("orders", [(i, f"w{i % 3}")])
    assert mill.status()["sinks"]["v"]["waiting"] <= 12
    is_refusing[0] = False
    assert mill.flush(20)
    assert calls[0][0]
    assert not any(is_whole for is_whole, _, _ in calls[1:])
    assert [version for _, version, _ in calls] == sorted(version for _, version, _ in calls)
    assert calls[-1][1] == mill.version
    counts: dict[Any, Any] = {}
    for _, _, rows in calls:
        for row, times in rows:
            counts[row] = counts.get(row, 0) + times
    assert {row: n for row, n in counts.items() if n} == {
        ("w0", 34): 1, ("w1", 33): 1, ("w2", 33): 1
    }  # fmt: skip


def test_flush_waits_only_for_what_is_committed_now(mill):
    mill.sql(NAMES)
    told = []

    def receive(change):
        told.append(change.version)
        if change.version < 50:
            mill.insert("orders", [(change.version, "again")])  # the next change comes at once

    mill.insert("orders", [(0, "ann")])
    mill.sink("v", vm.sinks.function(receive))
    assert mill.flush(20)
    _wait_for(lambda: told[-1] >= 50)


def test_a_sink_can_neither_wait_for_itself_nor_hang_when_it_ends_itself(mill):
    mill.sql(NAMES)
    found = []

    def receive(change):
        with pytest.raises(vm.ViewmillError, match="wait for itself"):
            mill.flush()
        mill.unsink("v")
        found.append(change)

    mill.sink("v", vm.sinks.function(receive))
    _wait_for(lambda: found)
    _wait_for(lambda: not mill.status()["sinks"])


def test_names_are_taken_once_and_unknown_ones_are_said(mill):
    mill.sql(NAMES)
    mill.sink("v", vm.sinks.function(print), name="a")
    mill.sink("V", vm.sinks.function(len))
    with pytest.raises(vm.ViewmillError, match='a sink "v" already'):
        mill.sink("v", vm.sinks.function(len))
    with pytest.raises(vm.ViewmillError, match='no sink "b"'):
        mill.unsink("b")
    with pytest.raises(vm.ViewmillError, match="no function"):
        vm.sinks.function(3)
    assert set(mill.status()["sinks"]) == {"a", "v"}


def test_an_engine_of_the_user_is_used_and_stays_open(mill, tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/out.db")
    mill.sql(NAMES)
    mill.sink("v", vm.sinks.sqlalchemy(engine, "v"))
    mill.insert("orders", [(1, "ann")])
    assert mill.flush(20)
    mill.unsink("v")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT who FROM v")).all() == [("ann",)]
    engine.dispose()


_CHILD = """
import sys, viewmill as vm
mill = vm.connect(sys.argv[1], compile="off")
mill.sink("v", vm.sinks.sqlalchemy(sys.argv[2], "v"))
assert mill.flush(30)
print("ready", flush=True)
sys.stdin.readline()
mill.insert("orders", [(2, "ann"), (3, "bob")])
print("committed", mill.status()["sinks"]["v"]["waiting"], flush=True)
sys.stdin.readline()
"""


def test_what_was_committed_but_not_delivered_when_killed_is_delivered_once(tmp_path):
    file = tmp_path / "out.db"
    url, place = f"sqlite:///{file}", tmp_path / "m.mill"
    with vm.connect(place, compile="off") as mill:
        mill.sql(TABLE)
        mill.sql(NAMES)
        mill.insert("orders", [(1, "ann")])
    arguments = [sys.executable, "-c", _CHILD, str(place), url]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        with closing(sqlite3.connect(file, isolation_level=None)) as blocker:
            blocker.execute("BEGIN EXCLUSIVE")  # the sink can write nothing now
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "committed 1\n"
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            blocker.execute("ROLLBACK")
    assert _read(file, "SELECT who, _viewmill_count FROM v") == [("ann", 1)]
    for _ in range(2):
        with vm.connect(place, compile="off") as mill:
            mill.sink("v", vm.sinks.sqlalchemy(url, "v"))
            assert mill.flush(20)
        assert _read(file, "SELECT who, _viewmill_count FROM v") == [("ann", 2), ("bob", 1)]


def test_a_forked_child_writes_nothing(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.sql(NAMES)
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v"))
    assert mill.flush(20)
    pid = os.fork()
    if not pid:
        mill.insert("orders", [(1, "child")])
        is_stopped = mill.status()["sinks"]["v"]["state"] == "stopped"
        os._exit(0 if is_stopped and not mill.flush(5) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    mill.insert("orders", [(1, "parent")])
    assert mill.flush(20)
    assert _read(file, "SELECT who FROM v") == [("parent",)]
