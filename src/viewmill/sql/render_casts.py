"""Casts as DuckDB must write them to mean Spark's.

takes  the rendered input, its type, the type it becomes
gives  DuckDB SQL: casts to integers truncate, bad text and values out of range are errors
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.algebra.names import quoted_fields
from viewmill.algebra.types import (
    STRING,
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Nested,
    String,
    Timestamp,
    Type,
    shown_type,
)
from viewmill.errors import UnsupportedQuery
from viewmill.sql.data_types import type_of
from viewmill.sql.render_names import duckdb_type


def duckdb_try_cast(text: str, source: Type, target: Type) -> str:
    """TRY_CAST(text AS target): NULL where the cast would fail."""
    if isinstance(source, String) and isinstance(target, Integer):
        return f"TRY_CAST(spark_whole_or_null({text}) AS {duckdb_type(target)})"
    if isinstance(source, String) and isinstance(target, Boolean):
        return f"spark_truth_or_null({text})"
    return f"TRY({duckdb_cast(text, source, target)})"


def duckdb_cast(text: str, source: Type, target: Type) -> str:
    """CAST(text AS target)."""
    name = duckdb_type(target)
    match shown_type(source), shown_type(target):
        case (Float() | Decimal(), Integer()):
            return f"CAST(trunc({text}) AS {name})"
        case (String(), Integer()):
            return f"CAST(spark_whole({text}) AS {name})"
        case (String(), Boolean()):
            return f"spark_truth({text})"
        case (Float(), Decimal()):
            # By way of its digits as a DOUBLE: 1.005 is 1.01 in DECIMAL(10,2), as in Spark.
            # NaN and infinities are NULL there.
            return f"CAST(CAST(spark_number(CAST({text} AS DOUBLE)) AS VARCHAR) AS {name})"
        case (Float(64), Float(32)):
            return f"spark_short({text})"
        case (String(), Float(32)):
            return f"spark_short(spark_real({text}))"
        case (Float(), String()):
            return f"spark_float_text({text}, CAST({text} AS VARCHAR))"
        case (Decimal(precision, scale), String()) if precision == scale:
            # DuckDB writes .05 where no digit stands before the point.
            return f"regexp_replace(CAST({text} AS VARCHAR), '^(-?)[.]', '\\10.')"
        case (Float() | Decimal() | Integer(), Boolean()):
            return f"({text} <> 0)"
        case (Integer(), Timestamp()):
            return f"make_timestamp(CAST({text} AS BIGINT) * 1000000)"
        case (Nested(nested), String()):
            return _array_text(text, nested)
        case (Float() | Decimal(), Timestamp()):
            return f"make_timestamp(CAST(trunc({text} * 1000000) AS BIGINT))"
        case (Timestamp(), Integer()):
            return f"CAST(spark_floor_divide(epoch_us({text}), 1000000) AS {name})"
        case (Timestamp(), Float()):
            return f"CAST(epoch_us({text}) / 1000000 AS {name})"
        case (Timestamp(), Decimal()):
            micros = f"CAST(epoch_us({text}) AS DECIMAL(20,0))"
            return f"CAST({micros} * CAST(0.000001 AS DECIMAL(6,6)) AS {name})"
        case (String(), Float(64)):
            return f"spark_real({text})"
        case (String(), Date() | Timestamp() | Decimal() | Float()):
            return f"CAST(spark_{name.lower().split('(')[0]}({text}) AS {name})"
        case _:
            return f"CAST({text} AS {name})"


def _array_text(text: str, nested: str) -> str:
    """An array as Spark writes it: [1, null]."""
    type_ = exp.DataType.build(quoted_fields(nested), dialect="spark")
    if type_.this != exp.DataType.Type.ARRAY or not type_.expressions:
        raise UnsupportedQuery(
            f"{nested} has another text in DuckDB than in Spark",
            hint="Connect with vm.connect(spark=...): then Spark computes it.",
        )
    element = f"x{text.count('lambda x')}"  # arrays inside arrays have names of their own
    inner = duckdb_cast(element, type_of(type_.expressions[0]), STRING)
    texts = f"list_transform({text}, lambda {element}: COALESCE({inner}, 'null'))"
    return f"('[' || array_to_string({texts}, ', ') || ']')"
