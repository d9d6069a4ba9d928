"""Casts as trigger source, by the types from and to; those of DECIMALs are in `exact`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewmill.algebra.expressions import Cast, Expression
from viewmill.algebra.types import Boolean, Date, Float, Integer, String, Timestamp
from viewmill.codegen.dates import DAY
from viewmill.codegen.scalar_functions import Write, bounds_of, overflow
from viewmill.codegen.shape import NotTaken

if TYPE_CHECKING:
    from viewmill.codegen.scalar import Scalar


def _to_integer(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    assert isinstance(expression.type, Integer)
    source, value = expression.input.type, values[0]
    why, bounds = overflow(scalar, expression), bounds_of(expression.type)
    match source:
        case Boolean():
            return f"int({value})"
        case Float():
            return f"float_to_int({why}, {value}, {bounds})"
        case Integer(bits) if bits <= expression.type.bits:
            return value
        case _:
            return f"add_checked({why}, {value}, 0, {bounds})"


def _to_float(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    if expression.type != Float(64) and expression.input.type != expression.type:
        raise NotTaken("a cast to FLOAT is not maintained incrementally yet", expression.span)
    return f"float({values[0]})"


def _date_to_timestamp(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"({values[0]} * {DAY})"


def _timestamp_to_date(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"({values[0]} // {DAY})"


def _same(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return values[0]


CASTS: dict[tuple[type, type], Write] = {
    (Boolean, Integer): _to_integer, (Integer, Integer): _to_integer, (Float, Integer): _to_integer,
    (Integer, Float): _to_float, (Float, Float): _to_float,
    (Date, Timestamp): _date_to_timestamp, (Timestamp, Date): _timestamp_to_date,
    (Date, Date): _same, (Timestamp, Timestamp): _same, (String, String): _same,
    (Boolean, Boolean): _same,
}  # fmt: skip
