"""Columns of an Arrow record batch as words, all in one call.

takes  a record batch as Arrow's C data interface has it
gives  a row of words for each column

array    LENGTH NULLS OFFSET … BUFFERS CHILDREN … RELEASE …: addresses, and counts
"""

from __future__ import annotations

import numpy as np
from numba.extending import intrinsic

from viewmill.kernels.compiler import ROWS, structure
from viewmill.kernels.structures.memory import (
    address,
    load_byte,
    load_half,
    load_word,
    store_word,
)
from viewmill.kernels.structures.texts import integer_loader, intern_texts

_NULLS, OFFSET, _BUFFERS, CHILDREN, RELEASE = 8, 16, 40, 48, 64

# How values lie in memory.
WORD, HALF, SHORT, BYTE, DECIMAL, TEXT, WIDE_TEXT = 0, 1, 2, 3, 4, 5, 6

load_short = intrinsic(integer_loader(16))
load_narrow = intrinsic(integer_loader(8))


@structure
def buffer_of(column, i):
    """The address of buffer i of a column, 0 if there is none."""
    return load_word(load_word(column + _BUFFERS) + 8 * i)


@structure
def has_nulls(column, size):
    """Whether one of the first rows of a column is NULL; most often no bit has to be looked at."""
    bits = buffer_of(column, 0)
    if bits == 0 or load_word(column + _NULLS) == 0:
        return False
    i = load_word(column + OFFSET)
    end = i + size
    while i < end:
        byte = np.int64(load_byte(bits + (i >> 3)))
        if i & 7 == 0 and i + 8 <= end and byte == 255:
            i += 8
            continue
        if (byte >> (i & 7)) & 1 == 0:
            return True
        i += 1
    return False


@structure
def read_columns(batch, kinds, first, done, size, words: ROWS, texts):
    """Write the words of the columns from `first` on, that one from row `done` on.

    Gives how many columns are done; minus one minus the row where a column of strings stopped,
    because there is no room for it, after writing the column to `kinds` - 8; or minus 2 ** 62, if
    a column holds a NULL.
    """
    children = load_word(batch + CHILDREN)
    columns = load_word(kinds - 16)
    for c in range(first, columns):
        if has_nulls(load_word(children + 8 * c), size):
            return -(1 << 62)
    for c in range(first, columns):
        column = load_word(children + 8 * c)
        out = address(words) + 8 * size * c
        kind, offset = load_word(kinds + 8 * c), load_word(column + OFFSET)
        data = buffer_of(column, 1)
        if kind == WORD:
            for i in range(size):
                store_word(out + 8 * i, load_word(data + 8 * (offset + i)))
        elif kind == DECIMAL:
            for i in range(size):
                store_word(out + 8 * i, load_word(data + 16 * (offset + i)))
        elif kind == HALF:
            for i in range(size):
                store_word(out + 8 * i, load_half(data + 4 * (offset + i)))
        elif kind == SHORT:
            for i in range(size):
                store_word(out + 8 * i, load_short(data + 2 * (offset + i)))
        elif kind == BYTE:
            for i in range(size):
                store_word(out + 8 * i, load_narrow(data + offset + i))
        else:
            wide = kind == WIDE_TEXT
            ends, bytes_ = data + (8 if wide else 4) * offset, buffer_of(column, 2)
            last = load_word(ends + 8 * size) if wide else load_half(ends + 4 * size)
            done = intern_texts(texts, done, size, ends, wide, bytes_, bytes_ + last, 0, 0, out)
            if done < size:
                store_word(kinds - 8, c)
                return -1 - done
            done = 0
    return columns
