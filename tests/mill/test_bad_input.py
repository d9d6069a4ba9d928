"""Bad input: a clear error, and nothing has changed. One test for each line of the list."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

import viewmill as vm
from viewmill import errors


@pytest.fixture
def shop(mill: vm.Mill, uncompiled) -> vm.Mill:
    mill.sql(
        "CREATE TABLE orders (id INT NOT NULL, customer STRING, amount BIGINT, PRIMARY KEY (id))"
    )
    mill.sql("CREATE TABLE notes (day DATE, text STRING NOT NULL)")
    mill.sql(
        "CREATE MATERIALIZED VIEW revenue AS "
        "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
    )
    mill.sql("CREATE MATERIALIZED VIEW best AS SELECT MAX(s) AS m FROM revenue")
    mill.insert("orders", [(1, "ann", 10), (2, "bob", 2**62)])
    mill.insert("notes", [(dt.date(2024, 2, 29), "leap")])
    return mill


def everything(mill: vm.Mill) -> str:
    """Rows, versions and plans: all that a user could see change."""
    status = mill.status()
    for view in status["views"].values():
        for key in ("lag_s", "next_refresh_s", "state_bytes"):
            view.pop(key)
    rows = {
        name: mill.sql(f"SELECT * FROM {name}").rows() for name in (*mill.tables(), *mill.views())
    }
    return repr((status, {name: sorted(each, key=repr) for name, each in rows.items()}))


BAD: dict[str, tuple[Callable[[vm.Mill], object], type[Exception], str]] = {
    "unknown table": (
        lambda m: m.insert("oders", [(3, "cy", 1)]),
        errors.UnknownName,
        'Did you mean "orders"?',
    ),
    "unknown table in SQL": (lambda m: m.sql("SELECT * FROM oders"), errors.UnknownName, "orders"),
    "unknown column in rows": (
        lambda m: m.insert("orders", [{"id": 3, "custmer": "cy"}]),
        errors.UnknownName,
        "customer",
    ),
    "unknown column in a view": (
        lambda m: m.sql("CREATE MATERIALIZED VIEW v AS SELECT amont FROM orders"),
        errors.UnknownName,
        "amount",
    ),
    "wrong type in row 1": (
        lambda m: m.insert("orders", [(3, "cy", 1), (4, "dan", "much")]),
        errors.InvalidRow,
        "row 1",
    ),
    "too few values in row 1": (
        lambda m: m.insert("orders", [(3, "cy", 1), (4, "dan")]),
        errors.InvalidRow,
        "row 1",
    ),
    "fraction into INT": (lambda m: m.insert("orders", [(1.5, "cy", 1)]), errors.InvalidRow, "1.5"),
    "integer too large": (
        lambda m: m.insert("orders", [(2**31, "cy", 1)]),
        errors.InvalidRow,
        "2147483648",
    ),
    "NULL into NOT NULL": (
        lambda m: m.insert("notes", [(None, None)]),
        errors.NullViolation,
        '"text"',
    ),
    "NULL key": (lambda m: m.insert("orders", [(None, "cy", 1)]), errors.NullViolation, '"id"'),
    "duplicate key": (
        lambda m: m.insert("orders", [(3, "cy", 1), (1, "cy", 1)]),
        errors.DuplicateKey,
        "id = 1",
    ),
    "duplicate key inside the batch": (
        lambda m: m.insert("orders", [(3, "cy", 1), (3, "dan", 1)]),
        errors.DuplicateKey,
        "id = 3",
    ),
    "missing row": (
        lambda m: m.delete("orders", [(1, "ann", 11)]),
        errors.MissingRow,
        "amount = 11",
    ),
    "missing row in a bag": (
        lambda m: m.delete("notes", [(None, "leap")]),
        errors.MissingRow,
        "leap",
    ),
    "overflow": (lambda m: m.insert("orders", [(3, "bob", 2**62)]), errors.Overflow, "BIGINT"),
    "malformed SQL": (lambda m: m.sql("SELEC * FROM orders"), errors.MalformedSQL, "SELEC"),
    "malformed view": (
        lambda m: m.sql("CREATE MATERIALIZED VIEW v AS SELECT FROM WHERE"),
        errors.ViewmillError,
        "",
    ),
    "a view that reads itself": (
        lambda m: m.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM v"),
        errors.ViewmillError,
        "v",
    ),
    "views in a circle": (
        lambda m: m.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW revenue AS "
            "SELECT 'a' AS customer, m AS s FROM best"
        ),
        errors.CyclicViews,
        "best",
    ),
    "view name taken": (
        lambda m: m.sql("CREATE MATERIALIZED VIEW Revenue AS SELECT * FROM notes"),
        errors.NameTaken,
        "revenue",
    ),
    "view named as a table": (
        lambda m: m.sql("CREATE OR REPLACE MATERIALIZED VIEW orders AS SELECT 1 AS x"),
        errors.NameTaken,
        "orders",
    ),
    "table name taken": (
        lambda m: m.sql("CREATE TABLE orders (x INT)"),
        errors.NameTaken,
        "orders",
    ),
    "table in use dropped": (lambda m: m.sql("DROP TABLE orders"), errors.NameInUse, "revenue"),
    "view in use dropped": (
        lambda m: m.sql("DROP MATERIALIZED VIEW revenue"),
        errors.NameInUse,
        "best",
    ),
    "view replaced with other columns": (
        lambda m: m.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW revenue AS SELECT customer FROM orders"
        ),
        errors.NameInUse,
        "best",
    ),
    "unknown view": (lambda m: m["revenu"], errors.UnknownName, "revenue"),
    "a table is no view": (lambda m: m["orders"], errors.UnknownName, "table"),
    "a view is no table": (lambda m: m.insert("revenue", [("cy", 1)]), errors.UnknownName, "view"),
    "upsert without key": (
        lambda m: m.upsert("notes", [(None, "x")]),
        errors.InvalidArgument,
        "PRIMARY KEY",
    ),
    "unknown change word": (
        lambda m: m.apply(
            "notes", [{"text": "x", "op": "insert"}, {"text": "y", "op": "inser"}], change="op"
        ),
        errors.InvalidRow,
        "row 1",
    ),
    "division by zero while a view is made": (
        lambda m: m.sql("CREATE MATERIALIZED VIEW v AS SELECT id / (amount - 10) AS x FROM orders"),
        errors.EvaluationFailed,
        "zero",
    ),
    "unknown strategy": (
        lambda m: m.sql("CREATE MATERIALIZED VIEW v STRATEGY dataflo AS SELECT * FROM notes"),
        errors.InvalidArgument,
        "dataflow",
    ),
    "strict and not incremental": (
        lambda m: m.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            "SELECT text FROM notes LIMIT 3"
        ),
        errors.UnsupportedQuery,
        "incremental",
    ),
    "rows that are none": (lambda m: m.insert("notes", 7), errors.InvalidRow, "int"),
    "insert of too many values": (
        lambda m: m.sql("INSERT INTO notes VALUES (NULL, 'x', 1)"),
        errors.InvalidArgument,
        "3 values",
    ),
    "update into NULL": (
        lambda m: m.sql("UPDATE notes SET text = NULL"),
        errors.NullViolation,
        "text",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_clear_error_and_changes_nothing(case, shop):
    call, kind, says = BAD[case]
    before = everything(shop)
    with pytest.raises(kind) as raised:
        call(shop)
    assert says in str(raised.value)
    assert isinstance(raised.value, vm.ViewmillError)
    assert everything(shop) == before
    shop.insert("orders", [(9, "cy", 1)])  # the next good batch works
    assert ("cy", 1) in shop["revenue"].rows()
    assert all(view.verify() == [] for view in (shop["revenue"], shop["best"]))


def test_errors_in_sql_underline_the_place(shop):
    with pytest.raises(errors.UnknownName) as raised:
        shop.sql("SELECT customer,\n       amont FROM orders")
    lines = str(raised.value).splitlines()
    assert lines[1:3] == ["  2 |        amont FROM orders", "    |        ^^^^^"]


def test_several_statements_stop_at_the_first_that_fails(shop):
    with pytest.raises(errors.UnknownName):
        shop.sql("INSERT INTO notes VALUES (NULL, 'one'); INSERT INTO nots VALUES (NULL, 'two')")
    assert len(shop.sql("SELECT * FROM notes")) == 2


def test_a_closed_mill_says_so(uncompiled):
    mill = vm.connect()
    mill.sql("CREATE TABLE t (x INT)")
    mill.close()
    mill.close()
    for call in (lambda: mill.sql("SELECT 1"), lambda: mill.insert("t", [(1,)]), lambda: mill["t"]):
        with pytest.raises(errors.MillClosed):
            call()


def test_rows_in_bulk_wait_for_the_index_until_a_delete_asks() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE bulk (a BIGINT, b STRING)")
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT b, sum(a) AS s FROM bulk GROUP BY b")
        many = [(i, "xy"[i % 2]) for i in range(5000)]
        mill.insert("bulk", [(1, "x"), *many])
        mill.insert("bulk", [(1, "x")])
        with pytest.raises(vm.MissingRow):
            mill.delete("bulk", [(1, "x")] * 4)
        mill.insert("bulk", many)
        mill.delete("bulk", [(1, "x")] * 2)
        with mill.batch():
            mill.delete("bulk", [(4999, "y")])
            mill.insert("bulk", many)
        left = many * 3
        left.remove((4999, "y"))
        assert sorted(mill.sql("SELECT a, b FROM bulk").rows()) == sorted(left)
        assert mill["n"].verify() == []


@pytest.mark.parametrize("option", ["multiplicity", "change"])
def test_a_column_of_the_table_cannot_say_what_rows_do(shop: vm.Mill, option: str) -> None:
    before = everything(shop)
    rows = [{"id": 3, "customer": "cid", "amount": 1}]
    for name in ("amount", "AMOUNT"):
        with pytest.raises(errors.InvalidArgument, match="names a column of the table"):
            shop.apply("orders", rows, **{option: name})
    with pytest.raises(errors.InvalidArgument, match="names a column of the table"):
        shop.apply_product("orders", [rows], multiplicity="amount")
    for odd in (5, "", ["amount"]):
        with pytest.raises(errors.InvalidArgument, match="not the name of a column"):
            shop.apply("orders", rows, **{option: odd})  # type: ignore[arg-type]
    assert everything(shop) == before


@pytest.mark.parametrize(
    ("sql", "row", "column", "under"),
    [
        ("INSERT INTO t VALUES ('a', 1, 'x')", 0, "n", "'a'"),
        ("INSERT INTO t (s, n) VALUES ('x', 1), ('y', 2), ('z', 'b'), ('u', 'c')", 2, "n", "'b'"),
        ("INSERT INTO t (d) VALUES (1), (NULL), (12345.6)", 2, "d", "12345.6"),
        ("INSERT INTO t (d, s) SELECT n * 1000, s FROM t", 1, "d", None),
        ("UPDATE t SET n = s WHERE n > 1", 0, "n", "s"),
    ],
)
def test_a_value_of_sql_that_does_not_fit_is_named_by_row_and_column(
    mill, uncompiled, sql, row, column, under
):
    """DuckDB's words were shown: Could not convert string 'a' to INT64."""
    mill.sql("CREATE TABLE t (n BIGINT, d DECIMAL(5, 1), s STRING)")
    rows = [(1, None, "p"), (20, None, "q")]
    mill.insert("t", rows)
    with pytest.raises(vm.errors.InvalidRow) as raised:
        mill.sql(sql)
    assert raised.value.message.startswith(f'row {row} does not fit: column "{column}" is ')
    if under is not None:
        span = raised.value.span
        assert sql[span.start : span.end + 1] == under
    assert mill.sql("SELECT * FROM t").rows() == rows


def test_an_expression_that_fails_in_values_says_where(mill, uncompiled):
    mill.sql("CREATE TABLE t (n BIGINT)")
    with pytest.raises(vm.errors.EvaluationFailed, match=r'row 1, column "n": division by zero'):
        mill.sql("INSERT INTO t VALUES (2), (1 div 0), (3)")


def test_a_refused_query_says_what_is_left_to_the_engine(mill, uncompiled):
    """Only DuckDB's sum was named."""
    mill.sql("CREATE TABLE t (n BIGINT, x DOUBLE)")
    frame = "RANGE BETWEEN 1.0 PRECEDING AND CURRENT ROW"
    with pytest.raises(errors.UnsupportedQuery) as raised:
        mill.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT sum(n) OVER (ORDER BY x {frame}) AS s FROM t"
        )
    left = "The query is left to the engine for a RANGE frame with an offset over DOUBLE."
    assert raised.value.detail == left
    assert raised.value.span is not None
