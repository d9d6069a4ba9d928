"""Random queries mean the same three ways: Spark's own text, and ours on DuckDB and on Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.conftest import scaled

import viewmill as vm
from viewmill.engines.spark import translate
from viewmill.testing.generate import Table, rows_of, tables
from viewmill.testing.generate_queries import views, wide_views
from viewmill.testing.oracle import Row, differences

pytestmark = pytest.mark.spark

REFUSED = [("refused",)]  # for overflow and failing expressions, which all must refuse


def answer(mill: vm.Mill, sql: str) -> list[Row]:
    try:
        return list(mill.sql(sql).rows())
    except (vm.errors.Overflow, vm.errors.EvaluationFailed):
        return REFUSED


def sparks_answer(spark: Any, sql: str) -> list[Row]:
    try:
        found = spark.sql(sql).toArrow()
    except Exception as why:
        if isinstance(translate(why), vm.errors.Overflow | vm.errors.EvaluationFailed):
            return REFUSED
        raise
    found = found.rename_columns([f"c{i}" for i in range(found.num_columns)])
    rows = [tuple(row.values()) for row in found.to_pylist()]
    return [
        tuple(v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in row)
        for row in rows
    ]


def fill(mill: vm.Mill, over: Sequence[tuple[Table, list[Row]]]) -> bool:
    """Whether the rows can be in the tables at all."""
    try:
        for table, rows in over:
            mill.sql(table.sql)
            mill.insert(table.name, rows)
    except vm.errors.DuplicateKey:
        return False
    return True


@settings(max_examples=scaled(0.15))
@given(data=st.data())
def test_random_queries_agree(spark, data):
    a, b = data.draw(tables("a")), data.draw(tables("b"))
    query = data.draw(st.one_of(views(a), wide_views(a, b))).spark
    over = [(each, data.draw(st.lists(rows_of(each, tame=True), max_size=10))) for each in (a, b)]
    note(query)
    with vm.connect() as on_duckdb, vm.connect(spark=spark) as on_spark:
        if "LIMIT" in query or not (fill(on_duckdb, over) and fill(on_spark, over)):
            return  # ties at a LIMIT are Spark's to choose
        for table, _ in over:
            rows = on_duckdb.sql(f"SELECT * FROM {table.name}").to_spark(spark)
            rows.createOrReplaceTempView(table.name)
        expected = sparks_answer(spark, query)
        assert differences(expected, answer(on_duckdb, query)) == []
        assert differences(expected, answer(on_spark, query)) == []
