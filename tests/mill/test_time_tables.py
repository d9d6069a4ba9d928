"""TUMBLE, HOP, CUMULATE and SESSION in FROM, compared with loops over all rows."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")
_START = dt.datetime(2024, 1, 1)
_MINUTE = dt.timedelta(minutes=1)
_FROM = {
    "tumble": "TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL -3 MINUTES))",
    "hop": "HOP(DATA => TABLE p, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL 10 MINUTES,"
    " SLIDE => INTERVAL 4 MINUTES)",
    "cumulate": "TABLE(CUMULATE(TABLE p, DESCRIPTOR(ts), '5 minutes', INTERVAL 15 MINUTES)) c",
    "session": "SESSION((SELECT * FROM p WHERE x > 2) PARTITION BY k, DESCRIPTOR(ts), '4 minutes')",
}
_COLUMNS = "ts, k, x, window_start, window_end, window_time"


def _windows(name: str, ts: dt.datetime) -> Iterator[tuple[dt.datetime, dt.datetime]]:
    """Every window of whole minutes that a row is in."""
    for i in range(-30, 70):
        at = _START + i * _MINUTE
        if name == "tumble" and (i + 3) % 10 == 0 and at <= ts < at + 10 * _MINUTE:
            yield at, at + 10 * _MINUTE
        epoch = (at - dt.datetime(1970, 1, 1)) // _MINUTE
        if name == "hop" and epoch % 4 == 0 and at <= ts < at + 10 * _MINUTE:
            yield at, at + 10 * _MINUTE
        for length in (5, 10, 15):
            end = at + length * _MINUTE
            if name == "cumulate" and i % 15 == 0 and at <= ts < end:
                yield at, end


def _sessions(rows: list[Any]) -> Iterator[tuple[Any, dt.datetime, dt.datetime]]:
    for row in rows:
        if row[0] is None or row[2] is None or row[2] <= 2:
            continue
        alike = [r[0] for r in rows if r[0] and r[1] == row[1] and r[2] is not None and r[2] > 2]
        low = high = row[0]
        while near := [t for t in alike if low - 4 * _MINUTE <= t < low]:
            low = min(near)
        while near := [t for t in alike if high < t <= high + 4 * _MINUTE]:
            high = max(near)
        yield row, low, high + 4 * _MINUTE


def _expected(name: str, rows: list[Any]) -> Counter[Any]:
    last = dt.timedelta(microseconds=1)
    if name == "session":
        found = _sessions(rows)
        return Counter((*row, start, end, end - last) for row, start, end in found)
    return Counter(
        (*row, start, end, end - last)
        for row in rows
        if row[0] is not None
        for start, end in _windows(name, row[0])
    )


def _row(chance: random.Random) -> tuple[Any, ...]:
    ts = chance.choice([None, *(_START + _MINUTE * chance.randrange(40) for _ in range(9))])
    return ts, chance.choice(["a", "b", None]), chance.choice([1, 3, 4, 5, None])


def test_rows_are_in_their_windows_whatever_comes_and_goes() -> None:
    chance, mill = random.Random(5), vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP, k STRING, x INT)")
    for name, source in _FROM.items():
        mill.sql(f"""
            CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT AS
            SELECT {_COLUMNS} FROM {source}
        """)
    calls = {name: mill[name].status()["engine_calls"] for name in _FROM}
    rows: list[Any] = []
    for _ in range(6):
        with mill.batch():
            gone = chance.sample(rows, min(len(rows), chance.randrange(4)))
            mill.delete("p", gone)
            for each in gone:
                rows.remove(each)
            came = [_row(chance) for _ in range(5)]
            mill.insert("p", came)
            rows.extend(came)
        for name in _FROM:
            assert Counter(mill[name].rows()) == _expected(name, rows), name
    assert not [each for name in _FROM for each in mill[name].verify()]
    assert {name: mill[name].status()["engine_calls"] for name in _FROM} == calls


def test_windows_are_grouped_and_joined_like_any_columns() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE `my rows` (`from` TIMESTAMP, `sélect` INT)")
    mill.insert("my rows", [(_START + i * 4 * _MINUTE, i) for i in range(5)])
    mill.sql("""
        CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS
        SELECT a.window_end, sum(a.`sélect` * b.`sélect`) AS n
        FROM TUMBLE(TABLE `my rows`, DESCRIPTOR(`from`), INTERVAL 10 MINUTES) a
        JOIN TABLE(TUMBLE(`my rows`, `from`, '10 minutes')) AS b USING (window_end)
        GROUP BY a.window_end
    """)
    assert sorted(mill["v"].rows()) == [(_START + 10 * _MINUTE, 9), (_START + 20 * _MINUTE, 49)]


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("TUMBLE(p, ts, 7)", "7"),
        ("TUMBLE(p, ts, INTERVAL 1 MONTH)", "INTERVAL"),
        ("TUMBLE(p, ts)", ")"),
        ("TUMBLE(p, ts, INTERVAL 0 DAYS)", "INTERVAL"),
        ("HOP(p, ts, '2 days', '1 day')", ")"),
        ("HOP(p, ts, '1 second', '1 day')", ")"),
        ("CUMULATE(p, ts, '7 minutes', '10 minutes')", ")"),
        ("SESSION(p, ts, SLIDE => '1 day')", "'1 day'"),
        ("TUMBLE(p PARTITION BY k, ts, '1 day')", "PARTITION BY"),
        ("TUMBLE(p, nothing, '1 day')", "nothing"),
        ("TUMBLE(nowhere, ts, '1 day')", "nowhere"),
        ("TUMBLE(p, x, '1 day')", "x"),
    ],
)
def test_a_call_that_says_nothing_is_underlined(source: str, part: str) -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP, k STRING, x INT)")
    with pytest.raises(vm.errors.ViewmillError) as raised:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT 1 AS a FROM {source}")
    assert raised.value.span is not None
    assert raised.value.span.text.strip("\"'") == part.strip("'")


def test_a_pattern_reads_a_call() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP, k STRING, x INT)")
    mill.sql("""
        CREATE MATERIALIZED VIEW v AS
        SELECT * FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), '5 minutes')) MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY ts MEASURES LAST(window_end) AS at
            PATTERN (low high) DEFINE high AS x > PREV(x)
        )
    """)
    mill.insert("p", [(_START, "a", 1), (_START + 6 * _MINUTE, "a", 2)])
    assert mill["v"].rows() == [("a", _START + 10 * _MINUTE)]
