"""Sums of values and of their products, kept in twice the digits of a float.

A variable takes three sum slots: a pivot, the sum of x - pivot, the sum of its squares; a pair of
variables one more for the products. The pivot is 0 for a group that a trigger made, and near the
mean for one that was loaded, because an engine adds squares in single floats. Differences and
products carry what rounding took from them, so that what comes and goes leaves what was there.
"""

from __future__ import annotations

import math

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.floats import add_sum, is_residue
from viewmill.kernels.structures.memory import load_float, store_float

_SPLIT = 134217729.0  # 2^27 + 1
_NOTHING = 2.0**-100  # what is left of a difference of equal things


@structure
def difference(a, b):
    """a - b as a rounded part and the rest."""
    high = a - b
    moved = high - a
    return high, (a - (high - moved)) - (b + moved)


@structure
def product(a, b):
    """a * b as a rounded part and the rest (Dekker)."""
    high = a * b
    if not math.isfinite(high) or abs(a) > 1e150 or abs(b) > 1e150:
        return high, 0.0
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


@structure
def add_times(at, x, m):
    """The sum at an address += x * m."""
    high, low = product(x, float(m))
    add_sum(at, high)
    if low != 0.0:
        add_sum(at, low)


@structure
def moment_add(s, e, k, x, m):
    """A variable's slots at word k: x comes m times."""
    moment_cross(s, e, k, k, k + 6, x, x, m)
    high, low = difference(x, load_float(e + 8 * k))
    add_times(e + 8 * (k + 3), high, m)
    if low != 0.0:
        add_times(e + 8 * (k + 3), low, m)


@structure
def moment_cross(s, e, k, j, c, x, y, m):
    """The products at word c of variables at words k and j: (x, y) comes m times."""
    x1, x2 = difference(x, load_float(e + 8 * k))
    y1, y2 = difference(y, load_float(e + 8 * j))
    high, low = product(x1, y1)
    low += x1 * y2 + x2 * y1
    add_times(e + 8 * c, high, m)
    if low != 0.0:
        add_times(e + 8 * c, low, m)


@structure
def moment_clear(s, e, k, slots):
    """Nothing is left but what rounding left: so many sum slots from word k become zero."""
    for i in range(1, slots):
        if i != 3 and not is_residue(e + 8 * (k + 3 * i)):
            return
    for i in range(3 * slots):
        store_float(e + 8 * (k + i), 0.0)


@structure
def moment_mean(s, e, k, n):
    """The mean of a variable."""
    at = e + 8 * k
    return load_float(at) + (load_float(at + 24) + load_float(at + 32)) / n


@structure
def moment_central(s, e, k, j, c, n):
    """The sum of (x - mean of x)(y - mean of y)."""
    x1, x2 = load_float(e + 8 * k + 24), load_float(e + 8 * k + 32)
    y1, y2 = load_float(e + 8 * j + 24), load_float(e + 8 * j + 32)
    all1, all2 = load_float(e + 8 * c), load_float(e + 8 * c + 8)
    p1, p2 = product(x1, y1)
    p2 += x1 * y2 + x2 * y1
    q1 = p1 / n  # and now the rest of the division
    r1, r2 = product(q1, float(n))
    q2 = ((p1 - r1) - r2 + p2) / n
    high, low = difference(all1, q1)
    result = high + (low + (all2 - q2))
    return 0.0 if abs(result) <= _NOTHING * abs(all1) else result
