"""Queries with constant rows, long lists and long chains, as generated SQL has them."""

from __future__ import annotations

import pytest
from tests.strategies.dataflow.changes import drive

import viewmill as vm

CONSTANTS = (
    "SELECT a, x FROM r JOIN (VALUES (1, 'one'), (2, 'two')) v(k, x) ON a = k",
    "SELECT a, x FROM r LEFT JOIN (VALUES (1, 'one'), (1, 'uno')) v(k, x) ON a = k",
    "SELECT x, count(a) AS n FROM (VALUES (1, 'one'), (7, NULL)) v(k, x) LEFT JOIN r ON a = k "
    "GROUP BY x",
    "WITH m AS (SELECT 1 AS k, 'one' AS x UNION ALL SELECT 2, 'two') "
    "SELECT x, sum(b) AS s FROM r JOIN m ON a = k GROUP BY x",
    "SELECT a FROM r UNION ALL SELECT 5",
    "SELECT a FROM r EXCEPT SELECT 3",
    "SELECT a FROM r WHERE a NOT IN (SELECT k FROM (VALUES (1), (2)) v(k))",
    "SELECT count(*) AS n, max(k) AS m FROM (VALUES (1), (2), (2)) v(k)",
    "SELECT k, count(*) AS n FROM r CROSS JOIN (SELECT 3 AS k) WHERE a < k GROUP BY k",
)
LIMITS = (
    "SELECT count(*) AS n, sum(b) AS s FROM r LIMIT 100",
    "SELECT * FROM (SELECT max(a) AS x FROM r) p, (SELECT min(b) AS y FROM s) q LIMIT 1",
)


def _chains(size: int) -> tuple[str, ...]:
    few, many = range(size), range(3, size)
    cases = " ".join(f"WHEN a = {i} THEN c || '{i}'" for i in many)
    choices = " ".join(f"WHEN {i} THEN {2 * i}" for i in few)
    return (
        "SELECT a FROM r WHERE " + " OR ".join(f"(a = {i} AND b < {i})" for i in few),
        "SELECT a FROM r WHERE " + " AND ".join(f"a <> {i}" for i in many),
        f"SELECT CASE {cases} END AS x FROM r",
        f"SELECT CASE a {choices} ELSE b END AS x FROM r",
        f"SELECT a FROM r WHERE a IN ({', '.join(map(str, many))})",
        f"SELECT a, b NOT IN ({', '.join(map(str, many))}) AS x FROM r",
        f"SELECT a, b IN (NULL, a, {', '.join(map(str, many))}) AS x FROM r",
        f"SELECT a, d IN (1.5, 3, {', '.join(map(str, many))}) AS x FROM r",
        "SELECT a FROM r WHERE c IN ('x', 'yy', " + ", ".join(f"'{i}'" for i in few) + ")",
        "SELECT a, substring(c, 1, 1) NOT IN ('x', " + ", ".join(f"'{i}'" for i in few)
        + ") AS y FROM r",
        "SELECT r.a FROM r JOIN s ON r.a = s.a WHERE concat(r.c, s.c) IN ('xx', 'xyy', "
        + ", ".join(f"'{i}'" for i in few) + ")",
    )  # fmt: skip


@pytest.mark.parametrize("queries", [CONSTANTS, LIMITS], ids=["constants", "limits"])
def test_rows_that_never_change_stand_beside_those_that_do(uncompiled, queries):
    drive(queries, seed=3, steps=6)


def test_long_lists_and_chains_equal_recompute(uncompiled):
    drive(_chains(120), seed=5, steps=3)


def test_lists_and_chains_compile():
    drive(_chains(40)[2:6], seed=7, steps=3)


def test_constant_rows_compile():
    drive((CONSTANTS[1], CONSTANTS[4]), seed=9, steps=3)


# What a condition joins must go with the join: without it a block would have all pairs of rows.
JOINED = (
    "SELECT r.a, r.b, s.b AS x FROM r, s WHERE r.a = s.a AND r.b / s.b > 0.5 AND s.b <> 0",
    "SELECT r.a, t.b FROM r, s, t WHERE r.a = s.a AND t.a = s.a AND s.b > 0 "
    "AND CASE WHEN s.b > 1 THEN r.b / s.b ELSE 0 END >= t.b",
    "SELECT r.a, s.c FROM r, s WHERE r.a = s.a AND r.c RLIKE s.c",
    "SELECT r.a, s.c FROM r, s WHERE r.a = s.a AND md5(concat(r.c, s.c)) > '7'",
)


@pytest.mark.parametrize("query", JOINED)
def test_conditions_that_are_judged_later_leave_the_others_with_the_join(uncompiled, query):
    drive((query,), seed=11, steps=5)
    with vm.connect() as mill:
        for table in "rst":
            mill.sql(f"CREATE TABLE {table} (a INT, b BIGINT, c STRING)")
        mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
        kept = [
            state["name"] for block in mill["v"].explain()["blocks"] for state in block["states"]
        ]
        assert any(name.endswith("_by_a") for name in kept)
        assert not any("_by_all" in name for name in kept)


NAMED = (
    "SELECT a.`k 1`, sum(a.`größe#x` * b.`def`) AS `s-1` FROM `my-table` a "
    "JOIN `class` b ON a.`k 1` = b.`k 1` GROUP BY a.`k 1`",
    "SELECT `my-table`.`select`, `my_table`.root, sum(`größe#x` * `def`) AS s FROM `my-table` "
    "JOIN `class` ON `my-table`.`k 1` = `class`.`k 1` JOIN `my_table` ON `my_table`.`k_1` = "
    "`class`.`k 1` AND `my_table`.`k 1` = `my-table`.`select` "
    "GROUP BY `my-table`.`select`, `my_table`.root",
    "SELECT count(*) AS `n n` FROM `my-table` a JOIN `class` b ON a.`k 1` = b.`k 1` "
    "JOIN my_table c ON b.`my-table` = c.`k_1` AND c.root = a.`select`",
    "SELECT `k 1` AS `x y`, row_number() OVER (PARTITION BY `k 1` ORDER BY `select`, `größe#x`) "
    "AS `r#` FROM `my-table`",
)


@pytest.mark.parametrize("query", NAMED)
def test_tables_and_columns_have_any_name(uncompiled, query):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE `my-table` (`k 1` INT, `größe#x` BIGINT, `select` INT)")
        mill.sql("CREATE TABLE `class` (`k 1` INT, `def` BIGINT, `my-table` INT)")
        mill.sql("CREATE TABLE `my_table` (`k_1` INT, `k 1` BIGINT, `root` INT)")
        mill.sql(f"CREATE MATERIALIZED VIEW `v v` REFRESH POLICY INCREMENTAL STRICT AS {query}")
        mill.insert("my-table", [(1, 2, 3), (1, 4, 1), (2, 9, 2), (None, 3, 3)])
        mill.insert("class", [(1, 5, 1), (2, 7, 2), (3, 8, 3)])
        mill.insert("my_table", [(1, 3, 3), (2, 2, 2)])
        mill.delete("my-table", [(1, 4, 1)])
        assert mill["v v"].rows()
        assert mill["v v"].verify() == []
