"""Rings that users write: registered, called in SQL, kept fresh, compared with their definition."""

from __future__ import annotations

import math
from typing import Any

import pytest

import viewmill as vm
from viewmill.errors import (
    BrokenView,
    InvalidArgument,
    NameInUse,
    TypeMismatch,
    UnsupportedQuery,
)

TOTAL = vm.Ring(
    zero=0, one=1, add=lambda a, b: a + b, negate=lambda a: -a, multiply=lambda a, b: a * b,
    lift=lambda x: x,
)  # fmt: skip
SPREAD = vm.Ring(
    zero=(0, 0.0, 0.0),
    one=(1, 0.0, 0.0),
    add=lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2]),
    negate=lambda a: (-a[0], -a[1], -a[2]),
    multiply=lambda a, b: (
        a[0] * b[0], a[0] * b[1] + b[0] * a[1], b[0] * a[2] + a[0] * b[2] + 2 * a[1] * b[1],
    ),
    lift=lambda x: (1, float(x), float(x) * float(x)),
    finish=lambda p: p[2] / p[0] - (p[1] / p[0]) ** 2 if p[0] != 0 else 0.0,
)  # fmt: skip
SHEAR = vm.Ring(
    zero=((0, 0), (0, 0)),
    one=((1, 0), (0, 1)),
    add=lambda a, b: (
        (a[0][0] + b[0][0], a[0][1] + b[0][1]), (a[1][0] + b[1][0], a[1][1] + b[1][1]),
    ),
    negate=lambda a: ((-a[0][0], -a[0][1]), (-a[1][0], -a[1][1])),
    multiply=lambda a, b: (
        (a[0][0] * b[0][0] + a[0][1] * b[1][0], a[0][0] * b[0][1] + a[0][1] * b[1][1]),
        (a[1][0] * b[0][0] + a[1][1] * b[1][0], a[1][0] * b[0][1] + a[1][1] * b[1][1]),
    ),
    lift=[lambda x: ((1, x), (0, 1)), lambda x: ((1, 0), (x, 1))],
)  # fmt: skip
JOINED = "FROM r JOIN s ON r.k = s.k"


def tables(mill: Any) -> None:
    mill.sql("CREATE TABLE r (k INT, g INT, x INT)")
    mill.sql("CREATE TABLE s (k INT, y DOUBLE, z INT)")


def change(mill: Any, views: str) -> None:
    r = [(0, 1, 2), (1, 1, -3), (1, 2, None), (2, 2, 4), (0, 1, 2)]
    s = [(0, 0.5, 1), (1, 1.25, -2), (0, None, 3), (1, 2.0, 2)]
    for rows, name in ((r, "r"), (s, "s")):
        for row in rows:
            mill.insert(name, [row])
            assert [mill[view].verify() for view in views] == [[]] * len(views)
    assert all(mill[view].rows() for view in views)
    for row in r[:4]:
        mill.delete("r", [row])
        assert [mill[view].verify() for view in views] == [[]] * len(views)


