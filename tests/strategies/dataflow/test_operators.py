"""Every operator equals recompute under random changes, on both kinds of structure."""

from __future__ import annotations

import pytest
from tests.strategies.dataflow.changes import drive

JOINS = (
    "SELECT r.a, s.b, s.c FROM r JOIN s ON r.a = s.a",
    "SELECT r.a, s.b, t.c FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b AND t.d > r.d",
    "SELECT r.a, s.a AS z FROM r, s WHERE r.b < s.b",
    "SELECT x.a, y.b FROM r x JOIN r y ON x.a = y.b",
    "SELECT count(*) AS n FROM r, s WHERE r.a + 1 = s.b",
    "SELECT q.n, r.b FROM (SELECT a, count(*) AS n FROM s GROUP BY a) q JOIN r ON r.a = q.a",
)
OUTER_JOINS = (
    "SELECT r.a, s.b, s.c FROM r LEFT JOIN s ON r.a = s.a",
    "SELECT r.a, r.b, s.b AS sb FROM r LEFT JOIN s ON r.a = s.a AND r.b < s.b",
    "SELECT r.a, s.b, s.c FROM r RIGHT JOIN s ON r.a = s.a AND r.c = 'x'",
    "SELECT r.a, r.c AS rc, s.b, s.c FROM r FULL JOIN s ON r.a = s.a AND r.d > 0 AND s.d > 0",
    "SELECT r.a, r.c AS rc, s.b, s.c FROM r FULL JOIN s ON r.a = s.a AND r.b <> s.b",
    "SELECT x.a, y.a AS ya FROM r x FULL JOIN r y ON x.a = y.b",
    "SELECT r.a, q.one FROM r LEFT JOIN (SELECT a, 1 AS one FROM s WHERE d > 0) q ON r.a = q.a",
    "SELECT r.a, count(s.b) AS n, count(*) AS k FROM r LEFT JOIN s ON r.a = s.a GROUP BY r.a",
    "SELECT r.a, t.a AS ta FROM r LEFT JOIN s ON r.a = s.b LEFT JOIN t ON s.a = t.a",
)
SEMI_JOINS = (
    "SELECT r.a, r.c FROM r LEFT SEMI JOIN s ON r.a = s.a",
    "SELECT r.a, r.c FROM r LEFT ANTI JOIN s ON r.a = s.a",
    "SELECT r.a, r.c FROM r LEFT SEMI JOIN s ON r.a = s.a AND r.d < s.d",
    "SELECT r.a, r.c FROM r LEFT ANTI JOIN s ON r.a = s.a AND r.d < s.d WHERE r.b > 1",
    "SELECT x.a FROM r x LEFT ANTI JOIN r y ON x.a = y.b",
)
SET_OPERATIONS = (
    "SELECT a, b FROM r UNION ALL SELECT b, a FROM s",
    "SELECT a, c FROM r UNION SELECT a, c FROM s UNION SELECT b, c FROM t WHERE d > 0",
    "SELECT a FROM r INTERSECT SELECT a FROM s",
    "SELECT a FROM r INTERSECT ALL SELECT a FROM s",
    "SELECT a, b FROM r EXCEPT SELECT a, b FROM s",
    "SELECT x * 2 AS y FROM (SELECT a AS x FROM r EXCEPT ALL SELECT b FROM s) WHERE x > 1",
    "SELECT a, count(*) AS n FROM r GROUP BY a UNION ALL SELECT a, sum(b) FROM s GROUP BY a",
)
SUBQUERIES = (
    "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.b < r.b)",
    "SELECT a, b FROM r WHERE a IN (SELECT b FROM s WHERE d > 0)",
    "SELECT a, b FROM r WHERE a NOT IN (SELECT b FROM s WHERE d > 0)",
    "SELECT a, b FROM r WHERE a NOT IN (SELECT a FROM s WHERE a IS NOT NULL)",
    "SELECT a, b FROM r WHERE b > (SELECT avg(s.a) FROM s)",
    "SELECT a, b, (SELECT count(*) FROM s WHERE s.a = r.a) AS n FROM r",
    "SELECT a, b FROM r WHERE b > (SELECT sum(s.b) FROM s WHERE s.a = r.a)",
    "SELECT a, b FROM r WHERE 0 = (SELECT count(*) FROM s WHERE s.a = r.a)",
    "SELECT a, b FROM r WHERE coalesce((SELECT sum(s.b) FROM s WHERE s.a = r.a), 7) > 3",
    "SELECT a, count(*) AS n FROM r GROUP BY a HAVING count(*) >= (SELECT avg(s.a) FROM s)",
    "SELECT a FROM r WHERE a IN (SELECT a FROM s WHERE s.b = r.b)",
)
AGGREGATES = (
    "SELECT a, min(b) AS x, max(b) AS y FROM r GROUP BY a",
    "SELECT min(d) AS x, max(d) AS y, max(a) AS z FROM r",
    "SELECT a, count(DISTINCT b) AS x, sum(DISTINCT b) AS y, count(*) AS n FROM r GROUP BY a",
    "SELECT count(DISTINCT c) AS x, count(DISTINCT d) AS y FROM r WHERE b > 1",
    "SELECT a, count_if(b > 2) AS x, bool_and(b > 1) AS y, bool_or(d > 0) AS z FROM r GROUP BY a",
    "SELECT a, min(b) FILTER (WHERE d > 0) AS x FROM r GROUP BY a HAVING min(b) < 3",
    "SELECT max(n) AS m, min(n) AS k FROM (SELECT a, count(*) AS n FROM r GROUP BY a)",
)
TOPS = (
    "SELECT a, b FROM r ORDER BY a, b LIMIT 3",
    "SELECT a, b, c FROM r ORDER BY c DESC, a LIMIT 2 OFFSET 1",
    "SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC, a LIMIT 2",
    "SELECT d, a FROM r ORDER BY d DESC NULLS FIRST LIMIT 4",
    "SELECT a, b FROM r ORDER BY a + b DESC LIMIT 3",
    "SELECT a, b FROM r ORDER BY a OFFSET 2",
    "SELECT a, b FROM r ORDER BY upper(c) LIMIT 5000",
    "SELECT a, min(c) AS x, max(c) AS y FROM r GROUP BY a",
    "SELECT min(c) AS x, max(upper(c)) AS y, min(d) AS z FROM r",
    "SELECT a, (SELECT max(c) FROM s WHERE s.a = r.a) AS m FROM r",
    "SELECT a, max(c) AS s FROM r GROUP BY GROUPING SETS ((a), (b), ())",
)
TEXTS = (
    "SELECT upper(c) AS u, count(*) AS n FROM r WHERE c LIKE '%z%' OR length(c) < 2 GROUP BY 1",
    "SELECT c || '!' AS x, r.a FROM r WHERE c > 'x'",
    "SELECT r.a, upper(s.c) AS u FROM r JOIN s ON r.a = s.a WHERE lower(s.c) <> 'q'",
    "SELECT r.a, concat(s.c, '-') AS u FROM r LEFT JOIN s ON r.a = s.a",
)
WINDOWS = (
    "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM r",
    "SELECT a, b, c, row_number() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM r",
    "SELECT a, b, c, d, row_number() OVER (PARTITION BY c ORDER BY d DESC NULLS FIRST, c) AS "
    "n FROM r",
    "SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b) AS n, dense_rank() OVER (PARTITION "
    "BY a ORDER BY b) AS m FROM r",
    "SELECT a, b, rank() OVER (ORDER BY c) AS n FROM r",
    "SELECT a, b, c, lag(b) OVER (PARTITION BY a ORDER BY c) AS x, lead(b, 2, 7) OVER "
    "(PARTITION BY a ORDER BY c) AS y FROM r",
    "SELECT a, sum(b) OVER (PARTITION BY a ORDER BY c) AS x FROM r",
    "SELECT a, sum(b) OVER (PARTITION BY a ORDER BY c ROWS UNBOUNDED PRECEDING) AS x, c, d FROM r",
    "SELECT a, avg(d) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 2 PRECEDING AND 1 "
    "FOLLOWING) AS x, b, c FROM r",
    "SELECT a, max(d) OVER (ORDER BY b RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS x, "
    "min(b) OVER (ORDER BY b RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS y FROM r",
    "SELECT a, b, max(c) OVER (PARTITION BY a ORDER BY b DESC RANGE BETWEEN 1 PRECEDING AND "
    "1 FOLLOWING) AS x FROM r",
    "SELECT a, sum(b) OVER (PARTITION BY a) AS x, count(*) OVER (PARTITION BY a) AS y FROM r",
    "SELECT a, count(*) OVER () AS y, max(c) OVER () AS z FROM r",
    "SELECT a, b, ntile(3) OVER (ORDER BY b) AS x, percent_rank() OVER (ORDER BY b) AS y, "
    "cume_dist() OVER (ORDER BY b) AS z FROM r",
    "SELECT a, b, ntile(3) OVER (PARTITION BY a ORDER BY b) AS x FROM r",
    "SELECT a, percent_rank() OVER (PARTITION BY a ORDER BY b) AS y, cume_dist() OVER "
    "(PARTITION BY a ORDER BY b) AS z FROM r",
    "SELECT a, b FROM (SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b DESC) AS n "
    "FROM r) WHERE n <= 2",
    "SELECT a, b, n FROM (SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b DESC) AS n "
    "FROM r) WHERE n < 3",
    "SELECT a, b, n FROM (SELECT a, b, dense_rank() OVER (ORDER BY b) AS n, sum(b) OVER "
    "(ORDER BY b) AS m FROM r) WHERE n = 2",
    "SELECT a, b FROM r QUALIFY row_number() OVER (PARTITION BY a ORDER BY b DESC) = 1",
    "SELECT a, b, first_value(b) OVER (PARTITION BY a ORDER BY c) AS x FROM r",
    "SELECT a, b, c, last_value(b) OVER (PARTITION BY a ORDER BY c ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND UNBOUNDED FOLLOWING) AS x FROM r",
    "SELECT a, b, c, d, nth_value(b, 2) OVER (PARTITION BY a ORDER BY c, d ROWS BETWEEN "
    "UNBOUNDED PRECEDING AND CURRENT ROW) AS x FROM r",
    "SELECT a, b, c, first_value(b) IGNORE NULLS OVER (PARTITION BY a ORDER BY c ROWS "
    "BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS x, d FROM r",
    "SELECT a, b, c, d, lag(b) IGNORE NULLS OVER (PARTITION BY a ORDER BY c) AS x FROM r",
    "SELECT a, sum(sum(b)) OVER (ORDER BY a) AS x FROM r GROUP BY a",
    "SELECT a, b, sum(b) OVER (ORDER BY a, c ROWS BETWEEN CURRENT ROW AND UNBOUNDED "
    "FOLLOWING) AS x, c, d FROM r",
    "SELECT a, b, sum(d) OVER (ORDER BY c ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS x, c, "
    "d FROM r",
    "SELECT a, b, sum(d) OVER (ORDER BY c ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING) "
    "AS x, c, d FROM r",
    "SELECT a, b, sum(b) OVER (PARTITION BY a + 1 ORDER BY b * 2 ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND 1 PRECEDING) AS x, c, d FROM r",
    "SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) AS n, row_number() OVER "
    "(PARTITION BY c ORDER BY d) AS m, sum(b) OVER (PARTITION BY a) AS s FROM r",
    "SELECT r.a, rank() OVER (PARTITION BY r.a ORDER BY s.b) AS n FROM r JOIN s ON r.a = s.a",
    "SELECT a, bool_and(b > 1) OVER (PARTITION BY a) AS n, count(b) OVER (PARTITION BY a "
    "ORDER BY d) AS m FROM r",
    "SELECT a, b, row_number() OVER (ORDER BY upper(c), b) AS n FROM r",
    "SELECT a, b, last_value(c) OVER (PARTITION BY a ORDER BY b) AS x, d FROM r",
)
MOMENTS = (
    "SELECT a, stddev(b) AS s, stddev_pop(b) AS t, variance(d) AS v, var_pop(d) AS w FROM r "
    "GROUP BY a",
    "SELECT a, corr(b, d) AS s, covar_pop(b, d) AS t, covar_samp(d, b) AS u FROM r GROUP BY a",
    "SELECT a, regr_slope(b, d) AS s, regr_intercept(b, d) AS t, regr_r2(b, d) AS u, "
    "regr_count(b, d) AS n FROM r GROUP BY a",
    "SELECT a, regr_avgx(b, d) AS s, regr_avgy(b, d) AS t, regr_sxx(b, d) AS u, regr_syy(b, "
    "d) AS n, regr_sxy(b, d) AS x FROM r GROUP BY a",
    "SELECT a, stddev(b) FILTER (WHERE d > 0) AS x, max(c) AS m, count(*) AS n FROM r GROUP BY a",
    "SELECT r.a, stddev(s.b) AS x, corr(r.b, s.b) AS y FROM r JOIN s ON r.a = s.a GROUP BY r.a",
)
ALL = {
    "joins": JOINS,
    "outer joins": OUTER_JOINS,
    "semi joins": SEMI_JOINS,
    "set operations": SET_OPERATIONS,
    "subqueries": SUBQUERIES,
    "aggregates": AGGREGATES,
    "tops": TOPS,
    "texts": TEXTS,
    "windows": WINDOWS,
    "moments": MOMENTS,
}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.usefixtures("uncompiled")
def test_plain_triggers_equal_recompute(kind: str) -> None:
    drive(ALL[kind], seed=1, steps=6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_compiled_triggers_equal_recompute(kind: str) -> None:
    drive(ALL[kind], seed=3)


@pytest.mark.parametrize("kind", ["outer joins", "tops"])
def test_a_compiled_trigger_of_each_kind_equals_recompute(kind: str) -> None:
    drive(ALL[kind][3:5], seed=4)
