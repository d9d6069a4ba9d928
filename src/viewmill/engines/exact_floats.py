"""Aggregates of floats without rounding on the way, in whole numbers of Python.

takes  the values of a group, or pairs of them; all are finite, NULL does not count
gives  what the exact result rounds to, None for NULL

An engine rounds at every step, so where values cancel it is less exact than the views that are
compared with it. These take much longer, and share nothing with what keeps views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Value = float | None
Pair = dict[str, Value]

_SCALE = 1 << 1074  # every float is a whole number of 2^-1074


def _whole(x: float) -> int:
    above, below = x.as_integer_ratio()
    return above * (_SCALE // below)


def _ratio(above: int, below: int) -> float:
    try:
        return above / below
    except OverflowError:
        return math.inf if (above > 0) == (below > 0) else -math.inf


def _numbers(values: Sequence[Value]) -> list[int]:
    return [_whole(each) for each in values if each is not None]


def _sum(values: Sequence[Value]) -> Value:
    found = _numbers(values)
    return _ratio(sum(found), _SCALE) if found else None


def _avg(values: Sequence[Value]) -> Value:
    found, total = _numbers(values), _sum(values)
    if total is None or math.isinf(total):
        return total
    return _ratio(sum(found), len(found) * _SCALE)


def _central(a: Sequence[int], b: Sequence[int]) -> int:
    """n times the sum of products around the means."""
    return len(a) * sum(x * y for x, y in zip(a, b, strict=True)) - sum(a) * sum(b)


def _variance(values: Sequence[Value], less: int) -> Value:
    found = _numbers(values)
    n = len(found)
    if n <= less:
        return None
    return _ratio(_central(found, found), n * (n - less) * _SCALE * _SCALE)


def _deviation(values: Sequence[Value], less: int) -> Value:
    variance = _variance(values, less)
    return None if variance is None else math.sqrt(variance)


def _columns(pairs: Sequence[Pair]) -> tuple[list[int], list[int]]:
    known = [(p["a"], p["b"]) for p in pairs]
    both = [(a, b) for a, b in known if a is not None and b is not None]
    return [_whole(a) for a, _ in both], [_whole(b) for _, b in both]


def _covariance(pairs: Sequence[Pair], less: int) -> Value:
    a, b = _columns(pairs)
    n = len(a)
    return None if n <= less else _ratio(_central(a, b), n * (n - less) * _SCALE * _SCALE)


def _corr(pairs: Sequence[Pair]) -> Value:
    a, b = _columns(pairs)
    squares = _central(a, a) * _central(b, b)
    if squares == 0:
        return None
    both = _central(a, b)
    share = math.sqrt(_ratio(both * both, squares))
    return share if both >= 0 else -share


def _slope(pairs: Sequence[Pair]) -> Value:
    y, x = _columns(pairs)
    squares = _central(x, x)
    return _ratio(_central(x, y), squares) if squares else None


def _intercept(pairs: Sequence[Pair]) -> Value:
    y, x = _columns(pairs)
    squares = _central(x, x)
    if squares == 0:
        return None
    return _ratio(sum(y) * squares - _central(x, y) * sum(x), len(x) * squares * _SCALE)


def _average_of(pairs: Sequence[Pair], which: int) -> Value:
    found = _columns(pairs)[which]
    return _ratio(sum(found), len(found) * _SCALE) if found else None


def _about_means(pairs: Sequence[Pair], one: int, other: int) -> Value:
    """The sum of products around the means."""
    columns = _columns(pairs)
    n = len(columns[0])
    return _ratio(_central(columns[one], columns[other]), n * _SCALE * _SCALE) if n else None


def _r2(pairs: Sequence[Pair]) -> Value:
    y, x = _columns(pairs)
    squares, others = _central(x, x), _central(y, y)
    if squares == 0:
        return None
    return 1.0 if others == 0 else _ratio(_central(x, y) ** 2, squares * others)


OF_VALUES: dict[str, Callable[[Sequence[Value]], Value]] = {
    "sum": _sum,
    "avg": _avg,
    "var_pop": lambda values: _variance(values, 0),
    "var_samp": lambda values: _variance(values, 1),
    "stddev_pop": lambda values: _deviation(values, 0),
    "stddev_samp": lambda values: _deviation(values, 1),
}
OF_PAIRS: dict[str, Callable[[Sequence[Pair]], Value]] = {
    "covar_pop": lambda pairs: _covariance(pairs, 0),
    "covar_samp": lambda pairs: _covariance(pairs, 1),
    "corr": _corr,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
    "regr_avgx": lambda pairs: _average_of(pairs, 1),
    "regr_avgy": lambda pairs: _average_of(pairs, 0),
    "regr_sxx": lambda pairs: _about_means(pairs, 1, 1),
    "regr_syy": lambda pairs: _about_means(pairs, 0, 0),
    "regr_sxy": lambda pairs: _about_means(pairs, 1, 0),
}
