"""Which levels qualify: by their key, or by an aggregate over the levels up to them.

The aggregate of a level is the sum of a word over the levels on one side of it (`side`, see below).
While no level is negative in that word, aggregates rise or fall along the order, and what qualifies
is one range, found by two walks down the floors. Once a level is negative, whole groups and leaves
are judged by their hulls (`ordered_hulls`), and level by level those that lie across a bound.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.float_words import EXACT, HIGH, real_value
from viewmill.kernels.structures.floats import float_key, key_float, sort_word
from viewmill.kernels.structures.memory import load_word
from viewmill.kernels.structures.ordered import (
    group_at,
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
    ordered_word,
    real_between,
    real_reach,
    settled,
)
from viewmill.kernels.structures.ordered_hulls import know_group, know_leaf
from viewmill.kernels.structures.ordered_nodes import (
    FIRST_RESULT,
    FLOATS,
    GROUP,
    KEYS,
    LEAF,
    LEAST,
    MOST,
    NULLS,
    PICKED,
    SIGNED,
    TOP,
    TOP_ROOM,
    TOTALS,
    WORDS,
    array_of,
    kind_of,
)
from viewmill.kernels.structures.vectors import load_at, load_float_at, store_at, store_float_at

# Which levels a level's aggregate is over: those with keys <= its own, <, >=, >.
UPTO, BELOW, FROM, ABOVE = 0, 1, 2, 3
NONE, ALL, SOME = 0, 1, 2  # which levels of a node qualify


@structure
def ordered_picked(s, j):
    """Word j of the levels that the last selection picked."""
    return load_at(load_word(s + PICKED), j)


@structure
def ordered_picked_real(s, j):
    """Float word j of the levels that the last selection picked."""
    picked = load_word(s + PICKED)
    return real_value(load_float_at(picked, j), load_at(picked, j + 3))


@structure
def ordered_picked_finite(s, j):
    """Float word j of the picked levels, without NaN and infinities, which word j + 3 counts."""
    return load_float_at(load_word(s + PICKED), j)


@structure
def ordered_pick_none(s):
    """Pick no level."""
    for j in range(load_word(s + WORDS)):
        store_at(load_word(s + PICKED), j, 0)


@structure
def ordered_pick_all(s):
    """Pick every level, the one of NULL included."""
    picked, totals = load_word(s + PICKED), load_word(s + TOTALS)
    for j in range(load_word(s + WORDS)):
        store_at(picked, j, load_at(totals, j))
        if kind_of(s, j) == HIGH:
            store_float_at(picked, j, load_float_at(totals, j) + load_float_at(totals, j + 1))


@structure
def ordered_pick_keys(s, low, high, bounded, outside):
    """Pick the levels with low <= key < high (without upper bound if not `bounded`), or the others.

    The level of NULL is never picked.
    """
    start = ordered_from(s, (low,))
    end = ordered_from(s, (high,)) if bounded else ordered_end(s)
    end = max(start, end)
    if load_word(s + FLOATS) != 0:
        pick_ranges(s, 0, ordered_end(s), start, end, 0, ordered_end(s), outside, False)
        return
    pick_range(s, start, end)
    if outside:
        for j in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
            there = ordered_total(s, j) - ordered_null(s, j)
            store_at(load_word(s + PICKED), j, there - ordered_picked(s, j))


@structure
def pick_range(s, start, end):
    """Pick the levels from one position to another."""
    if load_word(s + FLOATS) != 0:
        ordered_pick_none(s)
        pick_more(s, start, end)
        return
    for j in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        store_at(load_word(s + PICKED), j, ordered_between(s, start, end, j))


@structure
def pick_more(s, start, end):
    """Pick the levels from one position to another besides what is picked."""
    picked = load_word(s + PICKED)
    for j in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        kind = kind_of(s, j)
        if kind == HIGH:
            x = load_float_at(picked, j) + real_between(s, start, end, j)
            store_float_at(picked, j, x)
        elif kind == EXACT:
            store_at(picked, j, load_at(picked, j) + ordered_between(s, start, end, j))


@structure
def pick_ranges(s, p, q, start, end, first, last, outside, empty):
    """Pick from start to end, or first to last without that if `outside`; if `empty`, from p to q
    what is not within first to last too. Ranges are added and never taken away: floats."""
    ordered_pick_none(s)
    if outside:
        pick_more(s, first, start)
        pick_more(s, end, last)
    else:
        pick_more(s, start, end)
    if empty:
        pick_more(s, p, first)
        pick_more(s, last, q)


@structure
def pick_null(s):
    """Pick the level of NULL besides what is picked."""
    picked, nulls = load_word(s + PICKED), load_word(s + NULLS)
    for j in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        kind = kind_of(s, j)
        if kind == HIGH:
            x = load_float_at(nulls, j) + load_float_at(nulls, j + 1)
            store_float_at(picked, j, load_float_at(picked, j) + x)
        elif kind == EXACT:
            store_at(picked, j, load_at(picked, j) + load_at(nulls, j))


@structure
def ordered_pick(s, side, j, c, low, high, bounded, outside, empty):
    """Pick the levels whose aggregate a of word j has low <= a < high, or the others if `outside`.

    Word c counts the rows under the aggregate: where it is 0 there is no aggregate, and the level
    is picked if `empty`; so is the level of NULL. c = -1: every level has one, and NULL has 0.
    """
    end = ordered_end(s)
    if not is_monotone(s, 0, end, j):
        ordered_pick_none(s)
        pick_each(s, 0, end, side, j, c, low, high, bounded, outside, empty)
        if empty:
            pick_null(s)
        return
    first, last = aggregated(s, 0, end, side, c)
    if load_word(s + FLOATS) != 0:
        start, stop = within_any(s, 0, end, side, j, low, high, bounded, first, last)
        pick_ranges(s, 0, end, start, stop, first, last, outside, empty)
        if empty:
            pick_null(s)
        return
    total = ordered_total(s, j) - ordered_null(s, j)
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
def is_monotone(s, p, q, j):
    """Whether sums of word j rise along the order: no level is negative, or not finite."""
    if ordered_negative(s) != 0:
        return False
    return kind_of(s, j) == EXACT or ordered_between(s, p, q, j + 3) == 0


@structure
def within_any(s, p, q, side, j, low, high, bounded, first, last):
    """The range of the levels with low <= aggregate < high among those from first to last."""
    if kind_of(s, j) == EXACT:
        base, total = ordered_before(s, p, j), ordered_between(s, p, q, j)
        start, end = within(s, p, q, base, total, side, j, low, high, bounded)
    else:
        start, end = within_reals(s, p, q, side, j, low, high, bounded)
    start = min(max(start, first), last)
    return start, max(min(end, last), start)


@structure
def ordered_pick_run(s, p, q, side, j, c, low, high, bounded, outside, empty):
    """Pick the levels from p to q whose aggregate, over these levels alone, lies within bounds."""
    if not is_monotone(s, p, q, j):
        ordered_pick_none(s)
        pick_each(s, p, q, side, j, c, low, high, bounded, outside, empty)
        return
    first, last = aggregated(s, p, q, side, c)
    start, end = within_any(s, p, q, side, j, low, high, bounded, first, last)
    if load_word(s + FLOATS) != 0:
        pick_ranges(s, p, q, start, end, first, last, outside, empty)
        return
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
    if side == UPTO and p < q and ordered_word(s, p, c) > 0:  # as it is most often
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
def within_reals(s, p, q, side, j, low, high, bounded):
    """`within` for a float word; bounds are words that compare as floats do (`real_order`)."""
    total = real_between(s, p, q, j)
    whole = real_order(total)
    if low > whole or (bounded and high <= 0):
        return q, q
    open_top = not bounded or high > whole
    if side in (UPTO, BELOW):
        start = p if low <= 0 else real_reach(s, p, q, j, order_real(low))
        end = q if open_top else real_reach(s, p, q, j, order_real(high))
        if side == BELOW:
            return p if low <= 0 else step(s, start, q), q if open_top else step(s, end, q)
        return start, end
    start = p if open_top else real_reach(s, p, q, j, next_real(total - order_real(high)))
    end = q if low <= 0 else real_reach(s, p, q, j, next_real(total - order_real(low)))
    if side == FROM:
        return p if open_top else step(s, start, q), q if low <= 0 else step(s, end, q)
    return start, end


@structure
def step(s, p, q):
    """The next position, at most q."""
    return ordered_next(s, p) if p < q else q


@structure
def real_order(x):
    """A word that compares as the float does: NaN is the largest, -0.0 is 0.0."""
    return sort_word(float_key(x))


@structure
def order_real(word):
    """The float of such a word."""
    return key_float(sort_word(word))


@structure
def next_real(x):
    """The next larger float."""
    return order_real(real_order(x) + 1)


@structure
def pick_each(s, p, q, side, j, c, low, high, bounded, outside, empty):
    """Pick more among positions p to q: with a negative level aggregates fall too."""
    rows, rows_below = ordered_between(s, p, q, c) if c >= 0 else 1, 0
    whole, below = ordered_between(s, p, q, j), 0
    if kind_of(s, j) != EXACT or j != load_word(s + SIGNED):
        pick_levels(
            s, p, q, side, j, c, whole, 0, rows, 0, low, high, bounded, outside, empty
        )  # fmt: skip
        return
    run = -1  # where those begin that are picked together
    while p < q:
        end, here, rows_here, verdict = judge_nodes(
            s, p, q, side, j, c, whole, below, rows, rows_below, low, high, bounded, outside
        )
        if run >= 0 and verdict != ALL:
            pick_more(s, run, p)
            run = -1
        if verdict == ALL and run < 0:
            run = p
        elif verdict == SOME:
            pick_levels(
                s, p, end, side, j, c, whole, below, rows, rows_below, low, high, bounded, outside,
                empty,
            )  # fmt: skip
        below += here
        rows_below += rows_here
        p = end
    if run >= 0:
        pick_more(s, run, q)


@structure
def judge_nodes(
    s, p, q, side, j, c, whole, below, rows, rows_below, low, high, bounded, outside
):  # fmt: skip
    """The end of the next group, leaf or part of a leaf, its sums, and which of it qualifies."""
    keys, i, n = load_word(s + KEYS), p >> 32, (p >> 16) & 0xFFFF
    group, rows_here, verdict = group_at(s, p), 0, SOME
    if p & 0xFFFFFFFF == 0 and i < q >> 32:
        top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
        here = load_at(array_of(top, room, keys + 1 + j), i)
        if c >= 0:
            rows_here = load_at(array_of(top, room, keys + 1 + c), i)
        know_group(s, group)
        if has_rows(side, c, rows, rows_below, rows_here):
            verdict = verdict_of(group, side, whole, below, low, high, bounded, outside)
        if verdict != SOME:
            return (i + 1) << 32, here, rows_here, verdict
    leaf = load_at(array_of(group, GROUP, keys), n)
    if p & 0xFFFF != 0 or p >> 16 == q >> 16:
        end = q if p >> 16 == q >> 16 else settled(s, i, n, load_word(leaf))
        if c >= 0:
            rows_here = ordered_between(s, p, end, c)
        return end, ordered_between(s, p, end, j), rows_here, SOME
    here = load_at(array_of(group, GROUP, keys + 1 + j), n)
    rows_here = load_at(array_of(group, GROUP, keys + 1 + c), n) if c >= 0 else 0
    know_leaf(s, leaf)
    if has_rows(side, c, rows, rows_below, rows_here):
        verdict = verdict_of(leaf, side, whole, below, low, high, bounded, outside)
    return settled(s, i, n, load_word(leaf)), here, rows_here, verdict


@structure
def has_rows(side, c, rows, rows_below, rows_here):
    """Whether every level of a node surely has an aggregate."""
    if c < 0:
        return True
    return rows_below > 0 if side <= BELOW else rows - rows_below - rows_here > 0


@structure
def verdict_of(node, side, whole, below, low, high, bounded, outside):
    """Which levels of a node qualify, as far as its hull says."""
    least, most = below + load_word(node + LEAST), below + load_word(node + MOST)
    if side > BELOW:
        least, most = whole - most, whole - least
    if low <= least and (not bounded or most < high):
        return NONE if outside else ALL
    if most < low or (bounded and least >= high):
        return ALL if outside else NONE
    return SOME


@structure
def pick_levels(
    s, p, q, side, j, c, whole, below, all_rows, rows_below, low, high, bounded, outside, empty
):  # fmt: skip
    """Pick more among positions p to q, level by level; `below` is what lies before them."""
    keys = load_word(s + KEYS)
    is_real = kind_of(s, j) != EXACT
    odd, odd_below, odd_upto = 0, 0, 0
    real, real_below, real_upto = 0.0, 0.0, 0.0
    if is_real:
        real, odd = real_between(s, p, q, j), ordered_between(s, p, q, j + 3)
    while p < q:
        leaf = leaf_at(s, p)
        size = load_word(leaf)
        stop, run = q & 0xFFFF if p >> 16 == q >> 16 else size, -1
        for i in range(p & 0xFFFF, stop):
            upto = below + load_at(array_of(leaf, LEAF, keys + j), i)
            rows_upto = rows_below
            if c >= 0:
                rows_upto += load_at(array_of(leaf, LEAF, keys + c), i)
            a = aggregate_of(side, below, upto, whole)
            if is_real:
                real_upto = real_below + load_float_at(array_of(leaf, LEAF, keys + j), i)
                odd_upto = odd_below + load_at(array_of(leaf, LEAF, keys + j + 3), i)
                x = aggregate_of(side, real_below, real_upto, real)
                a = real_order(real_value(x, aggregate_of(side, odd_below, odd_upto, odd)))
            rows = aggregate_of(side, rows_below, rows_upto, all_rows) if c >= 0 else 1
            qualifies = empty
            if rows != 0:
                qualifies = (low <= a and (not bounded or a < high)) != outside
            if qualifies and run < 0:
                run = i
            elif run >= 0 and not qualifies:
                pick_more(s, (p & ~0xFFFF) | run, (p & ~0xFFFF) | i)
                run = -1
            below, rows_below = upto, rows_upto
            real_below, odd_below = real_upto, odd_upto
        if run >= 0:
            pick_more(s, (p & ~0xFFFF) | run, (p & ~0xFFFF) | stop)
        p = ordered_next(s, (p & ~0xFFFF) + size - 1) if stop == size else q


@structure
def aggregate_of(side, below, upto, whole):
    """The sum on one side of a level, from the sums below it, up to it and of all."""
    if side == UPTO:
        return upto
    if side == BELOW:
        return below
    return whole - below if side == FROM else whole - upto
