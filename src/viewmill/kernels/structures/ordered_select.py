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
        for k in range(load_word(s + WORDS)):
            store_at(load_word(s + PICKED), k, ordered_null(s, k) if empty else 0)
        pick_each(s, 0, ordered_end(s), side, j, c, low, high, bounded, outside, empty)
        return
    end = ordered_end(s)
    total = ordered_total(s, j) - ordered_null(s, j)
    first, last = aggregated(s, 0, end, side, c)
    start, end = within(s, 0, end, 0, total, side, j, low, high, bounded)
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
def ordered_pick_run(s, p, q, side, j, c, low, high, bounded, outside, empty):
    """The same among positions p to q, by aggregates over these levels alone."""
    if ordered_negative(s) != 0:
        ordered_pick_none(s)
        pick_each(s, p, q, side, j, c, low, high, bounded, outside, empty)
        return
    first, last = aggregated(s, p, q, side, c)
    base, total = ordered_before(s, p, j), ordered_between(s, p, q, j)
    start, end = within(s, p, q, base, total, side, j, low, high, bounded)
    start = min(max(start, first), last)
    end = max(min(end, last), start)
    for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        picked = ordered_between(s, start, end, k)
        if outside or empty:
            some = ordered_between(s, first, last, k)
            if outside:
                picked = some - picked
            if empty:
                picked += ordered_between(s, p, q, k) - some
        store_at(load_word(s + PICKED), k, picked)


@structure
def aggregated(s, p, q, side, c):
    """The range of the levels from p to q that have an aggregate over these."""
    if c < 0:
        return p, q
    base, rows = ordered_before(s, p, c), ordered_between(s, p, q, c)
    if rows <= 0:
        return q, q
    if side == UPTO:
        return ordered_reach(s, c, base + 1), q
    if side == BELOW:
        return after(s, ordered_reach(s, c, base + 1)), q
    at = ordered_reach(s, c, base + rows)  # the last level that has a row
    return p, after(s, at) if side == FROM else at


@structure
def after(s, p):
    """The next position; the end stays the end."""
    return ordered_next(s, p) if p != ordered_end(s) else p


@structure
def within(s, p, q, base, total, side, j, low, high, bounded):
    """The range of the levels from p to q with low <= aggregate < high; no level is negative.

    Word j sums to `base` before p, and to `total` from p to q.
    """
    if low > total or (bounded and high <= 0):
        return q, q
    open_top = not bounded or high > total
    if side == UPTO:
        start = p if low <= 0 else ordered_reach(s, j, base + low)
        return start, q if open_top else ordered_reach(s, j, base + high)
    if side == BELOW:
        start = p if low <= 0 else after(s, ordered_reach(s, j, base + low))
        return start, q if open_top else after(s, ordered_reach(s, j, base + high))
    if side == FROM:
        start = p if open_top else after(s, ordered_reach(s, j, base + total - high + 1))
        return start, q if low <= 0 else after(s, ordered_reach(s, j, base + total - low + 1))
    start = p if open_top else ordered_reach(s, j, base + total - high + 1)
    return start, q if low <= 0 else ordered_reach(s, j, base + total - low + 1)


@structure
def pick_each(s, p, q, side, j, c, low, high, bounded, outside, empty):
    """Pick more among positions p to q, level by level: with a negative one aggregates fall too."""
    picked, first, words = load_word(s + PICKED), load_word(s + FIRST_RESULT), load_word(s + WORDS)
    keys = load_word(s + KEYS)
    all_rows = ordered_between(s, p, q, c) if c >= 0 else 1
    whole, below, rows_below = ordered_between(s, p, q, j), 0, 0
    while p < q:
        leaf = leaf_at(s, p)
        size = load_word(leaf)
        stop = q & 0xFFFF if p >> 16 == q >> 16 else size
        for i in range(p & 0xFFFF, stop):
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
        p = ordered_next(s, (p & ~0xFFFF) + size - 1) if stop == size else q


@structure
def aggregate_of(side, below, upto, whole):
    """The sum on one side of a level, from the sums below it, up to it and of all."""
    if side == UPTO:
        return upto
    if side == BELOW:
        return below
    return whole - below if side == FROM else whole - upto
