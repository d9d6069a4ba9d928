"""The rows of a checked table: keyed, with multiplicity, sequence and other words as payload.

After the header of `keyed` come the next sequence number and the total multiplicity.
"""

from __future__ import annotations

from viewmill.kernels.compiler import BYTES, ROWS, WORDS, structure
from viewmill.kernels.structures.keyed import (
    AHEAD,
    KEY,
    KEY_WORDS,
    PAYLOAD_WORDS,
    copy_words,
    exceeds_fast_cache,
    fetch_key,
    find,
    keyed_full,
    keyed_now,
    keyed_touched,
    same_words,
    touch,
)
from viewmill.kernels.structures.memory import address, load_word, store_word

SEQUENCE, TOTAL = 96, 104
# Within the payload.
OTHER = 16


@structure
def add_multiplicity(s, e, m):
    """The row at payload e is there m times more; a new row gets the next sequence number."""
    store_word(e, load_word(e) + m)
    store_word(s + TOTAL, load_word(s + TOTAL) + m)
    if load_word(e + 8) == 0:
        sequence = load_word(s + SEQUENCE) + 1
        store_word(e + 8, sequence)
        store_word(s + SEQUENCE, sequence)


@structure
def stage_bag(s, start, rows: ROWS, multiplicity: WORDS):
    """Add the rows of a bag from row `start` on; gives where it stopped."""
    words, size, first = load_word(s + KEY_WORDS), len(multiplicity), address(rows)
    is_large = exceeds_fast_cache(s)
    for i in range(start, size):
        if keyed_full(s):
            return i
        if is_large and i + AHEAD < size:
            fetch_key(s, first + 8 * words * (i + AHEAD), words)
        m = multiplicity[i]
        if m != 0:
            add_multiplicity(s, touch(s, first + 8 * words * i, words), m)
    return size


@structure
def stage_unique(s, start, rows: ROWS, multiplicity: WORDS, conflicts: WORDS):
    """Remove, then add rows with a primary key: two steps per row; gives the step where it stopped.

    What cannot be done goes to `conflicts`: a count, then (row, multiplicity left) for each.
    """
    keys, others = load_word(s + KEY_WORDS), load_word(s + PAYLOAD_WORDS) - 2
    size, first = len(multiplicity), address(rows)
    is_large = exceeds_fast_cache(s)
    for step in range(start, 2 * size):
        if keyed_full(s):
            return step
        i = step if step < size else step - size
        m = multiplicity[i]
        if m == 0 or (m < 0) != (step < size):
            continue
        if is_large and i + AHEAD < size:
            fetch_key(s, first + 8 * (keys + others) * (i + AHEAD), keys)
        row = first + 8 * (keys + others) * i
        left = _remove(s, row, keys, others, m) if m < 0 else _insert(s, row, keys, others, m)
        if left != 0:
            n = conflicts[0]
            conflicts[1 + 2 * n] = i
            conflicts[2 + 2 * n] = left
            conflicts[0] = n + 1
    return 2 * size


@structure
def _remove(s, row, keys, others, m):
    """Take the row away if it is there; gives the multiplicity that is left."""
    at, _ = find(s, row, keys)
    stored = at + KEY + 8 * keys
    if load_word(at) == 0 or load_word(stored) == 0:
        return m
    if not same_words(stored + OTHER, row + 8 * keys, others):
        return m
    add_multiplicity(s, touch(s, row, keys), -1)
    return m + 1


@structure
def _insert(s, row, keys, others, m):
    """Put the row where its key is free; gives the multiplicity that is left."""
    at, _ = find(s, row, keys)
    if load_word(at) != 0 and load_word(at + KEY + 8 * keys) != 0:
        return m
    e = touch(s, row, keys)
    copy_words(e + OTHER, row + 8 * keys, others)
    add_multiplicity(s, e, 1)
    return m - 1


@structure
def first_missing(s, start):
    """The first touched row, from number `start` on, of negative multiplicity; -1 if none."""
    for t in range(start, keyed_touched(s)):
        if load_word(keyed_now(s, t)) < 0:
            return t
    return -1


@structure
def find_rows(s, keys: ROWS, found: BYTES, rows: ROWS):
    """Look keys up; the whole rows of those found go to `rows`."""
    words, others = load_word(s + KEY_WORDS), load_word(s + PAYLOAD_WORDS) - 2
    hits = 0
    for i in range(len(found)):
        key = address(keys) + 8 * words * i
        at, _ = find(s, key, words)
        stored = at + KEY + 8 * words
        there = load_word(at) != 0 and load_word(stored) > 0
        found[i] = there
        if there:
            to = address(rows) + 8 * (words + others) * i
            copy_words(to, key, words)
            copy_words(to + 8 * words, stored + OTHER, others)
            hits += 1
    return hits
