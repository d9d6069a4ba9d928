"""Floats: as keys, and compared the way Spark does."""

from __future__ import annotations

import math

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import bits_float, float_bits

_NAN_KEY = 0x7FF8000000000000


@structure
def is_nan(x):
    """Whether x is not a number."""
    return x != x


@structure
def is_finite(x):
    """Whether x is neither NaN nor infinite."""
    return math.isfinite(x)


@structure
def float_key(x):
    """The word of a float: equal numbers have equal words. -0.0 is 0.0, all NaN are one."""
    return _NAN_KEY if x != x else float_bits(x + 0.0)


@structure
def key_float(word):
    """The float that `float_key` made a word of."""
    return bits_float(word)


@structure
def sort_word(word):
    """The word of a float such that words compare as floats do, NaN last; its own inverse."""
    return word ^ ((word >> 63) & 0x7FFFFFFFFFFFFFFF)


@structure
def float_lt(a, b):
    """a < b, NaN being the largest."""
    return a < b or (b != b and a == a)


@structure
def float_eq(a, b):
    """a = b, NaN being equal to itself."""
    return a == b or (a != a and b != b)
