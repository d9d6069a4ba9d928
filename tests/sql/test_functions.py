"""Types and nullability, as Spark 4 has them with ANSI on."""

from __future__ import annotations

import datetime as dt

import pytest
from tests.sql.lowering import lowered, output

from viewmill.algebra.expressions import Cast, Literal
from viewmill.algebra.types import DATE, Decimal
from viewmill.errors import TypeMismatch, UnknownName, UnsupportedQuery
from viewmill.sql import decimals

TYPES = [
    # Arithmetic. amount is DECIMAL(12,2), id BIGINT, weight DOUBLE.
    ("1 + 1", "INT"),
    ("id + 1", "BIGINT"),
    ("1 / 2", "DOUBLE"),
    ("7 div 2", "BIGINT"),
    ("7 % 2", "INT"),
    ("amount + 1", "DECIMAL(13,2)"),
    ("1 - amount", "DECIMAL(13,2)"),
    ("amount * 2", "DECIMAL(14,2)"),
    ("amount * amount", "DECIMAL(25,4)"),
    ("amount / amount", "DECIMAL(27,15)"),
    ("amount % 7", "DECIMAL(3,2)"),
    ("amount + id", "DECIMAL(23,2)"),
    ("amount * weight", "DOUBLE"),
    ("CAST(1 AS FLOAT) + 1", "DOUBLE"),
    ("'3' + 4", "BIGINT"),
    ("'3' * 1.5", "DOUBLE"),
    ("-amount", "DECIMAL(12,2)"),
    ("positive(amount)", "DECIMAL(12,2)"),
    ("positive('3')", "DOUBLE"),
    # Literals.
    ("1.50", "DECIMAL(3,2)"),
    ("0.05", "DECIMAL(2,2)"),
    ("1e3", "DOUBLE"),
    ("2147483648", "BIGINT"),
    ("-2147483648", "INT"),
    ("9223372036854775808", "DECIMAL(19,0)"),
    # Where values meet.
    ("coalesce(1, 2.5)", "DECIMAL(11,1)"),
    ("CASE WHEN id > 1 THEN 1 ELSE amount END", "DECIMAL(12,2)"),
    ("greatest(id, weight)", "DOUBLE"),
    ("if(id > 1, day, at)", "TIMESTAMP"),
    # Functions.
    ("length(customer)", "INT"),
    ("round(amount, 1)", "DECIMAL(12,1)"),
    ("round(amount)", "DECIMAL(11,0)"),
    ("round(weight, 1)", "DOUBLE"),
    ("floor(amount)", "DECIMAL(11,0)"),
    ("floor(weight)", "BIGINT"),
    ("sign(id)", "DOUBLE"),
    ("year(day)", "INT"),
    ("datediff(day, day)", "INT"),
    ("datediff(day, NULL)", "INT"),
    ("datediff(NULL, day)", "INT"),
    ("extract(second FROM at)", "DECIMAL(8,6)"),
    ("date_trunc('month', day)", "TIMESTAMP"),
    ("trunc(day, 'MM')", "DATE"),
    ("day + INTERVAL 1 MONTH", "DATE"),
    ("day + INTERVAL 1 HOUR", "TIMESTAMP"),
    ("day + 3", "DATE"),
    ("unix_timestamp(at)", "BIGINT"),
    ("to_date(customer, 'yyyyMMdd')", "DATE"),
    ("to_timestamp(customer, 'dd.MM.yyyy HH:mm')", "TIMESTAMP"),
    ("months_between(at, day)", "DOUBLE"),
    ("next_day(day, 'MONDAY')", "DATE"),
    ("from_unixtime(id)", "STRING"),
    ("timestampadd(DAY, 1, day)", "TIMESTAMP"),
    ("try_divide(id, 2)", "DOUBLE"),
    ("zeroifnull(amount)", "DECIMAL(12,2)"),
    ("substring_index(customer, '-', 1)", "STRING"),
    ("bit_count(id)", "INT"),
    ("hex(id)", "STRING"),
    ("any(id > 1)", "BOOLEAN"),
    # Aggregates and windows.
    ("count(*)", "BIGINT"),
    ("sum(id)", "BIGINT"),
    ("sum(amount)", "DECIMAL(22,2)"),
    ("sum(weight)", "DOUBLE"),
    ("avg(amount)", "DECIMAL(16,6)"),
    ("avg(id)", "DOUBLE"),
    ("collect_list(id)", "ARRAY<BIGINT>"),
    ("row_number() OVER (ORDER BY id)", "INT"),
    ("cume_dist() OVER (ORDER BY id)", "DOUBLE"),
    ("lag(amount) OVER (ORDER BY id)", "DECIMAL(12,2)"),
]


