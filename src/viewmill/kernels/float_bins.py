"""Sums of floats by group in three parts, without what one rounding after the other would take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PARTS = 3  # floats whose exact sum a sum is
_SPLIT = 134217729.0  # 2^27 + 1: cuts a float into two halves
_LARGE = 1e300
_HIGHEST = 1023  # the exponent of what is nearly too large for a float


def float_bins(at: npt.NDArray[np.int64], values: Any, count: int) -> list[Floats]:
    """The sum of the values of each of `count` groups, and what rounding took from it, twice.

    Infinities, NaN and what may overflow go apart, so that they change no sum but their group's.
    """
    values = np.asarray(values, np.float64)
    bits = math.frexp(float(len(values) + 2))[1]
    apart = ~(np.abs(values) < math.ldexp(1.0, _HIGHEST - bits - 1))
    if not apart.any():
        return _slices(at, values, count, bits)
    finite = np.isfinite(values)
    parts = _slices(at, np.where(apart, 0.0, values), count, bits)
    scaled = np.ldexp(np.where(apart & finite, values, 0.0), -bits - 2)
    with np.errstate(over="ignore"):
        halves = [np.ldexp(each, bits + 1) for each in _slices(at, scaled, count, bits)]
    parts = add_sums(parts, [half for half in halves for _ in range(2)])
    return add_sums(parts, [_bins(at, np.where(finite, 0.0, values), count)])


def multiples(
    at: npt.NDArray[np.int64], values: Any, times: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Groups and floats that add up to each value so many times: 3 * 0.1 would be rounded."""
    values = np.asarray(values, np.float64)
    if times is None or np.all(np.abs(times) == 1):
        return at, values if times is None else values * times
    if np.any(np.abs(values) > _LARGE):  # a multiple may be too large, though the sum is not
        size = np.abs(times)
        return np.repeat(at, size), np.repeat(values * np.sign(times), size)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = values * _SPLIT
        upper = np.where(np.abs(moved) < np.inf, moved - (moved - values), values)
        lower = np.where(np.isfinite(values), values - upper, 0.0)
        return np.concatenate([at, at]), np.concatenate([upper * times, lower * times])


def add_sums(parts: Sequence[Floats], more: Sequence[Floats]) -> list[Floats]:
    """Sums in three parts: what an addition loses is itself a float, and added to the next."""
    made = list(parts)
    for carry in more:
        for i in range(PARTS):
            made[i], carry = _two_sum(made[i], carry)
        made[-1] = made[-1] + carry
    return _ordered(made)


def rounded_sums(parts: Sequence[Floats]) -> Floats:
    """Sums in three parts as one float each."""
    first, second, third = _ordered(list(parts))
    with np.errstate(over="ignore"):
        found: Floats = np.where(np.isfinite(first), first + (second + third), first)
    return found


def _ordered(parts: list[Floats]) -> list[Floats]:
    """The same sums with the largest part first, which takes all that it can."""
    for _ in range(PARTS - 1):
        for i in range(PARTS - 1, 0, -1):
            parts[i - 1], parts[i] = _two_sum(parts[i - 1], parts[i])
    return parts


def _slices(at: npt.NDArray[np.int64], values: Floats, count: int, bits: int) -> list[Floats]:
    """Values are cut into slices of bits, of which sums are exact: what is above a power of two
    that no sum can reach, then the rest in the same way (Rump, ExtractVector)."""
    parts = [np.zeros(count) for _ in range(PARTS)]
    while (largest := float(np.max(np.abs(values), initial=0.0))) > 0.0:
        edge = math.ldexp(1.0, math.frexp(largest)[1] + bits)
        slice_ = (values + edge) - edge
        parts = add_sums(parts, [_bins(at, slice_, count)])
        values = values - slice_
    return parts


def _bins(at: npt.NDArray[np.int64], values: Floats, count: int) -> Floats:
    sums: Floats = np.bincount(at, values, count).astype(np.float64, copy=False)
    return sums


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """A sum, and what it lacks; infinities and NaN lack nothing. Both as they are if their sum is
    too large for a float: it may not be, once all is added."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        moved = total - a
        lost = (a - (total - moved)) + (b - moved)
    if np.isfinite(lost).all():
        return total, lost
    is_large = np.isinf(total) & np.isfinite(a) & np.isfinite(b)
    lost = np.where(np.isfinite(lost), lost, 0.0)
    return np.where(is_large, a, total), np.where(is_large, b, lost)
