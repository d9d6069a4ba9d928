"""Sums of values and of their products, which lose nothing: see `exact_sums`.

A variable takes two sum slots: the sum of x and that of its squares; two more for its third and
fourth powers, where its shape is asked for; a pair of variables one more for the products. What is
shown is computed from them exactly and rounded at the end, so that what deletes leave has the
moments of what is left.
"""

from __future__ import annotations

import math

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.blocks import scratch
from viewmill.kernels.structures.exact_pools import POOL
from viewmill.kernels.structures.exact_sums import (
    add_exact,
    add_exact_product,
    add_product,
    add_times,
    exact_float,
    exact_mul,
    exact_none,
    exact_of,
    exact_scaled,
    exact_times,
)
from viewmill.kernels.structures.heap import out_of_line
from viewmill.program.states import EXACT_WORDS


@structure
def moment_add(s, e, k, x, m):
    """A variable's slots at word k: x comes m times."""
    add_times(s + POOL, e + 8 * k, x, m)
    moment_cross(s, e, k + 3, x, x, m)


@structure
def moment_cross(s, e, c, x, y, m):
    """The products at word c: (x, y) comes m times."""
    if m == 1 or m == -1:
        add_product(s + POOL, e + 8 * c, x, y * m)
        return
    times = exact_of(scratch(EXACT_WORDS), y, m)
    one = exact_of(scratch(EXACT_WORDS), x, 1)
    add_exact_product(s + POOL, e + 8 * c, one, times, 1)


@structure
def moment_mean(s, e, k, n):
    """The mean of a variable."""
    return exact_float(e + 8 * k) / n


@structure
def moment_central(s, e, k, j, c, n):
    """The sum of (x - mean of x)(y - mean of y)."""
    out_of_line()
    total = exact_times(scratch(EXACT_WORDS), e + 8 * c, n)
    add_exact_product(0, total, e + 8 * k, e + 8 * j, -1)
    return exact_float(total) / n


@structure
def moment_add_powers(s, e, k, x, m):
    """The sums of third and fourth powers at word k: x comes m times."""
    out_of_line()
    one = exact_of(scratch(EXACT_WORDS), x, 1)
    square = exact_mul(scratch(EXACT_WORDS), one, one)
    times = exact_times(scratch(EXACT_WORDS), square, m)
    add_exact_product(s + POOL, e + 8 * k, one, times, 1)
    add_exact_product(s + POOL, e + 8 * (k + 3), square, times, 1)


@structure
def moment_third(s, e, k, n):
    """The sum of (x - mean)^3 of a variable at word k: S3 - 3 S1 S2 / n + 2 S1^3 / n^2."""
    out_of_line()
    sums, squares, cubes = e + 8 * k, e + 8 * (k + 3), e + 8 * (k + 6)
    total, square = exact_none(scratch(EXACT_WORDS)), scratch(EXACT_WORDS)
    product = scratch(EXACT_WORDS)
    _add_times(total, cubes, n, n)
    _add_times(total, exact_mul(product, sums, squares), n, -3)
    exact_mul(square, sums, sums)
    _add_times(total, exact_mul(product, square, sums), 1, 2)
    return _over(total, float(n) * n)


@structure
def moment_fourth(s, e, k, n):
    """The sum of (x - mean)^4: S4 - 4 S1 S3 / n + 6 S1^2 S2 / n^2 - 3 S1^4 / n^3."""
    out_of_line()
    sums, squares = e + 8 * k, e + 8 * (k + 3)
    cubes, fourths = e + 8 * (k + 6), e + 8 * (k + 9)
    total, square = exact_none(scratch(EXACT_WORDS)), scratch(EXACT_WORDS)
    product, times = scratch(EXACT_WORDS), scratch(EXACT_WORDS)
    _add_times(total, exact_times(times, fourths, n), n, n)
    exact_mul(product, sums, cubes)
    _add_times(total, exact_times(times, product, n), n, -4)
    exact_mul(square, sums, sums)
    _add_times(total, exact_mul(product, square, squares), n, 6)
    _add_times(total, exact_mul(product, square, square), 1, -3)
    return _over(total, float(n) * n * n)


@structure
def _add_times(total, a, m, n):
    """The number at `total` += the one at a, times two ints."""
    out_of_line()
    once = exact_times(scratch(EXACT_WORDS), a, m)
    add_exact(0, total, exact_times(scratch(EXACT_WORDS), once, n))


@structure
def _over(total, divisor):
    """An exact number over a positive float; first over a power of two, so that it stays finite."""
    out_of_line()
    power = math.ldexp(1.0, -math.frexp(divisor)[1])
    scaled = exact_scaled(scratch(EXACT_WORDS), total, power, 0.0, 0.0)
    return exact_float(scaled) / (divisor * power)
