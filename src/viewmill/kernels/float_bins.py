"""Sums of floats by group in two parts, without what one rounding after the other would take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HIGHEST = 1023  # the exponent of what is nearly too large for a float


def float_bins(at: npt.NDArray[np.int64], values: Any, count: int) -> tuple[Floats, Floats]:
    """The sum of the values of each of `count` groups, and what rounding took from it.

    Infinities, NaN and what may overflow go apart, so that they change no sum but their group's.
    """
    values = np.asarray(values, np.float64)
    bits = math.frexp(float(len(values) + 2))[1]
    apart = ~(np.abs(values) < math.ldexp(1.0, _HIGHEST - bits - 1))
    if not apart.any():
        return _slices(at, values, count, bits)
    finite = np.isfinite(values)
    total, lost = _slices(at, np.where(apart, 0.0, values), count, bits)
    scaled = np.ldexp(np.where(apart & finite, values, 0.0), -bits - 2)
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = (np.ldexp(each, bits + 2) for each in _slices(at, scaled, count, bits))
        high += _bins(at, np.where(finite, 0.0, values), count)
        total, more = _two_sum(high, total)
        lost += low + more
    return total, np.where(np.isfinite(total), lost, 0.0)


def _slices(
    at: npt.NDArray[np.int64], values: Floats, count: int, bits: int
) -> tuple[Floats, Floats]:
    """Values are cut into slices of bits, of which sums are exact: what is above a power of two
    that no sum can reach, then the rest in the same way (Rump, ExtractVector)."""
    total, lost = np.zeros(count), np.zeros(count)
    while (largest := float(np.max(np.abs(values), initial=0.0))) > 0.0:
        edge = math.ldexp(1.0, math.frexp(largest)[1] + bits)
        slice_ = (values + edge) - edge
        total, more = _two_sum(total, _bins(at, slice_, count))
        lost += more
        values = values - slice_
    return total, lost


def _bins(at: npt.NDArray[np.int64], values: Floats, count: int) -> Floats:
    sums: Floats = np.bincount(at, values, count).astype(np.float64, copy=False)
    return sums


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)
