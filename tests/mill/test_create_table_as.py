"""CREATE TABLE ... AS SELECT, as in Spark."""

from __future__ import annotations

import pytest

import viewmill as vm


def test_a_table_of_a_query_has_its_columns_and_rows_and_is_a_table(uncompiled, tmp_path):
    with vm.connect(tmp_path / "mill") as mill:
        mill.sql("CREATE TABLE r (a INT NOT NULL, e DECIMAL(30,2), s STRUCT<x: INT, `y z`: DATE>)")
        mill.sql("INSERT INTO r VALUES (1, 1.5, named_struct('x', 1, 'y z', NULL)), (1, 2, NULL)")
        mill.sql(
            "CREATE TABLE `my table` AS SELECT a, sum(e) AS `s m`, max(s) AS s FROM r GROUP BY a"
        )
        mill.sql("CREATE TABLE IF NOT EXISTS `my table` AS SELECT 1 AS other")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(`s m`) AS m FROM `my table`"
        )
        mill.sql("INSERT INTO `my table` VALUES (NULL, 9, NULL)")
    with vm.connect(tmp_path / "mill") as mill:
        rows = mill.sql("SELECT a, CAST(`s m` AS STRING), s.x FROM `my table`").rows()
        assert sorted(rows, key=repr) == [(1, "3.50", 1), (None, "9.00", None)]
        assert mill["v"].rows()[0][0] == 2
        mill.sql("DROP MATERIALIZED VIEW v")
        mill.sql("DROP TABLE `my table`")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT a, a FROM r", 'two output columns are called "a"'),
        ("SELECT nope FROM r", 'no column "nope"'),
        ("SELECT NULL AS x", "no table has these columns"),
        ("SELECT 1 / a AS x FROM r", "division by zero"),
    ],
)
def test_a_query_that_fails_leaves_no_table(uncompiled, query, said):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT)")
        mill.sql("INSERT INTO r VALUES (0)")
        with pytest.raises(vm.errors.ViewmillError) as refused:
            mill.sql(f"CREATE TABLE t AS {query}")
        assert said.lower() in str(refused.value).lower()
        mill.sql("CREATE TABLE t (b INT)")


def test_a_name_that_is_taken_is_refused(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT)")
        with pytest.raises(vm.errors.NameTaken):
            mill.sql("CREATE TABLE r AS SELECT 1 AS x")
