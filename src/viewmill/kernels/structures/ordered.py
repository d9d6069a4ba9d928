"""Levels in the order of their key, each with payload words; sums over any range of them.

A level is made by its first change and dropped when all its words are zero. Rows whose key is NULL
are one level apart, which no range holds. Every change is noted, so that a rollback takes it back.

A position is one word: group, leaf and place in the leaf, in 32, 16 and 16 bits, so that positions
compare like the levels they stand for; it is good until the next change.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.float_words import (
    EXACT,
    HIGH,
    add_pair,
    is_below_zero,
    is_left,
    note_largest,
    real_value,
    scan_reals,
    sum_reals,
)
from viewmill.kernels.structures.memory import load_float, load_word, spill, store_word
from viewmill.kernels.structures.ordered_log import note
from viewmill.kernels.structures.ordered_nodes import (
    COUNTED,
    FLOATS,
    GROUP,
    HULL_KNOWN,
    KEYS,
    KINDS,
    LEAF,
    LEVELS,
    NEGATIVE,
    NULLS,
    SIGNED,
    STRAIN,
    TOP,
    TOP_ROOM,
    TOTALS,
    WORDS,
    array_of,
    close_gap,
    grow_top,
    is_key,
    keys_upto,
    kind_of,
    leaf_arrays,
    new_node,
    open_gap,
    set_entry,
    shrink,
    split_group,
    split_leaf,
)
from viewmill.kernels.structures.vectors import (
    load_at,
    load_float_at,
    scan_upto,
    store_at,
    sum_words,
)

_LOWEST = -(1 << 63)
_STRAIN_LIMIT = 1 << 54  # in units of 256: no sum of levels leaves 62 bits
_CARRIED = 2.0**-40  # the share of what floats weighed that is left exact: 2^-106 of it is lost


# Changes.


@structure
def ordered_add(s, key, words):
    """The level of a key += words; made if absent, dropped if zero."""
    at, change = spill(key), spill(words)
    add_level(s, at, change, 1)
    note(s, 0, at, change)


@structure
def ordered_add_null(s, words):
    """The level of rows whose key is NULL += words."""
    change = spill(words)
    add_null(s, change, 1)
    note(s, 1, change, change)


@structure
def add_null(s, change, sign):
    """The level of NULL keys += or -= the words at an address."""
    nulls = load_word(s + NULLS)
    for j in range(load_word(s + WORDS)):
        if kind_of(s, j) != EXACT:
            if kind_of(s, j) == HIGH:
                x = sign * load_float_at(change, j)
                add_pair(nulls + 8 * j, nulls + 8 * j + 8, x)
                add_total(s, j, x)
            continue
        x = sign * load_at(change, j)
        old = load_at(nulls, j)
        store_at(nulls, j, old + x)
        count_change(s, j, old, x)


@structure
def count_change(s, j, old, x):
    """Word j of some level goes from `old` to old + x."""
    totals, strain = load_word(s + TOTALS), load_word(s + STRAIN)
    store_at(totals, j, load_at(totals, j) + x)
    store_at(strain, j, load_at(strain, j) + (abs(old + x) >> 8) - (abs(old) >> 8))


@structure
def add_level(s, key, change, sign):
    """The level of the key at an address += the words at an address."""
    keys, words = load_word(s + KEYS), load_word(s + WORDS)
    i, group, j, leaf, p = place_of(s, key, keys, words)
    store_word(leaf + HULL_KNOWN, 0)
    store_word(group + HULL_KNOWN, 0)
    if load_word(s + FLOATS) != 0:
        add_floats(s, change, sign, i, group, j, leaf, p)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    signed, counted = load_word(s + SIGNED), load_word(s + COUNTED)
    left, floats, kinds = 0, load_word(s + FLOATS), load_word(s + KINDS)
    for k in range(words):
        if floats != 0 and load_at(kinds, k) != EXACT:
            continue
        x = sign * load_at(change, k)
        at = array_of(leaf, LEAF, keys + k)
        old = load_at(at, p)
        store_at(at, p, old + x)
        left |= old + x
        if x != 0:
            at = array_of(group, GROUP, keys + 1 + k)
            store_at(at, j, load_at(at, j) + x)
            at = array_of(top, room, keys + 1 + k)
            store_at(at, i, load_at(at, i) + x)
            count_change(s, k, old, x)
            if k in (signed, counted):
                turned = (1 if old + x < 0 else 0) - (1 if old < 0 else 0)
                store_word(s + NEGATIVE, load_word(s + NEGATIVE) + turned)
    if left == 0 and (floats == 0 or forget_floats(s, i, group, j, leaf, p)):
        close_gap(leaf, LEAF, keys + words, p)
        store_word(s + LEVELS, load_word(s + LEVELS) - 1)
        if load_word(leaf) < LEAF // 4:
            shrink(s, i, group, j, leaf)


@structure
def add_floats(s, change, sign, i, group, j, leaf, p):
    """The float words of the level at place p of leaf j of group i += those at an address."""
    keys, signed = load_word(s + KEYS), load_word(s + SIGNED)
    for k in range(load_word(s + WORDS)):
        if kind_of(s, k) == HIGH:
            x = sign * load_float_at(change, k)
            high = array_of(leaf, LEAF, keys + k) + 8 * p
            low = array_of(leaf, LEAF, keys + k + 1) + 8 * p
            largest = array_of(leaf, LEAF, keys + k + 2) + 8 * p
            old = load_float(high)
            before = is_below_zero(old, load_float(low), load_float(largest))
            add_pair(high, low, x)
            note_largest(largest, x, load_float(high))
            weigh(s, k, old, load_float(high))
            add_above(s, i, group, j, k, x)
            if k == signed:
                now = is_below_zero(load_float(high), load_float(low), load_float(largest))
                turned = (1 if now else 0) - (1 if before else 0)
                store_word(s + NEGATIVE, load_word(s + NEGATIVE) + turned)


@structure
def weigh(s, k, old, new):
    """Float word k of some level goes from `old` to `new`: what all levels weigh, and the most that
    they have."""
    weight = load_word(s + STRAIN) + 8 * k
    add_pair(weight, weight + 8, abs(new))
    add_pair(weight, weight + 8, -abs(old))
    note_largest(weight + 16, new, load_float(weight))


@structure
def add_above(s, i, group, j, k, x):
    """Float word k of leaf j of group i += x, in the group and above it."""
    keys, top, room = load_word(s + KEYS), load_word(s + TOP), load_word(s + TOP_ROOM)
    at = keys + 1 + k
    add_pair(array_of(group, GROUP, at) + 8 * j, array_of(group, GROUP, at + 1) + 8 * j, x)
    add_pair(array_of(top, room, at) + 8 * i, array_of(top, room, at + 1) + 8 * i, x)
    add_total(s, k, x)


@structure
def add_total(s, k, x):
    """Float word k of all levels += x."""
    totals = load_word(s + TOTALS)
    add_pair(totals + 8 * k, totals + 8 * k + 8, x)


@structure
def forget_floats(s, i, group, j, leaf, p):
    """Whether the floats of an empty level are what rounding left; that is then taken out."""
    keys, words = load_word(s + KEYS), load_word(s + WORDS)
    for k in range(words):
        if kind_of(s, k) == HIGH:
            high = load_float_at(array_of(leaf, LEAF, keys + k), p)
            low = load_float_at(array_of(leaf, LEAF, keys + k + 1), p)
            if not is_left(high, low, load_float_at(array_of(leaf, LEAF, keys + k + 2), p)):
                return False
    for k in range(words):
        if kind_of(s, k) == HIGH:
            high = load_float_at(array_of(leaf, LEAF, keys + k), p)
            low = load_float_at(array_of(leaf, LEAF, keys + k + 1), p)
            add_above(s, i, group, j, k, -high)
            add_above(s, i, group, j, k, -low)
            weigh(s, k, high, 0.0)
    return True


@structure
def place_of(s, key, keys, words):
    """Group, leaf and place of a key's level, which is made if absent."""
    if load_word(s + LEVELS) == 0:
        make_first(s)
    while True:
        top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
        i = max(keys_upto(top, room, key, keys) - 1, 0)
        group = load_at(array_of(top, room, keys), i)
        j = max(keys_upto(group, GROUP, key, keys) - 1, 0)
        leaf = load_at(array_of(group, GROUP, keys), j)
        p = keys_upto(leaf, LEAF, key, keys)
        if p > 0 and is_key(leaf, LEAF, p - 1, key, keys):
            return i, group, j, leaf, p - 1
        if load_word(leaf) < LEAF:
            make_level(s, leaf, p, key, keys, words)
            return i, group, j, leaf, p
        if load_word(group) == GROUP:
            split_group(s, i)
        else:
            split_leaf(s, group, j)


