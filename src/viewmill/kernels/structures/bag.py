"""A fingerprint of a bag of rows: zero when it is empty, and else as good as never.

Each row is a number modulo 2^64, a bag the sum over its rows, a join the product: a ring, and exact
where floats are not. What floats leave behind of rows that are gone is told from what is there.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word, spill, store_word

U = np.uint64
_FIRST, _SECOND = U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
_STEP = U(0x9E3779B97F4A7C15)
_U30, _U27, _U31, _U1 = U(30), U(27), U(31), U(1)


@structure
def bag_row(words):
    """The number of a row, an odd one."""
    at, h, factor = spill(words), _STEP, _STEP
    for i in range(len(words)):
        h += U(load_word(at + 8 * i)) * factor
        factor = factor * _FIRST + _STEP
    h = (h ^ (h >> _U30)) * _FIRST
    h = (h ^ (h >> _U27)) * _SECOND
    return np.int64((h ^ (h >> _U31)) | _U1)


@structure
def bag_times(a, b):
    """The product."""
    return np.int64(U(a) * U(b))


@structure
def bag_plus(a, b):
    """The sum."""
    return np.int64(U(a) + U(b))


@structure
def bag_add(s, e, k, x):
    """The bag at word k of an entry += x."""
    store_word(e + 8 * k, np.int64(U(load_word(e + 8 * k)) + U(x)))
