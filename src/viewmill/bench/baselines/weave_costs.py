"""The paper's cost of final aggregation per edge, as it prints it and as we correct it.

printed    formulas (3) to (7)
corrected  the average deque has H_P partials, not the sum of 1 / i!; a lookup in FlatFAT costs its
           average over all positions; a query's lookup happens at its own slides, not at every
           edge, so it weighs 1 / (slide x edges per unit)
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.strategies.shared_window.cost import Omega, Windows, harmonic, lookup

Array = npt.NDArray[Any]


def _panes(windows: Windows, rate: Fraction) -> float:
    return windows.overlap


def _printed_flatfat(windows: Windows, rate: Fraction) -> float:
    p = np.maximum(windows.ranges * float(rate), 2.0)  # (4) is not defined below
    return float((np.floor(np.log2(p - 1)) + (p - 1) / 2 ** np.floor(np.log2(p))).sum())


def _flatfat(windows: Windows, rate: Fraction) -> float:
    partials = windows.partials(rate)
    update = float(np.ceil(np.log2(max(1, int(partials.max())))))
    below = partials < 2.0**update
    weights = 1.0 / (windows.slides[below] * float(rate))
    return update + float((lookup(partials[below]) * weights).sum())


def _printed_flatfit(windows: Windows, rate: Fraction) -> float:
    return 3.0 * len(windows)


def _flatfit(windows: Windows, rate: Fraction) -> float:
    return 3.0 * windows.answer_rate / float(rate)


def _slick_inv(windows: Windows, rate: Fraction) -> float:
    return 2.0 * distinct(windows.partials(rate))


def _printed_slick_noninv(windows: Windows, rate: Fraction) -> float:
    longest = max(1.0, windows.longest * float(rate))
    return 2 - 2 / longest + len(windows) + 1.7182818284590453


def _slick_noninv(windows: Windows, rate: Fraction) -> float:
    longest = max(1, -(-windows.longest * rate.numerator // rate.denominator))
    if len(windows) == 1:
        return 2 - 2 / longest
    asked = windows.answer_rate / float(rate)
    return 2 - 2 / longest + asked + min(1.0, asked) * harmonic(longest)


def distinct(values: Array) -> int:
    """How many different values; by marking them where that is quicker than sorting."""
    top = int(values.max())
    if top > 50_000_000 or top > 200 * len(values):
        return len(np.unique(values))
    marked = np.zeros(top + 1, np.bool_)
    marked[values] = True
    return int(np.count_nonzero(marked))


# By the names of the techniques; the paper's Panes is our naive one.
PRINTED: dict[str, Omega] = {
    "naive": _panes,
    "flatfat": _printed_flatfat,
    "flatfit": _printed_flatfit,
    "slickdeque_inv": _slick_inv,
    "slickdeque_noninv": _printed_slick_noninv,
}
CORRECTED: dict[str, Omega] = {
    "naive": _panes,
    "flatfat": _flatfat,
    "flatfit": _flatfit,
    "slickdeque_inv": _slick_inv,
    "slickdeque_noninv": _slick_noninv,
}
