"""Variances from sums of values and of their squares in three parts each (see `float_bins`)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from viewmill.deltas.least_squares import Pairs, two_product
from viewmill.kernels.float_bins import Floats, add_sums

_LARGEST = 1e154  # a larger number has no square
_FEW_BITS = 2.0**-50  # of a sum of squares: what is left is computed from all digits


def squared(x: Floats) -> tuple[Floats, Floats]:
    """The squares of numbers, and what rounding took from each; that of a large one is infinite."""
    fits = np.abs(x) < _LARGEST
    high, low = two_product(np.where(fits, x, 0.0), np.where(fits, x, 0.0))
    return np.where(fits, high, np.where(np.isnan(x), np.nan, np.inf)), low


def squares_around(
    counts: npt.NDArray[np.int64], sums: Sequence[Floats], squares: Sequence[Floats]
) -> Floats:
    """The sum of squares around the mean: NaN if a value is not finite, 0 if all are the same."""
    total, whole = _pairs(sums), _pairs(squares)
    n = counts.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        around = whole.times(Pairs(n, np.zeros_like(n))).minus(total.times(total))
        found: Floats = np.asarray(around.high / np.maximum(n, 1.0))
    few = np.abs(found) <= _FEW_BITS * np.abs(whole.high)
    for i in np.flatnonzero(few & (whole.high != 0.0)).tolist():
        found[i] = _exactly(int(counts[i]), [each[i] for each in sums], [e[i] for e in squares])
    found = np.where(np.isinf(whole.high), np.inf, found)
    return np.where(np.isfinite(total.high) & ~np.isnan(whole.high), found, np.nan)


def _pairs(parts: Sequence[Floats]) -> Pairs:
    first, second, third = add_sums(parts, [])
    with np.errstate(invalid="ignore", over="ignore"):
        return Pairs(first, second + third)


def _exactly(n: int, sums: Sequence[float], squares: Sequence[float]) -> float:
    total, whole = (sum(map(Fraction, map(float, each))) for each in (sums, squares))
    return float(whole - total * total / max(n, 1))
