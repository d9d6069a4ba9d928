"""Algebra to SQL text; what it computes is in tests/engines/test_duckdb.py."""

from __future__ import annotations

import pytest
from tests.sql.lowering import lowered, output
from tests.sql.test_lower import tpch_catalog

from viewmill.bench.tpch import queries as tpch
from viewmill.deltas.arrow import arrow_schema
from viewmill.engines.duckdb import DuckdbEngine
from viewmill.sql.render import render
from viewmill.sql.render_duckdb import DuckdbExpressions
from viewmill.sql.render_spark import SparkExpressions


def duckdb(expression: str) -> str:
    return DuckdbExpressions(render).render(output(expression))


def spark(expression: str) -> str:
    return SparkExpressions(render).render(output(expression))


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_tpch_runs_on_duckdb_in_the_algebras_types(number):
    catalog, engine = tpch_catalog(), DuckdbEngine()
    relation = lowered(tpch.QUERIES[number], catalog)
    tables = {name: arrow_schema(catalog.find(name)).empty_table() for name in tpch.TABLES}
    assert engine.run(relation, tables).schema.equals(arrow_schema(relation.schema))
    engine.close()


def test_scan_names_its_columns_and_asks_for_the_table():
    text = render(lowered("SELECT id FROM lines l"), "duckdb", lambda name: f"my {name}")
    assert '"id" AS "l.id"' in text
    assert 'FROM "my lines"' in text


def test_every_sort_key_says_where_nulls_go():
    text = render(lowered("SELECT id FROM lines ORDER BY id DESC"))
    assert text.endswith('ORDER BY "id" DESC NULLS LAST')


def test_order_and_limit_are_those_of_the_outermost_select():
    text = render(lowered("SELECT customer FROM orders ORDER BY amount LIMIT 2"))
    assert text.splitlines()[-2].startswith("ORDER BY")
    assert text.splitlines()[-1] == "LIMIT 2"


def test_float_division_is_spark_divide():
    assert duckdb("weight / weight") == 'spark_divide("orders.weight", "orders.weight")'


def test_casts_to_whole_numbers_truncate():
    assert duckdb("CAST(weight AS INT)") == 'CAST(trunc("orders.weight") AS INTEGER)'


def test_spark_takes_the_number_where_our_function_takes_its_digits():
    """They were cast to DECIMAL(38,18), which has no room for 21 digits before the point."""
    assert spark("bround(amount, 1)") == (
        "CAST(CAST(bround(`orders.amount`, CAST(1 AS INT)) AS STRING) AS DECIMAL(12,1))"
    )
    assert spark("format_number(id, 2)") == "format_number(`orders.id`, CAST(2 AS INT))"
    assert spark("try_add(CAST(amount AS DECIMAL(38,2)), amount)") == (
        "CAST(CAST(try_add(CAST(`orders.amount` AS DECIMAL(38,2)), `orders.amount`) AS STRING)"
        " AS DECIMAL(38,2))"
    )


def test_spark_keeps_its_own_functions():
    assert spark("upper(customer)") == "upper(`orders.customer`)"
    assert spark("id <=> 1") == "(`orders.id` <=> CAST(1 AS BIGINT))"


def test_spark_text_escapes_backslashes_and_quotes():
    assert spark(r"'a\\b''c'") == r"'a\\b\'c'"


def test_spark_writes_semi_joins_its_way():
    sql = "SELECT o.id FROM orders o LEFT SEMI JOIN lines l ON o.id = l.order_id"
    assert "LEFT SEMI JOIN" in render(lowered(sql), "spark")
    assert "LEFT SEMI JOIN" not in render(lowered(sql), "duckdb")
