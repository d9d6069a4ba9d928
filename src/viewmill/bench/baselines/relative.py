"""The ordered index with relative keys (RPAI, section 3): a map whose keys can be shifted by range.

header   TOP TOP_ROOM SIZE BYTES GROUPS
top      a node that grows: a block per entry
block    up to 128 entries
groups   of 64 entries of the top node: arrays of their first keys, of offsets that their keys count
         from, and of their sums. They are written anew when a block comes or goes

node     COUNT, then arrays: keys, values; in the top node keys, blocks, sums. A key in a block
         counts from the block's base, which is its key in the top node: shifting a range of keys
         changes one block and the bases after it. The first key of a block is always 0.

The paper keeps keys relative to parents in a red-black tree, which re-insertion (3.2.3) unbalances.
Blocks take fewer steps, and have no balance to lose. Keys and values are words, exact: relative
float keys would not find themselves again.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import allocate, release
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.kernels.structures.vectors import (
    count_upto,
    load_at,
    move_words,
    store_at,
    sum_words,
)

TOP, TOP_ROOM, SIZE, BYTES, GROUPS = 0, 8, 16, 24, 32
HEADER_WORDS = 5
GROUP, GROUP_BITS = 64, 6
BLOCK = 96
NODE = 64


@structure
def _add_to_words(base, start, end, x):
    """Add x to words start to end."""
    for i in range(start, end):
        store_at(base, i, load_at(base, i) + x)


@structure
def _keys(node):
    return node + NODE


@structure
def _values(node, room):
    return node + NODE + 8 * room


@structure
def _sums(top, room):
    return top + NODE + 16 * room


@structure
def _group_room(room):
    return (room >> GROUP_BITS) + 1


@structure
def _firsts(s):
    return load_word(s + GROUPS) + NODE


@structure
def _offsets(s):
    return _firsts(s) + 8 * _group_room(load_word(s + TOP_ROOM))


@structure
def _group_sums(s):
    return _firsts(s) + 16 * _group_room(load_word(s + TOP_ROOM))


@structure
def _group_count(s):
    return (load_word(load_word(s + TOP)) + GROUP - 1) >> GROUP_BITS


@structure
def _group_end(s, g):
    """Where the entries of a group end."""
    return min((g + 1) << GROUP_BITS, load_word(load_word(s + TOP)))


@structure
def _flatten(s):
    """Have all keys of the top node count from 0."""
    keys, offsets = _keys(load_word(s + TOP)), _offsets(s)
    for g in range(_group_count(s)):
        _add_to_words(keys, g << GROUP_BITS, _group_end(s, g), load_at(offsets, g))
        store_at(offsets, g, 0)


@structure
def _regroup(s):
    """Write the groups anew; all keys count from 0."""
    top = load_word(s + TOP)
    keys, sums = _keys(top), _sums(top, load_word(s + TOP_ROOM))
    for g in range(_group_count(s)):
        store_at(_firsts(s), g, load_at(keys, g << GROUP_BITS))
        store_at(_offsets(s), g, 0)
        store_at(_group_sums(s), g, sum_words(sums, g << GROUP_BITS, _group_end(s, g)))


@structure
def _new(s, room, arrays):
    node = allocate(NODE + 8 * room * arrays)
    store_word(node, 0)
    store_word(s + BYTES, load_word(s + BYTES) + NODE + 8 * room * arrays)
    return node


@structure
def _free(s, node, room, arrays):
    release(node)
    store_word(s + BYTES, load_word(s + BYTES) - NODE - 8 * room * arrays)


@structure
def _gap(node, room, arrays, i, by):
    """Open (by = 1) or close (by = -1) a place before or at entry i."""
    size = load_word(node)
    source = i if by > 0 else i + 1
    for j in range(arrays):
        at = node + NODE + 8 * room * j
        move_words(at + 8 * (source + by), at + 8 * source, size - source)
    store_word(node, size + by)


@structure
def _grow(s):
    """Twice the room for blocks; all keys count from 0, the groups are to be written anew."""
    old, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    more = room * 2 if room > 0 else 8
    top = _new(s, more, 3)
    if room > 0:
        size = load_word(old)
        for j in range(3):
            move_words(top + NODE + 8 * more * j, old + NODE + 8 * room * j, size)
        store_word(top, size)
        _free(s, old, room, 3)
        _free(s, load_word(s + GROUPS), _group_room(room), 3)
    store_word(s + TOP, top)
    store_word(s + TOP_ROOM, more)
    store_word(s + GROUPS, _new(s, _group_room(more), 3))


@structure
def _block_of(s, key):
    """The number of the block where a key is or would go."""
    g = max(count_upto(_firsts(s), _group_count(s), key) - 1, 0)
    start = g << GROUP_BITS
    at, size = _keys(load_word(s + TOP)) + 8 * start, _group_end(s, g) - start
    return start + max(count_upto(at, size, key - load_at(_offsets(s), g)) - 1, 0)


@structure
def _block(s, i):
    top = load_word(s + TOP)
    return load_at(_values(top, load_word(s + TOP_ROOM)), i)


@structure
def _base(s, i):
    return load_at(_keys(load_word(s + TOP)), i) + load_at(_offsets(s), i >> GROUP_BITS)


@structure
def _set_base(s, i, key):
    g = i >> GROUP_BITS
    store_at(_keys(load_word(s + TOP)), i, key - load_at(_offsets(s), g))
    if i == g << GROUP_BITS:
        store_at(_firsts(s), g, key)


@structure
def _shift_from(s, i, by):
    """Move the bases of block i and of all after it."""
    if i >= load_word(load_word(s + TOP)):
        return
    g = i >> GROUP_BITS
    if i != g << GROUP_BITS:
        _add_to_words(_keys(load_word(s + TOP)), i, _group_end(s, g), by)
        g += 1
    _add_to_words(_offsets(s), g, _group_count(s), by)
    _add_to_words(_firsts(s), g, _group_count(s), by)


@structure
def relative_get(s, key):
    """The value of a key, 0 if it has none."""
    if load_word(s + SIZE) == 0:
        return 0
    i = _block_of(s, key)
    block, own = _block(s, i), key - _base(s, i)
    p = count_upto(_keys(block), load_word(block), own)
    if p > 0 and load_at(_keys(block), p - 1) == own:
        return load_at(_values(block, BLOCK), p - 1)
    return 0


@structure
def relative_add(s, key, value):
    """Value of a key += value; a key whose value is 0 goes. Gives the value."""
    if load_word(s + SIZE) == 0:
        _first(s, key)
    i = _block_of(s, key)
    block = _block(s, i)
    if load_word(block) == BLOCK:
        _split(s, i)
        i = _block_of(s, key)
        block = _block(s, i)
    own = key - _base(s, i)
    if own < 0:  # a new first key: the base moves down to it
        _add_to_words(_keys(block), 0, load_word(block), -own)
        _set_base(s, i, key)
        own = 0
    p = count_upto(_keys(block), load_word(block), own)
    if p == 0 or load_at(_keys(block), p - 1) != own:
        _gap(block, BLOCK, 2, p, 1)
        store_at(_keys(block), p, own)
        store_at(_values(block, BLOCK), p, 0)
        store_word(s + SIZE, load_word(s + SIZE) + 1)
        p += 1
    left = load_at(_values(block, BLOCK), p - 1) + value
    store_at(_values(block, BLOCK), p - 1, left)
    sums = _sums(load_word(s + TOP), load_word(s + TOP_ROOM))
    store_at(sums, i, load_at(sums, i) + value)
    g = i >> GROUP_BITS
    store_at(_group_sums(s), g, load_at(_group_sums(s), g) + value)
    if left == 0:
        _drop(s, i, block, p - 1)
    return left


@structure
def _first(s, key):
    if load_word(s + TOP_ROOM) == 0:
        _grow(s)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    store_word(top, 1)
    store_at(_keys(top), 0, key)
    store_at(_values(top, room), 0, _new(s, BLOCK, 2))
    store_at(_sums(top, room), 0, 0)
    _regroup(s)


@structure
def _drop(s, i, block, p):
    """Drop entry p of block i."""
    _gap(block, BLOCK, 2, p, -1)
    store_word(s + SIZE, load_word(s + SIZE) - 1)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    if load_word(block) == 0:
        _flatten(s)
        _free(s, block, BLOCK, 2)
        _gap(top, room, 3, i, -1)
        _regroup(s)
    elif p == 0:
        by = load_at(_keys(block), 0)
        _add_to_words(_keys(block), 0, load_word(block), -by)
        _set_base(s, i, _base(s, i) + by)


@structure
def _split(s, i):
    """Cut block i in two."""
    _flatten(s)
    if load_word(load_word(s + TOP)) == load_word(s + TOP_ROOM):
        _grow(s)
    top, room, half = load_word(s + TOP), load_word(s + TOP_ROOM), BLOCK // 2
    left, right = _block(s, i), _new(s, BLOCK, 2)
    by = load_at(_keys(left), half)
    move_words(_keys(right), _keys(left) + 8 * half, half)
    _add_to_words(_keys(right), 0, half, -by)
    move_words(_values(right, BLOCK), _values(left, BLOCK) + 8 * half, half)
    store_word(left, half)
    store_word(right, half)
    _gap(top, room, 3, i + 1, 1)
    store_at(_keys(top), i + 1, load_at(_keys(top), i) + by)
    store_at(_values(top, room), i + 1, right)
    moved = sum_words(_values(right, BLOCK), 0, half)
    store_at(_sums(top, room), i + 1, moved)
    store_at(_sums(top, room), i, load_at(_sums(top, room), i) - moved)
    _regroup(s)


@structure
def relative_put(s, key, value):
    """Set the value of a key."""
    return relative_add(s, key, value - relative_get(s, key))


@structure
def relative_sum(s, key, strict):
    """The sum of the values whose keys are at most `key`, or below it if `strict`."""
    if load_word(s + SIZE) == 0:
        return 0
    goal = key - 1 if strict else key
    i = _block_of(s, goal)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    g = i >> GROUP_BITS
    total = sum_words(_group_sums(s), 0, g) + sum_words(_sums(top, room), g << GROUP_BITS, i)
    block = _block(s, i)
    p = count_upto(_keys(block), load_word(block), goal - _base(s, i))
    return total + sum_words(_values(block, BLOCK), 0, p)


@structure
def relative_shift(s, key, by):
    """Move every key larger than `key` by `by`. Keys that meet become one, their values added.

    Up, nothing meets. Down, entries that pass others are taken out and added again: as many as
    there are, and in the plans' use none or one (section 3.2.4).
    """
    if load_word(s + SIZE) == 0 or by == 0:
        return 0
    i = _block_of(s, key)
    block = _block(s, i)
    p = count_upto(_keys(block), load_word(block), key - _base(s, i))
    if by < 0 and p > 0 and _next_key(s, i, block, p, key - by + 1) <= key - by:
        _reinsert(s, key, key - by, by)
        if load_word(s + SIZE) == 0:  # what met gave 0, and there is no block left to look at
            return 0
        i = _block_of(s, key)
        block = _block(s, i)
        p = count_upto(_keys(block), load_word(block), key - _base(s, i))
    if p == 0:  # then all of block 0 is larger
        _shift_from(s, i, by)
        return 0
    _add_to_words(_keys(block), p, load_word(block), by)
    _shift_from(s, i + 1, by)
    return 0


@structure
def _next_key(s, i, block, p, last):
    """The key at place p of block i, or the first one of the next block, or else `last`."""
    if p < load_word(block):
        return load_at(_keys(block), p) + _base(s, i)
    return _base(s, i + 1) if i + 1 < load_word(load_word(s + TOP)) else last


@structure
def _reinsert(s, key, high, by):
    """Move the entries with key < k <= high, which would come to key or below, one by one.

    Each goes where no entry that is still to move stands: at `key` or below it.
    """
    while load_word(s + SIZE) > 0:
        i = _block_of(s, key)
        block = _block(s, i)
        p = count_upto(_keys(block), load_word(block), key - _base(s, i))
        if p == load_word(block):
            i += 1
            p = 0
            if i == load_word(load_word(s + TOP)):
                return
            block = _block(s, i)
        k = load_at(_keys(block), p) + _base(s, i)
        if k > high:
            return
        value = load_at(_values(block, BLOCK), p)
        relative_add(s, k, -value)
        relative_add(s, k + by, value)


@structure
def relative_export(s, rows):
    """Write every key with its value; gives how many."""
    n = 0
    top = load_word(s + TOP)
    if load_word(s + SIZE) == 0:
        return 0
    for i in range(load_word(top)):
        block, base = _block(s, i), _base(s, i)
        for p in range(load_word(block)):
            store_at(rows, 2 * n, load_at(_keys(block), p) + base)
            store_at(rows, 2 * n + 1, load_at(_values(block, BLOCK), p))
            n += 1
    return n


@structure
def relative_clear(s):
    """Hold nothing."""
    top = load_word(s + TOP)
    if top != 0:
        if load_word(s + SIZE) > 0:
            for i in range(load_word(top)):
                _free(s, _block(s, i), BLOCK, 2)
        _free(s, load_word(s + GROUPS), _group_room(load_word(s + TOP_ROOM)), 3)
        _free(s, top, load_word(s + TOP_ROOM), 3)
    for offset in (TOP, TOP_ROOM, SIZE, GROUPS):
        store_word(s + offset, 0)
    return 0
