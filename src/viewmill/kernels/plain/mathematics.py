"""Functions of floats by Python's `math`, whose errors become NaN and infinities."""

from __future__ import annotations

import math

from viewmill.program.evaluate_functions import power


def real_floor(x: float) -> float:
    """The largest whole number that is not larger; 0 of NaN."""
    return 0.0 if x != x else float(math.floor(x)) if math.isfinite(x) else float(x)


def real_ceil(x: float) -> float:
    """The smallest whole number that is not smaller; 0 of NaN."""
    return 0.0 if x != x else float(math.ceil(x)) if math.isfinite(x) else float(x)


def real_sqrt(x: float) -> float:
    """The square root; NaN of a negative number."""
    return math.sqrt(x) if x >= 0 else math.nan


def real_exp(x: float) -> float:
    """e to the power of x."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def real_log(x: float) -> float:
    """The natural logarithm of a positive number."""
    return math.log(x)


def real_log10(x: float) -> float:
    """The logarithm to base 10 of a positive number."""
    return math.log10(x)


def real_log2(x: float) -> float:
    """The logarithm to base 2 of a positive number."""
    return math.log2(x)


def real_pow(x: float, y: float) -> float:
    """x to the power of y."""
    return power(float(x), float(y))


def real_sign(x: float) -> float:
    """-1, 0, 1, or NaN."""
    return float(x) if x != x else float(int(x > 0) - int(x < 0))
