"""Sums of values and of their products as fractions, which round nothing."""

from __future__ import annotations

from fractions import Fraction

from viewmill.kernels.plain.exact_sums import add_to_sum, read_sum
from viewmill.kernels.plain.keyed import PlainKeyed, nearest_float


def moment_add(s: PlainKeyed, e: int, k: int, x: float, m: int) -> None:
    """A variable's slots at word k: x comes m times."""
    add_to_sum(s, e, k, Fraction(float(x)) * int(m))
    moment_cross(s, e, k + 3, x, x, m)


def moment_cross(s: PlainKeyed, e: int, c: int, x: float, y: float, m: int) -> None:
    """The products at word c: (x, y) comes m times."""
    add_to_sum(s, e, c, Fraction(float(x)) * Fraction(float(y)) * int(m))


def moment_mean(s: PlainKeyed, e: int, k: int, n: int) -> float:
    """The mean of a variable."""
    return nearest_float(read_sum(s, e, k) / int(n))


def moment_central(s: PlainKeyed, e: int, k: int, j: int, c: int, n: int) -> float:
    """The sum of (x - mean of x)(y - mean of y)."""
    both = read_sum(s, e, k) * read_sum(s, e, j)
    return nearest_float(read_sum(s, e, c) - both / int(n))
