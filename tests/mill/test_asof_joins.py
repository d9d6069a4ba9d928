"""ASOF JOIN and FOR SYSTEM_TIME AS OF, compared with a loop over all pairs."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import pytest

import viewmill as vm
from viewmill.errors import UnsupportedQuery

pytestmark = pytest.mark.usefixtures("uncompiled")
_START = dt.datetime(2024, 1, 1)
_SECOND = dt.timedelta(seconds=1)
_TABLES = (
    "CREATE TABLE p (ts TIMESTAMP, k STRING, x INT)",
    "CREATE TABLE q (ts TIMESTAMP, k STRING, y INT) TIMESTAMP BY ts",
)
_JOINS = {
    ">=": "SELECT p.x, q.y FROM p ASOF JOIN q MATCH_CONDITION (p.ts >= q.ts) ON p.k = q.k",
    ">": "SELECT p.x, q.y FROM p LEFT ASOF JOIN q MATCH_CONDITION (p.ts > q.ts) USING (k)",
    "<=": "SELECT p.x, q.y FROM p ASOF JOIN q MATCH_CONDITION (q.ts >= p.ts) ON q.k = p.k",
    "<": "SELECT p.x, q.y FROM p LEFT JOIN (SELECT 1) ON false ASOF LEFT JOIN q"
    " ON p.k = q.k AND p.ts < q.ts AND p.x > 3 AND q.y < 9",
    "version": "SELECT p.x, v.y FROM p LEFT JOIN q FOR SYSTEM_TIME AS OF p.ts AS v ON p.k = v.k",
}
_LEFT = (">", "<", "version")


def _nearest(name: str, left: Any, right: list[Any]) -> Any:
    """The row of `right` that a row of `left` meets, or None."""
    ts, k, x = left
    if ts is None or k is None or (name == "<" and not x > 3):
        return None
    there = [r for r in right if r[0] is not None and r[1] == k and (name != "<" or r[2] < 9)]
    if name in (">=", "version"):
        return max((r for r in there if r[0] <= ts), default=None)
    if name == ">":
        return max((r for r in there if r[0] < ts), default=None)
    if name == "<=":
        return min((r for r in there if r[0] >= ts), default=None)
    return min((r for r in there if r[0] > ts), default=None)


def _expected(name: str, left: list[Any], right: list[Any]) -> Counter[Any]:
    found = Counter[Any]()
    for each in left:
        near = _nearest(name, each, right)
        if near is not None:
            found[each[2], near[2]] += 1
        elif name in _LEFT:
            found[each[2], None] += 1
    return found


def _row(chance: random.Random) -> tuple[Any, ...]:
    ts = chance.choice([None, *(_START + _SECOND * chance.randrange(20) for _ in range(9))])
    return ts, chance.choice(["a", "b", None, "a"]), chance.randrange(12)


@pytest.mark.parametrize("seed", [1])
def test_each_row_meets_the_nearest_one(seed: int) -> None:
    chance, mill = random.Random(seed), vm.connect()
    for each in _TABLES:
        mill.sql(each)
    for name, query in _JOINS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW `{name}` REFRESH POLICY INCREMENTAL STRICT AS {query}")
    calls = {name: mill[name].status()["engine_calls"] for name in _JOINS}
    rows: dict[str, list[Any]] = {"p": [], "q": []}
    for _ in range(6):
        with mill.batch():
            for table, kept in rows.items():
                gone = chance.sample(kept, min(len(kept), chance.randrange(3)))
                mill.delete(table, gone)
                for each in gone:
                    kept.remove(each)
                came = [r for r in (_row(chance) for _ in range(4)) if table == "p" or r[0]]
                mill.insert(table, came)
                kept.extend(came)
        for name in _JOINS:
            assert Counter(mill[name].rows()) == _expected(name, rows["p"], rows["q"]), name
    assert not [each for name in _JOINS for each in mill[name].verify()]
    assert {name: mill[name].status()["engine_calls"] for name in _JOINS} == calls


def test_a_version_counts_until_the_next_one_as_time_passes() -> None:
    mill = vm.connect(clock="2024-01-01 00:00:00")
    for each in _TABLES:
        mill.sql(each)
    mill.sql("""
        CREATE MATERIALIZED VIEW current REFRESH POLICY INCREMENTAL STRICT AS
        SELECT p.x, q.y FROM p JOIN q FOR SYSTEM_TIME AS OF now() ON p.k = q.k
    """)
    mill.insert("p", [(_START, "a", 1)])
    mill.insert("q", [(_START + i * _SECOND, "a", i) for i in (5, 9)])
    for second, shown in ((4, []), (5, [(1, 5)]), (8, [(1, 5)]), (9, [(1, 9)]), (99, [(1, 9)])):
        mill.advance(to=_START + second * _SECOND)
        assert mill["current"].rows() == shown
    mill.delete("q", [(_START + 9 * _SECOND, "a", 9)])
    assert mill["current"].rows() == [(1, 5)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("p ASOF JOIN q ON p.k = q.k", "one inequality"),
        ("p RIGHT ASOF JOIN q MATCH_CONDITION (p.ts >= q.ts) ON p.k = q.k", "INNER or LEFT"),
        ("p ASOF JOIN q MATCH_CONDITION (p.ts >= p.ts) ON p.k = q.k", "the other"),
        ("p ASOF JOIN q MATCH_CONDITION (p.ts >= q.ts) ON p.x > q.y", "has equalities"),
        ("q JOIN p FOR SYSTEM_TIME AS OF q.ts ON p.k = q.k", "from when the rows"),
        ("p JOIN last FOR SYSTEM_TIME AS OF p.ts ON p.k = last.k", "only the last row"),
    ],
)
def test_what_has_no_nearest_row_is_refused(query: str, message: str) -> None:
    mill = vm.connect()
    for each in _TABLES:
        mill.sql(each)
    mill.sql("CREATE TABLE last (k STRING, ts TIMESTAMP, PRIMARY KEY (k)) TIMESTAMP BY ts")
    with pytest.raises(vm.errors.ViewmillError, match=message) as raised:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT p.x FROM {query}")
    assert raised.value.span is not None
    assert isinstance(raised.value, UnsupportedQuery) or "INNER" in message
