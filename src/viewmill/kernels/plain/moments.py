"""Sums of values and of their products as fractions, which round nothing."""

from __future__ import annotations

from fractions import Fraction

from viewmill.kernels.plain.keyed import PlainKeyed, is_zero, nearest_float


def _read(s: PlainKeyed, e: int, k: int) -> Fraction:
    value = s.entries[e][1][k]
    assert isinstance(value, tuple)
    return value[0]


def _add(s: PlainKeyed, e: int, k: int, x: Fraction) -> None:
    value = s.entries[e][1][k]
    assert isinstance(value, tuple)
    total = value[0] + x
    s.entries[e][1][k] = (total, max(value[1], abs(x), abs(total)))


def moment_add(s: PlainKeyed, e: int, k: int, x: float, m: int) -> None:
    """A variable's slots at word k: x comes m times."""
    moment_cross(s, e, k, k, k + 6, x, x, m)
    _add(s, e, k + 3, (Fraction(float(x)) - _read(s, e, k)) * int(m))


def moment_cross(s: PlainKeyed, e: int, k: int, j: int, c: int, x: float, y: float, m: int) -> None:
    """The products at word c of variables at words k and j: (x, y) comes m times."""
    a, b = Fraction(float(x)) - _read(s, e, k), Fraction(float(y)) - _read(s, e, j)
    _add(s, e, c, a * b * int(m))


def moment_clear(s: PlainKeyed, e: int, k: int, slots: int) -> None:
    """Nothing is left but what rounding left: so many sum slots from word k become zero."""
    at = [k + 3 * i for i in range(slots)]
    if all(is_zero(s.entries[e][1][word]) for i, word in enumerate(at) if i not in (0, 3)):
        for word in at:
            s.entries[e][1][word] = (Fraction(0), Fraction(0))


def moment_mean(s: PlainKeyed, e: int, k: int, n: int) -> float:
    """The mean of a variable."""
    return nearest_float(_read(s, e, k) + _read(s, e, k + 3) / int(n))


def moment_central(s: PlainKeyed, e: int, k: int, j: int, c: int, n: int) -> float:
    """The sum of (x - mean of x)(y - mean of y)."""
    both = _read(s, e, k + 3) * _read(s, e, j + 3)
    return nearest_float(_read(s, e, c) - both / int(n))
