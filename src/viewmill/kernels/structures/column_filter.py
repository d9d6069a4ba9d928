"""The rows of an Arrow record batch that pass some tests, as words: one call for all of it.

takes  a record batch as Arrow's C data interface has it, tests of its columns
gives  the numbers of the rows that pass, and a row of words for each column, of those rows only;
       the record batch is given back to Arrow

header   COLUMNS KINDS TESTS TEST_COUNT ROWS SCRATCH WORDS ROOM TEXTS FIRST DONE TAKEN READ
         READ is for each column whether its words are to be written: a test may say what they are
test     column   operator   what it is compared with (CONSTANT, COLUMN, ONE_OF, TEXTS)   operand
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.columns import (
    BYTE,
    CHILDREN,
    DECIMAL,
    HALF,
    OFFSET,
    RELEASE,
    SHORT,
    TEXT,
    WIDE_TEXT,
    WORD,
    buffer_of,
    has_nulls,
    load_narrow,
    load_short,
)
from viewmill.kernels.structures.memory import call_with, load_half, load_word, store_word
from viewmill.kernels.structures.texts import first_word, intern_texts, is_text, text_bounds

COLUMNS, KINDS, TESTS, TEST_COUNT, ROWS, SCRATCH, WORDS, ROOM = 0, 8, 16, 24, 32, 40, 48, 56
TEXTS, FIRST, DONE, TAKEN, READ = 64, 72, 80, 88, 96
HEADER_WORDS = 13
TEST_WORDS = 4

EQUAL, OTHER, LESS, AT_MOST, MORE, AT_LEAST = 0, 1, 2, 3, 4, 5
CONSTANT, COLUMN, ONE_OF, ONE_TEXT_OF = 0, 1, 2, 3

NO_ROOM, HAS_NULLS = -1, -2


@structure
def filter_columns(batch, header, size):
    """How many rows pass; NO_ROOM if strings need room: call again; HAS_NULLS if there are any.

    TAKEN is -1 in the first call for a batch, and when all is done.
    """
    if load_word(header + TAKEN) < 0 and not _choose(batch, header, size):
        taken = HAS_NULLS
    else:
        taken = load_word(header + TAKEN)
        if not _read(batch, header, size, taken):
            return NO_ROOM
    store_word(header + TAKEN, -1)
    call_with(load_word(batch + RELEASE), batch)
    return taken


@structure
def _choose(batch, header, size):
    """Note the rows that pass, and how many; False if one of the columns may hold a NULL."""
    children, columns = load_word(batch + CHILDREN), load_word(header + COLUMNS)
    for c in range(columns):
        if has_nulls(load_word(children + 8 * c), size):
            return False
    taken = size
    for t in range(load_word(header + TEST_COUNT)):
        test = load_word(header + TESTS) + 8 * TEST_WORDS * t
        taken = _pass(header, children, test, load_word(header + ROWS), taken, taken == size)
    store_word(header + TAKEN, taken)
    store_word(header + FIRST, 0)
    store_word(header + DONE, 0)
    return True


@structure
def _read(batch, header, size, taken):
    """Write the words of the rows that pass, as far as there is room for their strings."""
    children, rows = load_word(batch + CHILDREN), load_word(header + ROWS)
    if taken == size:
        rows = 0
    for c in range(load_word(header + FIRST), load_word(header + COLUMNS)):
        if load_word(load_word(header + READ) + 8 * c) == 0:
            continue
        column, kind = load_word(children + 8 * c), load_word(load_word(header + KINDS) + 8 * c)
        out = load_word(header + WORDS) + 8 * c * load_word(header + ROOM)
        if kind != TEXT and kind != WIDE_TEXT:
            _load(column, kind, rows, taken, out)
            continue
        ends, bytes_, last = _texts_of(column, kind, size)
        texts, wide, done = load_word(header + TEXTS), kind == WIDE_TEXT, load_word(header + DONE)
        done = intern_texts(texts, done, taken, ends, wide, bytes_, last, 0, rows, out)
        store_word(header + DONE, done if done < taken else 0)
        if done < taken:
            store_word(header + FIRST, c)
            return False
    return True


@structure
def _texts_of(column, kind, size):
    """The ends of the strings of a column, their bytes, and the end of what may be read."""
    offset, data, bytes_ = load_word(column + OFFSET), buffer_of(column, 1), buffer_of(column, 2)
    if kind == WIDE_TEXT:
        ends = data + 8 * offset
        return ends, bytes_, bytes_ + load_word(ends + 8 * size)
    ends = data + 4 * offset
    return ends, bytes_, bytes_ + load_half(ends + 4 * size)


@structure
def _load(column, kind, rows, count, out):
    """Write the words of a column of numbers: of the rows numbered at `rows`, or of all."""
    data, offset = buffer_of(column, 1), load_word(column + OFFSET)
    if kind == WORD:
        place = data + 8 * offset
        for i in range(count):
            at = i if rows == 0 else load_word(rows + 8 * i)
            store_word(out + 8 * i, load_word(place + 8 * at))
    elif kind == DECIMAL:
        place = data + 16 * offset
        for i in range(count):
            at = i if rows == 0 else load_word(rows + 8 * i)
            store_word(out + 8 * i, load_word(place + 16 * at))
    elif kind == HALF:
        place = data + 4 * offset
        for i in range(count):
            at = i if rows == 0 else load_word(rows + 8 * i)
            store_word(out + 8 * i, load_half(place + 4 * at))
    elif kind == SHORT:
        place = data + 2 * offset
        for i in range(count):
            at = i if rows == 0 else load_word(rows + 8 * i)
            store_word(out + 8 * i, load_short(place + 2 * at))
    elif kind == BYTE:
        place = data + offset
        for i in range(count):
            at = i if rows == 0 else load_word(rows + 8 * i)
            store_word(out + 8 * i, load_narrow(place + at))


@structure
def _pass(header, children, test, rows, count, are_all):
    """Keep the numbers of the rows that pass a test; how many they are."""
    c, operator, with_ = load_word(test), load_word(test + 8), load_word(test + 16)
    operand, kinds = load_word(test + 24), load_word(header + KINDS)
    column, kind = load_word(children + 8 * c), load_word(kinds + 8 * c)
    chosen = 0 if are_all else rows
    if with_ == ONE_TEXT_OF:
        return _pass_texts(column, kind, operator, operand, chosen, rows, count)
    left = load_word(header + SCRATCH)
    _load(column, kind, chosen, count, left)
    if with_ == ONE_OF:
        return _pass_one_of(left, operator, operand, chosen, rows, count)
    right = left + 8 * load_word(header + ROOM)
    if with_ == COLUMN:
        other = load_word(children + 8 * operand)
        _load(other, load_word(kinds + 8 * operand), chosen, count, right)
    else:
        for i in range(count):
            store_word(right + 8 * i, operand)
    return _pass_compared(left, right, operator, chosen, rows, count)


@structure
def _pass_compared(left, right, operator, chosen, rows, count):
    """Keep the rows whose two words compare as `operator` says.

    A row is written before its test is known: a store is cheaper than a mispredicted branch.
    """
    n = 0
    if operator == EQUAL:
        for i in range(count):
            store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
            n += int(load_word(left + 8 * i) == load_word(right + 8 * i))
    elif operator == OTHER:
        for i in range(count):
            store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
            n += int(load_word(left + 8 * i) != load_word(right + 8 * i))
    elif operator == LESS:
        for i in range(count):
            store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
            n += int(load_word(left + 8 * i) < load_word(right + 8 * i))
    elif operator == AT_MOST:
        for i in range(count):
            store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
            n += int(load_word(left + 8 * i) <= load_word(right + 8 * i))
    elif operator == MORE:
        for i in range(count):
            store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
            n += int(load_word(left + 8 * i) > load_word(right + 8 * i))
    else:
        for i in range(count):
            store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
            n += int(load_word(left + 8 * i) >= load_word(right + 8 * i))
    return n


@structure
def _pass_one_of(left, operator, operand, chosen, rows, count):
    """Keep the rows whose word is in a list; `operand` is its length, then its words."""
    n, choices = 0, load_word(operand)
    for i in range(count):
        word, is_one = load_word(left + 8 * i), False
        for k in range(choices):
            is_one = is_one or load_word(operand + 8 + 8 * k) == word
        store_word(rows + 8 * n, i if chosen == 0 else load_word(chosen + 8 * i))
        n += int(is_one == (operator == EQUAL))
    return n


@structure
def _pass_texts(column, kind, operator, operand, chosen, rows, count):
    """Keep the rows whose string is in a list; `operand` is its length, then their places."""
    size, choices, wide = load_word(column), load_word(operand), kind == WIDE_TEXT
    ends, bytes_, last = _texts_of(column, kind, size)
    if choices == 1 and load_word(load_word(operand + 8)) <= 8:
        place = load_word(operand + 8)
        return _pass_short(ends, wide, bytes_, last, operator, place, chosen, rows, count)
    n = 0
    for i in range(count):
        row = i if chosen == 0 else load_word(chosen + 8 * i)
        start, end = text_bounds(ends, wide, row)
        is_one = False
        for k in range(choices):
            place = load_word(operand + 8 + 8 * k)
            is_one = is_one or is_text(place, bytes_ + start, end - start, last)
        store_word(rows + 8 * n, row)
        n += int(is_one == (operator == EQUAL))
    return n


@structure
def _pass_short(ends, wide, bytes_, last, operator, place, chosen, rows, count):
    """Keep the rows whose string equals the one at `place`, of eight bytes at most."""
    n, length, is_wanted = 0, load_word(place), operator == EQUAL
    word = load_word(place + 8) if length > 0 else 0
    for i in range(count):
        row = i if chosen == 0 else load_word(chosen + 8 * i)
        start, end = text_bounds(ends, wide, row)
        is_same = end - start == length and first_word(bytes_ + start, length, last) == word
        store_word(rows + 8 * n, row)
        n += int(is_same == is_wanted)
    return n
