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


def moment_add_powers(s: PlainKeyed, e: int, k: int, x: float, m: int) -> None:
    """The sums of third and fourth powers at word k: x comes m times."""
    value = Fraction(float(x))
    add_to_sum(s, e, k, value**3 * int(m))
    add_to_sum(s, e, k + 3, value**4 * int(m))


def moment_third(s: PlainKeyed, e: int, k: int, n: int) -> float:
    """The sum of (x - mean)^3."""
    sums, squares, cubes = (read_sum(s, e, k + 3 * i) for i in range(3))
    mean = sums / int(n)
    return nearest_float(cubes - 3 * mean * squares + 2 * mean**2 * sums)


def moment_fourth(s: PlainKeyed, e: int, k: int, n: int) -> float:
    """The sum of (x - mean)^4."""
    sums, squares, cubes, fourths = (read_sum(s, e, k + 3 * i) for i in range(4))
    mean = sums / int(n)
    return nearest_float(fourths - 4 * mean * cubes + 6 * mean**2 * squares - 3 * mean**3 * sums)
