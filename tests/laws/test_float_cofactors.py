"""A cofactor is that of the rows that are there, whatever came and went."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

import viewmill as vm
from viewmill.kernels.plain import cofactor as plain_cofactor

JOIN = "FROM t JOIN d ON t.k = d.k"


def moments(rows):
    """Count, sums and products, exactly, then rounded."""
    columns = [
        [Fraction(1)] * len(rows),
        *zip(*([Fraction(x) for x in row] for row in rows), strict=True),
    ]
    pairs = combinations_with_replacement(columns, 2)
    return [float(sum(a * b for a, b in zip(x, y, strict=True))) for x, y in pairs]


def shown(view):
    ((found,),) = view.rows()
    return [float(found["n"]), *found["sums"], *found["products"]]


def expect(mill, t, d):
    joined = [(x, y, w) for k, x, y in t for other, w in d if k == other]
    assert shown(mill["j"]) == pytest.approx(moments(joined), rel=1e-12)
    assert shown(mill["c"]) == pytest.approx(moments([row[1:] for row in t]), rel=1e-12)


def play(mill, strays, seed):
    """Strays come and go, of either table first; what they were joined with may go before them."""
    rng = random.Random(seed)
    mill.sql("CREATE TABLE t (k INT, x DOUBLE, y DOUBLE)")
    mill.sql("CREATE TABLE d (k INT, w DOUBLE)")
    mill.sql(f"CREATE MATERIALIZED VIEW j AS SELECT cofactor(t.x, t.y, d.w) AS c {JOIN}")
    mill.sql("CREATE MATERIALIZED VIEW c AS SELECT cofactor(x, y) AS c FROM t")
    t = [(rng.randint(0, 1), rng.uniform(-5, 5), rng.uniform(1, 2)) for _ in range(6)]
    d = [(rng.randint(0, 1), rng.uniform(-1, 1)) for _ in range(4)] + [(0, 0.1), (1, 0.2)]
    mill.insert("t", t)
    mill.insert("d", d)
    expect(mill, t, d)
    for stray in strays:
        large, wide = [(0, stray, 0.3), (1, -0.7, -stray)], [(1, 3 * stray)]
        mill.insert("t", large)
        mill.insert("d", wide)
        expect(mill, t + large, d + wide)
        for table, rows in rng.sample([("t", large), ("d", wide)], 2):
            mill.delete(table, rows)
        expect(mill, t, d)


@pytest.mark.parametrize("stray", [1e4, 1e17, 1e100])
def test_a_cofactor_forgets_what_came_and_went(stray, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    with vm.connect() as mill:
        play(mill, [stray, stray / 7], seed=3)
        assert mill["j"].status()["engine_calls"] == 0
        assert ("failed where the query does not" in mill["j"].explain()) == (stray > 1e4)
        assert mill["j"].verify() == []


def test_blocks_of_exact_numbers_agree_with_those_of_fractions(uncompiled, monkeypatch):
    """A careful plan without the compiler: as if every change lost digits."""
    lost = []

    def has_lost(*arguments):
        lost.append(arguments)
        return True

    monkeypatch.setattr(plain_cofactor, "cofactor_has_lost", has_lost)
    with vm.connect() as mill:
        play(mill, [1e100], seed=5)


def test_the_slope_comes_back(monkeypatch):
    """It was 0.0 for 2.0, in silence."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW l AS SELECT linear_regression(y, x) AS l FROM t")
        mill.insert("t", [(i / 10, i / 5 + 1) for i in range(50)])
        for _ in range(2):
            mill.insert("t", [(1e100, 1.0)])
            mill.delete("t", [(1e100, 1.0)])
        ((found,),) = mill["l"].rows()
        assert found["coefficients"] == [pytest.approx(2.0, rel=1e-12)]
        assert found["intercept"] == pytest.approx(1.0, rel=1e-12)


def test_a_group_that_empties_keeps_the_fast_plan(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    rng = random.Random(9)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (g INT, x DOUBLE, one DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW c AS SELECT g, cofactor(x, one) c FROM t GROUP BY g")
        rows = [(i % 3, rng.uniform(0.1, 100.0), float(i % 2)) for i in range(300)]
        mill.insert("t", rows)
        for row in rows[1:]:
            mill.delete("t", [row])
        assert "failed where the query does not" not in mill["c"].explain()
        ((_, found),) = mill["c"].rows()
        assert found["sums"] == [rows[0][1], rows[0][2]]
