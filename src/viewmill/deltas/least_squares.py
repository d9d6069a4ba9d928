"""Linear regression from moments: count, sums and products are all it needs.

takes  n, the sums, the upper triangle of the products by rows, and what rounding took from each
gives  intercept, coefficients and R², solved on centred and scaled moments

Raw moments of postcodes and salaries are ill-conditioned, and one-hot columns are collinear: of all
solutions the shortest is taken, as numpy's lstsq does.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# A direction whose share of the variance is below this is rounding, not data.
_CUTOFF = 1e-11


# A system whose pivots are all above this share of the largest needs no search for such directions.
_SURE = 1e-8

# Shares of a sum of squares: what rounding leaves, to the digits of one float and of two; and what
# is left of a variance that has lost most of its digits.
_ROUNDED, _ROUNDED_TWICE, _FEW_DIGITS = 1e-13, 1e-28, 1e-10
UNKNOWN = np.nan  # what rounding took, where an engine does not say


class PrecisionWarning(UserWarning):
    """Numbers do not carry what is computed from them."""


@dataclass(frozen=True)
class Pairs:
    """Numbers of two parts each, the second one what rounding took from the first."""

    high: Floats
    low: Floats

    def __getitem__(self, at: Any) -> Pairs:
        return Pairs(self.high[at], self.low[at])

    def times(self, other: Pairs) -> Pairs:
        """The product, number by number."""
        high, low = two_product(self.high, other.high)
        return Pairs(*_two_sum(high, low + (self.high * other.low + self.low * other.high)))

    def plus(self, other: Pairs) -> Pairs:
        """The sum."""
        high, low = _two_sum(self.high, other.high)
        return Pairs(*_two_sum(high, low + (self.low + other.low)))

    def minus(self, other: Pairs) -> Pairs:
        """The difference."""
        return self.plus(Pairs(-other.high, -other.low))

    def outer(self) -> Pairs:
        """All products of two of the numbers."""
        return self[:, np.newaxis].times(self[np.newaxis, :])


def read_pairs(m: int, numbers: Floats, lows: Floats) -> tuple[Pairs, bool]:
    """The full symmetric matrix of count, sums and products of m columns, and whether the second
    parts are known."""
    is_known = bool(np.isfinite(lows).all())
    low = lows if is_known else np.zeros_like(numbers)
    return Pairs(_square(m + 1, numbers), _square(m + 1, low)), is_known


def low_parts(numbers: Floats, m: int, covariances: Sequence[float]) -> Floats:
    """What rounding took from count, sums and products, by the covariances of all pairs; UNKNOWN
    if those are not given."""
    n, sums = float(numbers[0]), numbers[1 : m + 1]
    lows = np.zeros_like(numbers)
    if not covariances or n == 0.0:
        return lows + (UNKNOWN if n else 0.0)
    whole = Pairs(sums, np.zeros(m)).outer()
    share = whole.high / n
    back, rest = two_product(share, np.array(n))
    below = ((whole.high - back) - rest + whole.low) / n
    upper = np.triu_indices(m)
    around = Pairs(np.array(covariances) * n, np.zeros(len(covariances)))
    exact = Pairs(share[upper], below[upper]).plus(around)
    lows[m + 1 :] = (exact.high - numbers[m + 1 :]) + exact.low
    return lows


def _square(size: int, triangle: Floats) -> Floats:
    full = np.zeros((size, size))
    full[np.triu_indices(size)] = triangle
    return np.asarray(full + np.triu(full, 1).T)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """A product, and what rounding takes from it."""
    high = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Floats) -> tuple[Floats, Floats]:
    t = 134217729.0 * a  # 2^27 + 1
    upper = t - (t - a)
    return upper, a - upper


@dataclass(frozen=True)
class Centred:
    """Moments around the mean in units of the standard deviation: correlations, mostly."""

    n: float
    means: Floats
    scales: Floats  # standard deviations; 1 where a column is constant
    correlations: Floats
    lost: tuple[int, ...] = ()  # columns whose variance rounding may have taken

    @classmethod
    def of(cls, m: int, numbers: Floats, lows: Floats) -> Centred:
        """From count, sums and products of m columns, and what rounding took from them; the count
        is not 0."""
        return cls.from_pairs(*read_pairs(m, numbers, lows))

    @classmethod
    def from_pairs(cls, full: Pairs, is_known: bool, numbers: int | None = None) -> Centred:
        """From the full matrix whose first row is the count and the sums.

        Behind the first `numbers` columns, if that is given, all are 0 or 1.
        """
        n = float(full.high[0, 0])
        sums, products = full[0, 1:], full[1:, 1:]
        means = np.asarray(sums.high / n)
        # n Σxy - Σx Σy, in twice the digits: of numbers far from zero little else is left.
        k = len(sums.high) if numbers is None else numbers
        central = products[:k].times(full[0, 0]).minus(sums[:k, np.newaxis].times(sums[np.newaxis]))
        # Counts, and the products of counts of fewer than some ten million rows, are exact.
        covariances = products.high * n - np.outer(sums.high, sums.high)
        covariances[:k], covariances[:, :k] = central.high, central.high.T
        covariances /= n * n
        variances = np.diagonal(covariances).copy()
        # What rounding leaves of a constant column is no variance.
        raw = np.abs(np.diagonal(products.high) / n)
        nothing = variances <= (_ROUNDED_TWICE if is_known else _ROUNDED) * raw
        lost = () if is_known else tuple(np.flatnonzero(variances <= _FEW_DIGITS * raw).tolist())
        variances[nothing] = 0.0
        scales = np.sqrt(variances, where=variances > 0, out=np.ones_like(variances))
        correlations = covariances / np.outer(scales, scales)
        constant = variances <= 0
        correlations[constant, :] = 0.0
        correlations[:, constant] = 0.0
        return cls(n, means, scales, correlations, lost)

    def warn(self, names: Sequence[str]) -> None:
        """Say of which columns the numbers do not carry the variance."""
        if self.lost and self.n > 1:
            named = ", ".join(str(names[i]) for i in self.lost)
            warnings.warn(
                f"{named}: these numbers vary too little, so far from zero, to tell how: a "
                "regression on them may be wrong. Subtract a constant near their mean.",
                PrecisionWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class Fit:
    """A regression: label = intercept + coefficients · features."""

    intercept: float
    coefficients: Floats
    r2: float


def fit(
    centred: Centred,
    label: int,
    features: list[int],
    l2: float = 0.0,
    onehots: Sequence[Sequence[int]] = (),
) -> Fit:
    """Regress one column on others, minimizing the sum of squared errors + l2 · coefficients².

    `onehots` has positions among the features whose columns add up to 1 in every row.
    """
    matrix = centred.correlations[np.ix_(features, features)]
    target = centred.correlations[features, label]
    scales = centred.scales[features]
    # theta is in units of deviations: b = theta * s_y / s_x, so the penalty scales along.
    if l2:
        matrix = matrix + np.diag(l2 / centred.n / np.square(scales))
        theta = _solved(matrix, target)
    else:
        theta = _without_one_each(matrix, target, scales, onehots)
    return unscaled(centred, label, features, shortest(matrix, target) if theta is None else theta)


def _without_one_each(
    matrix: Floats, target: Floats, scales: Floats, onehots: Sequence[Sequence[int]]
) -> Floats | None:
    """The shortest solution where the only dependencies are those of one-hot columns: one column of
    each category is left out, and what a category could be shifted by is taken back."""
    dropped = [max(each, key=lambda i: scales[i]) for each in onehots if len(each)]
    kept = np.setdiff1d(np.arange(len(target)), dropped)
    solved = _solved(matrix[np.ix_(kept, kept)], target[kept])
    if solved is None:
        return None
    theta = np.zeros(len(target))
    theta[kept] = solved
    for each in onehots:
        own = list(each)
        way = scales[own]  # the same coefficient for each value, in units of deviations
        theta[own] -= way * float(way @ theta[own]) / float(way @ way)
    return theta


def _solved(matrix: Floats, target: Floats) -> Floats | None:
    """The solution of a system that is positive definite beyond rounding, else None."""
    if not len(target):
        return np.zeros(0)
    try:
        triangle = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    diagonal = np.diagonal(triangle)
    if float(diagonal.min()) ** 2 < _SURE * float(diagonal.max()) ** 2:
        return None
    return np.asarray(np.linalg.solve(matrix, target))


def unscaled(centred: Centred, label: int, features: list[int], theta: Floats) -> Fit:
    """The regression whose parameters in units of deviations are theta."""
    matrix = centred.correlations[np.ix_(features, features)]
    target = centred.correlations[features, label]
    coefficients = theta * centred.scales[label] / centred.scales[features]
    intercept = float(centred.means[label] - coefficients @ centred.means[features])
    variance = float(centred.correlations[label, label])
    loss = variance - 2 * float(theta @ target) + float(theta @ matrix @ theta)
    r2 = 1.0 - max(loss, 0.0) / variance if variance > 0 else 0.0
    return Fit(intercept, coefficients, r2)


def shortest(matrix: Floats, target: Floats) -> Floats:
    """The shortest of the solutions of a symmetric system, directions without variance left out."""
    if not len(target):
        return np.zeros(0)
    values, vectors = np.linalg.eigh(matrix)
    kept = _has_variance(values)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ target)))


def inverted(matrix: Floats) -> Floats:
    """The inverse of a symmetric matrix over the directions that have variance."""
    if not len(matrix):
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(matrix)
    kept = _has_variance(values)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)


def rank(matrix: Floats) -> int:
    """The number of directions that have variance."""
    return int(_has_variance(np.linalg.eigvalsh(matrix)).sum()) if len(matrix) else 0


def _has_variance(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(values > _CUTOFF * max(float(values[-1]), 1e-300))
