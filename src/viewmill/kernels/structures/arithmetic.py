"""Numbers the way Spark's ANSI mode computes them: what does not fit is a failure, never a wrap.

Each takes (errors, code, row) first; a failure is noted under `code` and the result is 0.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.failures import fail
from viewmill.kernels.structures.wide import (
    product_overflows,
    product_ratio,
    signed,
    signed_fits,
)

_LOWEST = -(1 << 63)
_LOW_FLOAT, _HIGH_FLOAT = -9223372036854775808.0, 9223372036854775808.0


@structure
def add_checked(errors, code, row, a, b, low, high):
    """a + b within low and high."""
    a, b = np.int64(a), np.int64(b)
    result = a + b
    if ((a ^ result) & (b ^ result)) < 0 or result < low or result > high:
        fail(errors, code, row)
        return 0
    return result


@structure
def sub_checked(errors, code, row, a, b, low, high):
    """a - b within low and high."""
    a, b = np.int64(a), np.int64(b)
    result = a - b
    if ((a ^ b) & (a ^ result)) < 0 or result < low or result > high:
        fail(errors, code, row)
        return 0
    return result


@structure
def mul_checked(errors, code, row, a, b, low, high):
    """a * b within low and high."""
    a, b = np.int64(a), np.int64(b)
    result = a * b
    if product_overflows(a, b) or result < low or result > high:
        fail(errors, code, row)
        return 0
    return result


@structure
def div_int(errors, code, row, a, b):
    """a / b without its fraction."""
    a, b = np.int64(a), np.int64(b)
    if b == 0 or (b == -1 and a == _LOWEST):
        fail(errors, code, row)
        return 0
    quotient = a // b
    return quotient + 1 if quotient < 0 and quotient * b != a else quotient


@structure
def mod_int(errors, code, row, a, b):
    """The rest of a / b, with the sign of a."""
    a, b = np.int64(a), np.int64(b)
    if b == 0:
        fail(errors, code, row)
        return 0
    if b == -1:
        return 0
    rest = a % b
    return rest - b if rest != 0 and (rest ^ a) < 0 else rest


@structure
def div_float(errors, code, row, a, b):
    """a / b; a zero divisor fails."""
    if b == 0:
        fail(errors, code, row)
        return 0.0
    return np.float64(a) / np.float64(b)


@structure
def mod_float(errors, code, row, a, b):
    """The rest of a / b, with the sign of a; a zero divisor fails."""
    if b == 0:
        fail(errors, code, row)
        return 0.0
    return np.fmod(np.float64(a), np.float64(b))


@structure
def scale_up(errors, code, row, a, factor):
    """A decimal with more digits after the point."""
    a = np.int64(a)
    if product_overflows(a, factor):
        fail(errors, code, row)
        return 0
    return a * factor


@structure
def scale_down_half_up(a, factor):
    """A decimal with fewer digits after the point; half goes away from zero."""
    a = np.int64(a)
    quotient = a // factor
    rest = a - quotient * factor  # 0 <= rest < factor: // rounds down
    half = factor - rest
    up = rest >= half if a >= 0 else rest > half
    return quotient + 1 if up else quotient


@structure
def div_decimal(errors, code, row, a, b, scale_num):
    """a * scale_num / b, half up; a zero divisor fails."""
    a, b = np.int64(a), np.int64(b)
    if b == 0:
        fail(errors, code, row)
        return 0
    quotient, fits = product_ratio(a, scale_num, b)
    negative = (a ^ b) < 0
    if not fits or not signed_fits(quotient, negative):
        fail(errors, code, row)
        return 0
    return signed(quotient, negative)


@structure
def float_to_int(errors, code, row, x, low, high):
    """The whole part of x; NaN and what lies outside low and high fail."""
    if not (x >= _LOW_FLOAT and x < _HIGH_FLOAT):
        fail(errors, code, row)
        return 0
    whole = np.int64(x)
    if whole < low or whole > high:
        fail(errors, code, row)
        return 0
    return whole
