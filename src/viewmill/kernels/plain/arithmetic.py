"""Arithmetic on Python's own integers: compute exactly, then ask whether the result fits."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

from viewmill.kernels.plain.outlet import Failed, fail

LOW, HIGH = -(2**63), 2**63 - 1


def within(
    errors: Failed, code: int, row: int, result: int, low: int = LOW, high: int = HIGH
) -> int:
    """The result, or 0 and a failure."""
    if low <= result <= high:
        return result
    fail(errors, code, row)
    return 0


def wrapped(value: int) -> int:
    """The value modulo 2^64, as a signed word: what adding words of 64 bits gives.

    A slot is replaced by adding the difference, which may wrap; the sum then wraps back.
    """
    return (value - LOW) % 2**64 + LOW


def half_up(x: Fraction) -> int:
    """The nearest integer, half going away from zero."""
    whole = math.floor(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def add_checked(errors: Failed, code: int, row: int, a: int, b: int, low: int, high: int) -> int:
    """a + b within low and high."""
    return within(errors, code, row, int(a) + int(b), low, high)


def sub_checked(errors: Failed, code: int, row: int, a: int, b: int, low: int, high: int) -> int:
    """a - b within low and high."""
    return within(errors, code, row, int(a) - int(b), low, high)


def mul_checked(errors: Failed, code: int, row: int, a: int, b: int, low: int, high: int) -> int:
    """a * b within low and high."""
    return within(errors, code, row, int(a) * int(b), low, high)


def div_int(errors: Failed, code: int, row: int, a: int, b: int) -> int:
    """a / b without its fraction."""
    if b == 0:
        fail(errors, code, row)
        return 0
    return within(errors, code, row, math.trunc(Fraction(int(a), int(b))))


def mod_int(errors: Failed, code: int, row: int, a: int, b: int) -> int:
    """The rest of a / b, with the sign of a."""
    if b == 0:
        fail(errors, code, row)
        return 0
    a, b = int(a), int(b)
    return a - b * math.trunc(Fraction(a, b))


def div_float(errors: Failed, code: int, row: int, a: float, b: float) -> float:
    """a / b; a zero divisor fails."""
    if b == 0:
        fail(errors, code, row)
        return 0.0
    return float(a) / float(b)


def mod_float(errors: Failed, code: int, row: int, a: float, b: float) -> float:
    """The rest of a / b, with the sign of a; a zero divisor fails."""
    if b == 0:
        fail(errors, code, row)
        return 0.0
    return math.nan if math.isinf(a) else math.fmod(a, b)


def scale_up(errors: Failed, code: int, row: int, a: int, factor: int) -> int:
    """A decimal with more digits after the point."""
    return within(errors, code, row, int(a) * factor)


def scale_down_half_up(a: int, factor: int) -> int:
    """A decimal with fewer digits after the point; half goes away from zero."""
    return half_up(Fraction(int(a), factor))


def div_decimal(errors: Failed, code: int, row: int, a: int, b: int, scale_num: int) -> int:
    """a * scale_num / b, half up; a zero divisor fails."""
    if b == 0:
        fail(errors, code, row)
        return 0
    return within(errors, code, row, half_up(Fraction(int(a) * scale_num, int(b))))


def float_to_int(errors: Failed, code: int, row: int, x: float, low: int, high: int) -> int:
    """The whole part of x; NaN and what lies outside low and high fail."""
    if not math.isfinite(x):
        fail(errors, code, row)
        return 0
    return within(errors, code, row, math.trunc(x), low, high)


def is_nan(x: float) -> bool:
    """Whether x is not a number."""
    return math.isnan(x)


def is_finite(x: float) -> bool:
    """Whether x is neither NaN nor infinite."""
    return math.isfinite(x)


def float_key(x: float) -> int:
    """The word of a float: equal numbers have equal words. -0.0 is 0.0, all NaN are one."""
    if math.isnan(x):
        x = math.nan
    word: int = struct.unpack("<q", struct.pack("<d", 0.0 if x == 0 else x))[0]
    return word


def key_float(word: int) -> float:
    """The float that `float_key` made a word of."""
    x: float = struct.unpack("<d", struct.pack("<q", word))[0]
    return x


def sort_word(word: int) -> int:
    """The word of a float such that words compare as floats do, NaN last; its own inverse."""
    return int(word) if word >= 0 else -(2**63) + ~int(word) % 2**63


def float_lt(a: float, b: float) -> bool:
    """a < b, NaN being the largest."""
    if math.isnan(a):
        return False
    return math.isnan(b) or a < b


def float_eq(a: float, b: float) -> bool:
    """a = b, NaN being equal to itself."""
    return a == b or (math.isnan(a) and math.isnan(b))
