"""Window views of one stream, together: right at every step, whatever comes, joins, goes or fails.

The oracle is a fold over lists of rows: it shares nothing with what it judges.
"""

import datetime as dt
import math
import random
from collections import Counter, defaultdict

import pytest

import viewmill as vm

START = dt.datetime(2024, 1, 1)
COLUMNS = "ts TIMESTAMP, k BIGINT, g STRING, x BIGINT, d DOUBLE"
SHOWN = (
    "count(*) AS n, count(x) AS nx, sum(x) AS t, avg(x) AS a, min(x) AS low, max(d) AS high,"
    " var_pop(d) AS v, stddev(x) AS s, arg_max(x, d) AS best, arg_min(d, x) AS worst"
)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def seconds(moment):
    return (moment - dt.datetime(1970, 1, 1)).total_seconds()


def random_rows(chance, now, late, count):
    rows = []
    for _ in range(count):
        now += chance.random() * 3
        moment = at(round(now - chance.random() * late, 6))
        x = None if chance.random() < 0.1 else chance.randrange(-50, 50)
        d = None if chance.random() < 0.1 else chance.choice([0.5, 1.25, -3.0, chance.random()])
        rows.append((moment, chance.randrange(3), chance.choice("ab"), x, d))
    return rows, now


def answer(rows):
    """What SHOWN is over rows in order."""
    xs = [r[3] for r in rows if r[3] is not None]
    ds = [r[4] for r in rows if r[4] is not None]
    mean = math.fsum(ds) / len(ds) if ds else 0
    spread = math.fsum((d - mean) ** 2 for d in ds)
    whole = sum(xs) / len(xs) if xs else 0
    squares = math.fsum((x - whole) ** 2 for x in xs)
    best = max((r for r in rows if r[4] is not None), key=lambda r: r[4], default=None)
    worst = min((r for r in rows if r[3] is not None), key=lambda r: r[3], default=None)
    return (
        len(rows),
        len(xs),
        sum(xs) if xs else None,
        sum(xs) / len(xs) if xs else None,
        min(xs, default=None),
        max(ds, default=None),
        spread / len(ds) if ds else None,
        math.sqrt(squares / (len(xs) - 1)) if len(xs) > 1 else None,
        best and best[3],
        worst and worst[4],
    )


def expected(rows, keys, where):
    groups = defaultdict(list)
    for row in sorted(filter(where, rows), key=lambda r: r[0]):
        groups[tuple(row[i] for i in keys)].append(row)
    if not keys and not groups:
        groups[()] = []
    return {key: answer(each) for key, each in groups.items()}


def same(found, wanted, keys):
    shown = {row[: len(keys)]: row[len(keys) :] for row in found}
    assert shown.keys() == wanted.keys()
    for key, row in shown.items():
        for a, b in zip(row, wanted[key], strict=True):
            assert a == b or (a is not None and b is not None and math.isclose(a, b, abs_tol=1e-9))


# WHERE, and the same in Python.
CONDITIONS = [
    ("", lambda r: True),
    ("WHERE d > 0.3", lambda r: r[4] is not None and r[4] > 0.3),
    ("WHERE g = 'a' AND x IS NOT NULL", lambda r: r[2] == "a" and r[3] is not None),
]
WINDOWS = [(60, 7), (20, 20), (10, 1), (5, 9), (21, 6), (40, 4)]
KEYS = [("", ()), ("k", (1,)), ("k, g", (1, 2))]


class Twin:
    """A view and what it should show."""

    def __init__(self, chance, number):
        self.name = f"v{number}"
        self.size, self.slide = chance.choice(
            [(60, 7), (20, 20), (10, 1), (5, 9), (21, 6), (40, 4)]
        )
        (self.by, self.keys), (self.where, self.passes) = (
            chance.choice(KEYS),
            chance.choice(CONDITIONS),
        )
        self.heard: Counter[tuple[object, ...]] | None = None

    def create(self, mill, chance):
        keys, group = (f"{self.by}, ", f" GROUP BY {self.by}") if self.by else ("", "")
        hint = chance.choice(["", "", "/*+ TECHNIQUE(naive) */ ", "/*+ TECHNIQUE(flatfat) */ "])
        mill.sql(
            f"CREATE MATERIALIZED VIEW {self.name} REFRESH POLICY INCREMENTAL STRICT AS"
            f" SELECT {hint}{keys}{SHOWN} FROM s"
            f" [WINDOW {self.size} SECONDS SLIDE {self.slide} SECONDS] {self.where}{group}"
        )
        if chance.random() < 0.5:
            heard = self.heard = Counter(mill[self.name].rows())
            mill[self.name].subscribe(lambda change: hear(change, heard))

    def check(self, mill, rows, reached):
        end = reached // self.slide * self.slide
        seen = [r for r in rows if end - self.size <= seconds(r[0]) < end]
        found = mill[self.name].rows()
        same(found, expected(seen, self.keys, self.passes), self.keys)
        if self.heard is not None:
            assert +self.heard == Counter(found)
            assert not -self.heard


def hear(change, heard):
    for row in change.to_arrow().to_pylist():
        times = row.pop("_multiplicity")
        heard[tuple(row.values())] += times


@pytest.mark.parametrize("seed", range(6))
def test_views_of_a_stream_are_right_together_whatever_comes(seed):
    chance = random.Random(seed)
    options = "APPEND ONLY " if seed % 3 == 2 else ""
    with vm.connect() as mill:
        mill.sql(
            f"CREATE TABLE s ({COLUMNS}) {options}TIMESTAMP BY ts LATENESS INTERVAL '5' SECONDS"
        )
        mill.sql("CREATE MATERIALIZED VIEW other AS SELECT sum(10 / (x - 1000)) AS t FROM s")
        views: list[Twin] = []
        held, now, newest, tick, number = [], 0.0, None, None, 0
        for step in range(24):
            if chance.random() < 0.3 or not views:
                number += 1
                views.append(Twin(chance, number))
                views[-1].create(mill, chance)
            elif chance.random() < 0.1 and len(views) > 2:
                dropped = views.pop(chance.randrange(len(views)))
                mill.sql(f"DROP MATERIALIZED VIEW {dropped.name}")
            rows, now = random_rows(chance, now, 12, chance.randint(1, 12))
            held += rows
            newest = max([r[0] for r in rows] + ([newest] if newest else []))
            if step % 5 == 4:
                fail(mill, rows)
            mill.insert("s", rows)
            if "APPEND" not in options and step % 3 == 2:
                gone = chance.sample(held, min(3, len(held)))
                for each in gone:
                    held.remove(each)
                mill.delete("s", gone)
            if step % 7 == 6:
                tick = seconds(newest) + 3
                mill.advance("s", to=newest + dt.timedelta(seconds=3))
            reached = seconds(newest) - 5
            reached = reached if tick is None else max(reached, tick)
            for view in views:
                view.check(mill, held, reached)
        for view in views:
            assert mill[view.name].verify() == []
            assert mill[view.name].status()["engine_calls"] <= 1


def fail(mill, rows):
    """A batch that another view cannot take is undone in all of them."""
    with pytest.raises(vm.ViewmillError, match="zero"):
        mill.insert("s", [*rows, (rows[-1][0], 1, "a", 1000, 0.0)])
