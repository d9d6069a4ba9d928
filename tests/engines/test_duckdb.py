"""DuckDB computes Spark's meaning. Expected values are Spark's, written by hand."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from tests.sql.lowering import LINES, Tables, lowered, rows

from viewmill.algebra.types import Nested
from viewmill.deltas.arrow import arrow_schema
from viewmill.engines.duckdb import DuckdbEngine, translate
from viewmill.errors import (
    EvaluationFailed,
    MalformedSQL,
    OutOfMemory,
    Overflow,
    UnsupportedQuery,
)


@pytest.fixture(scope="module")
def engine():
    engine = DuckdbEngine()
    yield engine
    engine.close()


def value(engine, expression):
    return rows(engine, f"SELECT {expression} AS x")[0][0]


CLOSE_TO_2_67 = 2.6700000762939453  # as FLOAT has it

VALUES = [
    # Division.
    ("1 / 2", 0.5),
    ("-5 div 2", -2),
    ("-5 % 3", -2),
    ("pmod(-5, 3)", 1),
    ("-2147483648 % -1", 0),
    ("CAST(NULL AS INT) / 0", None),
    ("1.0 / 3", Decimal("0.333333")),
    ("CAST(-2 AS DECIMAL(10,2)) / CAST(3 AS DECIMAL(10,2))", Decimal("-0.6666666666667")),
    ("7.5 div 2", 3),
    # Casts.
    ("CAST(2.7 AS INT)", 2),
    ("CAST(-2.7D AS BIGINT)", -2),
    ("CAST(' 12 ' AS INT)", 12),
    ("TRY_CAST('1.5' AS INT)", None),
    ("TRY_CAST(300 AS TINYINT)", None),
    ("CAST(1.005D AS DECIMAL(10,2))", Decimal("1.01")),
    ("CAST(-1.005 AS DECIMAL(10,2))", Decimal("-1.01")),
    ("CAST('42d' AS DOUBLE)", 42.0),
    ("TRY_CAST('4_2' AS DOUBLE)", None),
    ("TRY_CAST('4_2' AS DECIMAL(5,1))", None),
    ("CAST('-INF' AS DOUBLE)", -math.inf),
    ("CAST('2024-2' AS DATE)", dt.date(2024, 2, 1)),
    ("CAST('2024-02-03T10:11' AS DATE)", dt.date(2024, 2, 3)),
    ("CAST('2024-02-03 1:2:3' AS TIMESTAMP)", dt.datetime(2024, 2, 3, 1, 2, 3)),
    (
        "CAST('2024-02-03 10:11:12.5+02:30' AS TIMESTAMP)",
        dt.datetime(2024, 2, 3, 7, 41, 12, 500000),
    ),
    ("CAST('2024-02-03 10:11:12 UTC' AS TIMESTAMP)", dt.datetime(2024, 2, 3, 10, 11, 12)),
    ("TRY_CAST('2024-02-03 24:00:00' AS TIMESTAMP)", None),
    ("CAST(timestamp '2024-02-29 13:14:15.5' AS DECIMAL(20,6))", Decimal("1709212455.500000")),
    ("CAST('yes' AS BOOLEAN)", True),
    ("CAST(1e10D AS STRING)", "1.0E10"),
    ("CAST(0.0001D AS STRING)", "1.0E-4"),
    ("CAST(0.001D AS STRING)", "0.001"),
    ("CAST(double('NaN') AS STRING)", "NaN"),
    ("CAST(1.50 AS STRING)", "1.50"),
    ("CAST(timestamp '1969-12-31 23:59:58.5' AS BIGINT)", -2),
    # Rounding.
    ("round(2.5)", Decimal(3)),
    ("round(-2.5)", Decimal(-3)),
    ("round(1.005D, 2)", 1.01),
    ("round(15, -1)", 20),
    ("round(99.5)", Decimal(100)),
    ("ceil(9.5)", Decimal(10)),
    ("round(1000000000000000.5D)", 1000000000000001.0),
    ("round(1.23456789e-20D, 25)", 1.23457e-20),
    ("CAST(round(-0.4D) AS STRING)", "0.0"),
    ("round(CAST(2.675 AS FLOAT), 2)", CLOSE_TO_2_67),
    ("bround(25, -1)", 20),
    ("floor(double('NaN'))", 0),
    # Bits: + binds tighter than <<, that than &, ^ and |. || binds as + does.
    ("1 | 2 << 3", 17),
    ("1 & 3 << 1", 0),
    ("1 | 2 & 4", 1),
    ("1 ^ 3 & 2", 3),
    ("1 | 3 ^ 2", 1),
    ("16 >> 1 + 1", 4),
    ("-16 >>> 28", 15),
    ("-16L >>> 60", 15),
    ("~5 + 1", -5),
    ("7 & 3 = 3", True),
    ("'1' || 1 + 2", 13),
    ("1 + 2 || 3", "33"),
    # What does not fit is NULL.
    ("try_multiply(CAST(99999999999999999999999999999999999999 AS DECIMAL(38,0)), 10)", None),
    ("try_divide(99999999999999999999999999999999999999, 0.01)", None),
    ("try_add('a', 1)", None),
    ("try_divide(1.5, 0)", None),
    # Regular expressions.
    ("regexp_extract('abc', '(b)c')", "b"),
    ("regexp_extract('abc', '(?<x>b)', 1)", "b"),
    ("'abc' RLIKE '(?=b)c'", False),
    ("'é' RLIKE '\\\\w'", False),
    ("regexp_replace('abc', '(a)(b)', '$2$1')", "bac"),
    ("regexp_replace('abc', 'b*', '-')", "-a--c-"),
    ("regexp_replace('abc', 'b', '\\\\$')", "a$c"),
    # Text.
    ("concat('a', NULL)", None),
    ("concat_ws(',', 'a', NULL, 'b')", "a,b"),
    ("substring('hello', 0, 2)", "he"),
    ("substring('hello', -3, 2)", "ll"),
    ("substring('hello', -7, 4)", "he"),
    ("left('hello', -1)", ""),
    ("lpad('7', 3, '')", "7"),
    ("replace('abc', 'b')", "ac"),
    ("locate('', 'abc', 3)", 1),
    ("upper('ßé')", "SSÉ"),
    ("initcap('éa ßb')", "Éa Ssb"),
    ("split_part('a,b,c', ',', -1)", "c"),
    ("'a_c' LIKE 'a\\\\_c'", True),
    ("'abc' LIKE 'a\\\\_c'", False),
    ("'a' < 'B'", False),
    # Nulls and NaN.
    ("NULL <=> NULL", True),
    ("3 IN (1, NULL)", None),
    ("1 NOT IN (2, NULL)", None),
    ("greatest(1, NULL, 3)", 3),
    ("double('NaN') = double('NaN')", True),
    ("double('NaN') > double('Infinity')", True),
    ("0.0D = -0.0D", True),
    ("ln(0)", None),
    ("CAST(ln(double('NaN')) AS STRING)", "NaN"),
    ("CAST(log(2, double('NaN')) AS STRING)", "NaN"),
    ("log(1, 2)", math.inf),
    ("CAST(pow(1, double('NaN')) AS STRING)", "NaN"),
    # Times.
    ("dayofweek(date '2024-01-07')", 1),
    ("weekday(date '2024-01-07')", 6),
    ("extract(second FROM timestamp '2020-02-29 10:11:12.9')", Decimal("12.900000")),
    ("date '2020-01-31' + INTERVAL 1 MONTH", dt.date(2020, 2, 29)),
    ("date '2020-01-31' + INTERVAL 1 HOUR", dt.datetime(2020, 1, 31, 1)),
    ("date '2020-01-31' + INTERVAL 24 HOURS", dt.datetime(2020, 2, 1)),
    ("INTERVAL '1 00' DAY TO HOUR + date '2020-01-31'", dt.datetime(2020, 2, 1)),
    ("date_trunc('week', date '2020-02-29')", dt.datetime(2020, 2, 24)),
    ("unix_seconds(timestamp '1969-12-31 23:59:59.5')", -1),
    ("datediff('2020-03-01', '2020-02-28')", 2),
    ("date_format(timestamp '2020-03-01 04:05:06', 'dd \\'of\\' MM')", "01 of 03"),
    ("to_timestamp('2020-03-01T04:05', 'yyyy-MM-dd\\'T\\'HH:mm')", dt.datetime(2020, 3, 1, 4, 5)),
]


@pytest.mark.parametrize(("expression", "expected"), VALUES)
def test_value_is_sparks(engine, expression, expected):
    assert value(engine, expression) == expected


FAILURES = [
    ("1 / 0", EvaluationFailed),
    ("1.5D / 0", EvaluationFailed),
    ("1.5 / 0", EvaluationFailed),
    ("1 % 0", EvaluationFailed),
    ("CAST('abc' AS INT)", EvaluationFailed),
    ("CAST('1.5' AS INT)", EvaluationFailed),
    ("CAST('maybe' AS BOOLEAN)", EvaluationFailed),
    ("CAST('nope' AS DATE)", EvaluationFailed),
    ("make_date(2020, 2, 30)", EvaluationFailed),
    ("CAST('2024-02-03 10:11:12 abc' AS TIMESTAMP)", EvaluationFailed),
    ("CAST('1_0' AS DOUBLE)", EvaluationFailed),
    ("regexp_extract('abc', 'b', 1)", EvaluationFailed),
    ("regexp_replace('abc', 'b', '$1')", EvaluationFailed),
    ("url_decode('%zz')", EvaluationFailed),
    ("conv('18446744073709551616', 10, 16)", Overflow),
    ("floor(1e300D)", Overflow),
    ("2147483647 + 1", Overflow),
    ("CAST(127 AS TINYINT) + CAST(1 AS TINYINT)", Overflow),
    ("9223372036854775807 + 1", Overflow),
    ("-(-2147483648)", Overflow),
    ("CAST(300 AS TINYINT)", Overflow),
    ("CAST(double('NaN') AS INT)", Overflow),
    ("CAST(12345 AS DECIMAL(4,0))", Overflow),
]


@pytest.mark.parametrize(("expression", "kind"), FAILURES)
def test_failing_value_is_an_error(engine, expression, kind):
    with pytest.raises(kind):
        value(engine, expression)


QUERIES = [
    # A guard keeps its division from running.
    (
        "SELECT CASE WHEN b <> 0 THEN a / b ELSE 0 END"
        " FROM (VALUES (1.5, 0.0), (3.0, 2.0)) t(a, b)",
        [(Decimal("0.000000"),), (Decimal("1.500000"),)],
    ),
    ("SELECT count(*) FROM (VALUES (0.0D), (-0.0D)) t(x) GROUP BY x", [(2,)]),
    ("SELECT DISTINCT x FROM (VALUES (0.0D), (-0.0D)) t(x)", [(0.0,)]),
    # Kahan's sum would lose the 1.
    ("SELECT sum(x) FROM (VALUES (1e16D), (1.0D), (-1e16D)) t(x)", [(1.0,)]),
    ("SELECT sum(x) FROM (VALUES (double('inf')), (1.0D)) t(x)", [(math.inf,)]),
    ("SELECT sum(x), count(x) FROM (VALUES (CAST(NULL AS DOUBLE))) t(x)", [(None, 0)]),
    ("SELECT avg(x) FROM (VALUES (0.01), (0.02), (0.02)) t(x)", [(Decimal("0.016667"),)]),
    ("SELECT var_samp(x), var_pop(x) FROM (VALUES (1.0)) t(x)", [(None, 0.0)]),
    (
        "SELECT a * b FROM"
        " (VALUES (CAST(1e10 AS DECIMAL(38,18)), CAST(1e15 AS DECIMAL(38,18)))) t(a, b)",
        [(Decimal("10000000000000000000000000.000000"),)],
    ),
    ("SELECT a FROM (VALUES (3), (NULL), (1)) t(a) ORDER BY a", [(None,), (1,), (3,)]),
    ("SELECT a FROM (VALUES (3), (NULL), (1)) t(a) ORDER BY a DESC", [(3,), (1,), (None,)]),
    (
        "SELECT a, b FROM (VALUES (1, 'z'), (1, 'y'), (1, 'x')) t(a, b) ORDER BY a LIMIT 2",
        [(1, "x"), (1, "y")],
    ),
    (
        "SELECT * FROM (VALUES (1, 'a')) t(k, v) FULL JOIN (VALUES (2, 'b')) u(k, w) USING (k)"
        " ORDER BY k",
        [(1, "a", None), (2, None, "b")],
    ),
    (
        "SELECT k FROM (VALUES (1), (2)) t(k)"
        " WHERE k NOT IN (SELECT x FROM (VALUES (1), (NULL)) u(x))",
        [],
    ),
    (
        "SELECT k, (SELECT count(*) FROM (VALUES (1), (1)) u(x) WHERE x = k)"
        " FROM (VALUES (1), (2)) t(k)"
        " ORDER BY k",
        [(1, 2), (2, 0)],
    ),
    (
        "SELECT k, grouping_id(k, v), count(*) FROM (VALUES ('a', 1), ('a', 2)) t(k, v)"
        " GROUP BY ROLLUP (k, v) ORDER BY 2, 1, 3",
        [("a", 0, 1), ("a", 0, 1), ("a", 1, 2), (None, 3, 2)],
    ),
    (
        "SELECT window.start, count(*) FROM (VALUES (timestamp '2020-01-01 12:07:00')) t(ts)"
        " GROUP BY window(ts, '10 minutes', '5 minutes') ORDER BY 1",
        [(dt.datetime(2020, 1, 1, 12, 0), 1), (dt.datetime(2020, 1, 1, 12, 5), 1)],
    ),
    ("SELECT a FROM (VALUES (1), (1), (2)) t(a) EXCEPT ALL SELECT 1 ORDER BY a", [(1,), (2,)]),
]


@pytest.mark.parametrize(("sql", "expected"), QUERIES)
def test_query_answers_as_spark_would(engine, sql, expected):
    assert rows(engine, sql) == expected


def test_a_query_of_two_rows_is_no_value(engine):
    with pytest.raises(EvaluationFailed):
        rows(engine, "SELECT (SELECT x FROM (VALUES (1), (2)) t(x)) AS y")


def test_tables_come_in_and_go_out_in_the_algebras_types(engine):
    table = pa.table({"id": [1], "order_id": [7], "quantity": [2]}, schema=arrow_schema(LINES))
    relation = lowered("SELECT order_id, sum(quantity) AS q FROM lines GROUP BY order_id")
    result = engine.run(relation, {"lines": table})
    assert result.schema.types == [pa.int64(), pa.int64()]
    assert result.to_pylist() == [{"order_id": 7, "q": 2}]


def test_a_call_leaves_nothing_behind(engine):
    table = arrow_schema(LINES).empty_table()
    engine.run(lowered("SELECT id FROM lines"), {"lines": table})
    with pytest.raises(UnsupportedQuery):
        engine.run(lowered("SELECT id FROM lines"), {})


def test_describe_tells_types_of_spark_sql(engine):
    schema = engine.describe("SELECT id, array(quantity) AS a FROM lines", {"lines": LINES})
    assert schema.names == ("id", "a")
    assert isinstance(schema[1].type, Nested)


def test_files_are_out_of_reach(engine):
    with pytest.raises(UnsupportedQuery):
        engine.run_sql("SELECT * FROM read_csv('/etc/passwd')", {})


def test_foreign_query_runs(engine):
    table = pa.table({"id": [1], "order_id": [7], "quantity": [2]}, schema=arrow_schema(LINES))
    relation = lowered("SELECT initcap('it''s') AS a FROM lines", Tables(), engine)
    assert engine.run(relation, {"lines": table}).to_pylist() == [{"a": "It's"}]


@pytest.mark.parametrize("call", ["hash(quantity)", "printf('%d', id)", "to_char(id, '99')"])
def test_what_means_something_else_in_duckdb_is_refused(engine, call):
    with pytest.raises(UnsupportedQuery, match=r"is not Spark's|cannot be handed"):
        lowered(f"SELECT {call} AS a FROM lines", Tables(), engine)


def test_text_that_a_pattern_cannot_read_is_an_error(engine):
    relation = lowered("SELECT to_date('20240231', 'yyyyMMdd') AS a FROM lines", Tables(), engine)
    table = pa.table({"id": [1], "order_id": [7], "quantity": [2]}, schema=arrow_schema(LINES))
    with pytest.raises(EvaluationFailed):
        engine.run(relation, {"lines": table})


def test_days_outside_of_the_calendar_are_an_error(engine):
    """Python said so when the rows were shown, in words of its own."""
    with pytest.raises(EvaluationFailed, match="years 1 to 9999"):
        value(engine, "date '2024-02-29' + 10000000")


def test_a_pattern_escapes_only_what_means_something(engine):
    assert value(engine, r"'a\\b' LIKE 'a\\\\b'") is True
    for pattern in (r"'a\\b'", r"'a\\'"):
        with pytest.raises(MalformedSQL, match="is no pattern"):
            value(engine, f"'ab' LIKE {pattern}")


def test_no_memory_is_said_to_be_that():
    """DuckDB that finds no memory was said not to understand the query."""
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '1 MB'")
        connection.execute("SET temp_directory = ''")
        with pytest.raises(duckdb.Error) as caught:
            connection.execute("CREATE TABLE t AS SELECT random() AS x FROM range(3000000)")
    why = translate(caught.value)
    assert isinstance(why, OutOfMemory)
    assert why.hint
