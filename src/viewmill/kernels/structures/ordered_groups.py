"""What was picked in each group of an ordered state, remembered until it may be something else.

record   STALE, the words of the group's key, eight guards, FLAGS, the picked words

A group's picks change when one of its levels does, which the log tells, or when a bound moves past
one of them: guards 2i and 2i + 1 are how far bound i may move without passing any. So a change of
one row gathers the groups next to the bound and its own, and reads what is noted of the others.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import out_of_line
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.kernels.structures.ordered import (
    leaf_at,
    ordered_end,
    ordered_key,
    position_of,
)
from viewmill.kernels.structures.ordered_gather import (
    AIMED_C,
    AIMED_EACH,
    AIMED_EMPTY,
    AIMED_OUTSIDE,
    gather_run,
    ordered_gather_keys,
)
from viewmill.kernels.structures.ordered_nodes import (
    AIM,
    FIRST_RESULT,
    GROUPS,
    GROUPS_COUNT,
    GROUPS_KNOWN,
    GROUPS_LEFT,
    GROUPS_ROOM,
    GROUPS_SEEN,
    KEY_ROOM,
    KEYS,
    LEAF,
    LOG,
    LOG_SIZE,
    NOTED,
    NOTED_KNOWN,
    NULL_WORD,
    PICKED,
    WORDS,
    array_of,
    grow_records,
)
from viewmill.kernels.structures.ordered_select import ordered_pick_none, pick_more
from viewmill.kernels.structures.vectors import load_at, move_words, store_at

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_FRESH, _STALE, _LEFT = 0, 1, 2  # LEFT: no level of it is there any more, as was noted
_GUARDS = 8


@structure
def record_words(s):
    """How long a record is."""
    return load_word(s + KEYS) + _GUARDS + 1 + load_word(s + WORDS)


@structure
def group_record(s, t):
    """The address of record t."""
    return load_word(s + GROUPS) + 8 * t * record_words(s)


@structure
def ordered_group_key(s, t, j):
    """Word j of the key of group t; the bit that says whether its level is NULL is 0."""
    return load_at(group_record(s, t), 1 + j)


@structure
def ordered_groups(s):
    """Note which groups changed since the last call; how many there are."""
    if load_word(s + GROUPS_LEFT) != 0:
        forget_left(s)
    seen, size = load_word(s + GROUPS_SEEN), load_word(s + LOG_SIZE)
    if load_word(s + GROUPS_KNOWN) != 0:
        if size - seen > 16 + (load_word(s + GROUPS_COUNT) >> 2):
            for t in range(load_word(s + GROUPS_COUNT)):
                store_word(group_record(s, t), _STALE)
            add_groups(s)
        else:
            width = 8 * (1 + load_word(s + KEYS) + load_word(s + WORDS))
            for i in range(seen, size):
                note_group(s, load_word(s + LOG) + i * width + 8)
    store_word(s + GROUPS_SEEN, size)
    return load_word(s + GROUPS_COUNT)


@structure
def ordered_regroup(s):
    """Whether nothing was known of the groups: they are now listed, and none is gathered."""
    if load_word(s + GROUPS_KNOWN) != 0:
        return False
    store_word(s + GROUPS_COUNT, 0)
    store_word(s + GROUPS_LEFT, 0)
    add_groups(s)
    store_word(s + GROUPS_KNOWN, 1)
    store_word(s + GROUPS_SEEN, load_word(s + LOG_SIZE))
    return True


@structure
def add_groups(s):
    """Note every group that is there."""
    out_of_line()
    p, keys = 0, load_word(s + KEYS)
    while p != ordered_end(s):
        leaf, at = leaf_at(s, p), p & 0xFFFF
        for j in range(keys):
            store_at(s + KEY_ROOM, j, load_at(array_of(leaf, LEAF, j), at))
        note_group(s, s + KEY_ROOM)
        store_at(s + KEY_ROOM, keys - 1, _HIGHEST)
        p = position_of(s, s + KEY_ROOM, keys, True)


@structure
def masked(s, j, word):
    """Word j of a key without the bit that says that the level is NULL."""
    return word & ~1 if j == load_word(s + NULL_WORD) else word


@structure
def note_group(s, key):
    """The group of the key at an address changed."""
    words, count = load_word(s + KEYS) - 1, load_word(s + GROUPS_COUNT)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        record, order = group_record(s, middle), 0
        for j in range(words):
            a, b = load_at(record, 1 + j), masked(s, j, load_at(key, j))
            if a != b:
                order = 1 if a < b else -1
                break
        if order == 0:
            store_word(record, _STALE)
            return
        if order > 0:
            low = middle + 1
        else:
            high = middle
    add_record(s, low, key, words)


@structure
def add_record(s, t, key, words):
    """A record for a new group at place t: nothing is picked in it yet."""
    out_of_line()
    count, size = load_word(s + GROUPS_COUNT), record_words(s)
    if count == load_word(s + GROUPS_ROOM):
        grow_records(s, GROUPS, GROUPS_ROOM, 8 * record_words(s), 16)
    record = group_record(s, t)
    move_words(record + 8 * size, record, (count - t) * size)
    for j in range(size):
        store_at(record, j, 0)
    store_word(record, _STALE)
    for j in range(words):
        store_at(record, 1 + j, masked(s, j, load_at(key, j)))
    store_word(s + GROUPS_COUNT, count + 1)


@structure
def forget_left(s):
    """Drop the records of groups of which no level is left."""
    out_of_line()
    size, kept = record_words(s), 0
    for t in range(load_word(s + GROUPS_COUNT)):
        if load_word(group_record(s, t)) != _LEFT:
            if kept != t:
                move_words(group_record(s, kept), group_record(s, t), size)
            kept += 1
    store_word(s + GROUPS_COUNT, kept)
    store_word(s + GROUPS_LEFT, 0)


# Picks.


@structure
def ordered_regather(s, by, t):
    """Pick in group t as aimed in `by`; whether that is something else than before."""
    aim, record = by + AIM, group_record(s, t)
    flags = 1 + load_at(aim, AIMED_OUTSIDE) + 2 * load_at(aim, AIMED_EMPTY)
    if load_at(aim, AIMED_C) >= 0:
        flags += 4
    each = load_at(aim, AIMED_EACH) != 0
    if not each and is_fresh(s, record, flags):
        bounds = 4 if flags > 4 else 2
        if is_guarded(s, record, aim, bounds):
            return recall(s, record)
    p, m, q = group_range(s, record)
    gather_run(s, by, p, m)
    if m < q and load_at(aim, AIMED_EMPTY) != 0:
        pick_more(s, m, q)
    if not each:
        for i in range(4 if flags > 4 else 2):
            guard(s, record, i, load_at(aim, i), p, m)
    return remember(s, record, 0 if each else flags, p == q)


@structure
def ordered_regather_keys(s, t, low, high, bounded, outside, is_none):
    """Pick the levels of a group between two keys; nothing if `is_none`."""
    record = group_record(s, t)
    flags = 1 + (1 if outside else 0) + (2 if bounded else 0) + (4 if is_none else 0)
    if is_fresh(s, record, flags) and (
        is_none or (is_within(s, record, 0, low) and (not bounded or is_within(s, record, 1, high)))
    ):
        return recall(s, record)
    p, m, q = group_range(s, record)
    if is_none:
        ordered_pick_none(s)
    else:
        ordered_gather_keys(s, p, m, low, high, bounded, outside)
    guard(s, record, 0, low, p, m)
    guard(s, record, 1, high, p, m)
    return remember(s, record, flags, p == q)


@structure
def group_range(s, record):
    """Where the levels of a group begin, where its level of NULL does, and where it ends."""
    keys, null = load_word(s + KEYS), load_word(s + NULL_WORD)
    key = s + KEY_ROOM
    for j in range(keys - 1):
        store_at(key, j, load_at(record, 1 + j))
    store_at(key, keys - 1, _LOWEST)
    p = position_of(s, key, keys, False)
    store_at(key, keys - 1, _HIGHEST)
    m = position_of(s, key, keys, True)
    q = m
    if null >= 0:
        store_at(key, null, load_at(key, null) | 1)
        q = position_of(s, key, keys, True)
    return p, m, q


@structure
def guard(s, record, i, x, p, q):
    """Note between which values bound i, which is x now, stays where it is among p to q."""
    keys = load_word(s + KEYS)
    low, high = _LOWEST, _HIGHEST
    if p != q:
        at = q
        if x == _LOWEST:
            at = p
        elif x != _HIGHEST:
            for j in range(keys - 1):
                store_at(s + KEY_ROOM, j, load_at(record, 1 + j))
            store_at(s + KEY_ROOM, keys - 1, x)
            at = position_of(s, s + KEY_ROOM, keys, False)
        if at != p:
            # The level before is in the same leaf, or else what is known is that x is right.
            low = x if at & 0xFFFF == 0 else ordered_key(s, at - 1, keys - 1) + 1
        if at != q:
            high = ordered_key(s, at, keys - 1)
    guards = record + 8 * keys
    store_at(guards, 2 * i, low)
    store_at(guards, 2 * i + 1, high)


@structure
def is_within(s, record, i, x):
    """Whether bound i may be x without passing a level."""
    guards = record + 8 * load_word(s + KEYS)
    return load_at(guards, 2 * i) <= x and x <= load_at(guards, 2 * i + 1)


@structure
def is_guarded(s, record, aim, bounds):
    """Whether no bound passed a level."""
    for i in range(bounds):  # noqa: SIM110
        if not is_within(s, record, i, load_at(aim, i)):
            return False
    return True


@structure
def picks_of(s, record):
    """Where a record has what was picked; the word before is FLAGS."""
    return record + 8 * (load_word(s + KEYS) + _GUARDS + 1)


@structure
def is_fresh(s, record, flags):
    """Whether no level of a group changed, and it is asked as before."""
    return load_word(record) != _STALE and load_word(picks_of(s, record) - 8) == flags


@structure
def recall(s, record):
    """Pick what is noted, which is nothing else than before."""
    noted, picked = picks_of(s, record), load_word(s + PICKED)
    for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        store_at(picked, k, load_at(noted, k))
    return False


@structure
def remember(s, record, flags, is_left):
    """Note what is picked; whether that is something else than before."""
    noted, picked = picks_of(s, record), load_word(s + PICKED)
    changed = 0
    for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        x = load_at(picked, k)
        changed |= x ^ load_at(noted, k)
        store_at(noted, k, x)
    store_word(noted - 8, flags)
    store_word(record, _LEFT if is_left else _FRESH)
    if is_left:
        store_word(s + GROUPS_LEFT, 1)
    return changed != 0


@structure
def ordered_moved(s):
    """Whether the last selection picked something else than the one before it."""
    noted, picked = load_word(s + NOTED), load_word(s + PICKED)
    changed = 1 if load_word(s + NOTED_KNOWN) == 0 else 0
    for k in range(load_word(s + FIRST_RESULT), load_word(s + WORDS)):
        x = load_at(picked, k)
        changed |= x ^ load_at(noted, k)
        store_at(noted, k, x)
    store_word(s + NOTED_KNOWN, 1)
    return changed != 0
