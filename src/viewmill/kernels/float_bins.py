"""Sums of floats by group in two parts, without what one rounding after the other would take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MOST_SLICES = 8
_HIGHEST = 1023  # the exponent of what is nearly too large for a float


def float_bins(at: npt.NDArray[np.int64], values: Any, count: int) -> tuple[Floats, Floats]:
    """The sum of the values of each of `count` groups, and what rounding took from it.

    Values are cut into slices of bits, of which sums are exact: what is above a power of two that
    no sum can reach, then the rest in the same way (Rump, ExtractVector).
    """
    values = np.asarray(values, np.float64)
    total, lost = np.zeros(count), np.zeros(count)
    largest = float(np.max(np.abs(values), initial=0.0))
    bits = math.frexp(float(len(values) + 2))[1]
    if not math.isfinite(largest) or math.frexp(largest)[1] + bits > _HIGHEST:
        return _bins(at, values, count), lost
    for _ in range(_MOST_SLICES):
        if largest == 0.0:
            break
        edge = math.ldexp(1.0, math.frexp(largest)[1] + bits)
        slice_ = (values + edge) - edge
        total, more = _two_sum(total, _bins(at, slice_, count))
        lost += more
        values = values - slice_
        largest = float(np.max(np.abs(values), initial=0.0))
    return total, lost


def _bins(at: npt.NDArray[np.int64], values: Floats, count: int) -> Floats:
    sums: Floats = np.bincount(at, values, count).astype(np.float64, copy=False)
    return sums


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)
