"""The queries that are run compiled: every kind of key, payload, condition and expression once."""

from __future__ import annotations

from viewmill.testing.generate import Column, Table
from viewmill.testing.generate_queries import Query

ALL = Table(
    "t",
    (
        Column("k", "INT"),
        Column("b", "BOOLEAN"),
        Column("i", "INT", nullable=False),
        Column("n", "BIGINT"),
        Column("f", "FLOAT"),
        Column("x", "DOUBLE"),
        Column("d", "DECIMAL(9,2)"),
        Column("e", "DECIMAL(5,2)", nullable=False),
        Column("s", "STRING"),
        Column("y", "DATE"),
        Column("z", "TIMESTAMP"),
    ),
)


def both(text: str) -> Query:
    """A query that means the same in both dialects."""
    return Query(text, text)


SHAPES = {
    "copy": both("SELECT * FROM t"),
    "filter": both("SELECT k, s FROM t WHERE k > 0 AND s <> 'a'"),
    "filter_or_null": both("SELECT i FROM t WHERE b OR k IS NULL OR x >= 0.5"),
    "count": both("SELECT k, COUNT(*) AS c FROM t GROUP BY k"),
    "count_nullable": both("SELECT s, COUNT(x) AS c, COUNT(n) AS m FROM t GROUP BY s"),
    "sum_int": Query(
        "SELECT k, SUM(i) AS c FROM t GROUP BY k",
        "SELECT k, CAST(SUM(i) AS BIGINT) AS c FROM t GROUP BY k",
    ),
    "sum_bigint": Query(
        "SELECT k, SUM(n) AS c FROM t GROUP BY k",
        "SELECT k, CAST(SUM(n) AS BIGINT) AS c FROM t GROUP BY k",
    ),
    "sum_double": both("SELECT k, SUM(x) AS c FROM t GROUP BY k"),
    "sum_float": Query(
        "SELECT k, SUM(f) AS c, AVG(f) AS a FROM t GROUP BY k",
        "SELECT k, SUM(CAST(f AS DOUBLE)) AS c, AVG(CAST(f AS DOUBLE)) AS a FROM t GROUP BY k",
    ),
    "sum_decimal": both("SELECT k, SUM(d) AS c FROM t GROUP BY k"),
    "avg": both("SELECT k, AVG(i) AS a, AVG(x) AS c, AVG(d) AS m FROM t GROUP BY k"),
    "total": Query(
        "SELECT COUNT(*) AS c, SUM(i) AS s, AVG(e) AS a FROM t",
        "SELECT COUNT(*) AS c, CAST(SUM(i) AS BIGINT) AS s, AVG(e) AS a FROM t",
    ),
    "total_filtered": both("SELECT COUNT(*) AS c, SUM(e) AS s FROM t WHERE k = 1"),
    "having": both("SELECT k, COUNT(*) AS c FROM t GROUP BY k HAVING COUNT(*) > 1 AND SUM(i) >= 0"),
    "aggregate_filter": both(
        "SELECT k, COUNT(*) FILTER (WHERE b) AS c, SUM(e) FILTER (WHERE i > 0) AS m FROM t "
        "GROUP BY k"
    ),
    "distinct": both("SELECT DISTINCT k, s FROM t"),
    "float_key": both("SELECT x, COUNT(*) AS c FROM t GROUP BY x"),
    "many_keys": both("SELECT b, k, s, y, COUNT(*) AS c FROM t GROUP BY b, k, s, y"),
    "time_key": both("SELECT CAST(z AS DATE) AS o, COUNT(*) AS c FROM t GROUP BY CAST(z AS DATE)"),
    "case_key": both(
        "SELECT CASE WHEN n > 0 THEN 1 WHEN n < 0 THEN -1 ELSE 0 END AS o, SUM(e) AS c FROM "
        "t GROUP BY 1"
    ),
    "arithmetic": both("SELECT i + 1 AS a, i * i AS c, x * 2 AS m, d - e AS o FROM t"),
    "coalesce": both("SELECT COALESCE(k, -1) AS o, COALESCE(x, 0) AS c FROM t"),
    "casts": Query(
        "SELECT CAST(d AS INT) AS a, CAST(i AS DOUBLE) AS c, CAST(e AS DECIMAL(7,1)) AS m FROM t",
        "SELECT CAST(trunc(d) AS INT) AS a, CAST(i AS DOUBLE) AS c, CAST(e AS DECIMAL(7,1)) "
        "AS m FROM t",
    ),
    "finished": both(
        "SELECT k, SUM(e) + 1 AS a, COALESCE(SUM(x), 0) AS c, COUNT(*) * 2 AS m FROM t GROUP BY k"
    ),
    "ordered": Query(
        "SELECT k, x, i FROM t WHERE i >= 0 ORDER BY k, x, i",
        "SELECT k, x, i FROM t WHERE i >= 0",
        3,
    ),
}
