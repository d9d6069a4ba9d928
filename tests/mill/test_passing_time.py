"""Views over `now()` equal their query at each moment: DuckDB answers it with a constant time."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

_START = dt.datetime(2024, 2, 28, 22, 30)
_HOUR = dt.timedelta(hours=1)
_TABLES = (
    "CREATE TABLE r (id INT, ts TIMESTAMP, d DATE, k INT)",
    "CREATE TABLE s (k INT, a TIMESTAMP, b TIMESTAMP, v INT)",
)
_VIEWS = {
    "recent": "SELECT id, ts FROM r WHERE ts > now() - INTERVAL 1 DAY",
    "groups": "SELECT k, count(*) AS n, max(ts) AS x FROM r"
    " WHERE ts BETWEEN now() - INTERVAL 1 HOUR AND now() GROUP BY k",
    "valid": "SELECT r.id, s.v FROM r JOIN s ON r.k = s.k AND now() BETWEEN s.a AND s.b",
    "days": "SELECT id FROM r WHERE d >= current_date() - 7 AND k > 0",
    "unmatched": "SELECT id FROM r WHERE NOT EXISTS"
    " (SELECT 1 FROM s WHERE s.k = r.k AND s.b > now())",
    "padded": "SELECT s.v, r.id FROM s LEFT JOIN r"
    " ON r.k = s.k AND r.ts >= date_trunc('hour', now()) WHERE s.a <= now()",
    "latest": "SELECT k, max(ts) AS x FROM r GROUP BY k"
    " HAVING max(ts) > now() - INTERVAL 90 MINUTE",
    "both": "SELECT r.id, s.v FROM r JOIN s ON r.k = s.k WHERE greatest(r.ts, s.a) < now()",
    "month": "SELECT id FROM r WHERE ts < now() + INTERVAL 1 MONTH",
}


def _expected(engine: Any, query: str, now: dt.datetime) -> Counter[Any]:
    text = query.replace("now()", f"TIMESTAMP '{now}'")
    text = text.replace("current_date()", f"DATE '{now.date()}'")
    return Counter(engine.execute(text).fetchall())


def _check(mill: Mill, now: dt.datetime, views: dict[str, str]) -> None:
    engine = duckdb.connect(config={"threads": 1})
    for name in mill.tables():
        engine.register(name, mill.sql(f"SELECT * FROM {name}").to_arrow())
    for name, query in views.items():
        assert Counter(mill[name].rows()) == _expected(engine, query, now), (name, now)


def _row(chance: random.Random, number: int, now: dt.datetime) -> tuple[Any, ...]:
    ts = now + dt.timedelta(minutes=chance.randrange(-2000, 500))
    day = now.date() + dt.timedelta(days=chance.randrange(-9, 3))
    return number, chance.choice([ts, None, ts, ts]), day, chance.choice([0, 1, 2, None])


def _interval(chance: random.Random, number: int, now: dt.datetime) -> tuple[Any, ...]:
    begin = now + dt.timedelta(minutes=chance.randrange(-900, 900))
    end = begin + dt.timedelta(minutes=chance.randrange(-10, 900))
    return chance.randrange(3), begin, chance.choice([end, None, dt.datetime.max]), number


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_come_and_go_with_time_as_the_query_says(seed: int) -> None:
    chance, now = random.Random(seed), _START
    mill = vm.connect(clock=lambda: now)
    for each in _TABLES:
        mill.sql(each)
    for name, query in _VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT AS {query}")
    calls = {name: mill[name].status()["engine_calls"] for name in _VIEWS}
    for step in range(8):
        now += dt.timedelta(minutes=chance.choice([0, 1, 30, 200, 1500]))
        with mill.batch():
            mill.insert("r", [_row(chance, 10 * step + i, now) for i in range(8)])
            mill.insert("s", [_interval(chance, 10 * step + i, now) for i in range(3)])
        for table in ("r", "s"):
            there = mill.sql(f"SELECT * FROM {table}").rows()
            mill.delete(table, chance.sample(there, min(3, len(there))))
        _check(mill, now, _VIEWS)
    assert {name: mill[name].status()["engine_calls"] for name in _VIEWS} == calls
    assert not [each for name in _VIEWS for each in mill[name].verify()]


@pytest.mark.usefixtures("uncompiled")
def test_a_refresh_by_time_makes_no_engine_call_and_tells_subscribers() -> None:
    mill = vm.connect(clock="2024-01-01 12:00:00")
    mill.sql(_TABLES[0])
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM r WHERE ts > now() - INTERVAL 1 HOUR")
    told: list[Any] = []
    mill["v"].subscribe(lambda change: told.append(sorted(change.rows())))
    start = dt.datetime(2024, 1, 1, 12)
    mill.insert("r", [(i, start + dt.timedelta(minutes=i), None, 0) for i in range(3)])
    calls, version = mill["v"].status()["engine_calls"], mill.version
    mill.advance(to=start + _HOUR - dt.timedelta(microseconds=1))
    assert mill["v"].rows() == [(0,), (1,), (2,)]
    assert mill.version == version
    mill.advance(to=start + _HOUR)
    assert sorted(mill["v"].rows()) == [(1,), (2,)]
    assert mill.version == version + 1
    mill.advance(to=start + 2 * _HOUR)
    assert mill["v"].rows() == []
    assert mill["v"].status()["engine_calls"] == calls
    assert len(told) == 3


@pytest.mark.usefixtures("uncompiled")
def test_deferred_views_show_the_time_of_their_refresh() -> None:
    mill = vm.connect(clock="2024-01-01 12:00:00")
    mill.sql(_TABLES[0])
    query = "SELECT id FROM r WHERE ts > now()"
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH ON DEMAND AS {query}")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM v")
    mill.insert("r", [(1, dt.datetime(2024, 1, 1, 13), None, 0)])
    mill["v"].refresh()
    mill.advance(to="2024-01-01 14:00:00")
    assert mill["v"].rows() == [(1,)]
    assert mill["above"].rows() == [(1,)]
    assert not mill["v"].verify()
    mill["v"].refresh()
    assert mill["v"].rows() == []
    assert mill["above"].rows() == [(0,)]
    assert not mill["v"].verify()


@pytest.mark.usefixtures("uncompiled")
def test_a_mill_opened_again_goes_on_from_the_time_that_it_showed(tmp_path: Path) -> None:
    chance, path = random.Random(3), tmp_path / "m"
    now = _START
    mill = vm.connect(path, clock=lambda: now)
    for each in _TABLES:
        mill.sql(each)
    for name, query in _VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for step in range(3):
        mill.insert("r", [_row(chance, 10 * step + i, now) for i in range(8)])
        mill.insert("s", [_interval(chance, 10 * step + i, now) for i in range(3)])
        if step % 2:
            mill.checkpoint()
        shown = {name: Counter(mill[name].rows()) for name in _VIEWS}
        mill.close()
        with vm.connect(path, clock=_START - _HOUR) as still:  # time does not go back
            assert {name: Counter(still[name].rows()) for name in _VIEWS} == shown
        now += dt.timedelta(minutes=chance.choice([10, 200]))
        mill = vm.connect(path, clock=now)
        _check(mill, now, _VIEWS)
    mill.close()


@pytest.mark.usefixtures("uncompiled")
def test_rows_leave_by_themselves_when_nobody_asks() -> None:
    mill = vm.connect()
    mill.sql(_TABLES[0])
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM r WHERE ts > now()")
    told: list[Any] = []
    mill["v"].subscribe(told.append)
    soon = dt.datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=0.3)
    mill.insert("r", [(1, soon, None, 0)])
    end = time.monotonic() + 20
    while len(told) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert len(told) == 2
    assert mill["v"].rows() == []


@pytest.mark.usefixtures("uncompiled")
def test_a_refused_batch_leaves_time_and_rows_alone() -> None:
    mill = vm.connect(clock="2024-01-01 12:00:00")
    mill.sql(_TABLES[0])
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT 10 DIV k AS x FROM r WHERE ts > now()")
    later = dt.datetime(2024, 1, 1, 13)
    mill.insert("r", [(1, later, None, 1)])
    with pytest.raises(vm.ViewmillError):
        mill.insert("r", [(2, later, None, 2), (3, later, None, 0)])
    assert mill["v"].rows() == [(10,)]
    mill.advance(to=later)
    assert mill["v"].rows() == []
    mill.insert("r", [(4, later, None, 0)])  # it is never shown, so nothing divides by its zero
    assert mill["v"].rows() == []


_EDGES = (
    "ts > now() - INTERVAL 1 MONTH", "ts <= now() + INTERVAL 1 MONTH",
    "ts = date_trunc('month', now())",
    "ts >= date_trunc('quarter', now())", "ts < date_trunc('year', now())",
    "ts > date_trunc('week', now())", "ts <= date_trunc('minute', now())",
    "d = current_date()", "d < current_date()", "d > current_date()", "d <= current_date() - 31",
    "d >= add_months(current_date(), 1)", "d = add_months(current_date(), -1)",
    "d > trunc(current_date(), 'week')", "d <= trunc(current_date(), 'month')",
    "d = now() + INTERVAL 36 HOUR", "d > now()", "year(current_date()) = n",
    "year(current_date()) <= n", "datediff(current_date(), least(d, DATE '9990-01-01')) < n - 2020",
    "datediff(current_date(), d) < 3", "ts = now() - INTERVAL 1 MONTH",
    "d = cast(now() - INTERVAL 1 MONTH AS DATE)",
    "datediff(d, current_date()) >= 2", "now() - ts <= INTERVAL 36 HOUR",
    "ts - now() > INTERVAL 1 DAY",
    "unix_seconds(now()) >= s", "unix_timestamp(now()) < s",
    "NOT (ts <= now())",
)  # fmt: skip


@pytest.mark.usefixtures("uncompiled")
def test_every_form_of_a_deadline_is_met_to_the_microsecond() -> None:
    """The engine answers the same condition as of each moment, on both sides of each midnight."""
    mill = vm.connect(clock=dt.datetime(2024, 1, 28, 23, 59, 59, 999_999))
    mill.sql("CREATE TABLE r (id INT, ts TIMESTAMP, d DATE, n INT, s BIGINT)")
    days = [dt.datetime(2023, 12, 28) + dt.timedelta(days=i) for i in range(0, 96, 3)]
    edges = [each + dt.timedelta(microseconds=m) for each in days for m in (-1, 0, 1)]
    rows = [
        (i, at, at.date(), 2020 + i % 5, int(at.replace(tzinfo=dt.UTC).timestamp()) + i % 2)
        for i, at in enumerate([*edges, dt.datetime(9999, 12, 31, 23, 59, 59)])
    ]
    for i, condition in enumerate(_EDGES):
        mill.sql(f"CREATE MATERIALIZED VIEW v{i} AS SELECT id FROM r WHERE {condition}")
    mill.insert("r", [*rows, (-1, None, None, None, None)])
    for day in ("2024-01-29", "2024-01-31", "2024-02-29", "2024-03-01", "2024-03-30", "2024-03-31"):
        for micros in (-1, 0, 1):
            now = dt.datetime.fromisoformat(day) + dt.timedelta(microseconds=micros)
            mill.advance(to=now)
            for i, condition in enumerate(_EDGES):
                found = sorted(mill[f"v{i}"].rows())
                asked = mill.sql(f"SELECT id FROM r WHERE {condition}").rows()
                assert found == sorted(asked), (condition, now)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT id, now() AS x FROM r", "now()"),
        ("SELECT id FROM r WHERE month(current_date()) = k", "month(current_date())"),
        ("SELECT first(id) AS x FROM r WHERE ts > now()", "first(id)"),
    ],
)
def test_what_has_no_deadlines_is_refused_with_its_place(query: str, said: str) -> None:
    mill = vm.connect()
    mill.sql(_TABLES[0])
    with pytest.raises(vm.UnsupportedQuery) as refused:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert refused.value.span is not None
    assert said.startswith(refused.value.span.text)


def test_a_clock_is_a_function_or_a_time() -> None:
    with pytest.raises(vm.InvalidArgument, match="is no time"):
        vm.connect(clock="yesterday")
    with pytest.raises(vm.InvalidArgument, match="a time is a datetime"):
        vm.connect(clock=lambda: None)
