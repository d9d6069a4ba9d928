"""Views in an SQL database: SQLite here; PostgreSQL is not tested yet."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

import viewmill as vm

TABLE = "CREATE TABLE orders (id BIGINT, who STRING, amount DECIMAL(10,2), PRIMARY KEY (id))"
VIEW = """CREATE MATERIALIZED VIEW v AS
    SELECT who, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY who"""


@pytest.fixture
def mill():
    with vm.connect(compile="off") as made:
        made.sql(TABLE)
        made.sql(VIEW)
        yield made


def _read(file, query):
    connection = sqlite3.connect(file)
    try:
        return sorted(connection.execute(query).fetchall())
    finally:
        connection.close()


def test_a_table_follows_its_view_through_inserts_updates_and_deletes(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.insert("orders", [(1, "ann", 1), (2, "bob", 2)])
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v", key="who"))
    assert mill.flush(20)
    query = "SELECT who, n, total FROM v"
    assert _read(file, query) == [("ann", 1, "1.00"), ("bob", 1, "2.00")]
    mill.insert("orders", [(3, "ann", 5), (4, "cid", 7)])
    mill.delete("orders", [(2, "bob", 2)])
    assert mill.flush(20)
    assert _read(file, query) == [("ann", 2, "6.00"), ("cid", 1, "7.00")]
    assert _read(file, "SELECT name, version FROM _viewmill_versions") == [("v", mill.version)]
    assert mill.status()["sinks"]["v"]["error"] is None


def test_a_view_without_a_key_counts_equal_rows(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.sql("CREATE MATERIALIZED VIEW names AS SELECT who FROM orders")
    mill.sink("names", vm.sinks.sqlalchemy(f"sqlite:///{file}", "names"))
    mill.insert("orders", [(1, "ann", 1), (2, "ann", 1), (3, None, 1)])
    assert mill.flush(20)
    mill.delete("orders", [(2, "ann", 1)])
    mill.insert("orders", [(4, None, 1)])
    assert mill.flush(20)
    connection = sqlite3.connect(file)
    found = set(connection.execute("SELECT who, _viewmill_count FROM names"))
    connection.close()
    assert found == {("ann", 1), (None, 2)}


def test_a_key_that_is_not_one_is_said_and_nothing_is_written(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v", key="n"))
    mill.insert("orders", [(1, "ann", 1)])
    assert mill.flush(20)
    mill.insert("orders", [(2, "bob", 1)])  # acknowledged all the same
    with pytest.raises(vm.ViewmillError, match="two rows with one key"):
        mill.flush(20)
    assert "two rows" in mill.status()["sinks"]["v"]["error"]
    assert _read(file, "SELECT who FROM v") == [("ann",)]
    mill.insert("orders", [(3, "bob", 1)])  # now the keys are 1 and 2
    assert mill.flush(20)
    assert _read(file, "SELECT who, n FROM v") == [("ann", 1), ("bob", 2)]


def test_a_target_that_is_away_lags_and_is_caught_up_with(mill, tmp_path):
    folder = tmp_path / "later"
    mill.insert("orders", [(1, "ann", 1)])
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{folder}/out.db", "v", key="who"))
    mill.insert("orders", [(2, "bob", 1)])
    told = mill.status()["sinks"]["v"]
    assert told["state"] == "retrying"
    assert "unable to open" in told["error"]
    folder.mkdir()
    assert mill.flush(20)
    assert _read(folder / "out.db", "SELECT who FROM v") == [("ann",), ("bob",)]


def test_rows_that_others_changed_are_put_right(mill, tmp_path):
    file = tmp_path / "out.db"
    mill.insert("orders", [(1, "ann", 1), (2, "bob", 1)])
    mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v", key="who"))
    assert mill.flush(20)
    connection = sqlite3.connect(file)
    connection.execute("DELETE FROM v")
    connection.commit()
    connection.close()
    mill.insert("orders", [(3, "ann", 1)])
    deadline = time.monotonic() + 20
    while _read(file, "SELECT who, n FROM v") != [("ann", 2), ("bob", 1)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_tables_of_others_are_refused(mill, tmp_path):
    file = tmp_path / "out.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE v (who TEXT)")
    connection.close()
    with pytest.raises(vm.ViewmillError, match="lacks columns"):
        mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{file}", "v", key="who"))
    assert mill.status()["sinks"] == {}
    with pytest.raises(vm.ViewmillError, match="no column"):
        mill.sink("v", vm.sinks.sqlalchemy(f"sqlite:///{tmp_path}/b.db", "v", key="x"))
    with pytest.raises(vm.ViewmillError, match="cannot be read"):
        vm.sinks.sqlalchemy("no url", "v")


def test_hostile_names_are_names(mill, tmp_path):
    file = tmp_path / "out.db"
    name = 'v"; DROP TABLE _viewmill_versions; --'
    mill.sql('CREATE MATERIALIZED VIEW odd AS SELECT id AS `a"b:c%(d)s`, who AS `:who` FROM orders')
    mill.sink("odd", vm.sinks.sqlalchemy(f"sqlite:///{file}", name, key='a"b:c%(d)s'))
    mill.insert("orders", [(1, "x'); DROP TABLE odd; --", 1)])
    assert mill.flush(20)
    mill.upsert("orders", [(1, "y", 1)])
    assert mill.flush(20)
    quoted = name.replace('"', '""')
    assert _read(file, f'SELECT "a""b:c%(d)s", ":who" FROM "{quoted}"') == [(1, "y")]


def test_a_function_gets_all_rows_and_then_every_version_and_again_what_it_refused(mill):
    calls, is_refusing = [], threading.Event()

    def receive(change):
        if is_refusing.is_set():
            raise RuntimeError("not now")
        calls.append((change.version, sorted(change)))

    mill.insert("orders", [(1, "ann", 1)])
    start = mill.version
    mill.sink("v", vm.sinks.function(receive))
    assert mill.flush(20)
    is_refusing.set()
    mill.insert("orders", [(2, "ann", 1)])
    mill.insert("orders", [(3, "bob", 1)])
    with pytest.raises(vm.ViewmillError, match="not now"):
        mill.flush(20)
    is_refusing.clear()
    assert mill.flush(20)
    assert [version for version, _ in calls] == [start, start + 1, start + 2]
    assert [times for _, rows in calls for _, times in rows] == [1, -1, 1, 1]


_CHILD = """
import sys, viewmill as vm
path, url, start = sys.argv[1], sys.argv[2], int(sys.argv[3])
mill = vm.connect(path, compile="off")
mill.sink("v", vm.sinks.sqlalchemy(url, "v", key="who"))
for i in range(start, 1 << 40):
    mill.insert("orders", [(i, f"w{i % 7}", 1)])
    print(i, flush=True)