@pytest.mark.parametrize(("expression", "type_"), TYPES)
def test_expression_has_sparks_type(expression, type_):
    assert str(output(expression).type) == type_


@pytest.mark.parametrize(
    ("expression", "nullable"),
    [
        ("id", False),
        ("amount", True),
        ("id + 1", False),
        ("id / 0", False),
        ("coalesce(amount, 0)", False),
        ("amount IS NULL", False),
        ("amount <=> 1", False),
        ("ln(id)", True),
        ("TRY_CAST(id AS INT)", True),
        ("nullif(id, 1)", True),
        ("count(amount)", False),
        ("sum(id)", True),
    ],
)
def test_nullability_is_known(expression, nullable):
    assert output(expression).nullable is nullable


def test_precision_beyond_38_takes_digits_behind_the_point():
    assert decimals.result_type("/", Decimal(22, 2), Decimal(22, 2)) == Decimal(38, 16)
    assert decimals.result_type("*", Decimal(38, 18), Decimal(38, 18)) == Decimal(38, 6)
    assert decimals.wider(Decimal(38, 0), Decimal(38, 18)) == Decimal(38, 0)


def test_conversions_are_casts():
    call = output("id + weight")
    assert isinstance(call.arguments[0], Cast)
    assert str(call.arguments[0].type) == "DOUBLE"


def test_constants_are_converted_at_once():
    assert output("day < '2020-01-01'").arguments[1] == Literal(dt.date(2020, 1, 1), DATE)


@pytest.mark.parametrize(
    ("expression", "message", "underlined"),
    [
        ("customer AND true OR id", "OR needs a BOOLEAN, got BIGINT", "id"),
        ("day * 2", "* needs numbers, got DATE", "day"),
        ("'5' * customer", "* needs numbers, got STRING and STRING", "'5' * customer"),
        ("day = 5", "DATE and INT cannot be compared", "day = 5"),
        ("substring(customer)", "substring takes 2 to 3 arguments, got 1", "customer"),
        ("row_number()", "row_number needs an OVER clause", "row_number"),
        ("CAST(day AS INT)", "DATE cannot be cast to INT", "day"),
        ("at - at", "an INTERVAL cannot be an output", "at - at"),
        ("extract(EPOCH FROM at)", "EXTRACT does not know EPOCH", "at"),
        ("next_day(day, 'someday')", "next_day does not know this weekday", "'someday'"),
        ("sum(sum(id))", "an aggregate cannot hold another one", "sum(sum(id"),
    ],
)
def test_type_errors_underline_the_place(expression, message, underlined):
    with pytest.raises(TypeMismatch) as caught:
        output(expression)
    assert caught.value.message == message
    assert caught.value.span.text == underlined


@pytest.mark.parametrize("call", ["rand()", "uuid()", "current_user()"])
def test_what_changes_without_a_row_changing_is_refused(call):
    with pytest.raises(UnsupportedQuery, match="cannot be used in a view"):
        output(call)


def test_unknown_function_names_the_nearest():
    with pytest.raises(UnknownName) as caught:
        lowered("SELECT uppper(customer) FROM orders")
    assert caught.value.hint == 'Did you mean "upper"?'
    assert caught.value.span.text.startswith("uppper")


@pytest.mark.parametrize("call", ["date_trunc()", "trunc(day)"])
def test_a_truncation_without_its_unit_is_refused(call):
    with pytest.raises(TypeMismatch, match="takes 2 arguments"):
        output(call)
