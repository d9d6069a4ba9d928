"""[WINDOW ...] over views, joins and subqueries, and EMIT FINAL, compared with loops over rows."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

pytestmark = pytest.mark.usefixtures("uncompiled")
_START = dt.datetime(2024, 1, 1)
_SECOND = dt.timedelta(seconds=1)
_TABLES = (
    "CREATE TABLE p (ts TIMESTAMP, k STRING, x INT) TIMESTAMP BY ts LATENESS INTERVAL 2 SECONDS",
    "CREATE TABLE q (ts TIMESTAMP, k STRING, y INT) TIMESTAMP BY ts",
    "CREATE TABLE names (k STRING, name STRING)",
    "CREATE MATERIALIZED VIEW pairs AS SELECT p.ts, p.k, p.x, q.y FROM p JOIN q ON p.k = q.k",
    "CREATE VIEW large AS SELECT * FROM p WHERE x > 1",
)
_GROUPED = "k, count(DISTINCT x) AS d, sum(x) FILTER (WHERE x > 2) AS s"
_VIEWS = {
    "of_view": "SELECT k, count(*) AS n FROM pairs [WINDOW 10 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "of_query": "SELECT z.x, z.y FROM (SELECT p.ts AS a, q.ts AS b, p.x, q.y FROM p"
    " JOIN q ON p.k = q.k) z [WINDOW 10 SECONDS SLIDE 3 SECONDS ON b]",
    "of_plain": f"SELECT {_GROUPED} FROM large [WINDOW 10 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "joined": "SELECT a.x, b.y FROM p [WINDOW 8 SECONDS SLIDE 2 SECONDS] a"
    " JOIN q [WINDOW 6 SECONDS SLIDE 3 SECONDS] b ON a.k = b.k LEFT JOIN names n ON n.k = a.k",
    "bounds": "SELECT k, window.start, window_end, max(x) AS x"
    " FROM p [WINDOW 10 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "final": "SELECT k, window.end AS e, count(DISTINCT x) AS n FROM p"
    " GROUP BY k, window(ts, '6 seconds', '3 seconds') EMIT FINAL",
    "sessions": "SELECT k, session_window.start AS s, session_window.end AS e, sum(x) AS x FROM p"
    " GROUP BY k, session_window(ts, '3 seconds') EMIT FINAL",
}
Rows = dict[str, list[Any]]
Times = dict[str, int | None]


def _seconds(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // _SECOND


def _moment(seconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + seconds * _SECOND


def _last(rows: list[Any], at: int, lengths: tuple[int, int], reached: int | None) -> list[Any]:
    """The rows of the last window, by the time at a position."""
    if reached is None:
        return []
    size, slide = lengths
    end = reached - reached % slide
    return [r for r in rows if r[at] is not None and end - size <= _seconds(r[at]) < end]


def _grouped(rows: list[Any], of: Any) -> Counter[Any]:
    groups: dict[Any, list[Any]] = {}
    for each in rows:
        groups.setdefault(each[1], []).append(each)
    return Counter((k, *of(members)) for k, members in groups.items())


def _sum(values: list[int]) -> int | None:
    return sum(values) if values else None


def _sessions(rows: list[Any], reached: int) -> Counter[Any]:
    found = Counter[Any]()
    for k in {r[1] for r in rows}:
        own = sorted((_seconds(r[0]), r[2]) for r in rows if r[1] == k and r[0] is not None)
        runs: list[list[Any]] = []
        for each in own:
            if runs and each[0] <= runs[-1][-1][0] + 3:
                runs[-1].append(each)
            else:
                runs.append([each])
        for run in runs:
            if run[-1][0] + 3 <= reached:
                total = _sum([x for _, x in run])
                found[k, _moment(run[0][0]), _moment(run[-1][0] + 3), total] += 1
    return found


def _expected(name: str, rows: Rows, times: Times) -> Counter[Any]:
    p, q = rows["p"], rows["q"]
    both = None if None in times.values() else min(t for t in times.values() if t is not None)
    pairs = [(*a, *b) for a in p for b in q if a[1] == b[1] and a[1] is not None]
    match name:
        case "of_view":
            return _grouped(_last(pairs, 0, (10, 3), both), lambda g: (len(g),))
        case "of_query":
            return Counter((r[2], r[5]) for r in _last(pairs, 3, (10, 3), both))
        case "of_plain":
            large = [r for r in p if r[2] > 1]
            return _grouped(
                _last(large, 0, (10, 3), times["p"]),
                lambda g: (len({r[2] for r in g}), _sum([r[2] for r in g if r[2] > 2])),
            )
        case "joined":
            left, right = _last(p, 0, (8, 2), times["p"]), _last(q, 0, (6, 3), times["q"])
            return Counter((a[2], b[2]) for a in left for b in right if a[1] == b[1] is not None)
        case "bounds":
            reached = times["p"] or 0
            end = _moment(reached - reached % 4)
            shown = _last(p, 0, (10, 4), times["p"])
            return _grouped(shown, lambda g: (end - 10 * _SECOND, end, max(r[2] for r in g)))
        case "final":
            found = Counter[Any]()
            reached = times["p"] if times["p"] is not None else -1
            ends = {_seconds(r[0]) // 3 * 3 + i for r in p if r[0] for i in (3, 6)}
            for last in [each for each in ends if each <= reached]:
                held = [r for r in p if r[0] and last - 6 <= _seconds(r[0]) < last]
                e = _moment(last)
                found += _grouped(held, lambda g, e=e: (e, len({r[2] for r in g})))
            return found
    return _sessions(p, times["p"] if times["p"] is not None else -1)


class _Session:
    """A mill, the rows that it should hold, and how far time should have come."""

    def __init__(self, path: Path | None, policy: str) -> None:
        self.path, self.rows = path, Rows(p=[], q=[])
        self.times: Times = {"p": None, "q": None}
        self.mill: Mill = vm.connect() if path is None else vm.connect(path)
        for each in _TABLES:
            self.mill.sql(each)
        for name, query in _VIEWS.items():
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL STRICT"
                          f" {policy} AS {query}")  # fmt: skip

    def change(self, chance: random.Random, now: int) -> None:
        with self.mill.batch():
            for table, kept in self.rows.items():
                gone = chance.sample(kept, min(len(kept), chance.choice([0, 0, 1, 3])))
                self.mill.delete(table, gone)
                for each in gone:
                    kept.remove(each)
                came = [(_START + _SECOND * (now - chance.choice([0, 1, 2, 9])),
                         chance.choice(["a", "b", None]), chance.randrange(5))
                        for _ in range(chance.randrange(4))]  # fmt: skip
                self.mill.insert(table, came)
                kept.extend(came)
                self._reach(table, came, 2 if table == "p" else 0)

    def _reach(self, table: str, came: list[Any], lateness: int) -> None:
        found = [_seconds(r[0]) - lateness for r in came]
        known = [self.times[table]] if self.times[table] is not None else []
        self.times[table] = max([*found, *known], default=None)  # type: ignore[type-var]

    def tick(self, table: str, now: int) -> None:
        moment = _seconds(_START) + now
        if moment >= (self.times[table] or 0):
            self.mill.advance(table, to=_moment(moment))
            self.times[table] = moment

    def check(self) -> None:
        for name in _VIEWS:
            expected = _expected(name, self.rows, self.times)
            assert Counter(self.mill[name].rows()) == expected, (name, self.times)

    def reopen(self) -> None:
        assert self.path is not None
        self.mill.close()
        self.mill = vm.connect(self.path)


@pytest.mark.parametrize("seed", [1])
def test_windows_are_those_that_time_has_closed(seed: int) -> None:
    chance, session = random.Random(seed), _Session(None, "")
    calls = {name: session.mill[name].status()["engine_calls"] for name in _VIEWS}
    now = 0
    for _ in range(12):
        now += chance.choice([0, 1, 2, 4])
        if chance.random() < 0.3:
            session.tick(chance.choice("pq"), now)
        else:
            session.change(chance, now)
        session.check()
    assert not [each for name in _VIEWS for each in session.mill[name].verify()]
    assert {name: session.mill[name].status()["engine_calls"] for name in _VIEWS} == calls


@pytest.mark.parametrize("policy", ["", "REFRESH ON DEMAND"])
def test_they_come_back_as_they_were(tmp_path: Path, policy: str) -> None:
    chance, session, now = random.Random(3), _Session(tmp_path / "m", policy), 0
    for step in range(6):
        now += chance.choice([1, 2, 4])
        session.change(chance, now)
        if step % 2:
            session.tick("p", now)
        if policy:
            assert not [each for name in _VIEWS for each in session.mill[name].verify()]
            for name in _VIEWS:
                session.mill[name].refresh()
        session.check()
        if step in (2, 4):
            session.reopen()
            session.check()
    session.mill.close()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k FROM names [WINDOW 1 DAY SLIDE 1 DAY]", "how far time has come"),
        ("SELECT k FROM (SELECT k FROM names) n [WINDOW 1 DAY SLIDE 1 DAY]", "how far time has"),
        ("SELECT 1 AS a FROM (SELECT k FROM p) n [WINDOW 1 DAY SLIDE 1 DAY]", "one column"),
        ("SELECT 1 AS a FROM pairs [WINDOW 1 DAY]", "how far it slides"),
        ("SELECT 1 AS a FROM pairs [WINDOW 5 ROWS SLIDE 1 ROWS]", "needs a table"),
        ("SELECT 1 AS a FROM pairs [WINDOW 1 DAY SLIDE 1 DAY ON x]", "TIMESTAMP, got INT"),
        ("SELECT k, count(*) AS n FROM p GROUP BY k EMIT FINAL", "there is no window"),
    ],
)
def test_a_window_without_a_time_is_underlined(query: str, message: str) -> None:
    mill = vm.connect()
    for each in _TABLES:
        mill.sql(each)
    with pytest.raises(vm.errors.ViewmillError, match=message) as raised:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert raised.value.span is not None


def test_a_recomputed_view_over_a_view_hears_ticks() -> None:
    mill = vm.connect()
    mill.sql("CREATE TABLE `Bids of 日` (ts TIMESTAMP, x INT) TIMESTAMP BY ts")
    mill.sql("CREATE MATERIALIZED VIEW low AS SELECT ts, x FROM `bids of 日` WHERE x < 9")
    mill.sql("""
        CREATE MATERIALIZED VIEW v REFRESH POLICY FULL AS
        SELECT window_end, count(*) AS n FROM low [WINDOW 10 SECONDS SLIDE 5 SECONDS]
    """)
    mill.insert("Bids of 日", [(_START, 1), (_START + 6 * _SECOND, 2)])
    assert mill["v"].rows() == [(_START + 5 * _SECOND, 1)]
    mill.advance("bids of 日", to=_START + 13 * _SECOND)
    assert mill["v"].rows() == [(_START + 10 * _SECOND, 2)]
    assert mill["v"].verify() == []
