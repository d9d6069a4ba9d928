"""Sums of values and of their products, which lose nothing: see `exact_sums`.

A variable takes two sum slots: the sum of x and that of its squares; a pair of variables one more
for the products. What is shown is computed from them exactly and rounded at the end, so that what
deletes leave has the moments of what is left.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.blocks import scratch
from viewmill.kernels.structures.exact_pools import POOL
from viewmill.kernels.structures.exact_sums import (
    add_exact_product,
    add_product,
    add_times,
    exact_float,
    exact_of,
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
