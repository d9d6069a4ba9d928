"""Which levels qualify: by their key, or by an aggregate over the levels up to them.

The aggregate of a level is the sum of a word over the levels on one side of it (`side`, see below).
While no level is negative in that word, aggregates rise or fall along the order, and what qualifies
is one range, found by two walks down the floors. Once a level is negative, each level is judged.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word
from viewmill.kernels.structures.ordered import (
    leaf_at,
    ordered_before,
    ordered_between,
    ordered_end,
    ordered_from,
    ordered_negative,
    ordered_next,
    ordered_null,
    ordered_reach,
    ordered_total,
)
from viewmill.kernels.structures.ordered_nodes import (
    FIRST_RESULT,
    KEYS,
    LEAF,
    LEVELS,
    PICKED,
    WORDS,
    array_of,
)
from viewmill.kernels.structures.vectors import load_at, store_at

# Which levels a level's aggregate is over: those with keys <= its own, <, >=, >.
UPTO, BELOW, FROM, ABOVE = 0, 1, 2, 3


@structure
def ordered_picked(s, j):
    """Word j of the levels that the last selection picked."""
    return load_at(load_word(s + PICKED), j)


@structure
def ordered_pick_none(s):
    """Pick no level."""
    for j in range(load_word(s + WORDS)):
        store_at(load_word(s + PICKED), j, 0)


@structure
def ordered_pick_all(s):
    """Pick every level, the one of NULL included."""
    for j in range(load_word(s + WORDS)):
        store_at(load_word(s + PICKED), j, ordered_total(s, j))


@structure
def ordered_pick_keys(s, low, high, bounded, outside):
    """Pick the levels with low <= key < high (without upper bound if not `bounded`), or the others.

    The level of NULL is never picked.
    """
    start = ordered_from(s, (low,))
    end = ordered_from(s, (high,)) if bounded else ordered_end(s)
    pick_range(s, start, max(start, end))
    if outside:
        for j in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
            there = ordered_total(s, j) - ordered_null(s, j)
            store_at(load_word(s + PICKED), j, there - ordered_picked(s, j))


@structure
def pick_range(s, start, end):
    """Pick the levels from one position to another."""
    for j in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        store_at(load_word(s + PICKED), j, ordered_between(s, start, end, j))


@structure
def ordered_pick(s, side, j, c, low, high, bounded, outside, empty):
    """Pick the levels whose aggregate a of word j has low <= a < high, or the others if `outside`.

    Word c counts the rows under the aggregate: where it is 0 there is no aggregate, and the level
    is picked if `empty`; so is the level of NULL. c = -1: every level has one, and NULL has 0.
    """
    if ordered_negative(s) != 0:
        pick_each(s, side, j, c, low, high, bounded, outside, empty)
        return
    first, last = aggregated(s, side, c)
    start, end = within(s, side, j, low, high, bounded)
    start = min(max(start, first), last)
    end = max(min(end, last), start)
    for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        total = 0
        if start < end:
            total = ordered_before(s, end, k) - ordered_before(s, start, k)
        if outside or empty:
            some = ordered_before(s, last, k) - ordered_before(s, first, k)
            if outside:
                total = some - total
            if empty:
                total += ordered_total(s, k) - some
        store_at(load_word(s + PICKED), k, total)


@structure
def aggregated(s, side, c):
    """The range of the levels that have an aggregate."""
    end = ordered_end(s)
    if c < 0:
        return 0, end
    if side == UPTO:
        return ordered_reach(s, c, 1), end
    if side == BELOW:
        return after(s, ordered_reach(s, c, 1)), end
    last = ordered_total(s, c) - ordered_null(s, c)
    if last <= 0:
        return 0, 0
    at = ordered_reach(s, c, last)  # the last level that has a row
    return 0, after(s, at) if side == FROM else at


@structure
def after(s, p):
    """The next position; the end stays the end."""
    return ordered_next(s, p) if p != ordered_end(s) else p


@structure
def within(s, side, j, low, high, bounded):
    """The range of the levels with low <= aggregate < high; no level is negative."""
    end = ordered_end(s)
    total = ordered_total(s, j) - ordered_null(s, j)
    if low > total or (bounded and high <= 0):
        return 0, 0
    open_top = not bounded or high > total
    if side == UPTO:
        return ordered_reach(s, j, low), end if open_top else ordered_reach(s, j, high)
    if side == BELOW:
        start = 0 if low <= 0 else after(s, ordered_reach(s, j, low))
        return start, end if open_top else after(s, ordered_reach(s, j, high))
    if side == FROM:
        start = 0 if open_top else after(s, ordered_reach(s, j, total - high + 1))
        return start, end if low <= 0 else after(s, ordered_reach(s, j, total - low + 1))
    start = 0 if open_top else ordered_reach(s, j, total - high + 1)
    return start, end if low <= 0 else ordered_reach(s, j, total - low + 1)


@structure
def pick_each(s, side, j, c, low, high, bounded, outside, empty):
    """The same, level by level: with a negative level aggregates rise and fall."""
    picked, first, words = load_word(s + PICKED), load_word(s + FIRST_RESULT), load_word(s + WORDS)
    keys = load_word(s + KEYS)
    for k in range(first, words):
        store_at(picked, k, ordered_null(s, k) if empty else 0)
    if load_word(s + LEVELS) == 0:
        return
    all_rows = ordered_total(s, c) - ordered_null(s, c) if c >= 0 else 1
    whole = ordered_total(s, j) - ordered_null(s, j)
    p, end, below, rows_below = 0, ordered_end(s), 0, 0
    while p != end:
        leaf = leaf_at(s, p)
        for i in range(load_word(leaf)):
            upto = below + load_at(array_of(leaf, LEAF, keys + j), i)
            rows_upto = rows_below
            if c >= 0:
                rows_upto += load_at(array_of(leaf, LEAF, keys + c), i)
            a = aggregate_of(side, below, upto, whole)
            rows = aggregate_of(side, rows_below, rows_upto, all_rows) if c >= 0 else 1
            qualifies = empty
            if rows != 0:
                qualifies = (low <= a and (not bounded or a < high)) != outside
            if qualifies:
                for k in range(first, words):
                    x = load_at(array_of(leaf, LEAF, keys + k), i)
                    store_at(picked, k, load_at(picked, k) + x)
            below, rows_below = upto, rows_upto
        p = ordered_next(s, p + load_word(leaf) - 1)


@structure
def aggregate_of(side, below, upto, whole):
    """The sum on one side of a level, from the sums below it, up to it and of all."""
    if side == UPTO:
        return upto
    if side == BELOW:
        return below
    return whole - below if side == FROM else whole - upto