@structure
def make_level(s, leaf, p, key, keys, words):
    """An empty level at place p of a leaf."""
    open_gap(leaf, LEAF, keys + words, p)
    for k in range(keys):
        store_at(array_of(leaf, LEAF, k), p, load_at(key, k))
    for k in range(words):
        store_at(array_of(leaf, LEAF, keys + k), p, 0)
    store_word(s + LEVELS, load_word(s + LEVELS) + 1)


@structure
def make_first(s):
    """One group with one empty leaf, where there is none."""
    if load_word(s + TOP_ROOM) == 0:
        grow_top(s)
    top, room, arrays = load_word(s + TOP), load_word(s + TOP_ROOM), leaf_arrays(s)
    if load_word(top) == 0:
        keys = load_word(s + KEYS)
        group, leaf = new_node(s, GROUP, arrays + 1), new_node(s, LEAF, arrays)
        store_word(group, 1)
        set_entry(s, group, GROUP, 0, leaf, LEAF, keys)
        store_word(top, 1)
        set_entry(s, top, room, 0, group, GROUP, keys + 1)
        for k in range(keys):  # the new leaf has no key yet
            store_at(array_of(group, GROUP, k), 0, _LOWEST)
            store_at(array_of(top, room, k), 0, _LOWEST)


# Sums.


