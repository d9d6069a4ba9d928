"""DECIMALs of any precision and scale in all kinds of views, against Python's decimal module.

Random types, expressions and rows, extremes among them, with deletes; what overflows in Spark is
refused and changes nothing, everything else is equal to the last digit.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from tests.equivalence.spark_decimals import (
    EXACT,
    Expr,
    SparkOverflow,
    Type,
    average,
    binary,
    column,
    is_more,
    random_expr,
    random_type,
    random_value,
    total,
)

import viewmill as vm
from viewmill.errors import ViewmillError

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A view over t (k, a, b) and u (k, c), and its rows as Python computes them."""

    sql: str
    rows: Callable[[Rows, Rows], Rows]
    tolerance: Decimal = Decimal(0)  # of AVG, whose last digit Spark does not determine


def _groups(expr: Expr, rows: Rows) -> dict[Any, list[Any]]:
    made: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        made[row[0]].append(expr.of(row))
    return made


def _pairs(t: Rows, u: Rows) -> Rows:
    return [(a[0], a[1], c[1]) for a in t for c in u if a[0] is not None and a[0] == c[0]]


def _aggregates(expr: Expr, t: Rows) -> Rows:
    made: Rows = []
    for key, values in _groups(expr, t).items():
        known = [each for each in values if each is not None]
        lowest, highest = min(known, default=None), max(known, default=None)
        made.append((key, total(values, expr.type), lowest, highest, len(set(known))))
    return made


def _first(expr: Expr, t: Rows) -> Rows:
    values = [expr.of(row) for row in t]
    known = sorted((each for each in values if each is not None), reverse=True)
    return [(each,) for each in (known + [None] * (len(values) - len(known)))[:3]]


def _running(expr: Expr, t: Rows) -> Rows:
    """SUM over all rows of the group up to the row's own value, and MAX over the group."""
    made: Rows = []
    for key, values in _groups(expr, t).items():
        known = [each for each in values if each is not None]
        for x in values:
            upto = [y for y in values if y is None or (x is not None and y <= x)]
            made.append((key, x, total(upto, expr.type), max(known, default=None)))
    return made


def _cases(expr: Expr, a: Expr, b: Expr) -> dict[str, Case]:
    x, c = expr.sql, column("c", 2, a.type)
    sum_, product = binary("+", a, c), binary("*", a, c)
    return {
        "rows": Case(
            f"SELECT k, {x} AS x FROM t", lambda t, u: [(row[0], expr.of(row)) for row in t]
        ),
        "groups": Case(
            f"SELECT k, SUM({x}) AS s, MIN({x}) AS lo, MAX({x}) AS hi, "
            f"COUNT(DISTINCT {x}) AS n FROM t GROUP BY k",
            lambda t, u: _aggregates(expr, t),
        ),
        "averages": Case(
            f"SELECT k, AVG({x}) AS s FROM t GROUP BY k",
            lambda t, u: [(k, average(v, expr.type)) for k, v in _groups(expr, t).items()],
            Decimal(1).scaleb(-min(expr.type.scale + 4, 38)),
        ),
        "first": Case(
            f"SELECT x FROM (SELECT {x} AS x FROM t) ORDER BY x DESC NULLS LAST LIMIT 3",
            lambda t, u: _first(expr, t),
        ),
        "where": Case(
            f"SELECT k, a FROM t WHERE {x} > b",
            lambda t, u: [row[:2] for row in t if is_more(expr, b, row)],
        ),
        "distinct": Case(
            f"SELECT DISTINCT {x} AS x FROM t",
            lambda t, u: [(each,) for each in {expr.of(row) for row in t}],
        ),
        "over": Case(
            "SELECT k, a, SUM(a) OVER (PARTITION BY k ORDER BY a) AS s, "
            "MAX(a) OVER (PARTITION BY k) AS m FROM t",
            lambda t, u: _running(a, t),
        ),
        "join": Case(
            "SELECT t.k AS k, SUM(t.a + u.c) AS s FROM t JOIN u ON t.k = u.k GROUP BY t.k",
            lambda t, u: [(k, total(v, sum_.type)) for k, v in _groups(sum_, _pairs(t, u)).items()],
        ),
        "product": Case(
            "SELECT SUM(t.a * u.c) AS s FROM t JOIN u ON t.k = u.k",
            lambda t, u: [(total([product.of(row) for row in _pairs(t, u)], product.type),)],
        ),
    }


KINDS = ("rows", "groups", "averages", "first", "where", "distinct", "over", "join", "product")


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((each is not None, each or 0) for each in row)


def _is_near(found: Any, wanted: Any, tolerance: Decimal) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return bool(EXACT.subtract(found, wanted).copy_abs() <= tolerance)


def _check(found: Rows, wanted: Rows, tolerance: Decimal) -> None:
    if not tolerance:
        assert Counter(map(_key, found)) == Counter(map(_key, wanted))
        return
    assert len(found) == len(wanted)
    for a, b in zip(sorted(found, key=_key), sorted(wanted, key=_key), strict=True):
        assert all(_is_near(x, y, tolerance) for x, y in zip(a, b, strict=True)), (a, b)


