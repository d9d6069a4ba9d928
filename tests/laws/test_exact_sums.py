"""Sums of floats are those of the rows that are left, whatever came and went, in any order."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import pytest

import viewmill as vm

SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 1e300, 0.1]
VIEWS = {
    "grouped": "SELECT k, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY k",
    "spread": "SELECT k, VAR_POP(y) AS v, STDDEV(y) AS d FROM t GROUP BY k",
    "joined": "SELECT SUM(t.x) AS s FROM t JOIN u ON t.k = u.k",
    "product": "SELECT t.k, SUM(t.y * u.z) AS s FROM t JOIN u ON t.k = u.k GROUP BY t.k",
}


def draw(rng):
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(SPECIAL)
    if kind < 0.4:
        return rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300)
    return rng.uniform(-1, 1) * 10.0 ** rng.randint(-8, 12)


def small(rng):
    """What can be squared."""
    return rng.choice(
        [0.0, 0.1, 1e9 + rng.random(), rng.uniform(-1, 1) * 10.0 ** rng.randint(-90, 90)]
    )


def added(values):
    """The sum that SQL shows: exact, rounded once."""
    values = [each for each in values if each is not None]
    if not values:
        return None
    if any(map(math.isnan, values)) or (math.inf in values and -math.inf in values):
        return math.nan
    if math.inf in values or -math.inf in values:
        return math.inf if math.inf in values else -math.inf
    return rounded(sum(map(Fraction, values)))


def rounded(value):
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def expected(name, t, u):
    groups: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for (k, x, y), n in t.items():
        groups[k] += [(x, y)] * n
    partners: dict[int, list[float]] = defaultdict(list)
    for (k, z), n in u.items():
        partners[k] += [z] * n
    if name == "joined":
        return {
            (): (added([x for k, rows in groups.items() for x, _ in rows for _ in partners[k]]),)
        }
    shown: dict[tuple[int, ...], tuple[float | None, ...]] = {}
    for k, rows in groups.items():
        xs, ys = [x for x, _ in rows], [Fraction(y) for _, y in rows]
        if name == "grouped":
            total = added(xs)
            shown[k,] = total, total / len(xs)
        elif name == "spread":
            around = sum(y * y for y in ys) - sum(ys) ** 2 / len(ys)
            sample = None if len(ys) < 2 else math.sqrt(rounded(around / (len(ys) - 1)))
            shown[k,] = rounded(around / len(ys)), sample
        elif partners[k]:
            shown[k,] = (rounded(sum(ys) * sum(map(Fraction, partners[k]))),)
    return shown


def is_near(found, wanted):
    if found is None or wanted is None:
        return found is wanted
    if not math.isfinite(wanted):
        return found == wanted or (math.isnan(found) and math.isnan(wanted))
    return abs(found - wanted) <= 1e-12 * abs(wanted) + 5e-323


def check(mill, t, u):
    for name in VIEWS:
        keys = 0 if name == "joined" else 1
        found = {row[:keys]: row[keys:] for row in mill[name].rows()}
        wanted = expected(name, t, u)
        assert found.keys() == wanted.keys(), name
        for key, values in wanted.items():
            assert all(map(is_near, found[key], values)), (name, key, found[key], values)


def session(mill, reopen, seed, steps):
    """Rows come and go in batches of any size; views are computed again, the mill is reopened."""
    rng = random.Random(seed)
    t: Counter[Any] = Counter()
    u: Counter[Any] = Counter()
    mill.sql("CREATE TABLE t (k INT NOT NULL, x DOUBLE, y DOUBLE NOT NULL)")
    mill.sql("CREATE TABLE u (k INT NOT NULL, z DOUBLE NOT NULL)")
    for name, query in VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for _ in range(steps):
        for table, rows, row in (
            ("t", t, lambda: (rng.randint(1, 3), draw(rng), small(rng))),
            ("u", u, lambda: (rng.randint(1, 3), small(rng))),
        ):
            coming = [row() for _ in range(rng.randint(0, 4))] * rng.choice([1, 1, 1, 3])
            there = list(rows.elements())
            going = rng.sample(there, rng.randint(0, len(there)))
            with mill.batch():
                mill.insert(table, coming)
                mill.delete(table, going)
            rows.update(coming)
            rows.subtract(going)
        what = rng.random()
        if what < 0.15:
            mill.sql(f"REFRESH MATERIALIZED VIEW {rng.choice(list(VIEWS))} FULL")
        elif what < 0.25:
            mill = reopen(mill)
        check(mill, +t, +u)
    mill.delete("t", list(t.elements()))
    mill.delete("u", list(u.elements()))
    check(mill, Counter(), Counter())
    return mill


@pytest.mark.parametrize("seed", range(2))
def test_sums_are_those_of_the_rows_that_are_left(seed, tmp_path, uncompiled):
    path = str(tmp_path / "m.mill")

    def reopen(mill):
        mill.close()
        return vm.connect(path)

    session(vm.connect(path), reopen, seed, 8).close()


def test_compiled_sums_are_those_of_the_rows_that_are_left(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    for seed in range(3):
        session(vm.connect(), lambda mill: mill, seed, 40).close()


def test_a_batch_that_fails_leaves_sums_as_they_were(mill, uncompiled):
    mill.sql("CREATE TABLE t (k INT, x DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT k, SUM(x) AS s FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW q AS SELECT SUM(1 / k) AS q FROM t")
    mill.insert("t", [(1, 1e300), (1, 1e-300), (1, 0.1), (1, 1e30)])
    with pytest.raises(vm.ViewmillError):
        mill.insert("t", [(1, 1e-100), (0, 1.0)])
    mill.delete("t", [(1, 1e300), (1, 1e30), (1, 0.1)])
    assert mill["s"].rows() == [(1, 1e-300)]