@structure
def ordered_total(s, j):
    """Word j of all levels, the one of NULL included."""
    return load_at(load_word(s + TOTALS), j)


@structure
def ordered_total_real(s, j):
    """Float word j of all levels."""
    totals = load_word(s + TOTALS)
    special = ordered_total(s, j + 3)
    return real_value(load_float_at(totals, j) + load_float_at(totals, j + 1), special)


@structure
def ordered_null(s, j):
    """Word j of the level of NULL."""
    return load_at(load_word(s + NULLS), j)


@structure
def ordered_strained(s):
    """Whether some sum of levels could leave 64 bits, or two floats do not carry what is left of
    floats that were much larger."""
    strain, floats = load_word(s + STRAIN), load_word(s + FLOATS)
    for j in range(load_word(s + WORDS)):
        kind = EXACT if floats == 0 else kind_of(s, j)
        if kind == HIGH:
            if load_float_at(strain, j) < _CARRIED * load_float_at(strain, j + 2):
                if load_word(s + LEVELS) != 0:
                    return True
                for i in range(3):
                    store_at(strain, j + i, 0)
        elif kind == EXACT and load_at(strain, j) + load_word(s + LEVELS) >= _STRAIN_LIMIT:
            return True
    return False


@structure
def ordered_negative(s):
    """How many levels are negative in a word that the state watches, once for each word."""
    return load_word(s + NEGATIVE)


@structure
def ordered_size(s):
    """How many levels there are, the one of NULL not counted."""
    return load_word(s + LEVELS)


@structure
def ordered_end(s):
    """The position behind the last level."""
    top = load_word(s + TOP)
    return load_word(top) << 32 if top != 0 else 0


@structure
def group_at(s, p):
    """The group of a position."""
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    return load_at(array_of(top, room, load_word(s + KEYS)), p >> 32)


@structure
def leaf_at(s, p):
    """The leaf of a position."""
    return load_at(array_of(group_at(s, p), GROUP, load_word(s + KEYS)), (p >> 16) & 0xFFFF)


