"""Exact decimal division in DuckDB, whose own answers are DOUBLE.

takes  rendered decimals and their types
gives  DuckDB SQL over HUGEINT: the digits without the point, divided, rounded half up
"""

from __future__ import annotations

from viewmill.algebra.expressions import Call
from viewmill.algebra.types import Decimal, Type
from viewmill.sql.decimals import MAX_PRECISION


def unscaled(text: str, type_: Decimal) -> str:
    """The decimal's digits as a HUGEINT: 12.34 is 1234."""
    if type_.scale == 0:
        return f"CAST({text} AS HUGEINT)"
    if type_.precision + type_.scale <= MAX_PRECISION:
        power = f"CAST({10**type_.scale} AS DECIMAL({type_.scale + 1},0))"
        return f"CAST({text} * {power} AS HUGEINT)"
    # The product would have more than 38 digits; the text never does.
    return f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS HUGEINT)"


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
    digits_a, digits_b = unscaled(left, a), unscaled(right, b)
    if shift < 0:
        digits_b, shift = f"({digits_b} * {_power(-shift)})", 0
    return scaled(f"spark_quotient({digits_a}, {digits_b}, {_power(shift)})", result)


def average(total: str, type_: Decimal, count: str, result: Type) -> str:
    """AVG from the exact sum and the count of a group."""
    assert isinstance(result, Decimal)
    shift = result.scale - type_.scale
    wide = Decimal(MAX_PRECISION if type_.precision > 28 else type_.precision + 10, type_.scale)
    digits = unscaled(total, wide)
    return scaled(f"spark_quotient({digits}, CAST({count} AS HUGEINT), {_power(shift)})", result)


def integral_divide(left: str, a: Decimal, right: str, b: Decimal) -> str:
    """Left div right: both brought to one scale, then divided as whole numbers."""
    scale = max(a.scale, b.scale)
    digits_a = f"({unscaled(left, a)} * {_power(scale - a.scale)})"
    digits_b = f"({unscaled(right, b)} * {_power(scale - b.scale)})"
    return f"CAST({digits_a} // {digits_b} AS BIGINT)"


def multiply(call: Call, texts: list[str]) -> str:
    """Left * right; DuckDB wants at most 38 digits behind the point."""
    scales = [each.type.scale for each in call.arguments if isinstance(each.type, Decimal)]
    if sum(scales) > MAX_PRECISION:
        cut = [f"CAST({text} AS DECIMAL(38,{min(s, 19)}))" for text, s in zip(texts, scales, strict=True)]
        return f"({cut[0]} * {cut[1]})"
    return f"({texts[0]} * {texts[1]})"


def _power(exponent: int) -> str:
    return f"CAST({10**exponent} AS HUGEINT)"
