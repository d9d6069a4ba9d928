"""Checked arithmetic of wide values on Python's own integers."""

from __future__ import annotations

import math
from fractions import Fraction

from viewmill.kernels.plain.arithmetic import half_up
from viewmill.kernels.plain.outlet import Failed, fail

_LIMIT = 2**127
_ROUND = (math.trunc, half_up, math.floor, math.ceil)


def wide_negate(a: int) -> int:
    """-a."""
    return -a


def wide_minus(a: int, b: int) -> int:
    """a - b."""
    return a - b


def wide_absolute(a: int) -> int:
    """|a|."""
    return abs(a)


def wide_compare(a: int, b: int) -> int:
    """-1, 0 or 1 as a is less than b, equal, or more."""
    return int(a > b) - int(a < b)


def _fitting(errors: Failed, code: int, row: int, value: int, limit: int) -> int:
    if abs(value) <= limit:
        return value
    fail(errors, code, row)
    return 0


def wide_carry(a: int, b: int) -> int:
    """1 or -1 if a + b is above or below 128 bits, else 0."""
    return int(a + b >= _LIMIT) - int(a + b < -_LIMIT)


def wide_within(errors: Failed, code: int, row: int, a: int, limit: int) -> int:
    """a, which must not be further from zero than `limit`."""
    return _fitting(errors, code, row, a, limit)


def wide_narrow(errors: Failed, code: int, row: int, a: int, low: int, high: int) -> int:
    """a as an int, within low and high."""
    if low <= a <= high:
        return a
    fail(errors, code, row)
    return 0


def wide_ratio_of(
    errors: Failed, code: int, row: int, a: int, b: int, c: int, rounding: int
) -> int:
    """a * b / c, exact up to the rounding; a zero divisor and what does not fit fail."""
    if c == 0:
        fail(errors, code, row)
        return 0
    made = _ROUND[rounding](Fraction(a * b, c))
    return _fitting(errors, code, row, made, _LIMIT - 1)


def wide_sum_of(errors: Failed, code: int, row: int, a: int, b: int, c: int, d: int) -> int:
    """(a * b + c) / d, half up; what does not fit fails."""
    return _fitting(errors, code, row, half_up(Fraction(a * b + c, d)), _LIMIT - 1)


def wide_rest_of(errors: Failed, code: int, row: int, a: int, b: int, c: int, d: int) -> int:
    """The rest of a * b / (c * d), with the sign of a; a zero divisor fails."""
    if c == 0:
        fail(errors, code, row)
        return 0
    return a * b - c * d * math.trunc(Fraction(a * b, c * d))
