"""CREATE [MATERIALIZED] VIEW v(a, b): a view names its columns itself, as in Spark."""

from __future__ import annotations

import pytest

import viewmill as vm


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (a INT, b BIGINT)")
        mill.insert("r", [(1, 2), (2, 3)])
        yield mill


def test_a_view_has_the_columns_that_it_lists(mill):
    mill.sql(
        "CREATE MATERIALIZED VIEW v (x, `y z` COMMENT 'many') REFRESH POLICY INCREMENTAL STRICT AS "
        "SELECT a, count(*) AS k FROM r GROUP BY a ORDER BY k, a LIMIT 1"
    )
    mill.sql("CREATE VIEW w (n, m) AS WITH q AS (SELECT * FROM r) SELECT b, a AS b FROM q")
    mill.insert("r", [(1, 5)])
    assert mill["v"].to_arrow().column_names == ["x", "y z"]
    assert mill["v"].rows() == [(2, 1)]
    assert mill["v"].verify() == []
    assert mill.sql("SELECT m, n FROM w WHERE n = 5").rows() == [(1, 5)]


def test_two_columns_of_one_name_may_get_two_names(mill):
    mill.sql("CREATE MATERIALIZED VIEW v (x, y) AS SELECT a, b AS a FROM r")
    assert mill["v"].rows() == [(1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE VIEW v (x) AS SELECT a, b FROM r", "1 columns are named here, and there are 2"),
        ("CREATE VIEW v (x, X) AS SELECT a, b FROM r", 'column "X" is named twice'),
        ("CREATE VIEW v () AS SELECT a FROM r", "expected the name of a column"),
        ("CREATE VIEW v (x) AS SELECT nope FROM r", 'no column "nope"'),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT named_struct('p', a, 'P', b) AS s FROM r",
            'the struct has the field "P" twice',
        ),
    ],
)
def test_names_that_do_not_fit_are_underlined(mill, sql, said):
    with pytest.raises(vm.errors.ViewmillError) as refused:
        mill.sql(sql)
    assert said in str(refused.value)
    assert "^" in str(refused.value)


def test_the_names_survive_a_restart(uncompiled, tmp_path):
    with vm.connect(tmp_path / "mill") as mill:
        mill.sql("CREATE TABLE r (a INT)")
        mill.sql("CREATE MATERIALIZED VIEW v (x) AS SELECT a FROM r")
        mill.insert("r", [(1,)])
    with vm.connect(tmp_path / "mill") as mill:
        mill.insert("r", [(2,)])
        assert mill.sql("SELECT x FROM v").rows() == [(1,), (2,)]
