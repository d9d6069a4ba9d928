"""Exact decimal division in DuckDB, whose own answers are DOUBLE.

takes  rendered decimals and their types
gives  DuckDB SQL over HUGEINT: the digits without the point, divided, rounded half up
"""

from __future__ import annotations

from viewmill.algebra.types import Decimal, Type, may_be_wide
from viewmill.sql.decimals import MAX_PRECISION
from viewmill.sql.render_names import python_name

_NARROW = 18  # digits that surely fit 64 bits


def unscaled(text: str, type_: Decimal, word: str = "HUGEINT") -> str:
    """The decimal's digits as a whole number: 12.34 is 1234."""
    if type_.scale == 0:
        return f"CAST({text} AS {word})"
    if type_.precision + type_.scale <= MAX_PRECISION:
        if type_.precision <= _NARROW < type_.precision + type_.scale:
            text = f"CAST({text} AS DECIMAL({_NARROW + 1},{type_.scale}))"
        power = f"CAST({10**type_.scale} AS DECIMAL({type_.scale + 1},0))"
        return f"CAST({text} * {power} AS {word})"
    # The product would have more than 38 digits; the text never does.
    return f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS {word})"


def scaled(digits: str, type_: Decimal) -> str:
    """The decimal whose digits are the HUGEINT `digits`."""
    whole = f"CAST({digits} AS DECIMAL(38,0))"
    if type_.scale == 0:
        return f"CAST({whole} AS {type_})"
    unit = f"CAST('{_unit(type_.scale)}' AS DECIMAL({type_.scale},{type_.scale}))"
    return f"CAST({whole} * {unit} AS {type_})"


def _unit(scale: int) -> str:
    return "0." + "0" * (scale - 1) + "1"


def divide(left: str, a: Decimal, right: str, b: Decimal, result: Type) -> str:
    """left / right in the type of the result."""
    assert isinstance(result, Decimal)
    shift = result.scale - a.scale + b.scale
    # 64 bits are ten times as fast as 128, where the digits fit.
    narrow = shift >= 0 and max(a.precision, b.precision) + shift <= _NARROW
    too_wide = max(a.precision + max(shift, 0), b.precision - min(shift, 0)) > MAX_PRECISION
    if too_wide or _names_twice(left, right):
        return compute("/", left, right, result)
    word = "BIGINT" if narrow else "HUGEINT"
    digits_a, digits_b = unscaled(left, a, word), unscaled(right, b, word)
    if shift < 0:
        digits_b, shift = f"({digits_b} * {_power(-shift)})", 0
    power = f"CAST({10**shift} AS {word})"
    return scaled(f"spark_quotient({digits_a}, {digits_b}, {power})", result)


def digits_of_sum(total: str, type_: Decimal) -> str:
    """The digits of a sum of decimals of that type."""
    wide = Decimal(MAX_PRECISION if type_.precision > 28 else type_.precision + 10, type_.scale)
    return unscaled(total, wide)


def average(digits: str, type_: Decimal, count: str, result: Type) -> str:
    """AVG from the digits of the exact sum and the count of a group."""
    assert isinstance(result, Decimal)
    shift = result.scale - type_.scale
    return scaled(f"spark_quotient({digits}, CAST({count} AS HUGEINT), {_power(shift)})", result)


def integral_divide(left: str, a: Decimal, right: str, b: Decimal) -> str:
    """Left div right: both brought to one scale, then divided as whole numbers."""
    scale = max(a.scale, b.scale)
    digits_a = f"({unscaled(left, a)} * {_power(scale - a.scale)})"
    digits_b = f"({unscaled(right, b)} * {_power(scale - b.scale)})"
    return f"CAST({digits_a} // {digits_b} AS BIGINT)"


def needs_more(a: Decimal, b: Decimal) -> bool:
    """Whether two decimals at one scale may have more digits than DuckDB's."""
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return whole + max(a.scale, b.scale) + 1 > MAX_PRECISION


def compute(sign: str, left: str, right: str, result: Type) -> str:
    """Left sign right in Python, whose digits are as many as it takes."""
    assert isinstance(result, Decimal)
    texts = f"CAST({left} AS VARCHAR), CAST({right} AS VARCHAR)"
    name = python_name("exact", 5)
    made = f"{name}('{sign}', {texts}, {result.precision}, {result.scale})"
    return f"CAST({made} AS {result})"


def multiply(left: str, a: Decimal, right: str, b: Decimal, result: Type) -> str:
    """Left * right in the type of the result."""
    assert isinstance(result, Decimal)
    lost = a.scale + b.scale - result.scale
    if max(a.precision, b.precision) <= _NARROW and may_be_wide(result):
        # Of two that fit 64 bits DuckDB makes one that does.
        left = f"CAST({left} AS DECIMAL({_NARROW + 1},{a.scale}))"
    if lost <= 0:
        # What DuckDB cannot hold does not fit the result either.
        return f"CAST(({left} * {right}) AS {result})"
    # The halves of a product of two that wide do not fit.
    if min(a.precision, b.precision) == MAX_PRECISION or _names_twice(left, right):
        return compute("*", left, right, result)
    # The product has more digits than 38, of which the last ones go.
    digits = f"{unscaled(left, a)}, {unscaled(right, b)}"
    powers = f"{_power(lost)}, {_power(MAX_PRECISION - lost)}"
    return scaled(f"spark_product({digits}, {powers})", result)


def _names_twice(*operands: str) -> bool:
    """Whether an operand is such a macro itself: each names its operands several times, so that
    the text that DuckDB binds would grow by that factor with every level."""
    return any("spark_product(" in each or "spark_quotient(" in each for each in operands)


def _power(exponent: int) -> str:
    return f"CAST({10**exponent} AS HUGEINT)"
