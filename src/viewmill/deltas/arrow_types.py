"""The types of values as Arrow's, and back.

takes  algebra Type, or a type of Arrow
gives  the other; nested types by Spark's spelling
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from viewmill.algebra.names import quoted, unquoted
from viewmill.algebra.packed import Packed
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
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
    kept_type,
)
from viewmill.errors import TypeMismatch

MICROSECONDS = pa.timestamp("us")


def arrow_type(type_: Type) -> Any:
    """The Arrow type that shows values of `type_` to others."""
    match type_:
        case Boolean():
            return pa.bool_()
        case Integer(bits):
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
        case Float(bits):
            return pa.float64() if bits == 64 else pa.float32()
        case Decimal(precision, scale) | Wide(precision, scale):
            return pa.decimal128(precision, scale)
        case String():
            return pa.string()
        case Date():
            return pa.date32()
        case Timestamp():
            return MICROSECONDS
        case Null():
            return pa.null()
        case Nested(name):
            return nested_arrow_type(name)
        case Interval():
            raise TypeMismatch(
                "an INTERVAL cannot be stored",
                hint="Add it to a date or timestamp; datediff counts days.",
            )


def from_arrow_type(type_: Any) -> Type:
    """The type that holds values of an Arrow type."""
    return _scalar_type(type_) or Nested(nested_name(type_))


def _scalar_type(type_: Any) -> Type | None:
    """The type of values that are no bytes and hold no others."""
    if pa.types.is_boolean(type_):
        return BOOLEAN
    if pa.types.is_integer(type_):
        wide = (
            type_.bit_width if pa.types.is_signed_integer(type_) else min(type_.bit_width * 2, 64)
        )
        return Integer(wide)
    if pa.types.is_floating(type_):
        return DOUBLE if type_.bit_width == 64 else FLOAT
    if pa.types.is_decimal(type_):
        return kept_type(Decimal(min(type_.precision, 38), type_.scale))
    if (
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    ):
        return STRING
    if pa.types.is_date(type_):
        return DATE
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    if pa.types.is_dictionary(type_):
        return from_arrow_type(type_.value_type)
    if pa.types.is_null(type_):
        return Null()
    if pa.types.is_duration(type_) or pa.types.is_interval(type_):
        return Interval()
    return None


_BINARIES = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)  # fmt: skip


def nested_name(type_: Any) -> str:
    """Spark's spelling of an Arrow type."""
    if pa.types.is_map(type_):
        return f"MAP<{nested_name(type_.key_type)},{nested_name(type_.item_type)}>"
    if (
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    ):
        return f"ARRAY<{nested_name(type_.value_type)}>"
    if pa.types.is_struct(type_):
        inside = ",".join(f"{quoted(each.name)}:{nested_name(each.type)}" for each in type_)
        return f"STRUCT<{inside}>"
    if any(each(type_) for each in _BINARIES):
        return "BINARY"
    known = _scalar_type(type_)
    if known is None:  # a time of the day, a UUID, a union
        raise TypeMismatch(
            f"Arrow's type {type_} has no twin here", hint="Cast it to STRING first."
        )
    return str(known)


_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:()]|[^<>,:()\s`]+")


def nested_arrow_type(name: str) -> Any:
    """The Arrow type of Spark's spelling, the inverse of `nested_name`."""
    tokens = _TOKEN.findall(name)
    type_, rest = _read_type(tokens)
    if rest:
        raise TypeMismatch(f"cannot read the type {name}")
    return type_


_SCALARS = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(),
    "DATE": pa.date32(), "TIMESTAMP": MICROSECONDS, "BINARY": pa.binary(), "VOID": pa.null(),
    "VARIANT": pa.string(),
}  # fmt: skip


def _read_type(tokens: list[str]) -> tuple[Any, list[str]]:
    head, rest = tokens[0].upper(), tokens[1:]
    if head == "ARRAY":
        inner, rest = _read_type(rest[1:])
        return pa.list_(inner), rest[1:]
    if head == "MAP":
        key, rest = _read_type(rest[1:])
        item, rest = _read_type(rest[1:])
        return pa.map_(key, item), rest[1:]
    if head == "STRUCT":
        fields = []
        while rest[0] != ">":
            inner, after = _read_type(rest[3:])
            fields.append(pa.field(unquoted(rest[1]), inner))
            rest = after
        return pa.struct(fields), rest[1:]
    if head == "DECIMAL":
        return pa.decimal128(int(rest[1]), int(rest[3])), rest[5:]
    if head not in _SCALARS:
        raise TypeMismatch(f"cannot read the type {tokens[0]}")
    return _SCALARS[head], rest


def arrow_schema(schema: Schema) -> Any:
    """The Arrow schema of a relation."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in schema])


def engine_schema(schema: Schema) -> Any:
    """The Arrow schema in which an engine returns rows: packed values as their carrier type."""
    fields = []
    for each in schema:
        packed = isinstance(each.type, Packed)
        type_ = nested_arrow_type(each.type.carrier) if packed else arrow_type(each.type)  # type: ignore[union-attr]
        fields.append(pa.field(each.name, type_))
    return pa.schema(fields)


def in_utc(table: Any) -> Any:
    """An Arrow table whose moments say that they are UTC: without a zone Spark reads local ones."""
    fields = [field.with_type(_utc_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _utc_type(type_: Any) -> Any:
    """The type with every moment inside it in UTC."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_utc_type(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([each.with_type(_utc_type(each.type)) for each in type_])
    if pa.types.is_map(type_):
        return pa.map_(_utc_type(type_.key_type), _utc_type(type_.item_type))
    return type_
