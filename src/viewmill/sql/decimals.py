"""Spark's rules for the precision and scale of decimals.

takes  the types of the operands
gives  the type of the result; digits behind the point go when 38 are not enough
"""

from __future__ import annotations

from decimal import Decimal as Number

from viewmill.algebra.types import Decimal, Integer, Type

MAX_PRECISION = 38
# When digits must go, this many stay behind the point as long as there are as many.
MINIMUM_ADJUSTED_SCALE = 6

_DIGITS_BY_BITS = {8: 3, 16: 5, 32: 10, 64: 20}


def adjusted(precision: int, scale: int) -> Decimal:
    """The type of a result that needs `precision` digits, cut to 38 at the cost of the scale.

    >>> adjusted(47, 25)
    Decimal(precision=38, scale=16)
    """
    if precision <= MAX_PRECISION:
        return Decimal(precision, scale)
    whole = precision - scale
    kept = max(MAX_PRECISION - whole, min(scale, MINIMUM_ADJUSTED_SCALE))
    return Decimal(MAX_PRECISION, kept)


def bounded(precision: int, scale: int) -> Decimal:
    """Both cut to 38, as Spark does for SUM and AVG."""
    return Decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def wider(a: Decimal, b: Decimal) -> Decimal:
    """The type that holds the values of both; digits before the point win when 38 is not enough."""
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    lost = max(precision - MAX_PRECISION, 0)
    return Decimal(precision - lost, max(scale - lost, 0))


def result_type(operator: str, a: Decimal, b: Decimal) -> Decimal:
    """The type of `a operator b`.

    >>> result_type("*", Decimal(12, 2), Decimal(13, 2))
    Decimal(precision=26, scale=4)
    """
    whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
    match operator:
        case "+" | "-":
            scale = max(a.scale, b.scale)
            return adjusted(max(whole_a, whole_b) + scale + 1, scale)
        case "*":
            return adjusted(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            scale = max(MINIMUM_ADJUSTED_SCALE, a.scale + b.precision + 1)
            return adjusted(whole_a + b.scale + scale, scale)
        case "%" | "pmod":
            scale = max(a.scale, b.scale)
            return adjusted(min(whole_a, whole_b) + scale, scale)
        case _:
            raise ValueError(operator)


def sum_type(type_: Decimal) -> Decimal:
    """The type of SUM."""
    return bounded(type_.precision + 10, type_.scale)


def average_type(type_: Decimal) -> Decimal:
    """The type of AVG."""
    return bounded(type_.precision + 4, type_.scale + 4)


def round_type(type_: Decimal, digits: int) -> Decimal:
    """The type of round(x, digits)."""
    whole = type_.precision - type_.scale + 1
    if digits < 0:
        return Decimal(min(max(whole, 1 - digits), MAX_PRECISION), 0)
    scale = min(type_.scale, digits)
    return Decimal(min(whole + scale, MAX_PRECISION), scale)


def for_integer(type_: Integer) -> Decimal:
    """The decimal that holds every value of an integer type."""
    return Decimal(_DIGITS_BY_BITS[type_.bits], 0)


def for_number(number: Number) -> Decimal:
    """The type of a decimal literal: 1.50 is DECIMAL(3,2), 0.05 is DECIMAL(2,2)."""
    _, digits, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    precision = len(digits) + max(int(exponent), 0)
    return Decimal(max(precision, scale, 1), scale)


def as_decimal(type_: Type) -> Decimal | None:
    """The decimal type of an exact number, else None."""
    if isinstance(type_, Integer):
        return for_integer(type_)
    return type_ if isinstance(type_, Decimal) else None
