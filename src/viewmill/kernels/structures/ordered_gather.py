"""Picking within the groups of one ordered state by aggregates that another one holds.

`ordered_aim` turns a selection into bounds on keys: a level x qualifies if from <= x < to, among
those that have an aggregate at all: first <= x < last. A bound that is not there is the lowest or
the highest word. When a level of `by` is negative there are no such bounds, and each x is judged.
What was gathered of a group is kept by `ordered_groups`.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.float_words import EXACT, real_value
from viewmill.kernels.structures.memory import load_word, spill
from viewmill.kernels.structures.ordered import (
    leaf_at,
    ordered_after,
    ordered_before,
    ordered_between,
    ordered_end,
    ordered_from,
    ordered_key,
    ordered_next,
    ordered_null,
    ordered_reach,
    ordered_total,
    position_of,
    real_between,
    real_reach,
)
from viewmill.kernels.structures.ordered_nodes import (
    AIM,
    FIRST_RESULT,
    FLOATS,
    KEY_ROOM,
    KEYS,
    LEAF,
    PICKED,
    WORDS,
    array_of,
    kind_of,
)
from viewmill.kernels.structures.ordered_select import (
    ABOVE,
    BELOW,
    FROM,
    UPTO,
    aggregate_of,
    is_monotone,
    next_real,
    order_real,
    ordered_pick_none,
    pick_more,
    pick_range,
    pick_ranges,
    real_order,
)
from viewmill.kernels.structures.vectors import load_at, store_at

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
# Within AIM, by word.
_FROM, _TO, _FIRST, _LAST = 0, 1, 2, 3
_SIDE, _J, AIMED_C, _LOW, _HIGH, _BOUNDED = 4, 5, 6, 7, 8, 9
AIMED_OUTSIDE, AIMED_EMPTY, AIMED_EACH = 10, 11, 12


@structure
def copied_key(s, p):
    """The key at p, in the state's room for one."""
    leaf, at = leaf_at(s, p), p & 0xFFFF
    for j in range(load_word(s + KEYS)):
        store_at(s + KEY_ROOM, j, load_at(array_of(leaf, LEAF, j), at))
    return s + KEY_ROOM


@structure
def ordered_aim(s, side, j, c, low, high, bounded, outside, empty):
    """Note which keys would qualify."""
    noted = spill((side, j, c, low, high, bounded, outside, empty))
    for i in range(8):
        store_at(s + AIM, _SIDE + i, load_at(noted, i))
    store_at(s + AIM, AIMED_EACH, 0 if is_monotone(s, 0, ordered_end(s), j) else 1)
    if load_at(s + AIM, AIMED_EACH) != 0:
        return
    note_aggregated(s, side, c)
    if kind_of(s, j) != EXACT:
        aim_real(s, side, j, low, high, bounded)
        return
    total = ordered_total(s, j) - ordered_null(s, j)
    start, end = _LOWEST, _HIGHEST
    if low > total or (bounded and high <= 0):
        start, end = 0, 0
    elif side in (UPTO, BELOW):
        if low > 0:
            start = turn(s, side, j, low)
        if bounded and high <= total:
            end = turn(s, side, j, high)
    else:
        if low > 0:
            end = turn(s, side, j, total - low + 1)
        if bounded and high <= total:
            start = turn(s, side, j, total - high + 1)
    store_at(s + AIM, _FROM, start)
    store_at(s + AIM, _TO, end)


@structure
def aim_real(s, side, j, low, high, bounded):
    """Note which keys would qualify by a float word."""
    end = ordered_end(s)
    total = real_between(s, 0, end, j)
    whole, start, stop = real_order(total), _LOWEST, _HIGHEST
    has_high = bounded and high <= whole
    if low > whole or (bounded and high <= 0):
        start, stop = 0, 0
    elif side in (UPTO, BELOW):
        if low > 0:
            start = turn_at(s, side, real_reach(s, 0, end, j, order_real(low)))
        if has_high:
            stop = turn_at(s, side, real_reach(s, 0, end, j, order_real(high)))
    else:
        if low > 0:
            goal = next_real(total - order_real(low))
            stop = turn_at(s, side, real_reach(s, 0, end, j, goal))
        if has_high:
            goal = next_real(total - order_real(high))
            start = turn_at(s, side, real_reach(s, 0, end, j, goal))
    store_at(s + AIM, _FROM, start)
    store_at(s + AIM, _TO, stop)


@structure
def note_aggregated(s, side, c):
    """Note which keys have an aggregate."""
    first, last = _LOWEST, _HIGHEST
    if c >= 0:
        rows = ordered_total(s, c) - ordered_null(s, c)
        if rows <= 0:
            first, last = 0, 0
        elif side in (UPTO, BELOW):
            first = turn(s, side, c, 1)
        else:
            last = turn(s, side, c, rows)
    store_at(s + AIM, _FIRST, first)
    store_at(s + AIM, _LAST, last)


