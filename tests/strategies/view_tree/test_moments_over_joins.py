"""STDDEV, CORR, REGR_* and SKEWNESS over joins go through the ring, and are exact."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import pytest

import viewmill as vm

TABLES = (
    "CREATE TABLE r (a INT, b INT, x INT); CREATE TABLE s (b INT, c INT, y DOUBLE);"
    "CREATE TABLE t (c INT, z DECIMAL(9, 2))"
)
JOIN = "FROM r JOIN s USING (b) JOIN t USING (c) GROUP BY a"
SHOWN = (
    "CORR(y, x), COVAR_POP(x, z), STDDEV(y), REGR_SLOPE(y, x) FILTER (WHERE z > 0), SKEWNESS(y),"
    " REGR_COUNT(y, x), STDDEV(b), VAR_POP(x * c)"
)
ODD = [math.nan, math.inf, -0.0, 1e17]


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def row_of(rng, table):
    if table == "r":
        return rng.choice([1, None]), rng.randint(1, 2), rng.choice([None, -4, 1, 5])
    if table == "s":
        y = rng.choice([None, 0.1, 0.1, 2.5, rng.choice(ODD)])
        return rng.randint(1, 2), rng.choice([1, 2]), y
    return rng.randint(1, 2), rng.choice([None, Decimal("1.25"), Decimal("-3.75")])


class Moments:
    """What lists of numbers have, by fractions: rows with a NULL are left out."""

    def __init__(self, ys, xs=None):
        pairs = [(y, x) for y, x in zip(ys, xs or ys, strict=True) if None not in (y, x)]
        self.n, self.is_finite = len(pairs), all(math.isfinite(y + x) for y, x in pairs)
        if not pairs or not self.is_finite:
            return
        columns = [[Fraction(v) for v in each] for each in zip(*pairs, strict=True)]
        ys, xs = ([v - sum(each) / self.n for v in each] for each in columns)
        self.yy, self.xx = sum(y * y for y in ys), sum(x * x for x in xs)
        self.xy = sum(y * x for y, x in zip(ys, xs, strict=True))
        self.yyy = sum(y**3 for y in ys)


def shown(rows):
    b, c, x, y, z = (
        [None if v is None else float(v) for v in each] for each in zip(*rows, strict=True)
    )
    positive = [(y, x) for y, x, z in zip(y, x, z, strict=True) if z is not None and z > 0]
    yx, xz, own, part = (
        Moments(y, x),
        Moments(x, z),
        Moments(y),
        Moments(*zip(*positive, strict=True) if positive else ((), ())),
    )
    area = Moments([None if v is None else v * (w or 0) for v, w in zip(x, c, strict=True)])
    return (
        float(yx.xy) / math.sqrt(yx.xx) / math.sqrt(yx.yy) if _has(yx) and yx.xx * yx.yy else None,
        float(xz.xy / xz.n) if _has(xz) else None,
        None if own.n < 2 else math.sqrt(own.yy / (own.n - 1)) if own.is_finite else math.nan,
        float(part.xy / part.xx) if _has(part) and part.xx else None,
        _skewness(own),
        yx.n,
        math.sqrt(Moments(b).yy / (len(b) - 1)) if len(b) > 1 else None,
        float(area.yy / area.n) if area.n else None,
    )  # fmt: skip


def _skewness(own):
    if not own.n or not own.is_finite:
        return math.nan if own.n else None
    return math.sqrt(own.n) * float(own.yyy) / float(own.yy) ** 1.5 if own.yy else None


def _has(moments):
    return moments.n > 0 and moments.is_finite


def about(value):
    return pytest.approx(value, rel=1e-9, abs=1e-15, nan_ok=True)


def expected(held):
    groups = defaultdict(list)
    for a, b, x in held["r"]:
        for other, c, y in held["s"]:
            for k, z in held["t"]:
                if (other, c) == (b, k):
                    groups[a].append((b, c, x, y, z))
    return {key: shown(rows) for key, rows in groups.items()}


def change(mill, rng, held):
    with mill.batch():
        for _ in range(rng.choice([1, 4])):
            table = rng.choice("rst")
            if held[table] and rng.random() < 0.4:
                mill.delete(table, [held[table].pop(rng.randrange(len(held[table])))])
            else:
                held[table].append(row_of(rng, table))
                mill.insert(table, held[table][-1:])


@pytest.mark.parametrize("seed", [1, 2])
def test_they_are_what_the_joined_rows_give(seed):
    rng = random.Random(seed)
    held: dict[str, list[tuple[object, ...]]] = {"r": [], "s": [], "t": []}
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, {SHOWN} {JOIN}")
        assert mill["v"].status()["strategy"] == "view_tree"
        for _ in range(15):
            change(mill, rng, held)
            got = {row[0]: row[1:] for row in mill["v"].rows()}
            wanted = expected(held)
            assert got.keys() == wanted.keys()
            for key, row in got.items():
                for one, other in zip(row, wanted[key], strict=True):
                    assert (one is None) == (other is None)
                    assert one is None or one == about(other)


def test_a_large_value_that_came_and_went_leaves_no_trace():
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, STDDEV(y), CORR(y, x) {JOIN}")
        mill.insert("r", [(1, 1, 2), (1, 1, 3), (1, 2, 7)])
        mill.insert("t", [(1, None), (1, None)])
        mill.insert("s", [(1, 1, 0.1), (2, 1, 0.3)])
        before = mill["v"].rows()
        mill.insert("s", [(1, 1, 1e300), (2, 1, math.nan)])
        mill.delete("s", [(2, 1, math.nan)])
        mill.delete("s", [(1, 1, 1e300)])
        assert mill["v"].rows() == before


def test_rows_from_before_the_view_are_counted():
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.insert("r", [(1, 1, 2), (1, 1, 4)])
        mill.insert("s", [(1, 1, 0.1), (1, 1, 0.3)])
        mill.insert("t", [(1, Decimal("1.00"))])
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, VAR_POP(x), COVAR_POP(y, x) {JOIN}")
        assert mill["v"].rows() == [(1, 1.0, 0.0)]


def test_powers_of_a_product_of_floats_are_left_to_the_joined_rows():
    with vm.connect() as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a, STDDEV(y * x) {JOIN}")
        assert mill["v"].status()["strategy"] == "dataflow"


def test_decimals_and_whole_numbers_of_one_table_are_multiplied_as_floats():
    """CREATE ended in an AssertionError: the engine was to fill a product of both."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (c DECIMAL(12, 2), u INT, v INT, k INT)")
        mill.insert("t", [(Decimal(i % 7) / 4, i % 3, i % 2, i % 2) for i in range(12)])
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT a.k, REGR_AVGX(a.c, a.v) AS m, COUNT(*) AS n"
            " FROM t a JOIN t b ON a.u = b.u JOIN t c ON b.v = c.v GROUP BY a.k"
        )
        assert mill["v"].status()["strategy"] == "view_tree"
        mill.delete("t", [(Decimal("0.25"), 1, 1, 1)])
        assert mill["v"].verify() == []
