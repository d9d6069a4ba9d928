"""Linear regression from moments: count, sums and products are all it needs.

takes  n, the sums, the upper triangle of the products by rows
gives  intercept, coefficients and R², solved on centred and scaled moments

Raw moments of postcodes and salaries are ill-conditioned, and one-hot columns are collinear: of all
solutions the shortest is taken, as numpy's lstsq does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# A direction whose share of the variance is below this is rounding, not data.
_CUTOFF = 1e-11


@dataclass(frozen=True)
class Centred:
    """Moments around the mean in units of the standard deviation: correlations, mostly."""

    n: float
    means: Floats
    scales: Floats  # standard deviations; 1 where a column is constant
    correlations: Floats

    @classmethod
    def of(cls, n: float, sums: Floats, products: Floats) -> Centred:
        """From a full matrix of products; n is not 0."""
        means = sums / n
        covariances = products / n - np.outer(means, means)
        variances = np.diagonal(covariances).copy()
        # What rounding leaves of a constant column is no variance.
        raw = np.diagonal(products) / n
        variances[variances <= 1e-13 * np.abs(raw)] = 0.0
        scales = np.sqrt(variances, where=variances > 0, out=np.ones_like(variances))
        correlations = covariances / np.outer(scales, scales)
        constant = variances <= 0
        correlations[constant, :] = 0.0
        correlations[:, constant] = 0.0
        return cls(n, means, scales, correlations)


def square(m: int, triangle: Floats) -> Floats:
    """The full symmetric matrix of an upper triangle by rows."""
    full = np.zeros((m, m))
    full[np.triu_indices(m)] = triangle
    return np.asarray(full + np.triu(full, 1).T)


@dataclass(frozen=True)
class Fit:
    """A regression: label = intercept + coefficients · features."""

    intercept: float
    coefficients: Floats
    r2: float


def fit(centred: Centred, label: int, features: list[int], l2: float = 0.0) -> Fit:
    """Regress one column on others, minimizing the sum of squared errors + l2 · coefficients²."""
    matrix = centred.correlations[np.ix_(features, features)]
    target = centred.correlations[features, label]
    # theta is in units of deviations: b = theta * s_y / s_x, so the penalty scales along.
    penalty = l2 / centred.n / np.square(centred.scales[features])
    theta = shortest(matrix + np.diag(penalty), target)
    return unscaled(centred, label, features, theta)


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
    kept = values > _CUTOFF * max(float(values[-1]), 1e-300)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ target)))