@pytest.mark.parametrize("compiler", ["on", "off"])
def test_views_over_rings_follow_their_tables(
    compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    with vm.connect() as mill:
        tables(mill)
        mill.register("total", TOTAL)
        mill.register("spread", SPREAD)
        mill.sql(
            "CREATE MATERIALIZED VIEW a AS "
            f"SELECT g, spread(x, y) AS v, total(x, y) AS p {JOINED} GROUP BY g"
        )
        assert mill["a"].status()["strategy"] == "view_tree"
        change(mill, "a")


def test_a_ring_of_numbers_is_the_sum_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        tables(mill)
        mill.register("total", TOTAL)
        mill.sql(f"CREATE MATERIALIZED VIEW a AS SELECT g, total(x, y) AS p {JOINED} GROUP BY g")
        mill.sql(f"CREATE MATERIALIZED VIEW b AS SELECT g, sum(x * y) AS p {JOINED} GROUP BY g")
        mill.insert("r", [(0, 1, 2), (1, 1, -3), (2, 2, 4)])
        mill.insert("s", [(0, 0.5, 1), (1, 1.25, -2), (2, 8.0, 0)])
        assert sorted(mill["a"].rows()) == sorted(mill["b"].rows()) == [(1, -2.75), (2, 32.0)]
        assert mill.sql("SELECT total(x) AS t FROM r").rows() == [(3,)]
        mill.sql("CREATE MATERIALIZED VIEW c AS SELECT sum(p) AS t FROM a")
        mill.insert("r", [(2, 2, 1)])
        assert mill["c"].rows() == [(37.25,)]


def test_a_ring_that_does_not_commute_keeps_the_order_of_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        tables(mill)
        mill.register("shear", SHEAR)
        mill.sql(f"CREATE MATERIALIZED VIEW a AS SELECT shear(x, z) AS m {JOINED}")
        assert mill["a"].status()["strategy"] == "view_tree"
        change(mill, "a")
        query = f"SELECT shear(z, x) AS m {JOINED}"
        said = str(mill.sql(f"EXPLAIN CREATE MATERIALIZED VIEW b STRATEGY recompute AS {query}"))
        assert "does not commute, and its arguments are not in the order of FROM" in said
        mill.sql(f"CREATE MATERIALIZED VIEW b STRATEGY recompute AS {query}")
        assert mill["b"].verify() == []
        with pytest.raises(UnsupportedQuery, match="does not commute"):
            mill.sql(f"CREATE MATERIALIZED VIEW c STRATEGY view_tree AS {query}")
        mill.sql(f"CREATE MATERIALIZED VIEW d AS {query}")  # joined first, in one order
        assert "rejected  view_tree" in mill["d"].explain()
        assert "does not commute" in mill["d"].explain()
        mill.insert("r", [(1, 1, 5)])
        assert mill["d"].verify() == []
        assert mill["d"].rows() == mill["b"].rows()


@pytest.mark.usefixtures("uncompiled")
def test_values_that_are_no_numbers() -> None:
    """A ring of floats takes NaN and infinity as floats do, also by Python's own functions."""
    mill = vm.connect()
    tables(mill)
    mill.register("spread", SPREAD)
    mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT g, spread(y) AS x {JOINED} GROUP BY g")
    mill.insert("r", [(0, 1, 2), (1, 2, 3)])
    mill.insert("s", [(0, float("nan"), 1), (1, 1.5, 2)])
    first, second = sorted(mill["v"].rows())
    assert math.isnan(first[1])
    assert second == (2, 0.0)
    mill.insert("s", [(1, float("inf"), 1)])
    assert mill["v"].verify() == []


def test_a_durable_mill_asks_for_its_rings(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    path = tmp_path / "m.mill"
    with vm.connect(path) as mill:
        tables(mill)
        mill.register("total", TOTAL)
        mill.sql("CREATE MATERIALIZED VIEW a AS SELECT total(x) AS t FROM r")
        mill.insert("r", [(1, 1, 5), (1, 1, 6)])
    with vm.connect(path) as mill:
        with pytest.raises(BrokenView) as caught:
            mill["a"].rows()
        assert "total" in caught.value.detail
        assert "register" in caught.value.detail
        mill.register("total", TOTAL)
        mill.sql("REFRESH MATERIALIZED VIEW a")
        assert mill["a"].rows() == [(11,)]
    with vm.connect(path, register={"total": TOTAL}) as mill:
        assert mill["a"].rows() == [(11,)]
        mill.delete("r", [(1, 1, 5)])
        assert mill["a"].rows() == [(6,)]


def test_what_is_wrong_is_said_when_it_is_registered() -> None:
    with vm.connect() as mill:
        tables(mill)
        maximum = vm.Ring(0, 0, max, lambda a: -a, lambda a, b: a + b, lambda x: x)
        with pytest.raises(InvalidArgument, match="does not hold"):
            mill.register("most", maximum)
        with pytest.raises(NameInUse, match="function of SQL"):
            mill.register("sum", TOTAL)
        with pytest.raises(InvalidArgument, match="cannot be registered"):
            mill.register("three", 3)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="failed on a sample"):
            mill.register("odd", vm.Ring(0, 1, lambda a: a, abs, max, abs))
        with pytest.raises(InvalidArgument, match="0 in every place"):
            vm.Ring(1, 1, max, abs, max, abs)
        mill.register("total", TOTAL)
        mill.register("total", TOTAL)
        mill.sql("CREATE MATERIALIZED VIEW a STRATEGY recompute AS SELECT total(x) AS t FROM r")
        with pytest.raises(NameInUse, match="another ring"):
            mill.register("total", SPREAD)
        with pytest.raises(TypeMismatch, match="at least one argument"):
            mill.sql("SELECT total() FROM r")
        mill.register("shear", SHEAR)
        with pytest.raises(TypeMismatch, match="2 arguments"):
            mill.sql("SELECT shear(x) FROM r")