@structure
def ordered_before(s, p, j):
    """The sum of word j over the levels before position p."""
    if p == 0:
        return 0
    keys = load_word(s + KEYS)
    i = p >> 32
    if p == ordered_end(s):
        return ordered_total(s, j) - ordered_null(s, j)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    total = sum_words(array_of(top, room, keys + 1 + j), 0, i)
    group = load_at(array_of(top, room, keys), i)
    n = (p >> 16) & 0xFFFF
    total += sum_words(array_of(group, GROUP, keys + 1 + j), 0, n)
    leaf = load_at(array_of(group, GROUP, keys), n)
    return total + sum_words(array_of(leaf, LEAF, keys + j), 0, p & 0xFFFF)


@structure
def ordered_between(s, p, q, j):
    """The sum of word j over the levels from position p to q."""
    if p >= q:
        return 0
    if p >> 32 != q >> 32 or p == 0:
        return ordered_before(s, q, j) - ordered_before(s, p, j)
    keys, group = load_word(s + KEYS), group_at(s, p)
    first, last = (p >> 16) & 0xFFFF, (q >> 16) & 0xFFFF
    leaf = load_at(array_of(group, GROUP, keys), first)
    if first == last:
        return sum_words(array_of(leaf, LEAF, keys + j), p & 0xFFFF, q & 0xFFFF)
    total = sum_words(array_of(leaf, LEAF, keys + j), p & 0xFFFF, load_word(leaf))
    total += sum_words(array_of(group, GROUP, keys + 1 + j), first + 1, last)
    leaf = load_at(array_of(group, GROUP, keys), last)
    return total + sum_words(array_of(leaf, LEAF, keys + j), 0, q & 0xFFFF)


@structure
def real_between(s, p, q, j):
    """The sum of float word j over the levels from position p to q; nothing is taken away."""
    if p >= q:
        return 0.0
    keys, i, k = load_word(s + KEYS), p >> 32, q >> 32
    if i == k:
        group = group_at(s, p)
        first, last = (p >> 16) & 0xFFFF, (q >> 16) & 0xFFFF
        if first == last:
            leaf = load_at(array_of(group, GROUP, keys), first)
            return sum_reals(array_of(leaf, LEAF, keys + j), p & 0xFFFF, q & 0xFFFF)
        total = sum_reals(array_of(group, GROUP, keys + 1 + j), first + 1, last)
        return total + real_tail(s, group, p, j) + real_head(s, group, q, j)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    total = sum_reals(array_of(top, room, keys + 1 + j), i + 1, k)
    group = group_at(s, p)
    n = (p >> 16) & 0xFFFF
    total += sum_reals(array_of(group, GROUP, keys + 1 + j), n + 1, load_word(group))
    total += real_tail(s, group, p, j)
    if q & 0xFFFFFFFF != 0:
        group = group_at(s, q)
        total += sum_reals(array_of(group, GROUP, keys + 1 + j), 0, (q >> 16) & 0xFFFF)
        total += real_head(s, group, q, j)
    return total


@structure
def real_tail(s, group, p, j):
    """Float word j from position p to the end of its leaf."""
    keys = load_word(s + KEYS)
    leaf = load_at(array_of(group, GROUP, keys), (p >> 16) & 0xFFFF)
    return sum_reals(array_of(leaf, LEAF, keys + j), p & 0xFFFF, load_word(leaf))


@structure
def real_head(s, group, q, j):
    """Float word j from the begin of its leaf to position q."""
    if q & 0xFFFF == 0:
        return 0.0
    keys = load_word(s + KEYS)
    leaf = load_at(array_of(group, GROUP, keys), (q >> 16) & 0xFFFF)
    return sum_reals(array_of(leaf, LEAF, keys + j), 0, q & 0xFFFF)


# Positions.


@structure
def settled(s, i, j, p):
    """The position of place p in leaf j of group i, or where the next leaf begins."""
    top = load_word(s + TOP)
    if i >= load_word(top):
        return load_word(top) << 32
    at = (i << 32) | (j << 16)
    group = group_at(s, at)
    if j >= load_word(group) or (p >= load_word(leaf_at(s, at)) and j + 1 >= load_word(group)):
        return (i + 1) << 32
    return at | p if p < load_word(leaf_at(s, at)) else at + (1 << 16)


