"""Floats: as keys, as sums that remember what rounding took, and compared the way Spark does."""

from __future__ import annotations

import math

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import (
    bits_float,
    float_bits,
    load_float,
    store_float,
)

_NAN_KEY = 0x7FF8000000000000
# A sum this far below the largest value that ever went into it is what rounding left.
RESIDUE = 2.0**-40


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


@structure
def add_sum(at, x):
    """The sum at `at` += x: high and low part, then the largest magnitude that was ever in it.

    Error-free addition, so that rows that come and go leave exactly what was there: as long as all
    values are multiples of some 2^q and sums stay below 2^(q+105), nothing is lost.
    """
    high, low = load_float(at), load_float(at + 8)
    total = high + x
    if not math.isfinite(total):
        store_float(at, total)
        store_float(at + 8, 0.0)
        return
    moved = total - high
    low += (high - (total - moved)) + (x - moved)
    high = total + low
    low -= high - total
    # + 0.0 makes 0.0 of -0.0: a payload that is zero has no bit set.
    store_float(at, high + 0.0)
    store_float(at + 8, low + 0.0)
    largest = load_float(at + 16)
    if abs(x) > largest or abs(high) > largest:
        store_float(at + 16, max(abs(x), abs(high)))


@structure
def sum_value(at):
    """The sum at `at`, rounded once."""
    return load_float(at) + load_float(at + 8)


@structure
def is_residue(at):
    """Whether the sum at `at` is zero but for rounding."""
    return abs(sum_value(at)) <= RESIDUE * load_float(at + 16)
