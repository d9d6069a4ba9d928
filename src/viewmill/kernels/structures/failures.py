"""Failures that a trigger notes and the maintainer raises; string literals and functions by number.

texts   the address of the lookup tables, then the dictionary ids of the literals; before them the
        address of the wide decimals
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word, store_word

U = np.uint64


@structure
def fail(errors, code, row):
    """Note failure `code` in `row`; the first one stays."""
    if load_word(errors) == 0:
        store_word(errors, code + 1)
        store_word(errors + 8, row)


@structure
def failed(errors):
    """Whether something failed."""
    return load_word(errors) != 0


@structure
def failed_at(errors, row):
    """The failure that was noted is one of this row."""
    store_word(errors + 8, row)


@structure
def only_row(errors, code, row, value, count):
    """A value that is there once; several are failure `code`."""
    if count > 1:
        fail(errors, code, row)
    return value


@structure
def text(texts, i):
    """The dictionary id of literal i."""
    return load_word(texts + 8 + 8 * i)


@structure
def look_word(texts, i, id_):
    """What function i gives for the string of an id."""
    return load_word(load_word(load_word(texts) + 8 * i) + 8 * id_)


@structure
def text_less(texts, i, a, b):
    """Whether string a comes before string b, as UTF-8 bytes; table i has their places."""
    first, second = look_word(texts, i, a), look_word(texts, i, b)
    size, other = load_word(first), load_word(second)
    for j in range((min(size, other) + 7) >> 3):
        x, y = U(load_word(first + 8 + 8 * j)), U(load_word(second + 8 + 8 * j))
        if x != y:
            return x < y
    return size < other
