"""MAX_BY, MIN_BY, MODE and LATERAL: joins with the first rows of groups, equal to recompute."""

from __future__ import annotations

import pytest
from tests.strategies.dataflow.changes import drive

import viewmill as vm

CHOICES = (
    "SELECT a, max_by(b, d) AS x, min_by(c, d) AS y, count(*) AS n, mode(c) AS m FROM r GROUP BY a",
    "SELECT mode(b) AS m, max_by(c, e) AS x, sum(b) AS s FROM r",
    "SELECT c, max_by(d, f) FILTER (WHERE a > 1) AS x FROM r GROUP BY c HAVING mode(a) < 3",
    "SELECT a, mode() WITHIN GROUP (ORDER BY b DESC) AS m FROM r GROUP BY a",
    "SELECT a, h, mode(e) AS m FROM r GROUP BY ROLLUP (a, h)",
)
LATERALS = (
    "SELECT r.a, q.m, q.n FROM r, LATERAL (SELECT max(d) AS m, count(*) AS n FROM s"
    " WHERE s.a = r.a) q",
    "SELECT r.a, r.b, q.d FROM r, LATERAL (SELECT d FROM s WHERE s.a = r.a ORDER BY d DESC"
    " LIMIT 2) q",
    "SELECT r.a, q.* FROM r JOIN LATERAL (SELECT b, c FROM s WHERE s.a = r.a) q ON true",
    "SELECT r.a, r.b, q.d, q.x FROM r LEFT JOIN LATERAL (SELECT d, b + 1 AS x FROM s"
    " WHERE s.a = r.a ORDER BY d, b LIMIT 1 OFFSET 1) q ON true",
    "SELECT r.a, q.z FROM r, LATERAL (SELECT r.b + 1 AS z) q WHERE q.z > 2",
    "SELECT r.a, q.c, q.n FROM r, LATERAL (SELECT c, count(*) AS n FROM s WHERE s.a = r.a"
    " GROUP BY c HAVING count(*) > 1) q",
    "SELECT r.a, q.b, q.w FROM r LEFT JOIN LATERAL (SELECT b, r.b + s.b AS w, 1 AS one FROM s"
    " WHERE s.a < r.a) q ON q.b > 2",
    "SELECT r.a, q.m FROM r, LATERAL (SELECT sum(b) AS m FROM s WHERE s.a < r.a AND s.b <> r.b) q"
    " WHERE q.m > 1",
    "SELECT r.a, q.c, p.n FROM r, LATERAL (SELECT DISTINCT c FROM s WHERE s.a = r.a) q,"
    " LATERAL (SELECT count(*) AS n FROM t WHERE t.c = q.c) p",
    "SELECT a, (SELECT s.d FROM s WHERE s.a = r.a ORDER BY s.b DESC, s.d LIMIT 1) AS x FROM r",
    "SELECT a, b FROM r WHERE d > (SELECT s.d FROM s WHERE s.a = r.a ORDER BY s.b, s.d LIMIT 1)",
    "SELECT r.a, avg(q.d) AS m FROM r, LATERAL (SELECT d FROM s WHERE s.b >= r.b ORDER BY d"
    " LIMIT 3) q GROUP BY r.a",
)


@pytest.mark.parametrize("seed", range(2))
def test_choices_equal_recompute(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    drive(CHOICES, seed)


@pytest.mark.parametrize("seed", range(2))
def test_laterals_equal_recompute(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    drive(LATERALS, seed)


@pytest.mark.slow
def test_compiled() -> None:
    drive((*CHOICES[2:], *LATERALS[:4]), seed=5, steps=6)


def test_a_lateral_that_is_no_join_is_recomputed_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    query = "SELECT t.k, q.x FROM t, LATERAL (SELECT x FROM u WHERE u.k = t.k LIMIT 1) q"
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT); CREATE TABLE u (k INT, x INT)")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        mill.insert("t", [(1,), (2,)])
        mill.insert("u", [(1, 5)])
        assert mill["v"].rows() == [(1, 5)]
        assert "LATERAL" in mill["v"].explain()
        with pytest.raises(vm.errors.UnsupportedQuery) as refused:
            mill.sql(f"CREATE MATERIALIZED VIEW w REFRESH POLICY INCREMENTAL STRICT AS {query}")
        assert refused.value.span is not None
        assert refused.value.hint
