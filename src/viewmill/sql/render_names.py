"""Names, types and constants in the dialects of the engines."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal as Number
from functools import cache

from sqlglot import exp

from viewmill.algebra.expressions import Literal, UserCall
from viewmill.algebra.names import quoted_fields
from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Interval,
    Nested,
    Null,
    String,
    Timestamp,
    Type,
    Wide,
)

_DUCKDB_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}


def duckdb_name(name: str) -> str:
    """An identifier for DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def spark_name(name: str) -> str:
    """An identifier for Spark."""
    return "`" + name.replace("`", "``") + "`"


def duckdb_type(type_: Type) -> str:
    """The type's name in DuckDB."""
    match type_:
        case Integer(bits):
            return _DUCKDB_INTEGERS[bits]
        case String():
            return "VARCHAR"
        case Null():
            return "INTEGER"
        case Nested(name):
            return _duckdb_nested(name)
        case Boolean() | Float() | Decimal() | Wide() | Date() | Timestamp() | Interval():
            return str(type_)


@cache
def _duckdb_nested(name: str) -> str:
    type_ = exp.DataType.build(quoted_fields(name), dialect="spark")
    for each in type_.find_all(exp.DataType):
        if each.this == exp.DataType.Type.VARIANT:  # kept as text
            each.set("this", exp.DataType.Type.TEXT)
    return type_.sql("duckdb")


def duckdb_literal(literal: Literal) -> str:
    """A constant that DuckDB reads in exactly this type."""
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL" if isinstance(type_, Null) else f"CAST(NULL AS {duckdb_type(type_)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return duckdb_text(value)
    if isinstance(value, tuple):
        months, microseconds = value
        return f"(to_months({months}) + to_microseconds({microseconds}))"
    if isinstance(value, dt.date):
        return f"CAST('{_moment(value)}' AS {duckdb_type(type_)})"
    if isinstance(value, float):
        return f"CAST('{_float(value)}' AS {duckdb_type(type_)})"
    number = _number(value)
    if sum(map(str.isdigit, number)) > 38:  # which DuckDB would read as a DOUBLE
        number = duckdb_text(number)
    return f"CAST({number} AS {duckdb_type(type_)})"


def duckdb_text(value: str) -> str:
    """A string constant."""
    return "'" + value.replace("'", "''") + "'"


def spark_literal(literal: Literal) -> str:
    """A constant that Spark reads in exactly this type."""
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL" if isinstance(type_, Null) else f"CAST(NULL AS {type_})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return spark_text(value)
    if isinstance(value, tuple):
        return _spark_interval(*value)
    if isinstance(value, dt.date):
        return f"{type_} '{_moment(value)}'"
    if isinstance(value, float):
        return f"CAST('{_float(value)}' AS {type_})"
    return f"CAST({_number(value)} AS {type_})"


def spark_text(value: str) -> str:
    """A string constant; Spark reads backslashes as escapes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _spark_interval(months: int, microseconds: int) -> str:
    if not microseconds:
        return f"INTERVAL '{months}' MONTH"
    seconds = f"INTERVAL '{Number(microseconds).scaleb(-6):f}' SECOND"
    return f"(INTERVAL '{months}' MONTH + {seconds})" if months else seconds


def _moment(value: dt.date) -> str:
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else value.isoformat()


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _number(value: object) -> str:
    return f"{value:f}" if isinstance(value, Number) else str(value)


def user_name(call: UserCall) -> str:
    """The DuckDB name of a user's function for arguments of such types."""
    types = ", ".join(str(each.type) for each in call.arguments)
    return f"{call.function} {call.user.number} ({types})"


def python_name(function: str, count: int) -> str:
    """The DuckDB name of a Python function with this many parameters."""
    return f"spark_{function}_{count}"
