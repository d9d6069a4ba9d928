"""A table that is quiet for as long as IDLE AFTER says does not hold up the others."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest

import viewmill as vm
from viewmill.mill import idle_tables
from viewmill.mill.mill import Mill

pytestmark = pytest.mark.usefixtures("uncompiled")
_NOON = dt.datetime(2024, 5, 1, 12)
_MINUTE = dt.timedelta(minutes=1)
_TABLES = (
    "CREATE TABLE p (ts TIMESTAMP, k INT) TIMESTAMP BY ts",
    "CREATE TABLE q (ts TIMESTAMP, k INT) TIMESTAMP BY ts IDLE AFTER INTERVAL 5 MINUTES",
)
_PAIRS = "SELECT p.ts, p.k FROM p JOIN q ON p.k = q.k"
_VIEW = f"SELECT count(*) AS n FROM ({_PAIRS}) z [WINDOW 1 HOUR SLIDE 1 MINUTE]"


def _mill(path: Path | None = None) -> Mill:
    mill = vm.connect(clock=_NOON) if path is None else vm.connect(path, clock=_NOON)
    for each in _TABLES:
        mill.sql(each)
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {_VIEW}")
    mill.insert("q", [(_NOON, 1)])
    mill.insert("p", [(_NOON + 20 * _MINUTE, 1)])
    return mill


def test_time_of_an_idle_table_follows_the_others() -> None:
    mill = _mill()
    mill.advance(to=_NOON + 4 * _MINUTE)
    assert mill["v"].rows() == [(0,)]  # q has come to 12:00 only
    mill.advance(to=_NOON + 5 * _MINUTE)
    assert mill["v"].rows() == [(0,)]  # 12:20 is reached, and not passed
    mill.insert("p", [(_NOON + 21 * _MINUTE, 1)])
    assert mill["v"].rows() == [(1,)]
    assert mill["v"].verify() == []


def test_a_table_that_speaks_again_is_waited_for() -> None:
    mill = _mill()
    mill.advance(to=_NOON + 9 * _MINUTE)
    mill.insert("q", [(_NOON + 20 * _MINUTE, 2)])
    mill.insert("p", [(_NOON + 30 * _MINUTE, 1)])
    assert mill["v"].rows() == [(0,)]
    mill.advance(to=_NOON + 14 * _MINUTE)
    assert mill["v"].rows() == [(1,)]


def test_idle_tables_are_known_after_opening(tmp_path: Path) -> None:
    mill = _mill(tmp_path / "m")
    mill.close()
    with vm.connect(tmp_path / "m", clock=_NOON) as again:
        again.advance(to=_NOON + 4 * _MINUTE)
        again.insert("p", [(_NOON + 40 * _MINUTE, 1)])
        assert again["v"].rows() == [(0,)]
        again.advance(to=_NOON + 6 * _MINUTE)
        assert again["v"].rows() == [(1,)]


def test_a_table_becomes_idle_without_any_call() -> None:
    mill = vm.connect()
    mill.sql(_TABLES[0])
    mill.sql(_TABLES[1].replace("5 MINUTES", "50 MILLISECONDS"))
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {_VIEW}")
    told: list[object] = []
    mill.insert("q", [(_NOON, 1)])
    mill["v"].subscribe(lambda change: told.append(change.rows()))
    mill.insert("p", [(_NOON + 20 * _MINUTE, 1), (_NOON + 21 * _MINUTE, 1)])
    until = time.monotonic() + 5
    while not told and time.monotonic() < until:
        time.sleep(0.01)
    assert told
    mill.close()


def test_only_tables_with_a_time_can_be_idle() -> None:
    with pytest.raises(vm.errors.ViewmillError, match="TIMESTAMP BY"):
        vm.connect().sql("CREATE TABLE r (k INT) IDLE AFTER INTERVAL 5 MINUTES")


def test_an_insert_is_not_refused_because_an_idle_table_cannot_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows were committed, and the insert raised; so did every read after it."""
    mill = _mill()
    mill.advance(to=_NOON + 5 * _MINUTE)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(idle_tables, "advance", fail)
        mill.insert("p", [(_NOON + 21 * _MINUTE, 1)])
        assert mill["v"].rows() == [(0,)]
        assert "no space left" in mill.status()["trouble"]
    assert mill["v"].rows() == [(1,)]  # the next read makes up for it
    assert mill.status()["trouble"] is None
