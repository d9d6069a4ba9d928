"""Wide values as Python integers, which have no limit."""

from __future__ import annotations

import math
from fractions import Fraction

from viewmill.kernels.plain.arithmetic import HIGH, LOW
from viewmill.kernels.plain.indexed import PlainIndexed


def wide_of(x: int) -> int:
    """An int as a wide value."""
    return int(x)


def wide_product(x: int, y: int) -> int:
    """The product of two ints."""
    return int(x) * int(y)


def wide_times(w: int, x: int) -> int:
    """A wide value times an int."""
    return w * int(x)


def wide_mul(w: int, v: int) -> int:
    """The product of two wide values."""
    return w * v


def wide_plus(w: int, v: int) -> int:
    """The sum of two wide values."""
    return w + v


def wide_at(s: PlainIndexed, e: int, k: int) -> int:
    """The value of a wide slot."""
    value = s.entries[e][1][k]
    assert isinstance(value, int)
    return value


def wide_is_zero(w: int) -> bool:
    """Whether a wide value is 0."""
    return w == 0


def wide_value_fits(w: int) -> bool:
    """Whether a wide value is an int64."""
    return LOW <= w <= HIGH


def wide_low(w: int) -> int:
    """The lower word: the value, if it fits."""
    low = w % 2**64
    return low - 2**64 if low >= 2**63 else low


def wide_to_real(w: int) -> float:
    """A wide value as a float."""
    return float(w)


def wide_high(w: int) -> int:
    """The upper of two words."""
    return wide_low(w >> 64)


def wide_from(low: int, high: int) -> int:
    """The value of two words."""
    return int(high) * 2**64 + int(low) % 2**64


def pair_add(high: float, low: float, x: float) -> tuple[float, float]:
    """A compensated sum += x, as its two parts."""
    total = high + x
    if not math.isfinite(total):
        return total, 0.0
    exact = Fraction(high) + Fraction(low) + Fraction(x)
    first = float(exact)
    return first, float(exact - Fraction(first))
