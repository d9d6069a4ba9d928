"""Rows going out.

The header: rows so far, room, number of columns, address of the multiplicities; then for each
column the address of its words, the address of its null mask, whether any NULL was emitted, and how
many words a value takes: one, or those of a packed value.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import clear_bytes, copy_bytes
from viewmill.kernels.structures.memory import (
    float_bits,
    load_byte,
    load_word,
    store_byte,
    store_word,
)

ROWS, ROOM, COLUMNS, MULTIPLICITY = 0, 8, 16, 24
FIRST_COLUMN, COLUMN_BYTES = 32, 32


@structure
def emit_word(out, c, x):
    """Column c of the row under way is x."""
    store_word(load_word(out + FIRST_COLUMN + COLUMN_BYTES * c) + 8 * load_word(out + ROWS), x)


@structure
def emit_float(out, c, x):
    """Column c of the row under way is the float x."""
    emit_word(out, c, float_bits(x))


@structure
def emit_packed(out, c, p):
    """Column c of the row under way is the words at p."""
    column = out + FIRST_COLUMN + COLUMN_BYTES * c
    size = 8 * load_word(column + 24)
    copy_bytes(load_word(column) + size * load_word(out + ROWS), p, size)


@structure
def emit_null(out, c):
    """Column c of the row under way is NULL."""
    column = out + FIRST_COLUMN + COLUMN_BYTES * c
    row = load_word(out + ROWS)
    size = 8 * load_word(column + 24)
    clear_bytes(load_word(column) + size * row, size)
    store_byte(load_word(column + 8) + row, 1)
    store_word(column + 16, 1)


@structure
def emit(out, m):
    """The row under way is complete, with multiplicity m."""
    row = load_word(out + ROWS)
    store_word(load_word(out + MULTIPLICITY) + 8 * row, m)
    store_word(out + ROWS, row + 1)


@structure
def emit_full(out):
    """Whether there is no room for two more rows."""
    return load_word(out + ROWS) + 2 > load_word(out + ROOM)


@structure
def emit_cancel(out):
    """Make one row of the last two if they are equal, none if their multiplicities cancel."""
    last = load_word(out + ROWS) - 1
    if last < 1:
        return
    for c in range(load_word(out + COLUMNS)):
        column = out + FIRST_COLUMN + COLUMN_BYTES * c
        size, nulls = 8 * load_word(column + 24), load_word(column + 8) + last
        words = load_word(column) + size * last
        for at in range(words, words + size, 8):
            if load_word(at) != load_word(at - size):
                return
        if load_byte(nulls) != load_byte(nulls - 1):
            return
    multiplicity = load_word(out + MULTIPLICITY) + 8 * last
    m = load_word(multiplicity) + load_word(multiplicity - 8)
    store_word(multiplicity - 8, m)
    _drop(out, last)
    if m == 0:
        _drop(out, last - 1)


@structure
def _drop(out, row):
    """Take the last row back; its NULL marks must not show through under the next."""
    store_word(out + ROWS, row)
    for c in range(load_word(out + COLUMNS)):
        store_byte(load_word(out + FIRST_COLUMN + COLUMN_BYTES * c + 8) + row, 0)


@structure
def emit_room(out):
    """How many more rows there is room for."""
    return load_word(out + ROOM) - load_word(out + ROWS)
