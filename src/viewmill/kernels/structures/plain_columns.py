"""Whether the values of columns are surely readable: one look at all of them.

takes  a record batch as Arrow's C data interface has it, which is given back; for each column how
       its values lie in memory, and the least and the greatest that is taken
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.columns import (
    CHILDREN,
    DECIMAL,
    HALF,
    OFFSET,
    RELEASE,
    TEXT,
    WIDE_TEXT,
    buffer_of,
)
from viewmill.kernels.structures.memory import call_with, load_byte, load_half, load_word
from viewmill.kernels.structures.vectors import load_at, load_half_at

ASKED_WORDS = 3
_NOT_ASCII = -0x7F7F7F7F7F7F7F80  # the highest bit of each byte


@structure
def plain_columns(batch, asked, columns, size):
    """1 if strings are ASCII, offsets in order and numbers within bounds, else 0.

    What lies behind a NULL counts: if that is odd, somebody else has to look.
    """
    children, plain = load_word(batch + CHILDREN), 1
    for c in range(columns):
        column, about = load_word(children + 8 * c), asked + 8 * ASKED_WORDS * c
        kind, low, high = load_word(about), load_word(about + 8), load_word(about + 16)
        first, values = load_word(column + OFFSET), buffer_of(column, 1)
        if kind == TEXT:
            fits = _short_texts_fit(values + 4 * first, buffer_of(column, 2), size)
        elif kind == WIDE_TEXT:
            fits = _long_texts_fit(values + 8 * first, buffer_of(column, 2), size)
        elif kind == DECIMAL:
            fits = _decimals_fit(values + 16 * first, size, low, high)
        elif kind == HALF:
            fits = _halves_fit(values + 4 * first, size, low, high)
        else:
            fits = _words_fit(values + 8 * first, size, low, high)
        if not fits:
            plain = 0
            break
    call_with(load_word(batch + RELEASE), batch)
    return plain


@structure
def _short_texts_fit(ends, data, size):
    begin, end, falls = load_half(ends), load_half(ends + 4 * size), 0
    for i in range(size):
        falls |= load_half_at(ends + 4, i) - load_half_at(ends, i)
    return falls >= 0 and _is_ascii(data + begin, end - begin)


@structure
def _long_texts_fit(ends, data, size):
    begin, end, falls = load_word(ends), load_word(ends + 8 * size), 0
    for i in range(size):
        falls |= load_at(ends + 8, i) - load_at(ends, i)
    return falls >= 0 and _is_ascii(data + begin, end - begin)


@structure
def _is_ascii(place, length):
    seen = 0
    for i in range(length >> 3):
        seen |= load_at(place, i)
    last = 0
    for i in range(length & ~7, length):
        last |= load_byte(place + i)
    return (seen & _NOT_ASCII) == 0 and last < 128


@structure
def _decimals_fit(values, size, low, high):
    """Of up to 18 digits: the high word is nothing but the sign."""
    odd = 0
    for i in range(size):
        x = load_at(values, 2 * i)
        odd |= (load_at(values, 2 * i + 1) ^ (x >> 63)) | int(x < low) | int(x > high)
    return odd == 0


@structure
def _halves_fit(values, size, low, high):
    odd = 0
    for i in range(size):
        x = load_half_at(values, i)
        odd |= int(x < low) | int(x > high)
    return odd == 0


@structure
def _words_fit(values, size, low, high):
    odd = 0
    for i in range(size):
        x = load_at(values, i)
        odd |= int(x < low) | int(x > high)
    return odd == 0
