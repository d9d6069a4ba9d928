"""Arithmetic of 128-bit integers that may not fit or must be rounded: checked, never wrapped.

A value is a pair of words, the low one first, as in `wide_values`. What may fail takes (errors,
code, row) first; a failure is noted under `code`, and the result is 0.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.failures import fail
from viewmill.kernels.structures.heap import out_of_line
from viewmill.kernels.structures.wide import divide, product_high
from viewmill.kernels.structures.wide_values import wide_plus

U = np.uint64
_U0, _U1, _U63 = U(0), U(1), U(63)
_TOP = U(1 << 63)

# How a quotient is rounded.
TRUNCATED, HALF_UP, FLOOR, CEILING = 0, 1, 2, 3


@structure
def wide_negate(a):
    """-a."""
    low = np.int64(_U0 - U(a[0]))
    return low, ~a[1] + (1 if low == 0 else 0)


@structure
def wide_minus(a, b):
    """a - b, which fits."""
    return wide_plus(a, wide_negate(b))


@structure
def wide_absolute(a):
    """|a|."""
    return wide_negate(a) if a[1] < 0 else a


@structure
def wide_compare(a, b):
    """-1, 0 or 1 as a is less than b, equal, or more."""
    if a[1] != b[1]:
        return -1 if a[1] < b[1] else 1
    if a[0] != b[0]:
        return -1 if U(a[0]) < U(b[0]) else 1
    return 0


@structure
def wide_carry(a, b):
    """1 or -1 if a + b is above or below 128 bits, else 0."""
    total = wide_plus(a, b)
    if ((a[1] ^ total[1]) & (b[1] ^ total[1])) >= 0:
        return 0
    return -1 if a[1] < 0 else 1


@structure
def wide_within(errors, code, row, a, limit):
    """a, which must not be further from zero than `limit`."""
    size = wide_absolute(a)
    if size[1] < 0 or wide_compare(size, limit) > 0:
        fail(errors, code, row)
        return 0, 0
    return a


@structure
def wide_narrow(errors, code, row, a, low, high):
    """a as an int, within low and high."""
    if a[1] != a[0] >> 63 or a[0] < low or a[0] > high:
        fail(errors, code, row)
        return 0
    return a[0]


@structure
def wide_ratio_of(errors, code, row, a, b, c, rounding):
    """a * b / c, exact up to the rounding; a zero divisor and what does not fit fail."""
    out_of_line()
    x, y = wide_absolute(a), wide_absolute(b)
    product = _product(U(x[0]), U(x[1]), U(y[0]), U(y[1]))
    return _ratio(errors, code, row, product, (a[1] ^ b[1]) < 0, c, rounding)


@structure
def wide_sum_of(errors, code, row, a, b, c, d):
    """(a * b + c) / d, half up; b is not negative, d positive. What does not fit fails."""
    out_of_line()
    x, y = wide_absolute(a), wide_absolute(c)
    n0, n1, n2, n3 = _product(U(x[0]), U(x[1]), U(b[0]), U(b[1]))
    negative = a[1] < 0
    if negative == (c[1] < 0):
        n0 += U(y[0])
        carry = _U1 if n0 < U(y[0]) else _U0
        n1 += carry
        carry = _U1 if n1 < carry else _U0
        n1 += U(y[1])
        carry += _U1 if n1 < U(y[1]) else _U0
        n2 += carry
        n3 += _U1 if n2 < carry else _U0
    elif (n2 | n3) == _U0 and (n1 < U(y[1]) or (n1 == U(y[1]) and n0 < U(y[0]))):
        n1 = U(y[1]) - n1 - (_U1 if U(y[0]) < n0 else _U0)
        n0 = U(y[0]) - n0
        negative = not negative
    else:
        borrow = _U1 if n0 < U(y[0]) else _U0
        n0 -= U(y[0])
        more = _U1 if n1 < borrow else _U0
        n1 -= borrow
        more += _U1 if n1 < U(y[1]) else _U0
        n1 -= U(y[1])
        borrow = _U1 if n2 < more else _U0
        n2 -= more
        n3 -= borrow
    return _ratio(errors, code, row, (n0, n1, n2, n3), negative, d, HALF_UP)


@structure
def _ratio(errors, code, row, n, is_negative, c, rounding):
    """The 256-bit number n, with a sign, divided by c."""
    z = wide_absolute(c)
    negative = is_negative != (c[1] < 0)
    fits, low, high, rest_low, rest_high = _long_division(n, U(z[0]), U(z[1]))
    if not fits:
        fail(errors, code, row)
        return 0, 0
    up = False
    if rounding == HALF_UP:
        # 2 * rest >= z, written so that nothing overflows
        over_low = U(z[0]) - rest_low
        over_high = U(z[1]) - rest_high - (_U1 if U(z[0]) < rest_low else _U0)
        up = rest_high > over_high or (rest_high == over_high and rest_low >= over_low)
    elif rounding != TRUNCATED and (rest_low | rest_high) != _U0:
        up = (rounding == FLOOR) == negative
    if up:
        low += _U1
        high += _U1 if low == _U0 else _U0
    if high >= _TOP:
        fail(errors, code, row)
        return 0, 0
    made = np.int64(low), np.int64(high)
    return wide_negate(made) if negative else made


@structure
def wide_rest_of(errors, code, row, a, b, c, d):
    """The rest of a * b / (c * d), with the sign of a; b and d are positive, and one of them is 1.
    A zero divisor fails."""
    out_of_line()
    x, z = wide_absolute(a), wide_absolute(c)
    if (z[0] | z[1]) == 0:
        fail(errors, code, row)
        return 0, 0
    m0, m1, m2, m3 = _product(U(z[0]), U(z[1]), U(d[0]), U(d[1]))
    if (m2 | m3) != _U0 or m1 >= _TOP:
        return a  # which is smaller
    n = _product(U(x[0]), U(x[1]), U(b[0]), U(b[1]))
    _, _, _, low, high = _long_division(n, m0, m1)
    made = np.int64(low), np.int64(high)
    return wide_negate(made) if a[1] < 0 else made


@structure
def _long_division(n, c0, c1):
    """The 256-bit number n // c and the rest, unsigned; whether the quotient takes two words.

    If c is 0 it does not, and there is no rest.
    """
    n0, n1, n2, n3 = n
    if (c0 | c1) == _U0:
        return False, _U0, _U0, _U0, _U0
    fits = n3 < c1 or (n3 == c1 and n2 < c0)
    if c1 == _U0:
        _, rest = divide(_U0, n3, c0)
        _, rest = divide(rest, n2, c0)
        high, rest = divide(rest, n1, c0)
        low, rest = divide(rest, n0, c0)
        return fits, low, high, rest, _U0
    r0, r1 = n2, n3
    if not fits:
        _, _, r0, r1 = _divide_bits(_U0, _U0, n2, n3, c0, c1)
    low, high, r0, r1 = _divide_bits(r0, r1, n0, n1, c0, c1)
    return fits, low, high, r0, r1


@structure
def _divide_bits(r0, r1, q0, q1, c0, c1):
    """((r1 r0) * 2^128 + (q1 q0)) // c and the rest, bit by bit; r is below c, c below 2^127."""
    for _ in range(128):
        r1 = (r1 << _U1) | (r0 >> _U63)
        r0 = (r0 << _U1) | (q1 >> _U63)
        q1 = (q1 << _U1) | (q0 >> _U63)
        q0 = q0 << _U1
        if r1 > c1 or (r1 == c1 and r0 >= c0):
            r1 = r1 - c1 - (_U1 if r0 < c0 else _U0)
            r0 = r0 - c0
            q0 |= _U1
    return q0, q1, r0, r1


@structure
def _product(a0, a1, b0, b1):
    """The four words of a product, the lowest first."""
    n0, carry = a0 * b0, product_high(a0, b0)
    n1 = a0 * b1 + carry
    carry = product_high(a0, b1) + (_U1 if n1 < carry else _U0)
    middle = a1 * b0 + n1
    more = product_high(a1, b0) + (_U1 if middle < n1 else _U0)
    n2 = a1 * b1 + carry
    n3 = product_high(a1, b1) + (_U1 if n2 < carry else _U0)
    n2 += more
    n3 += _U1 if n2 < more else _U0
    return n0, middle, n2, n3
