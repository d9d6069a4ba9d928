"""Linear regression over a cofactor view: training costs the same however many rows there are.

takes  a view with a column cofactor(label, features ...); categories are features, too
gives  coefficients and predictions, brought up to date by `refresh`

method "gradient" descends from where it last stopped, so that a small change of the data takes a
few steps; "exact" solves the normal equations. Both work on centred and scaled moments, and where
columns are collinear both take what the data determines and leave the rest alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.deltas.least_squares import Centred, Fit, fit, inverted, rank, unscaled
from viewmill.errors import InvalidArgument, UnknownName, nearest
from viewmill.models.moments import Category, Group, Moments
from viewmill.models.view_model import ViewModel, moments_of, split_columns

Method = OneOf["gradient", "exact"]
Floats = npt.NDArray[np.float64]

_STEPS = 10_000
_NEAR = 1e-12  # of a parameter in units of deviations


class LinearRegression(ViewModel):
    """label = intercept + coefficients · features, as the view is now.

    A feature is a column of numbers, or a category: a key of the view, or a column that its
    cofactor counts by value. `l2` adds l2 · coefficients² to the sum of squared errors, as
    scikit-learn's Ridge does; the intercept is free. `drop="first"` leaves the first value of each
    category out, so that the others are relative to it. `groups` gives values of the view's other
    keys: a model of those rows only. Without it a view of several rows is one data set.
    """

    def __init__(
        self,
        view: Any,
        label: str,
        features: Sequence[str],
        *,
        l2: float = 0.0,
        method: Method = "exact",
        groups: Mapping[str, Any] | None = None,
        drop: OneOf["first"] | None = None,
    ) -> None:
        if method not in ("gradient", "exact"):
            raise InvalidArgument(
                f"method {method!r} is neither 'gradient' nor 'exact'",
                hint="'exact' solves; 'gradient' goes on from the last parameters.",
            )
        if isinstance(features, str) or not features:
            raise InvalidArgument("features is a list of at least one column")
        if not np.isfinite(l2) or l2 < 0:
            raise InvalidArgument(f"l2 must not be negative, got {l2}")
        if label.lower() in {each.lower() for each in features}:
            raise InvalidArgument(f'"{label}" is the label and a feature')
        if drop not in (None, "first"):
            raise InvalidArgument(f"drop {drop!r} is neither 'first' nor None")
        self.label, self.features, self.drop = label, tuple(features), drop
        self.l2, self.method = float(l2), method
        self.steps = 0  # that the last refresh took
        self._theta: dict[str | Category, float] = {}  # in the label's units per unit of a column
        super().__init__(view, groups)

    def _learn(self, groups: Sequence[Group]) -> None:
        moments = self._choose(groups)
        self._columns = moments.columns[1:]
        self._centred: Centred | None = None
        if self.n <= 0:
            self._fit = Fit(float("nan"), np.full(len(self._columns), np.nan), float("nan"))
            return
        centred = self._centred = moments.centred()
        centred.warn([str(each) for each in moments.columns])
        features = list(range(1, len(moments.columns)))
        self._onehots = [] if self.drop else _onehots(self._columns)
        if self.method == "exact":
            self._fit = fit(centred, 0, features, self.l2, self._onehots)
        else:
            theta = self._descend(centred)
            self._fit = unscaled(centred, 0, features, theta)
        self._theta = dict(zip(self._columns, self._fit.coefficients.tolist(), strict=True))

    def _choose(self, groups: Sequence[Group]) -> Moments:
        """The label first, then the features, categories as columns of 0 and 1."""
        label, categories = split_columns(groups, [self.label])
        if categories:
            raise InvalidArgument(
                f'the label "{self.label}" is a category, a regression needs a number',
                hint="MutualInformation and ChowLiuTree take categories.",
            )
        numbers, categories = split_columns(groups, self.features)
        moments = moments_of(groups, [*label, *numbers], categories)
        if self.drop is None:
            return moments
        first = {
            name: c for c in reversed(moments.columns) if not isinstance(c, str) for name in c[:1]
        }
        kept = [i for i, c in enumerate(moments.columns) if isinstance(c, str) or first[c[0]] != c]
        at = [0, *(1 + i for i in kept)]
        columns = tuple(moments.columns[i] for i in kept)
        return Moments(columns, moments.matrix[np.ix_(at, at)], moments.is_known)

    @property
    def coefficients(self) -> dict[str, Any]:
        """By feature; of a category by its values."""
        return self._by_name(self._fit.coefficients)

    def _by_name(self, values: Floats) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        names = {each.lower(): each for each in self.features}
        for column, value in zip(self._columns, values.tolist(), strict=True):
            if isinstance(column, str):
                shown[names[column.lower()]] = value
            else:
                shown.setdefault(names[column[0].lower()], {})[column[1]] = value
        return shown

    @property
    def intercept(self) -> float:
        """The value where all features are 0."""
        return self._fit.intercept

    @property
    def r2(self) -> float:
        """The share of the label's variance that the features explain."""
        return self._fit.r2

    def predict(self, rows: Any) -> Floats:
        """The label of each row: of a frame, a table, dicts, or tuples in the features' order."""
        columns = self._by_feature(rows)
        size = len(next(iter(columns.values())))
        total, coefficients = np.full(size, self.intercept), self.coefficients
        for name in self.features:
            value = coefficients.get(name, {})  # a category of one value that was dropped
            if isinstance(value, dict):
                total += [value.get(each, 0.0) for each in columns[name]]
            else:
                given = [np.nan if each is None else float(each) for each in columns[name]]
                total += value * np.array(given, np.float64)
        return total

    def __repr__(self) -> str:
        terms = " ".join(f"{c:+.6g}·{n}" for n, c in self.coefficients.items() if _is_number(c))
        return f"LinearRegression({self.label} = {self.intercept:.6g} {terms}, n = {self.n})"

    # How sure it is.

    @property
    def standard_errors(self) -> dict[str, Any]:
        """Of the coefficients, in the same form; that of the intercept is `intercept_error`.

        They are those of ordinary least squares, for errors of one variance that do not depend on
        one another.
        """
        return self._by_name(np.sqrt(np.diagonal(self._covariances())))

    @property
    def intercept_error(self) -> float:
        """The standard error of the intercept."""
        if self._centred is None:
            return float("nan")
        means = self._centred.means[1:]
        spread = float(means @ self._covariances() @ means)
        return float(np.sqrt(self.residual_variance / self.n + spread))

    @property
    def residual_variance(self) -> float:
        """The variance of the errors: their squares by degrees of freedom, NaN without any."""
        if self._centred is None:
            return float("nan")
        free = self.n - 1 - self._rank()
        variance = float(self._centred.correlations[0, 0]) * float(self._centred.scales[0]) ** 2
        return (1.0 - self.r2) * variance * self.n / free if free > 0 else float("nan")

    def ridge_path(self, penalties: Sequence[float]) -> list[dict[str, Any]]:
        """The coefficients for each l2, from one decomposition of the moments.

        Each is a dict of l2, intercept, coefficients and r2.
        """
        if self._centred is None:
            raise InvalidArgument("the view has no rows to learn from")
        features, path = list(range(1, len(self._columns) + 1)), []
        for l2 in penalties:
            if not np.isfinite(l2) or l2 < 0:
                raise InvalidArgument(f"l2 must not be negative, got {l2}")
            made = fit(self._centred, 0, features, float(l2), self._onehots)
            path.append({
                "l2": float(l2), "intercept": made.intercept, "r2": made.r2,
                "coefficients": self._by_name(made.coefficients),
            })  # fmt: skip
        return path

    def _covariances(self) -> Floats:
        """Of the coefficients."""
        centred, size = self._centred, len(self._columns)
        if centred is None:
            return np.full((size, size), np.nan)
        scales = centred.scales[1:]
        matrix = centred.correlations[1:, 1:]
        penalty = np.diag(self.l2 / centred.n / np.square(scales))
        inverse = inverted(matrix + penalty)
        around = inverse @ matrix @ inverse / np.outer(scales, scales)
        return np.asarray(around * (self.residual_variance / centred.n))

    def _rank(self) -> int:
        assert self._centred is not None
        return rank(self._centred.correlations[1:, 1:])

    # Reading.

    def _by_feature(self, rows: Any) -> dict[str, list[Any]]:
        if isinstance(rows, Mapping):
            rows = [rows]
        if hasattr(rows, "to_arrow") and not isinstance(rows, pa.Table):
            rows = rows.to_arrow()
        if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
            rows = pa.Table.from_pandas(rows, preserve_index=False)
        if isinstance(rows, pa.Table):
            names = {name.lower(): name for name in rows.column_names}
            return {each: rows[_named(each, names)].to_pylist() for each in self.features}
        rows = list(rows)
        if rows and isinstance(rows[0], Mapping):
            lower = [{str(k).lower(): v for k, v in row.items()} for row in rows]
            return {each: [_value(row, each) for row in lower] for each in self.features}
        if any(len(row) != len(self.features) for row in rows):
            raise InvalidArgument(f"a row has one value for each of {', '.join(self.features)}")
        return {each: [row[i] for row in rows] for i, each in enumerate(self.features)}

    # Descending.

    def _descend(self, centred: Centred) -> Floats:
        """Gradient descent from the last parameters, with momentum.

        Steps have the length 1 / largest eigenvalue. The label's parameter is fixed at -1: the
        gradient is the matrix of moments times all parameters, without the label's row. Centring
        removes the means, so there is no row for the intercept.
        """
        size = len(self._columns)
        scales = centred.scales
        penalty = self.l2 / centred.n / np.square(scales[1:])
        matrix = centred.correlations[1:, 1:] + np.diag(penalty)
        step = 1.0 / max(float(np.linalg.norm(matrix, 2)), 1e-300) if size else 1.0
        before = np.array([self._theta.get(each, 0.0) for each in self._columns])
        parameters = np.concatenate(([-1.0], before * scales[1:] / scales[0]))
        rows = np.concatenate((centred.correlations[1:, :1], matrix), axis=1)
        theta, look, pace = parameters[1:], parameters.copy(), 1.0
        for self.steps in range(1, _STEPS + 1):
            gradient = rows @ look
            new = look[1:] - step * gradient
            moved = new - theta
            if float(moved @ gradient) > 0:  # downhill no more: the momentum starts anew
                pace = 1.0
            following = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
            look[1:] = new + (pace - 1) / following * moved
            theta, pace = new, following
            if float(np.max(np.abs(step * gradient), initial=0.0)) < _NEAR:
                break
        return np.asarray(theta)


def _onehots(columns: Sequence[str | Category]) -> list[list[int]]:
    """Where the columns of each category are: together they are 1 in every row."""
    found: dict[str, list[int]] = {}
    for i, each in enumerate(columns):
        if not isinstance(each, str):
            found.setdefault(each[0], []).append(i)
    return list(found.values())


def _is_number(value: Any) -> bool:
    return not isinstance(value, dict)


def _named(feature: str, names: Mapping[str, str]) -> str:
    if feature.lower() not in names:
        raise UnknownName(f'no column "{feature}"', hint=nearest(feature, names.values()))
    return names[feature.lower()]


def _value(row: Mapping[str, Any], feature: str) -> Any:
    if feature.lower() not in row:
        raise UnknownName(f'a row has no "{feature}"', hint=nearest(feature, row))
    return row[feature.lower()]
