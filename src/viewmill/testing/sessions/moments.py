"""Moments by exact fractions: what VAR, CORR and REGR give of a list of values or pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

MOMENTS = (
    "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV", "CORR", "COVAR_POP", "COVAR_SAMP",
    "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_COUNT", "REGR_AVGX", "REGR_SXY",
)  # fmt: skip
Values = Sequence[Sequence[Any]] | None


def moment_of(name: str) -> Callable[[Values], Any]:
    """The function of a name of SQL: of lists of one value, or of y and x."""
    return lambda values: _moment(name, values or ())


def _moment(name: str, values: Sequence[Sequence[Any]]) -> Any:
    given = [each for each in values if None not in each]
    n = len(given)
    if name == "REGR_COUNT":
        return n
    least = 2 if name in ("VAR_SAMP", "STDDEV", "COVAR_SAMP") else 1
    if n < least:
        return None
    ys, xs = [Fraction(each[0]) for each in given], [Fraction(each[-1]) for each in given]
    yy, xx, xy = _about(ys, ys), _about(xs, xs), _about(xs, ys)
    mean_y, mean_x = sum(ys) / n, sum(xs) / n
    ways: dict[str, Callable[[], Any]] = {
        "VAR_POP": lambda: yy / n,
        "VAR_SAMP": lambda: yy / (n - 1),
        "STDDEV_POP": lambda: math.sqrt(yy / n),
        "STDDEV": lambda: math.sqrt(yy / (n - 1)),
        "COVAR_POP": lambda: xy / n,
        "COVAR_SAMP": lambda: xy / (n - 1),
        "CORR": lambda: float(xy) / (math.sqrt(xx) * math.sqrt(yy)) if xx and yy else None,
        "REGR_SLOPE": lambda: xy / xx if xx else None,
        "REGR_INTERCEPT": lambda: mean_y - xy / xx * mean_x if xx else None,
        "REGR_R2": lambda: (xy * xy / (xx * yy) if yy else 1.0) if xx else None,
        "REGR_AVGX": lambda: mean_x,
        "REGR_SXY": lambda: xy,
    }
    found = ways[name]()
    return None if found is None else float(found)


def _about(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    """The sum of products of distances from the means."""
    mean, other_mean = sum(one) / Fraction(len(one)), sum(other) / Fraction(len(other))
    products = ((a - mean) * (b - other_mean) for a, b in zip(one, other, strict=True))
    return sum(products, Fraction())
