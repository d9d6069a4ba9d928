"""Functions of floats, as Spark has them: no error, but NaN and infinities."""

from __future__ import annotations

import math

import numpy as np

from viewmill.kernels.compiler import structure


@structure
def real_floor(x):
    """The largest whole number that is not larger; 0 of NaN, as Java has it."""
    return np.floor(x) if x == x else 0.0


@structure
def real_ceil(x):
    """The smallest whole number that is not smaller; 0 of NaN, as Java has it."""
    return np.ceil(x) if x == x else 0.0


@structure
def real_sqrt(x):
    """The square root; NaN of a negative number."""
    return math.sqrt(x) if x >= 0.0 else math.nan


@structure
def real_exp(x):
    """e to the power of x."""
    return math.exp(x)


@structure
def real_log(x):
    """The natural logarithm of a positive number."""
    return math.log(x)


@structure
def real_log10(x):
    """The logarithm to base 10 of a positive number."""
    return math.log10(x)


@structure
def real_log2(x):
    """The logarithm to base 2 of a positive number."""
    return np.log2(x)


@structure
def real_pow(x, y):
    """x to the power of y; as Java has it, 1 to a power that is no number is none either."""
    return math.nan if abs(x) == 1.0 and not math.isfinite(y) else x**y


@structure
def real_sign(x):
    """-1, 0, 1, or NaN."""
    return 1.0 if x > 0.0 else -1.0 if x < 0.0 else x * 0.0 if x == 0.0 else x