@structure
def ordered_next(s, p):
    """The position after p, which is not the end."""
    return settled(s, p >> 32, (p >> 16) & 0xFFFF, (p & 0xFFFF) + 1)


@structure
def ordered_word(s, p, j):
    """Word j of the level at p."""
    return load_at(array_of(leaf_at(s, p), LEAF, load_word(s + KEYS) + j), p & 0xFFFF)


@structure
def ordered_key(s, p, j):
    """Word j of the key of the level at p."""
    return load_at(array_of(leaf_at(s, p), LEAF, j), p & 0xFFFF)


@structure
def ordered_from(s, key):
    """The first position whose key is at least `key`."""
    return position_of(s, spill(key), len(key), False)


@structure
def ordered_after(s, key):
    """The first position whose key is larger than `key`."""
    return position_of(s, spill(key), len(key), True)


@structure
def position_of(s, key, keys, after):
    """Both, by the key's address."""
    if load_word(s + LEVELS) == 0:
        return 0
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    i = max(keys_upto(top, room, key, keys) - 1, 0)
    group = load_at(array_of(top, room, keys), i)
    j = max(keys_upto(group, GROUP, key, keys) - 1, 0)
    leaf = load_at(array_of(group, GROUP, keys), j)
    p = keys_upto(leaf, LEAF, key, keys)
    if not after and p > 0 and is_key(leaf, LEAF, p - 1, key, keys):
        p -= 1
    return settled(s, i, j, p)


@structure
def ordered_reach(s, j, goal):
    """The first position up to which, it included, word j sums to at least `goal`.

    No level is negative in word j. The end if the sum of all is less.
    """
    if load_word(s + LEVELS) == 0:
        return 0
    if goal <= 0:
        return 0
    top, room, keys = load_word(s + TOP), load_word(s + TOP_ROOM), load_word(s + KEYS)
    i, running = scan_upto(array_of(top, room, keys + 1 + j), load_word(top), goal, 0)
    if i == load_word(top):
        return i << 32
    group = load_at(array_of(top, room, keys), i)
    n, running = scan_upto(array_of(group, GROUP, keys + 1 + j), load_word(group), goal, running)
    leaf = load_at(array_of(group, GROUP, keys), n)
    p, running = scan_upto(array_of(leaf, LEAF, keys + j), load_word(leaf), goal, running)
    return (i << 32) | (n << 16) | p


@structure
def real_reach(s, p, q, j, goal):
    """The first position from p up to which float word j sums to at least `goal`; q if none is."""
    if p >= q:
        return q
    keys, i, n, running = load_word(s + KEYS), p >> 32, (p >> 16) & 0xFFFF, 0.0
    if p & 0xFFFF != 0:
        leaf = leaf_at(s, p)
        at, running = scan_reals(
            array_of(leaf, LEAF, keys + j), p & 0xFFFF, load_word(leaf), goal, 0.0
        )
        if at < load_word(leaf):
            return min(q, (i << 32) | (n << 16) | at)
        n += 1
    if n != 0:
        group = group_at(s, p)
        sums, size = array_of(group, GROUP, keys + 1 + j), load_word(group)
        n, running = scan_reals(sums, n, size, goal, running)
        if n < size:
            return min(q, reach_leaf(s, i, n, j, goal, running))
        i += 1
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    i, running = scan_reals(array_of(top, room, keys + 1 + j), i, load_word(top), goal, running)
    if i >= load_word(top):
        return q
    group = load_at(array_of(top, room, keys), i)
    sums, size = array_of(group, GROUP, keys + 1 + j), load_word(group)
    n, running = scan_reals(sums, 0, size, goal, running)
    if n == size:
        return min(q, (i + 1) << 32)
    return min(q, reach_leaf(s, i, n, j, goal, running))


@structure
def reach_leaf(s, i, n, j, goal, running):
    """Where the sum reaches the goal within leaf n of group i, where it does but for rounding."""
    keys = load_word(s + KEYS)
    leaf = leaf_at(s, (i << 32) | (n << 16))
    at, _ = scan_reals(array_of(leaf, LEAF, keys + j), 0, load_word(leaf), goal, running)
    return settled(s, i, n, at)
