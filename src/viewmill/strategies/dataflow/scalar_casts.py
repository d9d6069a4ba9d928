"""Casts as trigger source, by the types from and to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from viewmill.algebra.expressions import Call, Cast, Expression
from viewmill.algebra.types import Boolean, Date, Decimal, Float, Integer, String, Timestamp, Type
from viewmill.strategies.dataflow.dates import DAY
from viewmill.strategies.dataflow.scalar_functions import (
    Write,
    bounds_of,
    overflow,
    power,
    rescaled,
)
from viewmill.strategies.dataflow.shape import NotTaken

if TYPE_CHECKING:
    from viewmill.strategies.dataflow.scalar import Scalar


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
        case Decimal(scale=scale):
            value = f"div_int({why}, {value}, {power(scale, expression)})"
            return f"add_checked({why}, {value}, 0, {bounds})"
        case Integer(bits) if bits <= expression.type.bits:
            return value
        case _:
            return f"add_checked({why}, {value}, 0, {bounds})"


def _to_float(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    if expression.type != Float(64) and expression.input.type != expression.type:
        raise NotTaken("a cast to FLOAT is not maintained incrementally yet", expression.span)
    source = expression.input.type
    if isinstance(source, Decimal):
        return f"({values[0]} / {float(power(source.scale, expression))!r})"
    return f"float({values[0]})"


def _to_decimal(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    assert isinstance(expression.type, Decimal)
    source = expression.input.type
    value = rescaled(scalar, expression, values[0], source, expression.type.scale)
    if _always_fits(source, expression.type):
        return value
    return f"add_checked({overflow(scalar, expression)}, {value}, 0, {bounds_of(expression.type)})"


def _always_fits(source: Type, target: Decimal) -> bool:
    if isinstance(source, Decimal):
        whole = source.precision - source.scale
        whole += source.scale > target.scale  # 9.99 rounds to 10.0
    else:
        assert isinstance(source, Integer)
        whole = {8: 3, 16: 5, 32: 10, 64: 19}[source.bits]
    return whole <= target.precision - target.scale


def narrowed(cast: Cast) -> Cast:
    """A quotient with no more digits than are shown of it: all that its type has may not fit."""
    quotient, target = cast.input, cast.type
    if not isinstance(quotient, Call) or quotient.function != "/":
        return cast
    if not isinstance(quotient.type, Decimal) or not isinstance(target, Decimal):
        return cast
    scales = [
        each.type.scale if isinstance(each.type, Decimal) else 0 for each in quotient.arguments
    ]
    if not scales[0] - scales[1] <= target.scale < quotient.type.scale:
        return cast
    shorter = Decimal(quotient.type.precision, target.scale)
    return replace(cast, input=replace(quotient, type=shorter))


def _date_to_timestamp(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"({values[0]} * {DAY})"


def _timestamp_to_date(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"({values[0]} // {DAY})"


def _same(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return values[0]


CASTS: dict[tuple[type, type], Write] = {
    (Boolean, Integer): _to_integer, (Integer, Integer): _to_integer, (Float, Integer): _to_integer,
    (Decimal, Integer): _to_integer, (Integer, Float): _to_float, (Decimal, Float): _to_float,
    (Float, Float): _to_float, (Integer, Decimal): _to_decimal, (Decimal, Decimal): _to_decimal,
    (Date, Timestamp): _date_to_timestamp, (Timestamp, Date): _timestamp_to_date,
    (Date, Date): _same, (Timestamp, Timestamp): _same, (String, String): _same,
    (Boolean, Boolean): _same,
}  # fmt: skip
