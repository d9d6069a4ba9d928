"""mill.apply_product: what it takes, what it refuses, and that products stay products."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.errors import UnknownName

pytestmark = pytest.mark.usefixtures("uncompiled")

U = [{"a": 1, "p": 2}, {"a": 2, "p": 3}]
V = [{"b": "x", "p": 10}, {"b": "y", "p": 1}, {"b": None, "p": 0}]
ROWS = [(1, "x", 20), (1, "y", 2), (1, None, 0), (2, "x", 30), (2, "y", 3), (2, None, 0)]


def table(mill, options=""):
    mill.sql(f"CREATE TABLE r (a INT, b STRING, p BIGINT) {options}")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a, sum(p) AS s, count(*) AS n FROM r GROUP BY a")


def rows_of(mill, name="r"):
    return sorted(mill.sql(f"SELECT * FROM {name}").rows(), key=repr)


def held(mill, name="r"):
    return len(mill.core.catalog.table(name).table.products)


@pytest.mark.parametrize("options", ["", "UNCHECKED", "APPEND ONLY"])
def test_rows_are_combinations_and_values_multiply(mill, options):
    table(mill, options)
    mill.apply_product("r", [U, V], value="p")
    assert held(mill) == 1
    assert mill.status()["tables"]["r"]["rows"] == 6
    assert sorted(mill["v"].rows()) == [(1, 22, 3), (2, 33, 3)]
    assert held(mill) == 1  # a view is no reason to look at rows
    assert rows_of(mill) == sorted(ROWS, key=repr)
    assert mill["v"].verify() == []


@pytest.mark.parametrize(
    "factors",
    [
        pytest.param([pd.DataFrame(U), pa.Table.from_pylist(V)], id="frames"),
        pytest.param([[(1, 2), (2, 3)], [("x", 10), ("y", 1), (None, 0)]], id="tuples"),
        pytest.param([V, {"a": np.array([1, 2]), "p": [2, 3]}], id="columns"),
        pytest.param([{"A": 1, "P": 2}, V], id="one-row"),
    ],
)
def test_factors_come_in_any_form(mill, factors):
    table(mill)
    mill.apply_product("r", factors, value="p")
    wanted = [row for row in ROWS if row[0] == 1] if isinstance(factors[0], dict) else ROWS
    assert rows_of(mill) == sorted(wanted, key=repr)


def test_multiplicities_multiply(mill):
    table(mill, "UNCHECKED")
    mill.apply_product("r", [[{"a": 1, "_multiplicity": 2}], [{"b": "x", "p": 5}] * 2])
    assert rows_of(mill) == [(1, "x", 5)] * 4
    mill.apply_product("r", [[{"a": 1, "m": -1}], [{"b": "x", "p": 5, "m": 3}]], multiplicity="m")
    assert rows_of(mill) == [(1, "x", 5)]
    assert mill["v"].verify() == []


def test_what_factorize_gives_can_be_applied(mill):
    table(mill, "UNCHECKED")
    rows = [{"a": i, "b": f"b{j}", "p": 7} for i in range(5) for j in range(6)]
    rows += [{"a": 5, "b": f"b{j}", "p": 7} for j in range(5)]
    products = vm.factorize(rows)
    assert products.values < 20
    mill.apply_product("r", products)
    assert rows_of(mill) == sorted(((r["a"], r["b"], r["p"]) for r in rows), key=repr)
    mill.sql("CREATE TABLE m (i INT, j INT, P DOUBLE) UNCHECKED")
    matrix = np.outer([1.0, 2.0], [0.5, 4.0, 8.0]) + np.outer([1.0, 0.0], [1.0, 1.0, 0.0])
    for product in vm.factorize(matrix):
        mill.apply_product("m", product)
    mill.apply_product("m", vm.factorize(np.zeros((2, 2))))
    summed = mill.sql("SELECT i, j, sum(P) FROM m GROUP BY i, j").rows()
    assert all(abs(matrix[i, j] - p) < 1e-12 for i, j, p in summed)


# Refused.


@pytest.mark.parametrize(
    ("factors", "value", "message"),
    [
        ([U, [{"a": 3, "b": "x"}]], None, 'both have column "a"'),
        ([U, V], None, 'both have column "p"'),
        ([U, [{"p": 3}]], "p", "no factor has column b"),
        ([[{"a": 1}], [{"b": "x"}]], "p", 'no factor has the value column "p"'),
        ([[{"a": 1}], [{"b": "x"}]], None, "no factor has column p"),
        ([[{"z": 1}], V], "p", 'no column "z"'),
        ([U, V], "q", 'no column "q"'),
        ([U, V], "b", "values must be numbers"),
        ([], None, "at least one factor"),
        ([U, [{"b": "x", "p": "much"}]], "p", "does not fit"),
        ([[{"a": 1, "p": 2**40}], [{"b": "x", "p": 2**40}]], "p", "do not fit"),
        ([5, V], "p", "cannot read rows"),
        ({"a": 1}, "p", "must be a list"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_bad_input_changes_nothing(mill, factors, value, message):
    table(mill)
    before = mill.version
    with pytest.raises(vm.ViewmillError, match=message):
        mill.apply_product("r", factors, value=value)
    assert (mill.version, rows_of(mill)) == (before, [])


def test_an_empty_factor_is_no_change(mill):
    table(mill)
    before = mill.version
    mill.apply_product("r", [[], V], value="p")
    mill.apply_product("r", [U, [{"b": "x", "p": 1, "_multiplicity": 0}]], value="p")
    assert mill.version == before


def test_a_decimal_keeps_its_digits(mill):
    mill.sql("CREATE TABLE d (a INT, b INT, p DECIMAL(6, 2)) UNCHECKED")
    half, tenth = decimal.Decimal("1.5"), decimal.Decimal("0.1")
    mill.apply_product("d", [[{"a": 1, "p": half}], [{"b": 2, "p": tenth}]], value="p")
    assert rows_of(mill, "d") == [(1, 2, decimal.Decimal("0.15"))]
    with pytest.raises(vm.InvalidRow, match="more digits"):
        mill.apply_product("d", [[{"a": 1, "p": half * half}], [{"b": 2, "p": tenth}]], value="p")


def test_append_only_tables_refuse_deletes(mill):
    table(mill, "APPEND ONLY")
    with pytest.raises(vm.ForbiddenChange, match="APPEND ONLY"):
        mill.apply_product("r", [[{"a": 1, "_multiplicity": -1}], V[:1]])


# Checked tables.


def test_a_checked_table_judges_what_it_can_without_rows(mill):
    table(mill)
    mill.apply_product("r", [U, V], value="p")
    opposite = [{**row, "_multiplicity": -1} for row in U]
    mill.apply_product("r", [opposite, V], value="p")  # takes back what is held as it came
    assert held(mill) == 0
    assert rows_of(mill) == [] == mill["v"].rows()
    mill.apply_product("r", [U, V], value="p")
    with pytest.raises(vm.ForbiddenChange, match="one by one"):
        mill.apply_product("r", [opposite, V[::-1]], value="p")
    with pytest.raises(vm.MissingRow):
        mill.apply_product("r", [opposite[:1], [{"b": "x", "p": 9}]], value="p")  # one row
    mill.delete("r", [(1, "x", 20)])  # looks at rows: now they are listed
    assert held(mill) == 0
    assert len(rows_of(mill)) == 5
    assert mill["v"].verify() == []


def test_a_key_is_judged_while_the_table_is_empty(mill):
    mill.sql("CREATE TABLE k (i INT, j INT, p INT, PRIMARY KEY (i, j))")
    grid = [{"i": [1, 2], "p": [1, 1]}, {"j": [1, 2, 3], "p": [5, 6, 7]}]
    with pytest.raises(vm.ForbiddenChange, match="keys are there already"):
        mill.apply_product("k", [{"i": [1, 1], "p": [1, 2]}, grid[1]], value="p")
    mill.apply_product("k", grid, value="p")
    with pytest.raises(vm.ForbiddenChange, match="keys are there already"):
        mill.apply_product("k", [{"i": [8], "p": [1]}, grid[1]], value="p")
    mill.upsert("k", [(1, 1, 99)])
    with pytest.raises(vm.DuplicateKey):
        mill.insert("k", [(2, 2, 0)])
    assert rows_of(mill, "k") == [(1, 1, 99), (1, 2, 6), (1, 3, 7), (2, 1, 5), (2, 2, 6), (2, 3, 7)]


# Batches, other views, restarts.


def test_a_batch_takes_products_among_other_changes(mill):
    table(mill)
    with mill.batch():
        mill.insert("r", [(9, "z", 1)])
        mill.apply_product("r", [U, V], value="p")
        mill.delete("r", [(1, "x", 20)])  # judged on the net effect
        assert rows_of(mill) == []
    assert len(rows_of(mill)) == 6
    assert mill["v"].verify() == []
    with pytest.raises(vm.MissingRow):
        _batch_that_fails(mill)
    assert len(rows_of(mill)) == 6


def _batch_that_fails(mill):
    with mill.batch():
        mill.apply_product("r", [U, V], value="p")
        mill.delete("r", [(7, "x", 20)])


def test_deferred_and_recomputed_views_get_the_rows(mill):
    table(mill)
    mill.sql(
        "CREATE MATERIALIZED VIEW later REFRESH ON DEMAND AS SELECT b, sum(p) s FROM r GROUP BY b"
    )
    mill.sql("CREATE MATERIALIZED VIEW again REFRESH POLICY FULL AS SELECT max(p) m FROM r")
    mill.apply_product("r", [U, V], value="p")
    assert mill["again"].rows() == [(30,)]
    mill["later"].refresh()
    assert sorted(mill["later"].rows(), key=repr) == [("x", 50), ("y", 5), (None, 0)]


def test_a_product_survives_reopening_as_a_product(tmp_path):
    with vm.connect(tmp_path / "m") as mill:
        table(mill)
        mill.sql("CREATE TABLE c (a INT, b STRING, p BIGINT)")
        mill.sql("CREATE TABLE u (a INT, b STRING, p DOUBLE) UNCHECKED")
        with mill.batch():
            mill.insert("c", [(9, "z", 1)])
            mill.apply_product("c", [U, V], value="p")
        mill.apply_product("r", [U, V], value="p")
        mill.apply_product("u", [U, V], value="p")
        mill.apply_product("u", [[{"a": None}], [{"b": "q", "p": None}]], value="p")
    for _ in range(2):  # from the log, then from a checkpoint
        with vm.connect(tmp_path / "m") as mill:
            assert (held(mill, "c"), held(mill, "u")) == (1, 2)
            assert sorted(mill["v"].rows())[0] == (1, 22, 3)
            mill.checkpoint()
    with vm.connect(tmp_path / "m") as mill:
        assert len(rows_of(mill, "u")) == 7
        assert (None, "q", None) in rows_of(mill, "u")
        assert rows_of(mill, "c") == sorted([*ROWS, (9, "z", 1)], key=repr)
        assert mill["v"].verify() == []


def test_what_was_factorized_without_names_goes_by_place() -> None:
    """Example 5.1 with tuples, and a NumPy matrix whose values stand in the middle of the table."""
    rows = [(f"a{i}", f"b{j}") for i in range(7) for j in range(5)][:-1]
    entries = np.outer([1.0, 2.0, 0.5], [4.0, -8.0]) + np.outer([1.0, 0.0, 1.0], [1.0, 2.0])
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (x STRING, y STRING); CREATE TABLE m (k INT, p DOUBLE, l INT)")
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT y, COUNT(*) AS n FROM r GROUP BY y")
        products = vm.factorize(rows)
        assert products.values <= 7 + 5 + 3
        mill.apply_product("r", products)
        mill.apply_product("m", vm.factorize(entries))
        assert sorted(mill.sql("SELECT * FROM r").rows()) == sorted(rows)
        assert mill["n"].verify() == []
        totals = mill.sql("SELECT k, l, SUM(p) FROM m GROUP BY k, l").rows()
        found = {(row, column): p for row, column, p in totals}
        assert found == pytest.approx(dict(np.ndenumerate(entries)))
        with pytest.raises(UnknownName, match="c2"):  # three places, two columns
            mill.apply_product("r", vm.factorize([("a", "b", 1)]))


def test_a_product_reaches_a_view_whose_rows_are_computed_one_by_one(uncompiled):
    # It failed: 'Product' object has no attribute 'columns'.
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (a INT, b INT)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v AS"
            " SELECT a, regexp_replace(CAST(b AS STRING), '1', 'x') AS s FROM t"
        )
        mill.apply_product("t", [[{"a": 1}, {"a": 2}], [{"b": 11}, {"b": 3}]])
        assert sorted(mill["v"]) == [(1, "3"), (1, "xx"), (2, "3"), (2, "xx")]