@structure
def turn(s, side, j, goal):
    """The first key that has word j summed up to `goal` below it, itself counted or not."""
    return turn_at(s, side, ordered_reach(s, j, goal))


@structure
def turn_at(s, side, p):
    """The first key that has the level at p below it, itself counted or not; none at the end."""
    if p == ordered_end(s):
        return _HIGHEST
    key = load_at(array_of(leaf_at(s, p), LEAF, 0), p & 0xFFFF)
    return key if side in (UPTO, ABOVE) else key + 1


@structure
def from_level(s, key, x, p, q):
    """The first position from p to q whose level is at least x."""
    if x == _LOWEST:
        return p
    if x == _HIGHEST:
        return q
    keys = load_word(s + KEYS)
    store_at(key, keys - 1, x)
    return position_of(s, key, keys, False)


@structure
def gather_run(s, by, p, q):
    """Pick among positions p to q, which are one run, as aimed in `by`."""
    aim = by + AIM
    outside, empty = load_at(aim, AIMED_OUTSIDE), load_at(aim, AIMED_EMPTY)
    if p == q:
        ordered_pick_none(s)
        return
    if load_at(aim, AIMED_EACH) != 0:
        gather_each(s, by, p, q)
        return
    key = copied_key(s, p)
    start = from_level(s, key, load_at(aim, _FROM), p, q)
    end = from_level(s, key, load_at(aim, _TO), p, q)
    first, last = p, q
    if load_at(aim, AIMED_C) >= 0:
        first = from_level(s, key, load_at(aim, _FIRST), p, q)
        last = max(from_level(s, key, load_at(aim, _LAST), p, q), first)
        start = min(max(start, first), last)
        end = min(end, last)
    end = max(start, end)
    if load_word(s + FLOATS) != 0:
        pick_ranges(s, p, q, start, end, first, last, outside, empty)
        return
    pick_range(s, start, end)
    if outside or empty:
        for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
            picked = load_at(load_word(s + PICKED), k)
            some = ordered_between(s, first, last, k)
            if outside:
                picked = some - picked
            if empty:
                picked += ordered_between(s, p, q, k) - some
            store_at(load_word(s + PICKED), k, picked)


@structure
def gather_each(s, by, p, q):
    """Pick the levels whose key is aimed at, testing one by one."""
    ordered_pick_none(s)
    while p != q:
        if is_aimed(by, ordered_key(s, p, load_word(s + KEYS) - 1)):
            pick_more(s, p, p + 1)
        p = ordered_next(s, p)


@structure
def is_aimed(s, x):
    """Whether a level x, that need not be there, would be picked."""
    aim = s + AIM
    side, j, c = load_at(aim, _SIDE), load_at(aim, _J), load_at(aim, AIMED_C)
    at, behind = ordered_from(s, (x,)), ordered_after(s, (x,))
    if c >= 0:
        whole = ordered_total(s, c) - ordered_null(s, c)
        rows = aggregate_of(side, ordered_before(s, at, c), ordered_before(s, behind, c), whole)
        if rows == 0:
            return load_at(aim, AIMED_EMPTY) != 0
    a = word_aimed(s, side, j, at, behind)
    if kind_of(s, j) != EXACT:
        end, odd = ordered_end(s), word_aimed(s, side, j + 3, at, behind)
        # What lies on that side is added up: the whole without the rest would round otherwise.
        first, last = 0, behind
        if side == BELOW:
            last = at
        elif side != UPTO:
            first, last = at if side == FROM else behind, end
        a = real_order(real_value(real_between(s, first, last, j), odd))
    inside = load_at(aim, _LOW) <= a and (load_at(aim, _BOUNDED) == 0 or a < load_at(aim, _HIGH))
    return inside != (load_at(aim, AIMED_OUTSIDE) != 0)


@structure
def word_aimed(s, side, j, at, behind):
    """The sum of word j on one side of a level that lies from `at` to `behind`."""
    whole = ordered_total(s, j) - ordered_null(s, j)
    return aggregate_of(side, ordered_before(s, at, j), ordered_before(s, behind, j), whole)


@structure
def ordered_gather_keys(s, p, q, low, high, bounded, outside):
    """Pick among positions p to q, which are one run, by the level."""
    if p == q:
        ordered_pick_none(s)
        return
    key = copied_key(s, p)
    start = from_level(s, key, low, p, q)
    end = from_level(s, key, high, p, q) if bounded else q
    end = max(start, end)
    if load_word(s + FLOATS) != 0:
        pick_ranges(s, p, q, start, end, p, q, outside, False)
        return
    pick_range(s, start, end)
    if outside:
        for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
            all_ = ordered_between(s, p, q, k)
            store_at(load_word(s + PICKED), k, all_ - load_at(load_word(s + PICKED), k))
