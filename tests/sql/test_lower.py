"""SQL to algebra: shapes, names, ties, and errors with their underlines."""

from __future__ import annotations

import pytest
from tests.sql.lowering import LINES, Tables, lowered, parse, view

from viewmill.algebra.display import display, display_expression
from viewmill.algebra.relations import Foreign, Limit, Sort, Window
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.walk import scans, walk_relations
from viewmill.bench.tpch import queries as tpch
from viewmill.engines.duckdb import DuckdbEngine
from viewmill.errors import CyclicViews, TypeMismatch, UnknownName, UnsupportedQuery, ViewmillError
from viewmill.sql.data_types import type_of


@pytest.fixture(scope="module")
def engine():
    engine = DuckdbEngine()
    yield engine
    engine.close()


def tpch_catalog():
    catalog = Tables()
    for name, columns in tpch.TABLES.items():
        table = parse(f"CREATE TABLE t ({columns})").this
        fields = (Field(each.name, type_of(each.kind)) for each in table.expressions)
        catalog.known[name] = Schema(tuple(fields))
    return catalog


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_tpch_is_modelled(number):
    relation = lowered(tpch.QUERIES[number], tpch_catalog())
    assert not any(isinstance(each, Foreign) for each in walk_relations(relation))


def test_groups_read_as_a_tree():
    sql = """SELECT customer, sum(amount) AS total FROM orders o WHERE day >= '2020-01-01'
             GROUP BY customer HAVING sum(amount) > 10 ORDER BY total DESC LIMIT 3"""
    assert display(lowered(sql)) == (
        "Limit: 3\n"
        "└─ Sort: total DESC, customer\n"
        "   └─ Project: o.customer AS customer, sum(o.amount) AS total\n"
        "      └─ Filter: sum(o.amount) > 10.00\n"
        "         └─ Aggregate by o.customer: sum(o.amount)\n"
        "            └─ Filter: o.day >= DATE '2020-01-01'\n"
        "               └─ Scan: orders o"
    )


def test_correlated_column_says_how_far_out_it_is():
    sql = "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM lines WHERE order_id = o.id)"
    assert "lines.order_id = o.id" in display(lowered(sql))


def test_an_alias_used_twice_becomes_two_names():
    sql = "SELECT o.id FROM orders o WHERE o.id IN (SELECT o.order_id FROM lines o)"
    assert [scan.alias for scan in scans(lowered(sql))] == ["o", "o_1"]


def test_ties_at_a_limit_are_broken_by_the_other_outputs():
    relation = lowered("SELECT customer, id FROM orders ORDER BY customer LIMIT 1")
    assert isinstance(relation, Limit)
    assert isinstance(relation.input, Sort)
    assert [key.expression.name for key in relation.input.keys] == ["customer", "id"]


def test_ties_of_row_number_are_broken_by_the_other_inputs():
    relation = lowered("SELECT row_number() OVER (PARTITION BY order_id ORDER BY id) n FROM lines")
    window = next(each for each in walk_relations(relation) if isinstance(each, Window))
    keys = [key.expression.name for key in window.calls[0][1].order]
    assert keys == ["lines.id", "lines.quantity"]


def test_rank_keeps_its_ties():
    relation = lowered("SELECT rank() OVER (ORDER BY order_id) n FROM lines")
    window = next(each for each in walk_relations(relation) if isinstance(each, Window))
    assert len(window.calls[0][1].order) == 1


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ("count(*)", "count(1)"),
        ("DATE '2024-01-01'", "DATE '2024-01-01'"),
        ("CAST('2024-01-01' AS DATE)", "CAST(2024-01-01 AS DATE)"),
        ("1.5D", "1.5"),
        ("-2.5D", "-2.5"),
        ("10L", "10"),
        ("1.5BD", "1.5"),
        ("1e3", "1000.0"),
        ("1.5e-7", "1.5E-7"),
        ("sum(amount)", "sum(amount)"),
        ("variance(weight)", "variance(weight)"),
        ("count(DISTINCT id)", "count(DISTINCT id)"),
    ],
)
def test_unnamed_outputs_get_sparks_names(outputs, names):
    assert lowered(f"SELECT {outputs} FROM orders").schema.names == (names,)


def test_a_doubled_quote_is_a_quote():
    assert lowered("SELECT 'it''s'").outputs[0][1].value == "it's"


def test_plain_view_is_put_in():
    catalog = Tables(big=view("SELECT id, amount FROM orders WHERE amount > 100"))
    relation = lowered("SELECT b.id FROM big b", catalog)
    assert [scan.source for scan in scans(relation)] == ["orders"]


def test_view_that_reads_itself_is_an_error():
    with pytest.raises(CyclicViews):
        lowered("SELECT * FROM a", Tables(a=view("SELECT * FROM a")))


def test_table_names_ignore_case_and_keep_theirs():
    relation = lowered("SELECT ID FROM oRdErS", Tables(Orders=LINES))
    assert scans(relation)[0].source in ("orders", "Orders")


ERRORS = [
    ("SELECT cutomer FROM orders", UnknownName, "cutomer", 'Did you mean "customer"?'),
    ("SELECT 1 FROM oders", UnknownName, "oders", 'Did you mean "orders"?'),
    ("SELECT o.x FROM orders o", UnknownName, "o.x", ""),
    ("SELECT id FROM orders, lines", UnknownName, "id", "Write orders.id or lines.id."),
    ("SELECT amount, count(*) FROM orders GROUP BY customer", UnsupportedQuery, "amount", ""),
    ("SELECT 1 FROM orders WHERE sum(id) > 1", TypeMismatch, "sum(id", "Use HAVING."),
    ("SELECT id FROM orders GROUP BY 2", TypeMismatch, "2", ""),
    ("SELECT id FROM orders ORDER BY 3", TypeMismatch, "3", ""),
    ("SELECT 1 UNION SELECT 1, 2", TypeMismatch, "", ""),
]


@pytest.mark.parametrize(("sql", "kind", "underlined", "hint"), ERRORS)
def test_errors_underline_the_place_and_help(sql, kind, underlined, hint):
    with pytest.raises(ViewmillError) as caught:
        lowered(sql)
    assert type(caught.value) is kind
    if underlined:
        assert caught.value.span.text == underlined
    if hint:
        assert caught.value.hint == hint


def test_two_outputs_of_one_name_are_an_error():
    with pytest.raises(TypeMismatch, match="two output columns") as caught:
        lowered("SELECT id, id FROM orders")
    assert "AS" in caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT customer FROM orders TABLESAMPLE (10 PERCENT)",
    ],
)
def test_what_the_algebra_lacks_becomes_foreign(engine, sql):
    relation = lowered(sql, engine=engine)
    assert isinstance(relation, Foreign)
    assert relation.reason


def test_a_function_of_nested_values_takes_arguments_of_any_form(engine):
    relation = lowered("SELECT array(CAST(weight AS INT), 1) AS a FROM orders", engine=engine)
    call = relation.outputs[0][1]
    assert display_expression(call) == "array(CAST(orders.weight AS INT), 1)"
    assert str(call.type) == "ARRAY<INT>"


@pytest.mark.parametrize("name", ["list_value", "epoch_ms", "strftime", "string_split"])
def test_a_function_that_only_duckdb_has_is_unknown(engine, name):
    with pytest.raises(UnknownName, match=f'there is no function "{name}"'):
        lowered(f"SELECT {name}(customer, id) AS a FROM orders", engine=engine)


def test_without_an_engine_foreign_is_refused():
    with pytest.raises(UnsupportedQuery):
        lowered("SELECT xpath_int('<a>1</a>', 'a') AS a")
