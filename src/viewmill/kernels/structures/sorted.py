"""Rows in an order, each with payload words: found by key, walked from neighbour to neighbour.

It stands on the nodes of `ordered`, whose sums it does not use. A key word is a number, the id
of a string that is compared as text, or the word of a wide decimal. Every change is noted with what
was before and what is after, so that a rollback takes it back; a passing state notes nothing and is
emptied instead.

A position is one word, as in `ordered`; it is good until the next row comes or goes. A key may end
with a word of null bits, which are asked before the words of their columns.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.failures import text_less
from viewmill.kernels.structures.floats import sort_word
from viewmill.kernels.structures.heap import allocate, copy_bytes, out_of_line, release
from viewmill.kernels.structures.memory import load_word, spill, store_word
from viewmill.kernels.structures.ordered import (
    leaf_at,
    make_first,
    make_level,
    ordered_end,
    ordered_next,
    settled,
)
from viewmill.kernels.structures.ordered_nodes import (
    BYTES,
    GROUP,
    KEYS,
    LEAF,
    LEVELS,
    LOG,
    LOG_ROOM,
    LOG_SIZE,
    TOP,
    TOP_ROOM,
    WORDS,
    array_of,
    close_gap,
    shrink,
    split_group,
    split_leaf,
)
from viewmill.kernels.structures.vectors import load_at, store_at
from viewmill.kernels.structures.wide_numbers import is_own, wide_less

# In the header, where `ordered` keeps its aim: how key words compare, where strings are, LOGGED.
KINDS, TEXTS, TABLE, LOGGED = 128, 136, 144, 152
# Which word of a key has null bits, 0 if none; the columns whose NULL comes before, a bit for each;
# whether a row has ever had a NULL.
NULL_BITS, NULLS_FIRST, HAD_NULL = 160, 168, 176
# How words compare; 0 is a number.
TEXT, TEXT_DOWN, NUMBER_DOWN, FLOAT, FLOAT_DOWN, WIDE, WIDE_DOWN = 1, 2, 3, 4, 5, 6, 7
HIDDEN = 1  # the mark of a row behind all that are shown


# Search.


@structure
def compare(s, node, room, i, key, words):
    """Key i of a node against the first words of the key at an address: -1, 0 or 1."""
    if load_word(s + HAD_NULL) != 0:
        return compare_nulls(s, node, room, i, key)
    for j in range(words):
        a, b = load_at(array_of(node, room, j), i), load_at(key, j)
        if a != b:
            return compare_words(s, j, a, b)
    return 0


@structure
def compare_words(s, j, a, b):
    """Word j of a key against that of another one; they differ."""
    kind = load_at(load_word(s + KINDS), j)
    if kind == 0:
        return -1 if a < b else 1
    if kind == NUMBER_DOWN:
        return -1 if a > b else 1
    if kind >= WIDE:
        first = wide_less(load_word(s + TEXTS), a, b)
        return -1 if first == (kind == WIDE) else 1
    if kind >= FLOAT:
        first = sort_word(a) < sort_word(b)
        return -1 if first == (kind == FLOAT) else 1
    first = text_less(load_word(s + TEXTS), load_word(s + TABLE), a, b)
    return -1 if first == (kind == TEXT) else 1


@structure
def compare_nulls(s, node, room, i, key):
    """`compare` where one of two whole keys may have a NULL."""
    out_of_line()
    nulls = load_word(s + NULL_BITS)
    bits, others = load_at(array_of(node, room, nulls), i), load_at(key, nulls)
    for j in range(nulls):
        null, other = (bits >> j) & 1, (others >> j) & 1
        if null != other:
            return -1 if null == (load_word(s + NULLS_FIRST) >> j) & 1 else 1
        a, b = load_at(array_of(node, room, j), i), load_at(key, j)
        if null == 0 and a != b:
            return compare_words(s, j, a, b)
    return 0


@structure
def count_before(s, node, room, start, key, words, after):
    """How many entries of a node, from `start` on, come before a key, or (after) are up to it."""
    low, high = start, load_word(node)
    kind = load_word(load_word(s + KINDS))
    down = kind in (NUMBER_DOWN, WIDE_DOWN)
    first = load_word(key) if words > 0 else 0
    # A wide decimal that is its own word is compared as one, with codes too.
    is_number = kind == 0 or kind == NUMBER_DOWN or (kind >= WIDE and is_own(first))
    is_plain = words > 0 and is_number and load_word(s + HAD_NULL) == 0
    while low < high:
        middle = (low + high) >> 1
        word = load_at(array_of(node, room, 0), middle)
        if is_plain and word != first:  # most often the first word decides
            is_before = (word < first) != down
        else:
            is_before = compare(s, node, room, middle, key, words) < after
        if is_before:
            low = middle + 1
        else:
            high = middle
    return low


@structure
def place_in(s, key, words, after):
    """Group, leaf and place where rows with these first words begin, or (after) have ended.

    The first entry of an inner node stands for whatever is less, so it is never compared.
    """
    keys, top, room = load_word(s + KEYS), load_word(s + TOP), load_word(s + TOP_ROOM)
    i = count_before(s, top, room, 1, key, words, after) - 1
    group = load_at(array_of(top, room, keys), i)
    j = count_before(s, group, GROUP, 1, key, words, after) - 1
    leaf = load_at(array_of(group, GROUP, keys), j)
    return i, group, j, leaf, count_before(s, leaf, LEAF, 0, key, words, after)


@structure
def position_in(s, key, words, after):
    """The position where rows with these first words begin, or (after) have ended."""
    out_of_line()
    if load_word(s + LEVELS) == 0:
        return 0
    i, _, j, _, p = place_in(s, key, words, after)
    return settled(s, i, j, p)


@structure
def sorted_from(s, key):
    """The first position whose first words are at least these."""
    return position_in(s, spill(key), len(key), 0)


@structure
def sorted_after(s, key):
    """The first position whose first words are more than these."""
    return position_in(s, spill(key), len(key), 1)


@structure
def sorted_end(s):
    """The position behind the last row."""
    return ordered_end(s) if load_word(s + LEVELS) != 0 else 0


@structure
def sorted_next(s, p):
    """The position after p, which is not the end."""
    if (p & 0xFFFF) + 1 < load_word(leaf_at(s, p)):
        return p + 1
    return next_leaf(s, p)


@structure
def next_leaf(s, p):
    """The position after p, which is the last of its leaf."""
    out_of_line()
    return ordered_next(s, p)


@structure
def sorted_prev(s, p):
    """The position before p, which is not the first."""
    return p - 1 if p & 0xFFFF != 0 else last_leaf(s, p)


@structure
def last_leaf(s, p):
    """The position before p, which is the first of its leaf."""
    out_of_line()
    keys, top, room = load_word(s + KEYS), load_word(s + TOP), load_word(s + TOP_ROOM)
    i, j = p >> 32, (p >> 16) & 0xFFFF
    if j == 0:
        i -= 1
        j = load_word(load_at(array_of(top, room, keys), i))
    leaf = load_at(array_of(load_at(array_of(top, room, keys), i), GROUP, keys), j - 1)
    return (i << 32) | ((j - 1) << 16) | (load_word(leaf) - 1)


@structure
def sorted_step(s, p, k, begin, end):
    """k positions further (back if negative), but not out of begin to end."""
    out_of_line()
    while k > 0 and p < end:
        p = sorted_next(s, p)
        k -= 1
    while k < 0 and p > begin:
        p = sorted_prev(s, p)
        k += 1
    return p


@structure
def sorted_offset(s, p, k, begin, end):
    """The row k positions further (back if negative), or -1 if that is not within begin to end."""
    out_of_line()
    while k > 0:
        p = sorted_next(s, p)
        k -= 1
        if p >= end:
            return -1
    while k < 0:
        if p <= begin:
            return -1
        p = sorted_prev(s, p)
        k += 1
    return p


@structure
def sorted_key(s, p, i):
    """Word i of the key of the row at p."""
    return load_at(array_of(leaf_at(s, p), LEAF, i), p & 0xFFFF)


@structure
def sorted_word(s, p, j):
    """Payload word j of the row at p."""
    return load_at(array_of(leaf_at(s, p), LEAF, load_word(s + KEYS) + j), p & 0xFFFF)


@structure
def sorted_same(s, p, q, words):
    """Whether the rows at p and q have equal first words."""
    out_of_line()
    a, b, i, j = leaf_at(s, p), leaf_at(s, q), p & 0xFFFF, q & 0xFFFF
    for k in range(words):
        if load_at(array_of(a, LEAF, k), i) != load_at(array_of(b, LEAF, k), j):
            return False
    return True


# Changes.


@structure
def sorted_insert(s, key):
    """A row comes, with payload words 0, unless it is there."""
    at = spill(key)
    insert_row(s, at)


@structure
def insert_row(s, key):
    """`sorted_insert` by address."""
    out_of_line()
    place = make_place(s, key)
    if place >= 0:
        note(s, key, 0, 1, place)


@structure
def make_place(s, key):
    """The position of a row that was made, or -1 if it was there."""
    keys, words = load_word(s + KEYS), load_word(s + WORDS)
    if load_word(s + LEVELS) == 0:
        make_first(s)
    while True:
        i, group, j, leaf, p = place_in(s, key, keys, 1)
        if p > 0 and compare(s, leaf, LEAF, p - 1, key, keys) == 0:
            return -1
        if load_word(leaf) < LEAF:
            make_level(s, leaf, p, key, keys, words)
            return (i << 32) | (j << 16) | p
        if load_word(group) == GROUP:
            split_group(s, i)
        else:
            split_leaf(s, group, j)


@structure
def sorted_remove(s, key):
    """A row goes, if it is there."""
    at = spill(key)
    remove_row(s, at)


@structure
def remove_row(s, key):
    """`sorted_remove` by address."""
    out_of_line()
    p = find_row(s, key)
    if p >= 0:
        note(s, key, 1, 0, p)
        drop_row(s, key)


@structure
def find_row(s, key):
    """The position of a row, or -1."""
    if load_word(s + LEVELS) == 0:
        return -1
    keys = load_word(s + KEYS)
    i, _, j, leaf, p = place_in(s, key, keys, 1)
    if p == 0 or compare(s, leaf, LEAF, p - 1, key, keys) != 0:
        return -1
    return (i << 32) | (j << 16) | (p - 1)


@structure
def drop_row(s, key):
    """Take a row out that is there."""
    keys, words = load_word(s + KEYS), load_word(s + WORDS)
    i, group, j, leaf, p = place_in(s, key, keys, 1)
    close_gap(leaf, LEAF, keys + words, p - 1)
    store_word(s + LEVELS, load_word(s + LEVELS) - 1)
    if load_word(leaf) < LEAF // 4:
        shrink(s, i, group, j, leaf)


@structure
def sorted_put(s, p, words):
    """The payload words of the row at p become these."""
    put_row(s, p, spill(words))


@structure
def put_row(s, p, words):
    """`sorted_put` by address."""
    out_of_line()
    keys, width, leaf, at = load_word(s + KEYS), load_word(s + WORDS), leaf_at(s, p), p & 0xFFFF
    record = next_record(s)
    if record != 0:
        for j in range(keys):
            store_at(record, j, load_at(array_of(leaf, LEAF, j), at))
        store_at(record, keys, 1)
        store_at(record, keys + 1 + width, 1)
        for j in range(width):
            store_at(record, keys + 1 + j, load_at(array_of(leaf, LEAF, keys + j), at))
            store_at(record, keys + 2 + width + j, load_at(words, j))
    for j in range(width):
        store_at(array_of(leaf, LEAF, keys + j), at, load_at(words, j))


@structure
def sorted_count(s, key, m):
    """A row is there m times more: it comes with the first, and goes with the last.

    Word 0 counts. A row that comes is hidden behind one that is; the mark of one that goes.
    """
    at = spill(key)
    return count_row(s, at, m)


@structure
def count_row(s, key, m):
    """`sorted_count` by address."""
    out_of_line()
    keys, words = load_word(s + KEYS), load_word(s + WORDS)
    note_nulls(s, key)
    if load_word(s + LEVELS) == 0:
        make_first(s)
    while True:
        i, group, j, leaf, p = place_in(s, key, keys, 1)
        if p > 0 and compare(s, leaf, LEAF, p - 1, key, keys) == 0:
            return count_there(s, key, m, i, group, j, leaf, p - 1)
        if load_word(leaf) < LEAF:
            at = (i << 32) | (j << 16) | p
            mark = sorted_word(s, sorted_prev(s, at), 1) if at != 0 else 0
            make_level(s, leaf, p, key, keys, words)
            store_at(array_of(leaf, LEAF, keys), p, m)
            store_at(array_of(leaf, LEAF, keys + 1), p, mark if mark == HIDDEN else 0)
            note(s, key, 0, 1, at)
            return 0
        if load_word(group) == GROUP:
            split_group(s, i)
        else:
            split_leaf(s, group, j)


@structure
def note_nulls(s, key):
    """A row comes that may have a NULL."""
    nulls = load_word(s + NULL_BITS)
    if nulls != 0 and load_at(key, nulls) != 0:
        store_word(s + HAD_NULL, 1)


@structure
def count_there(s, key, m, i, group, j, leaf, p):
    """Change the count of an existing row, whose position is known."""
    keys, at = load_word(s + KEYS), (i << 32) | (j << 16) | p
    count, mark = sorted_word(s, at, 0) + m, sorted_word(s, at, 1)
    if count != 0:
        words = spill((count, mark))
        put_row(s, at, words)
        return 0
    note(s, key, 1, 0, at)
    close_gap(leaf, LEAF, keys + load_word(s + WORDS), p)
    store_word(s + LEVELS, load_word(s + LEVELS) - 1)
    if load_word(leaf) < LEAF // 4:
        shrink(s, i, group, j, leaf)
    return mark


# The log: key words, whether the row was there before and its words, the same for after.


@structure
def note(s, key, before, after, p):
    """Write down that a row came or went; its words are read at p."""
    keys, width, leaf, at = load_word(s + KEYS), load_word(s + WORDS), leaf_at(s, p), p & 0xFFFF
    record = next_record(s)
    if record == 0:
        return
    for j in range(keys):
        store_at(record, j, load_at(key, j))
    store_at(record, keys, before)
    store_at(record, keys + 1 + width, after)
    for j in range(width):
        word = load_at(array_of(leaf, LEAF, keys + j), at)
        store_at(record, keys + 1 + j, word if before != 0 else 0)
        store_at(record, keys + 2 + width + j, word if after != 0 else 0)


@structure
def record_bytes(s):
    """How long a record is."""
    return 8 * (load_word(s + KEYS) + 2 + 2 * load_word(s + WORDS))


@structure
def next_record(s):
    """Room for one more record, or 0 if nothing is noted."""
    if load_word(s + LOGGED) == 0:
        return 0
    size, room, width = load_word(s + LOG_SIZE), load_word(s + LOG_ROOM), record_bytes(s)
    if size == room:
        more = room * 2 if room > 0 else 64
        log = allocate(more * width)
        if room > 0:
            copy_bytes(log, load_word(s + LOG), room * width)
            release(load_word(s + LOG))
        store_word(s + LOG, log)
        store_word(s + LOG_ROOM, more)
        store_word(s + BYTES, load_word(s + BYTES) + (more - room) * width)
    store_word(s + LOG_SIZE, size + 1)
    return load_word(s + LOG) + size * width


# Kernels that Python calls.


@structure
def sorted_repeat(s, forward):
    """Make the noted changes once more, or take them back, the last one first."""
    keys, width, size = load_word(s + KEYS), load_word(s + WORDS), load_word(s + LOG_SIZE)
    logged = load_word(s + LOGGED)
    store_word(s + LOGGED, 0)
    for n in range(size):
        t = n if forward != 0 else size - 1 - n
        record = load_word(s + LOG) + t * record_bytes(s)
        side = record + 8 * (keys + (1 + width if forward != 0 else 0))
        if load_word(side) == 0:
            remove_row(s, record)
        else:
            insert_row(s, record)
            put_row(s, find_row(s, record), side + 8)
    store_word(s + LOGGED, logged)
    return 0


@structure
def sorted_commit(s):
    """Forget the changes; a log that grew long is given back."""
    if load_word(s + LOG_ROOM) > 4096:
        store_word(s + BYTES, load_word(s + BYTES) - load_word(s + LOG_ROOM) * record_bytes(s))
        release(load_word(s + LOG))
        store_word(s + LOG, 0)
        store_word(s + LOG_ROOM, 0)
    store_word(s + LOG_SIZE, 0)
    return 0


@structure
def sorted_load(s, rows, size):
    """Add rows of key and payload words; nothing is noted."""
    keys, width = load_word(s + KEYS), load_word(s + WORDS)
    store_word(s + LOGGED, 0)
    for i in range(size):
        row = rows + 8 * (keys + width) * i
        note_nulls(s, row)
        insert_row(s, row)
        put_row(s, find_row(s, row), row + 8 * keys)
    store_word(s + LOGGED, 1)
    return 0


@structure
def sorted_export(s, rows):
    """Write every row as key and payload words, in order; gives how many."""
    arrays = load_word(s + KEYS) + load_word(s + WORDS)
    p, end, n = 0, sorted_end(s), 0
    while p < end:
        for j in range(arrays):
            store_at(rows, n * arrays + j, sorted_key(s, p, j))
        p = sorted_next(s, p)
        n += 1
    return n
