"""A policy that is changed while rows wait: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import datetime
import itertools
import time

import pytest

import viewmill as vm

KINDS = [
    "IMMEDIATE",
    "ON DEMAND",
    "EVERY 100 ROWS",
    "EVERY INTERVAL '100' SECONDS",
    "WITHIN INTERVAL '100' SECONDS",
    "ON READ AFTER INTERVAL '100' SECONDS",
]
FRESH = "SELECT count(*) AS n, sum(x) AS s FROM t"


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as made:
        made.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        yield made


@pytest.mark.parametrize("after", KINDS)
def test_rows_that_wait_are_taken_once(mill, after):
    others = [kind for kind in KINDS if kind != after]
    for i, before in enumerate(others):  # those that are equal and immediate share their blocks
        mill.sql(f"CREATE MATERIALIZED VIEW v{i} REFRESH {before} AS {FRESH}")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT n + 0 AS n FROM v1")
    mill.insert("t", [(1, 5), (1, 7)])
    for i in range(len(others)):
        mill[f"v{i}"].set_policies(after)
    mill.delete("t", [(1, 5)])
    mill.insert("t", [(2, 1)])
    for i in range(len(others)):
        if after == "IMMEDIATE":
            assert mill[f"v{i}"].status()["freshness"] == "fresh"
        mill[f"v{i}"].refresh()
        assert mill[f"v{i}"].rows() == [(2, 8)]
    assert mill["above"].rows() == [(2,)]


def test_immediate_again_takes_what_waits_at_once(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {FRESH}")
    mill.insert("t", [(1, 5)])
    mill["v"].set_policies("IMMEDIATE")
    assert mill["v"].rows() == [(1, 5)]
    mill.delete("t", [(1, 5)])
    assert mill["v"].rows() == [(0, None)]


def test_fewer_rows_than_wait_already_make_it_due(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH EVERY 100 ROWS AS {FRESH}")
    mill.insert("t", [(i, 1) for i in range(10)])
    mill["v"].set_policies("EVERY 5 ROWS")
    assert mill["v"].rows() == [(10, 10)]


def test_policy_stays_when_what_waits_cannot_be_taken(mill):
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT 10 div x AS q FROM t")
    mill.insert("t", [(1, 0)])
    with pytest.raises(vm.ViewmillError):
        mill["v"].set_policies("IMMEDIATE")
    assert mill["v"].status()["policies"] == ["REFRESH ON DEMAND"]
    mill.delete("t", [(1, 0)])
    mill["v"].set_policies("IMMEDIATE")
    assert mill["v"].rows() == []


def test_reading_a_view_reads_what_is_below_it(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON READ AFTER INTERVAL '0' SECONDS AS {FRESH}")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT n FROM v")
    mill.insert("t", [(1, 5)])
    assert mill["above"].rows() == [(1,)]


def test_readers_of_a_refreshed_view_are_due_at_once(mill):
    mill.sql("CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS SELECT k, x FROM t WHERE x > 0")
    mill.sql("CREATE MATERIALIZED VIEW a REFRESH EVERY 2 ROWS AS SELECT count(*) AS n FROM v")
    mill.sql(
        "CREATE MATERIALIZED VIEW b REFRESH WITHIN INTERVAL '50' MILLISECONDS"
        " AS SELECT count(*) AS n FROM v"
    )
    mill.insert("t", [(1, 5), (2, 6)])
    mill["v"].refresh()
    assert mill["a"].status()["freshness"] == "fresh"
    assert mill["a"].rows() == [(2,)]
    deadline = time.monotonic() + 5
    while mill["b"].rows() != [(2,)] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mill["b"].rows() == [(2,)]


def test_policy_changed_with_rows_waiting_survives_a_restart(uncompiled, tmp_path):
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {FRESH}")
        mill.insert("t", [(1, 5)])
        mill["v"].set_policies("EVERY 100 ROWS")
        mill.insert("t", [(1, 6)])
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill["v"].status()["policies"] == ["REFRESH EVERY 100 ROWS"]
        assert (mill["v"].rows(), mill["v"].status()["waiting_rows"]) == ([(0, None)], 2)
        mill["v"].set_policies("IMMEDIATE")
        assert mill["v"].rows() == [(2, 11)]
        mill.delete("t", [(1, 6)])
        assert mill["v"].rows() == [(1, 5)]


@pytest.fixture
def clock(monkeypatch):
    """The wall clock jumps years, back and forth, whenever it is read; seconds pass as asked."""
    passed, jumps = [0.0], itertools.cycle([0, -3000, 1, 4000, -1])
    wall, steady = time.time_ns, time.monotonic_ns
    jumping = lambda: wall() + next(jumps) * 86_400 * 10**9  # noqa: E731
    monkeypatch.setattr(time, "time_ns", jumping)
    monkeypatch.setattr(time, "time", lambda: jumping() / 1e9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady() + int(passed[0] * 1e9))
    return passed


def test_a_view_that_became_immediate_is_fresh_after_a_restart(uncompiled, tmp_path):
    """Its record still said that it is stale, and the note of its refresh was gone."""
    with vm.connect(tmp_path / "m.mill") as made:
        made.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        for name in ("a", "b"):
            made.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH EVERY 100 ROWS AS {FRESH}")
        made.insert("t", [(1, 5)])
        made["a"].set_policies("IMMEDIATE")
        made.insert("t", [(2, 7)])
        made["b"].refresh()
    with vm.connect(tmp_path / "m.mill") as made:
        assert made["a"].status()["freshness"] == "fresh"
        assert made["a"].rows() == [(2, 12)]


@pytest.mark.parametrize("kind", KINDS)
def test_setting_the_clock_makes_no_view_due_and_none_late(uncompiled, clock, kind):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH {kind} AS {FRESH}")
        for i in range(20):
            mill.insert("t", [(i, 1)])
            assert mill["v"].rows() == ([(i + 1, i + 1)] if kind == "IMMEDIATE" else [(0, None)])
        assert 0 <= mill["v"].status()["lag_s"] < 90
        clock[0] += 200
        mill.insert("t", [(i + 1, 1)])
        is_timed = "INTERVAL" in kind or kind == "IMMEDIATE"
        # The clock's own thread may refresh an interval before the last row comes.
        timed = ([(21, 21)], [(20, 20)]) if "INTERVAL" in kind else ([(21, 21)],)
        assert mill["v"].rows() in (timed if is_timed else ([(0, None)],))


def test_parts_that_change_after_the_clock_is_set_back_are_changed_since(
    uncompiled, clock, tmp_path
):
    """A reader asks for what changed since the newest stamp it has seen; it must miss nothing."""
    path, start = tmp_path / "m", datetime.datetime(2026, 1, 1)
    seen = dict.fromkeys("ep", datetime.datetime(1970, 1, 1))
    for i in range(4):
        with vm.connect(path) as mill:
            if i == 0:
                mill.sql(
                    "CREATE TABLE e (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 10"
                )
                mill.sql(
                    "CREATE VIEW p AS INITIALIZE p[i] AS SELECT x FROM e[i] "
                    "UPDATE p[j] AS SELECT x FROM e[j] PARTITION LENGTH 10"
                )
            for j in range(3):
                moment = start + datetime.timedelta(seconds=10 * (3 * i + j))
                mill.insert("e", [(moment, j)])
                for name in seen:
                    new = mill.parts(name, changed_since=seen[name])
                    assert moment in [each["part_timestamp"] for each in new]
                    assert len(new) == 1
                    seen[name] = max(each["updated"] for each in new)
            mill.checkpoint()
