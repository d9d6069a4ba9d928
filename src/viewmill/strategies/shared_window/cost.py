"""What an execution tree costs: final aggregations per edge.

takes  the windows of a tree, and its edges per unit
gives  Ω, the operations per edge; formula (1) of the paper makes a plan's cost of it

stored   for what the mill runs (`kernels.structures.windows.stretches`): what a new partial costs,
         and beside it what each answer costs. SlickDeque (Inv) has its running values as
         differences of one sum that all windows share
worst    what the slowest slide costs, of the techniques for which that is little
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Windows:
    """Different windows of one tree, as columns."""

    ranges: Array
    slides: Array

    @staticmethod
    def of(ranges: Array, slides: Array) -> Windows:
        """Each pair of range and slide once."""
        unique = np.unique(np.stack([slides, ranges]), axis=1)
        return Windows(unique[1], unique[0])

    def __len__(self) -> int:
        return len(self.ranges)

    def joined(self, other: Windows) -> Windows:
        """Both, which have no window in common."""
        return Windows(
            np.concatenate([self.ranges, other.ranges]), np.concatenate([self.slides, other.slides])
        )

    @cached_property
    def longest(self) -> int:
        """The longest range."""
        return int(self.ranges.max())

    @cached_property
    def overlap(self) -> float:
        """Sum of range / slide."""
        return float((self.ranges / self.slides).sum())

    @cached_property
    def answer_rate(self) -> float:
        """Answers per unit."""
        return float((1.0 / self.slides).sum())

    def partials(self, rate: Fraction) -> Array:
        """Partials in each range, rounded up."""
        if self.longest * rate.numerator < 2**62:
            return np.asarray(-(-self.ranges * rate.numerator // rate.denominator))
        return np.ceil(self.ranges * float(rate)).astype(np.int64)


Omega = Callable[[Windows, Fraction], float]


def harmonic(n: int) -> float:
    """1 + 1/2 + ... + 1/n: the average length of a deque over n random partials."""
    if n < 100:
        return sum(1 / i for i in range(1, n + 1))
    return float(np.log(n)) + 0.5772156649015329 + 1 / (2 * n)


def lookup(partials: Array) -> Array:
    """Operations that cover this many leaves of a FlatFAT, on average over all positions."""
    floor = np.floor(np.log2(partials))
    return np.where(partials <= 1, 0.0, floor - 2 + (partials + 1) / 2.0**floor)


def _answers(windows: Windows, rate: Fraction) -> float:
    """Answers per edge."""
    return windows.answer_rate / float(rate)


def _looked_up(windows: Windows, rate: Fraction, each: Callable[[Array], Array]) -> float:
    """The cost of all answers per edge, given the cost of one by its number of partials."""
    return float((each(windows.partials(rate)) / windows.slides).sum()) / float(rate)


def _stored_inv(windows: Windows, rate: Fraction) -> float:
    return 1.0 + _answers(windows, rate)


def _stored_naive(windows: Windows, rate: Fraction) -> float:
    return _looked_up(windows, rate, lambda partials: partials)


def _stored_flatfat(windows: Windows, rate: Fraction) -> float:
    return _height(windows, rate) + _looked_up(windows, rate, lookup)


def _stored_bint(windows: Windows, rate: Fraction) -> float:
    return 1.0 + _looked_up(windows, rate, lookup)


def _stored_flatfit(windows: Windows, rate: Fraction) -> float:
    asked = _answers(windows, rate)
    return max(1.0, asked) + 2.0 * asked


def _stored_noninv(windows: Windows, rate: Fraction) -> float:
    walk = np.vectorize(lambda partials: harmonic(int(partials)), otypes=[np.float64])
    return 2.0 + _looked_up(windows, rate, walk)


def _stored_running(windows: Windows, rate: Fraction) -> float:
    return 2.0 + _answers(windows, rate)


def _stored_twostacks(windows: Windows, rate: Fraction) -> float:
    return 2.0 + _answers(windows, rate)


def _stored_daba(windows: Windows, rate: Fraction) -> float:
    return 4.0 + _answers(windows, rate)


def _height(windows: Windows, rate: Fraction) -> float:
    """The height of a tree over the partials of the longest window."""
    return float(np.ceil(np.log2(max(2, int(windows.partials(rate).max())))))


def _worst_tree(windows: Windows, rate: Fraction) -> float:
    height = _height(windows, rate)
    return height + 2.0 * height * _answers(windows, rate)


def _worst_daba(windows: Windows, rate: Fraction) -> float:
    return 7.0 + _answers(windows, rate)


# By the names of the techniques; the paper's Panes is our naive one.
STORED: dict[str, Omega] = {
    "slickdeque_inv": _stored_inv,
    "panes_inv": _stored_running,
    "slickdeque_noninv": _stored_noninv,
    "twostacks": _stored_twostacks,
    "daba": _stored_daba,
    "flatfit": _stored_flatfit,
    "flatfat": _stored_flatfat,
    "bint": _stored_bint,
    "naive": _stored_naive,
}
WORST: dict[str, Omega] = {
    "slickdeque_inv": _stored_inv,
    "panes_inv": _stored_running,
    "daba": _worst_daba,
    "flatfat": _worst_tree,
    "bint": _worst_tree,
}
