"""Float words of an ordered state: high and low part of a sum, and the largest that went into it.

The parts lie in arrays side by side. A walk over levels reads high parts alone: what it leaves out
is less than its own rounding. The word behind the three counts what is not finite (`real_value`).
"""

from __future__ import annotations

import math

from numba import types
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_float, store_float
from viewmill.kernels.structures.vectors import load_float_at

# What a payload word is: a whole number, or the first, second, third word of a float.
EXACT, HIGH, LOW, LARGEST = 0, 1, 2, 3
_LOW_HALF = 0xFFFFFFFF
# A sum this far below the largest value that ever went into it is what rounding left.
RESIDUE = 2.0**-40


@intrinsic
def any_order_plus(typing_context, a, b):
    """a + b, which may be done in any order, so that wide registers do it."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=("reassoc", "nsz"))

    return types.float64(types.float64, types.float64), generate


@structure
def add_pair(high_at, low_at, x):
    """The sum in two parts += x, without error as long as it has 106 bits."""
    high, low = load_float(high_at), load_float(low_at)
    total = high + x
    moved = total - high
    low += (high - (total - moved)) + (x - moved)
    high = total + low
    low -= high - total
    if not math.isfinite(total):
        high, low = total, 0.0
    store_float(high_at, high + 0.0)
    store_float(low_at, low + 0.0)


@structure
def note_largest(at, x, high):
    """The largest magnitude that was ever in a sum."""
    largest = max(abs(x), abs(high))
    if largest > load_float(at):
        store_float(at, largest)


@structure
def is_left(high, low, largest):
    """Whether a sum is zero but for what rounding left."""
    return abs(high + low) <= RESIDUE * largest


@structure
def is_below_zero(high, low, largest):
    """Whether a sum is negative, and not by what rounding left."""
    return high + low < 0.0 and not is_left(high, low, largest)


@structure
def sum_reals(base, start, end):
    """The sum of floats start to end."""
    total = 0.0
    for i in range(start, end):
        total = any_order_plus(total, load_float_at(base, i))
    return total


@structure
def scan_reals(base, start, size, goal, running):
    """The first i from `start` whose running sum reaches `goal`, and the sum before it."""
    i = start
    while i + 16 <= size:
        more = sum_reals(base, i, i + 16)
        if running + more >= goal:
            break
        running += more
        i += 16
    while i < size:
        more = load_float_at(base, i)
        if running + more >= goal:
            return i, running
        running += more
        i += 1
    return size, running


@structure
def real_value(x, special):
    """The sum x together with what is not finite: infinities in the low half of `special`,
    negative ones in the high half, NaN in both."""
    if special == 0:
        return x
    if special & _LOW_HALF != 0 and special >> 32 != 0:
        return math.nan
    return math.inf if special & _LOW_HALF != 0 else -math.inf


@structure
def first_whole(w, scale, strict):
    """The first whole number q for which q / scale >= w, or > w if `strict`; w may be NaN. The
    largest number there is where `no_whole`."""
    if w != w:
        return 9223372036854775807
    if abs(w * scale) < 9007199254740992.0:
        q = math.floor(w * scale) - 2
        while q / scale < w or (strict and q / scale <= w):
            q += 1
        return q
    return _first_large(w, scale, strict)


@structure
def _first_large(w, scale, strict):
    """`first_whole` by bisection: as floats, large numbers are rounded."""
    low, high = -9223372036854775808, 9223372036854775807
    while low < high:
        q = (low >> 1) + (high >> 1) + (low & high & 1)
        if q / scale > w or (not strict and q / scale == w):
            high = q
        else:
            low = q + 1
    return low


@structure
def no_whole(w, scale, strict):
    """Whether no whole number q has q / scale >= w, or > w if `strict`: NaN is above all."""
    if w != w:
        return True
    last = 9223372036854775807 / scale
    return last <= w if strict else last < w