class _Run:
    """A mill with one view, and the same rows in lists."""

    def __init__(self, kind: str, seed: int, path: Any = None) -> None:
        self.source = source = random.Random(f"{kind} {seed}")
        self.types = random_type(source), random_type(source)
        self.key = source.choice((Type(1, 0), Type(38, 0), Type(20, 2)))
        a, b = (column(name, i + 1, self.types[i]) for i, name in enumerate("ab"))
        expr = random_expr(source, (a, b), source.choice((1, 1, 2)))
        self.case = _cases(expr, a, b)[kind]
        self.keys = [random_value(source, self.key) for _ in range(3)]
        self.t: Rows = []
        self.u: Rows = []
        self.mill = vm.connect(path) if path else vm.connect()
        first, second = self.types
        self.mill.sql(f"CREATE TABLE t (k {self.key}, a {first}, b {second})")
        self.mill.sql(f"CREATE TABLE u (k {self.key}, c {first})")
        self.mill.sql(f"CREATE MATERIALIZED VIEW v AS {self.case.sql}")

    def step(self) -> None:
        """A batch of inserts and deletes; if it is refused, Spark refuses it too."""
        source, (first, second) = self.source, self.types
        new = [
            (source.choice(self.keys), random_value(source, first), random_value(source, second))
            for _ in range(source.choice((1, 3)))
        ]
        other = [(source.choice(self.keys), random_value(source, first))][: source.randrange(2)]
        old = source.sample(self.t, min(len(self.t), source.randrange(3)))
        t = list(self.t)
        for row in old:
            t.remove(row)
        t, u = t + new, self.u + other
        try:
            self.case.rows(t, u)
        except SparkOverflow:
            with pytest.raises(ViewmillError):
                self._apply(old, new, other)
        else:
            self._apply(old, new, other)
            self.t, self.u = t, u
        self.check()

    def _apply(self, old: Rows, new: Rows, other: Rows) -> None:
        with self.mill.batch():
            if old:
                self.mill.delete("t", old)
            self.mill.insert("t", new)
            if other:
                self.mill.insert("u", other)

    def check(self) -> None:
        """The view has the rows that Python computes; recompute says so too."""
        _check(self.mill["v"].rows(), self.case.rows(self.t, self.u), self.case.tolerance)
        assert self.mill["v"].verify() == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_decimals_are_those_of_spark(uncompiled, kind, seed):
    run = _Run(kind, seed)
    with run.mill:
        for _ in range(4):
            run.step()


@pytest.mark.parametrize("kind", ["groups", "over", "product"])
def test_decimals_survive_a_restart(uncompiled, kind, tmp_path):
    run = _Run(kind, 7, tmp_path / "a.mill")
    with run.mill:
        for _ in range(3):
            run.step()
        run.mill.checkpoint()
        run.step()
    with vm.connect(tmp_path / "a.mill") as run.mill:
        run.check()
        run.step()


NESTED = (
    "SELECT SUM(price * vol) AS s FROM b WHERE 0.75 * (SELECT SUM(c.vol) FROM b c) < "
    "(SELECT SUM(d.vol) FROM b d WHERE d.price <= b.price)",
    "SELECT k, SUM(price * vol) AS s FROM b WHERE price > "
    "(SELECT AVG(c.price) FROM b c WHERE c.k = b.k) GROUP BY k",
    "SELECT k, price FROM b WHERE EXISTS (SELECT 1 FROM b c WHERE c.price = b.price + 0 - vol)",
)


@pytest.mark.parametrize("sql", NESTED)
def test_nested_aggregates_take_products_of_many_digits(uncompiled, sql):
    rows = [(1, "30.5", "31.25"), (1, "9999999999.5", "9999999999"), (2, "7", "3"), (2, "8", "1")]
    given = [(k, Decimal(a), Decimal(b)) for k, a, b in rows]
    with vm.connect() as mill:
        mill.sql("CREATE TABLE b (k INT, price DECIMAL(18,8), vol DECIMAL(18,8))")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        mill.insert("b", given)
        assert mill["v"].verify() == []
        mill.delete("b", given[1:3])
        assert mill["v"].verify() == []


def test_windows_of_a_stream_add_up_to_more_than_a_word(uncompiled):
    start = dt.datetime(2024, 1, 1)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, p DECIMAL(18,8)) TIMESTAMP BY ts")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT SUM(p) AS s, AVG(p) AS a "
            "FROM s [WINDOW 2 MINUTES SLIDE 30 SECONDS]"
        )
        assert mill["v"].status()["strategy"] == "shared_window"
        rows = [(start + dt.timedelta(seconds=10 * i), Decimal("9999999999.25")) for i in range(18)]
        mill.insert("s", rows)
        assert mill["v"].rows() == [(Decimal("119999999991"), Decimal("9999999999.25"))]
        assert mill["v"].verify() == []


def test_a_product_of_39_digits_over_a_join_is_refused_and_one_of_38_is_summed(mill, uncompiled):
    """A sum of products would hide the row that Spark refuses."""
    mill.sql("CREATE TABLE a (k INT, x DECIMAL(20,0))")
    mill.sql("CREATE TABLE b (k INT, y DECIMAL(19,0))")
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(a.x * b.y) AS s, COUNT(*) AS n "
        "FROM a JOIN b ON a.k = b.k"
    )
    most = 10**19 - 1
    mill.insert("b", [(1, Decimal(most))])
    mill.insert("a", [(1, Decimal(most))])
    assert mill["v"].rows() == [(most * most, 1)]
    with pytest.raises(vm.ViewmillError, match="DECIMAL"):
        mill.insert("a", [(1, Decimal("9" * 20)), (1, -Decimal("9" * 20))])
    assert mill["v"].rows() == [(most * most, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_decimals_are_those_of_spark(kind):
    run = _Run(kind, 3)
    with run.mill:
        for _ in range(6):
            run.step()