"""


def _kill_while_it_writes(folder, url, start):
    """Gives the number that the process acknowledged last."""
    arguments = [sys.executable, "-c", _CHILD, str(folder / "m.mill"), url, str(start)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    last = start - 1
    for line in child.stdout:
        last = int(line)
        if last >= start + 20:
            break
    os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    return int(rest[-1]) if rest else last


def _check_kills(folder, url, read, kills):
    with vm.connect(folder / "m.mill", compile="off") as mill:
        mill.sql(TABLE)
        mill.sql(VIEW)
    start = 0
    for _ in range(kills):
        last = _kill_while_it_writes(folder, url, start)
        with vm.connect(folder / "m.mill", compile="off") as mill:
            rows = mill.sql("SELECT id FROM orders").rows()
            assert set(range(last + 1)) <= {i for (i,) in rows}
            mill.sink("v", vm.sinks.sqlalchemy(url, "v", key="who"))
            assert mill.flush(60)
        count = max(i for (i,) in rows) + 1
        wanted = sorted((f"w{k}", len(range(k, count, 7))) for k in range(min(7, count)))
        assert read() == wanted
        start = count


def test_kills_lose_and_double_nothing(tmp_path):
    file = tmp_path / "out.db"
    _check_kills(
        tmp_path, f"sqlite:///{file}", lambda: _read(file, "SELECT who, n FROM v"), kills=2
    )
