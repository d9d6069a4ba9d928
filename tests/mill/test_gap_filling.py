"""time_bucket against arithmetic of Python, time_bucket_gapfill against a loop over all buckets."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")
_START = dt.datetime(2024, 1, 1)
_MINUTE = dt.timedelta(minutes=1)
_RANGE = ", TIMESTAMP '2024-01-01 00:05:00', TIMESTAMP '2024-01-01 00:33:00'"
_VALUES = "sum(x) AS s, locf(sum(x)) AS l, interpolate(avg(x)) AS i, coalesce(count(*), 0) AS n"


def _groups(rows: list[Any]) -> dict[Any, dict[int, list[Any]]]:
    found: dict[Any, dict[int, list[Any]]] = {}
    for ts, k, x in rows:
        if ts is not None:
            at = (ts - _START) // _MINUTE // 4
            found.setdefault(k, {}).setdefault(at, []).append(x)
    return found


def _sum(values: list[Any]) -> Any:
    there = [each for each in values if each is not None]
    return sum(there) if there else None


def _average(values: list[Any]) -> Any:
    there = [each for each in values if each is not None]
    return sum(there) / len(there) if there else None


def _line(buckets: dict[int, list[Any]], at: int) -> Any:
    before = max((each for each in buckets if each <= at), default=None)
    after = min((each for each in buckets if each >= at), default=None)
    if before is None or after is None:
        return None
    low, high = _average(buckets[before]), _average(buckets[after])
    if before == after or low is None or high is None:
        return low if before == after else None
    return low + (high - low) * (at - before) / (after - before)


def _expected(rows: list[Any], *, ranged: bool) -> Counter[Any]:
    found = Counter[Any]()
    for k, buckets in _groups(rows).items():
        low, high = min(buckets), max(buckets)
        if ranged:
            low, high = min(low, 1), max(high, 8)
        carried = None
        for at in range(low, high + 1):
            total = _sum(buckets.get(at, []))
            carried = total if at in buckets else carried
            line = _line(buckets, at)
            shown = None if line is None else round(line, 6)
            start = _START + 4 * at * _MINUTE
            found[start, k, total, carried, shown, len(buckets.get(at, []))] += 1
    return found


def _row(chance: random.Random) -> tuple[Any, ...]:
    ts = chance.choice([None, *(_START + _MINUTE * chance.randrange(40) for _ in range(9))])
    return ts, chance.choice(["a", "b", None]), chance.choice([1, 3, 4, 5, None])


def test_empty_buckets_are_filled_whatever_comes_and_goes() -> None:
    chance, mill = random.Random(7), vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP, k STRING, x INT)")
    for name, more in (("own", ""), ("ranged", _RANGE)):
        mill.sql(f"""
            CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT AS
            SELECT time_bucket_gapfill(INTERVAL 4 MINUTES, ts{more}) AS at, k, {_VALUES}
            FROM p GROUP BY at, p.k
        """)
    calls = {name: mill[name].status()["engine_calls"] for name in ("own", "ranged")}
    rows: list[Any] = []
    for _ in range(5):
        with mill.batch():
            gone = chance.sample(rows, min(len(rows), chance.randrange(4)))
            mill.delete("p", gone)
            for each in gone:
                rows.remove(each)
            came = [_row(chance) for _ in range(3)]
            mill.insert("p", came)
            rows.extend(came)
        for name in calls:
            shown = [(*r[:4], None if r[4] is None else round(r[4], 6), r[5])
                     for r in mill[name].rows()]  # fmt: skip
            assert Counter(shown) == _expected(rows, ranged=name == "ranged"), name
    assert not [each for name in calls for each in mill[name].verify()]
    assert {name: mill[name].status()["engine_calls"] for name in calls} == calls


def test_buckets_of_months_are_filled() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP, x INT)")
    mill.insert("p", [(dt.datetime(2023, 11, 5), 2), (dt.datetime(2024, 5, 30), 8)])
    mill.sql("""
        CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS
        SELECT time_bucket_gapfill(INTERVAL 3 MONTHS, ts) AS quarter, interpolate(sum(x)) AS x
        FROM p GROUP BY 1
    """)
    starts = [dt.datetime(2023, 10, 1), dt.datetime(2024, 1, 1), dt.datetime(2024, 4, 1)]
    assert sorted(mill["v"].rows()) == list(zip(starts, (2.0, 5.0, 8.0), strict=True))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT time_bucket_gapfill(INTERVAL 1 DAY, ts) AS d FROM p", "GROUP BY"),
        ("SELECT time_bucket_gapfill('1 day', ts) AS d FROM p GROUP BY 1", "INTERVAL"),
        ("SELECT time_bucket_gapfill(INTERVAL 1 DAY, ts) AS d, x FROM p GROUP BY 1", '"x"'),
        ("SELECT time_bucket_gapfill(INTERVAL 1 DAY, ts) AS d FROM p GROUP BY 1 HAVING true",
         "HAVING"),
        ("SELECT time_bucket(INTERVAL 1 DAY, x) AS d FROM p", "TIMESTAMP"),
        ("SELECT time_bucket(INTERVAL 1 MONTH, ts, TIMESTAMP '2024-01-31 00:00:00') AS d FROM p",
         "day 31"),
    ],
)  # fmt: skip
def test_what_is_no_bucket_is_underlined(query: str, message: str) -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP, k STRING, x INT)")
    with pytest.raises(vm.errors.ViewmillError, match=message) as raised:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert raised.value.span is not None


def test_time_bucket_answers_what_spark_answers() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE p (ts TIMESTAMP)")
    mill.insert("p", [(dt.datetime(2024, 1, 1, 0, 0, 5),), (None,)])
    mill.sql("""
        CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS
        SELECT time_bucket(INTERVAL 10 MINUTES, ts) AS a, time_bucket(INTERVAL 7 DAYS, ts) AS b,
            time_bucket(INTERVAL '5' MONTH, ts, TIMESTAMP '2024-01-15 06:00:00') AS c,
            time_bucket(INTERVAL 7 DAYS, ts, TIMESTAMP '2030-01-15 06:00:00') AS d
        FROM p WHERE ts IS NOT NULL
    """)
    assert [tuple(map(str, row)) for row in mill["v"].rows()] == [
        ("2024-01-01 00:00:00", "2023-12-28 00:00:00", "2023-08-15 06:00:00", "2023-12-26 06:00:00")
    ]
    assert mill["v"].verify() == []
