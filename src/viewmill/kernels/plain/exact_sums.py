"""Sums of floats as fractions, which lose nothing. An exact number is a list of one fraction."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

from viewmill.kernels.plain.blocks import Block
from viewmill.kernels.plain.keyed import nearest_float

_LARGEST = sys.float_info.max


def fraction_of(x: float) -> Fraction:
    """A float as it is; an infinite product of finite ones counts as 2^1024."""
    return Fraction(float(x)) if math.isfinite(x) else Fraction(2**1024 if x > 0 else -(2**1024))


def read_sum(s: Any, e: int, k: int) -> Fraction:
    """The value of a sum slot, exactly."""
    value = s.entries[e][1][k]
    assert isinstance(value, Fraction)
    return value


def add_to_sum(s: Any, e: int, k: int, x: Fraction) -> None:
    """Sum slot += x."""
    s.entries[e][1][k] = read_sum(s, e, k) + x


def sum_at(s: Any, e: int, k: int) -> float:
    """The value of a sum slot, rounded once."""
    return nearest_float(read_sum(s, e, k))


def exact_part(s: Any, e: int, k: int, i: int) -> float:
    """Part i of the value of a sum slot: the float next to it, then to what that leaves, ..."""
    rest, found = read_sum(s, e, k), 0.0
    for _ in range(i + 1):
        found = max(min(nearest_float(rest), _LARGEST), -_LARGEST)
        rest -= Fraction(found)
    return found


def exact_add(s: Any, e: int, k: int, x: float, m: int) -> None:
    """Sum slot += x * m."""
    add_to_sum(s, e, k, fraction_of(x) * int(m))


def exact_add_number(s: Any, e: int, k: int, a: Block) -> None:
    """Sum slot += an exact number."""
    add_to_sum(s, e, k, a[0])


def exact_clear(s: Any, e: int, k: int) -> None:
    """Sum slot = 0."""
    s.entries[e][1][k] = Fraction(0)


def exact_at(s: Any, e: int, k: int) -> Block:
    """A sum slot as an exact number."""
    return [read_sum(s, e, k)]


def exact_none(p: Block) -> Block:
    """Zero."""
    return _put(p, Fraction(0))


def exact_of(p: Block, x: float, m: int) -> Block:
    """x * m."""
    return _put(p, fraction_of(x) * int(m))


def exact_times(p: Block, a: Block, m: int) -> Block:
    """An exact number times an int."""
    return _put(p, a[0] * int(m))


def exact_times_wide(p: Block, a: Block, w: int) -> Block:
    """An exact number times a wide value."""
    return _put(p, a[0] * int(w))


def exact_mul(p: Block, a: Block, b: Block) -> Block:
    """The product of two exact numbers."""
    return _put(p, a[0] * b[0])


def exact_scaled(p: Block, a: Block, x: float, y: float, z: float) -> Block:
    """An exact number times the sum of three floats."""
    return _put(p, a[0] * (fraction_of(x) + fraction_of(y) + fraction_of(z)))


def exact_wide(p: Block, w: int) -> Block:
    """A wide value."""
    return _put(p, Fraction(int(w)))


def exact_less(p: Block, x: float, a: Block) -> Block:
    """x - a."""
    return _put(p, fraction_of(x) - a[0])


def exact_is_zero(a: Block) -> bool:
    """Whether an exact number is zero."""
    return a[0] == 0


def exact_float(a: Block) -> float:
    """An exact number, rounded once."""
    return nearest_float(a[0])


def _put(p: Block, value: Fraction) -> Block:
    p[:] = [value]
    return p
