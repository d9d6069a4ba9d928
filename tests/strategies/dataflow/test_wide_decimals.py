"""Quotients of DECIMALs have more digits than a word holds: 100 % of a DECIMAL(7,2), for one."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext

import pytest

import viewmill as vm

PERCENT = "SELECT k, x * 100.00 / y AS q FROM r WHERE y <> 0"
QUERIES = (
    "SELECT k, sum(x) * 100 / sum(y) AS p FROM r GROUP BY k",
    "SELECT k, x, sum(x) * 100.0000 / sum(sum(x)) OVER (PARTITION BY k) AS p FROM r GROUP BY k, x",
    f"{PERCENT} ORDER BY q DESC, k LIMIT 5",
    f"SELECT q, count(*) AS n FROM ({PERCENT}) GROUP BY q",
    f"SELECT k, max(q) AS hi, min(q) AS lo, count(DISTINCT q) AS n FROM ({PERCENT}) GROUP BY k",
    f"SELECT k, q, lag(q) OVER (PARTITION BY k ORDER BY q) AS l, rank() OVER (ORDER BY q) AS n "
    f"FROM ({PERCENT})",
    "SELECT k, coalesce(q, 0) AS c, q > 50 AS b FROM "
    "(SELECT k, CASE WHEN y <> 0 THEN x * 100.00 / y END AS q FROM r)",
    "SELECT k FROM r GROUP BY k HAVING sum(x) * 100.00 / sum(y) > 95",
    "SELECT k, round(x * 100.00 / y, 2) AS a, cast(x / y AS DOUBLE) AS b FROM r WHERE y <> 0",
    f"SELECT q FROM ({PERCENT}) UNION SELECT 100 AS q",
    "SELECT DISTINCT x * 100.00 / y AS q FROM r WHERE y <> 0",
    "SELECT r.k, s.q FROM r JOIN "
    "(SELECT k, sum(x) * 100.00 / sum(y) AS q FROM r GROUP BY k) s ON r.k = s.k",
    "SELECT k, (SELECT max(x * 100.00 / y) FROM r WHERE y <> 0) AS m FROM r",
    f"SELECT k FROM r WHERE 100 IN (SELECT q FROM ({PERCENT}) WHERE q = 100)",
    "SELECT k, cast(x AS DECIMAL(18,8)) * cast(y AS DECIMAL(18,8)) AS m FROM r",
    "SELECT k, cast(cast(x AS STRING) AS DECIMAL(38,18)) AS m FROM r",
    "SELECT * FROM shares",
    "SELECT k, q * 2 AS d FROM shares WHERE q > 90",
    "SELECT max(q) AS m, count(q) AS n FROM shares",
)
AMOUNTS = tuple(map(Decimal, ("1.00", "5.00", "33.33", "99999.99", "0.01", "7.77")))
OTHERS = (Decimal("0.00"), Decimal("-7.77"), None)


def _rows(source: random.Random, count: int) -> list[tuple[object, ...]]:
    return [
        (source.randrange(3), source.choice(AMOUNTS + OTHERS), source.choice((*AMOUNTS, None)))
        for _ in range(count)
    ]


def _made(queries: tuple[str, ...]) -> vm.Mill:
    mill = vm.connect()
    mill.sql("CREATE TABLE r (k INT, x DECIMAL(7,2), y DECIMAL(7,2))")
    mill.insert("r", [(1, Decimal("99999.99"), Decimal("0.01")), (2, Decimal(5), Decimal(5))])
    mill.sql(f"CREATE MATERIALIZED VIEW shares AS {PERCENT}")
    for i, query in enumerate(queries):
        strict = "REFRESH POLICY INCREMENTAL STRICT"
        mill.sql(f"CREATE MATERIALIZED VIEW v{i} {strict} AS {query}")
    return mill


def _drive(queries: tuple[str, ...], seed: int, steps: int) -> None:
    source, live = random.Random(seed), list[tuple[object, ...]]()
    with _made(queries) as mill:
        for _ in range(steps):
            new = _rows(source, 5)
            source.shuffle(live)
            old, live = live[:3], [*live[3:], *new]
            with mill.batch():
                mill.insert("r", new)
                mill.delete("r", old)
            for i, query in enumerate(queries):
                assert mill[f"v{i}"].verify() == [], query


@pytest.mark.parametrize("query", QUERIES)
def test_quotients_wider_than_a_word_equal_recompute(uncompiled, query):
    _drive((query,), seed=1, steps=8)


def test_compiled_triggers_carry_and_order_them():
    _drive((QUERIES[2], QUERIES[4]), seed=3, steps=6)


def test_a_hundred_percent_of_narrow_decimals_is_a_value_and_survives_a_restart(
    uncompiled, tmp_path
):
    with vm.connect(tmp_path / "a.mill") as mill:
        mill.sql("CREATE TABLE r (k INT, x DECIMAL(7,2))")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) * 100.0000 / sum(sum(x)) OVER () AS p "
            "FROM r GROUP BY k"
        )
        mill.insert("r", [(1, Decimal("3.00"))])
        mill.checkpoint()
        assert mill["v"].rows() == [(1, Decimal(100))]
    with vm.connect(tmp_path / "a.mill") as mill:
        assert mill["v"].rows() == [(1, Decimal(100))]
        mill.insert("r", [(2, Decimal("9.00"))])
        assert sorted(mill["v"].rows()) == [(1, Decimal(25)), (2, Decimal(75))]
        assert mill["v"].verify() == []
        (share, *_) = mill.sql("SELECT p FROM v WHERE p > 70 ORDER BY p DESC").rows()
        assert share == (Decimal(75),)


def test_integers_at_their_limits_meet_decimals():
    """BIGINT reaches one further down than up; its product with 100 was typed as a pair by half."""
    limits = (-(2**63), -(2**63) + 1, -1, 0, 3, 2**63 - 1)
    rows = [(x, Decimal(d)) for x in limits for d in ("-9999999999999999999", "3")]
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT, d DECIMAL(19,0))")
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            "SELECT x, d, x * d AS p, x * 0.01 AS q, x < 3.25 AS b, d > x * 0.5 AS c FROM t"
        )
        mill.insert("t", rows)
        with localcontext(prec=60):
            wanted = [
                (x, d, x * d, x * Decimal("0.01"), x < Decimal("3.25"), d > x * Decimal("0.5"))
                for x, d in rows
            ]
        assert sorted(mill["v"].rows()) == sorted(wanted)


LARGEST = Decimal("9" * 38)
SUMS_THAT_COME_BACK = {
    "grouped": "SELECT k, sum(x) AS s, avg(x) AS a FROM t GROUP BY k",
    "recomputed": "SELECT sum(x) AS s, sum(DISTINCT x) AS d, listagg(CAST(k AS STRING)) AS l"
    " FROM t",
    "whole": "SELECT o, sum(x) OVER (PARTITION BY k) AS s FROM t",
    "sliding": "SELECT o, sum(x) OVER (ORDER BY o ROWS BETWEEN 12 PRECEDING AND 12 FOLLOWING) AS s"
    " FROM t",
}


@pytest.mark.parametrize("compiler", ["off", "on"])
def test_a_sum_may_leave_128_bits_on_its_way_if_it_comes_back(monkeypatch, compiler):
    """The fill by DuckDB and the frames were refused: 1e38 + 1e38 is no HUGEINT."""
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    values = [LARGEST, LARGEST, LARGEST.copy_negate(), LARGEST.copy_negate(), Decimal(5)]
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k BIGINT, o BIGINT, x DECIMAL(38, 0))")
        mill.insert("t", [(1, o, x) for o, x in enumerate(values)])
        for name, sql in SUMS_THAT_COME_BACK.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        assert mill["grouped"].rows() == [(1, 5, 1)]
        assert mill["recomputed"].rows() == [(5, 5, "11111")]
        assert {row[1] for row in mill["whole"].rows() + mill["sliding"].rows()} == {5}
        mill.delete("t", [(1, 4, 5)])
        assert {row[1] for row in mill["whole"].rows() + mill["sliding"].rows()} == {0}
        with pytest.raises(vm.ViewmillError, match="does not fit"):
            mill.insert("t", [(1, o, LARGEST) for o in range(20, 24)])  # 4e38 is no 0.6e38
        assert [mill[name].verify() for name in SUMS_THAT_COME_BACK] == [[]] * 4
