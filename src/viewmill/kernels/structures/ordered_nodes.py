"""The nodes of an ordered state: runs of keys and words side by side, in three floors.

top     one node that grows: a group per entry
group   up to 64 leaves per node
leaf    up to 128 levels

node    COUNT, then an array for each word of the key, in groups and the top one of addresses below,
        then an array for each payload word. Above the leaves a key is a lower bound of what lies
        below its entry (of the first one even that is not asked), and a payload word is the sum.
        Behind the count is room for the hull of a node (`ordered_hulls`)
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.float_words import EXACT, HIGH, add_pair
from viewmill.kernels.structures.heap import allocate, copy_bytes, release
from viewmill.kernels.structures.memory import load_word, store_float, store_word
from viewmill.kernels.structures.vectors import (
    count_upto,
    load_at,
    load_float_at,
    move_words,
    store_at,
    sum_words,
)

LEAF, GROUP = 128, 64
NODE = 64  # bytes before a node's arrays; the count is the first word
HULL_KNOWN, LEAST, MOST = 8, 16, 24  # the others, as `ordered_hulls` says

# The header of an ordered state.
TOP, TOP_ROOM, LEVELS, KEYS, WORDS, BYTES = 0, 8, 16, 24, 32, 40
TOTALS, NULLS, PICKED, STRAIN = 48, 56, 64, 72  # addresses of one word for each payload word
SIGNED, NEGATIVE, LOG, LOG_SIZE, LOG_ROOM, FIRST_RESULT = 80, 88, 96, 104, 112, 120
# What `ordered_aim` leaves for `ordered_gather`, and room for one key.
AIM, KEY_ROOM = 128, 232
# Which payload words are floats: an address of one word for each, and whether any is.
KINDS, FLOATS = 368, 376
# What was picked in each group (`ordered_groups`), and by the selection before this one: an address
# of one word for each payload word.
GROUPS, GROUPS_COUNT, GROUPS_ROOM, GROUPS_KNOWN, GROUPS_SEEN, GROUPS_LEFT = range(384, 432, 8)
NULL_WORD, NOTED, NOTED_KNOWN = 432, 440, 448  # which word of a key has the bit of a NULL level
COUNTED = 456  # the word of counts that is watched beside SIGNED
HEADER_WORDS = 58


@structure
def new_node(s, room, arrays):
    """An empty node."""
    size = NODE + 8 * room * arrays
    node = allocate(size)
    store_word(node, 0)
    store_word(node + HULL_KNOWN, 0)
    store_word(s + BYTES, load_word(s + BYTES) + size)
    return node


@structure
def free_node(s, node, room, arrays):
    """Give a node back."""
    release(node)
    store_word(s + BYTES, load_word(s + BYTES) - NODE - 8 * room * arrays)


@structure
def grow_records(s, records, room_at, width, least):
    """Twice the room for records of `width` bytes; header words say where they are and how many."""
    old, room = load_word(s + records), load_word(s + room_at)
    more = room * 2 if room > 0 else least
    new = allocate(more * width)
    if room > 0:
        copy_bytes(new, old, room * width)
        release(old)
    store_word(s + records, new)
    store_word(s + room_at, more)
    store_word(s + BYTES, load_word(s + BYTES) + (more - room) * width)


@structure
def array_of(node, room, j):
    """Array j of a node."""
    return node + NODE + 8 * room * j


@structure
def leaf_arrays(s):
    """How many arrays a leaf has; an inner node has one more."""
    return load_word(s + KEYS) + load_word(s + WORDS)


@structure
def keys_upto(node, room, key, keys):
    """How many keys of a node are at most the key at address `key`."""
    size = load_word(node)
    first = array_of(node, room, 0)
    if keys == 1:
        return count_upto(first, size, load_word(key))
    if keys == 2:
        return pairs_upto(first, array_of(node, room, 1), size, load_word(key), load_word(key + 8))
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if is_after(node, room, middle, key, keys):
            high = middle
        else:
            low = middle + 1
    return low


@structure
def pairs_upto(first, second, size, x, y):
    """How many of `size` pairs are at most (x, y)."""
    count = 0
    for i in range(size):
        a, b = load_at(first, i), load_at(second, i)
        count += (a < x) | ((a == x) & (b <= y))  # no branches, so that wide registers do it
    return count


@structure
def is_after(node, room, i, key, keys):
    """Whether key i of a node is larger than the key at address `key`."""
    for j in range(keys):
        a, b = load_at(array_of(node, room, j), i), load_at(key, j)
        if a != b:
            return a > b
    return False


@structure
def is_key(node, room, i, key, keys):
    """Whether key i of a node equals the key at address `key`."""
    for j in range(keys):  # noqa: SIM110
        if load_at(array_of(node, room, j), i) != load_at(key, j):
            return False
    return True


@structure
def open_gap(node, room, arrays, i):
    """Make room for an entry at i in every array."""
    size = load_word(node)
    for j in range(arrays):
        at = array_of(node, room, j) + 8 * i
        move_words(at + 8, at, size - i)
    store_word(node, size + 1)


@structure
def close_gap(node, room, arrays, i):
    """Drop entry i from every array."""
    size = load_word(node) - 1
    for j in range(arrays):
        at = array_of(node, room, j) + 8 * i
        move_words(at, at + 8, size - i)
    store_word(node, size)


@structure
def move_entries(to, to_room, source, room, arrays, start, end):
    """Append entries start to end of one node to another."""
    at = load_word(to)
    for j in range(arrays):
        move_words(
            array_of(to, to_room, j) + 8 * at, array_of(source, room, j) + 8 * start, end - start
        )
    store_word(to, at + end - start)


@structure
def set_entry(s, node, room, i, child, child_room, below):
    """Entry i of an inner node stands for `child`, whose words begin at array `below`."""
    keys = load_word(s + KEYS)
    for j in range(keys):
        store_at(array_of(node, room, j), i, load_word(array_of(child, child_room, j)))
    store_at(array_of(node, room, keys), i, child)
    sum_entry(s, node, room, i, child, child_room, below)


@structure
def sum_entry(s, node, room, i, child, child_room, below):
    """The words of entry i are the sums over `child`."""
    store_word(node + HULL_KNOWN, 0)
    store_word(child + HULL_KNOWN, 0)
    keys, size = load_word(s + KEYS), load_word(child)
    for j in range(load_word(s + WORDS)):
        total = sum_words(array_of(child, child_room, below + j), 0, size)
        store_at(array_of(node, room, keys + 1 + j), i, total)
    if load_word(s + FLOATS) != 0:
        sum_floats(s, node, room, i, child, child_room, below)


@structure
def kind_of(s, j):
    """What payload word j is."""
    return load_at(load_word(s + KINDS), j) if load_word(s + FLOATS) != 0 else EXACT


@structure
def sum_floats(s, node, room, i, child, child_room, below):
    """The float words of entry i are the sums over `child`."""
    keys, size = load_word(s + KEYS), load_word(child)
    for j in range(load_word(s + WORDS)):
        if kind_of(s, j) == HIGH:
            high = array_of(node, room, keys + 1 + j) + 8 * i
            low = array_of(node, room, keys + 2 + j) + 8 * i
            store_float(high, 0.0)
            store_float(low, 0.0)
            for k in range(size):
                add_pair(high, low, load_float_at(array_of(child, child_room, below + j), k))
                add_pair(high, low, load_float_at(array_of(child, child_room, below + j + 1), k))


@structure
def grow_top(s):
    """Twice the room for groups."""
    old, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    arrays = leaf_arrays(s) + 1
    more = room * 2 if room > 0 else 8
    top = new_node(s, more, arrays)
    if room > 0:
        move_entries(top, more, old, room, arrays, 0, load_word(old))
        free_node(s, old, room, arrays)
    store_word(s + TOP, top)
    store_word(s + TOP_ROOM, more)


@structure
def split_leaf(s, group, i):
    """Cut leaf i of a group in two; the group has room."""
    keys, arrays = load_word(s + KEYS), leaf_arrays(s)
    leaf, right = load_at(array_of(group, GROUP, keys), i), new_node(s, LEAF, arrays)
    half = load_word(leaf) >> 1
    move_entries(right, LEAF, leaf, LEAF, arrays, half, load_word(leaf))
    store_word(leaf, half)
    open_gap(group, GROUP, arrays + 1, i + 1)
    set_entry(s, group, GROUP, i + 1, right, LEAF, keys)
    sum_entry(s, group, GROUP, i, leaf, LEAF, keys)


@structure
def split_group(s, i):
    """Cut group i in two."""
    if load_word(load_word(s + TOP)) == load_word(s + TOP_ROOM):
        grow_top(s)
    keys, arrays = load_word(s + KEYS), leaf_arrays(s) + 1
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    group, right = load_at(array_of(top, room, keys), i), new_node(s, GROUP, arrays)
    half = load_word(group) >> 1
    move_entries(right, GROUP, group, GROUP, arrays, half, load_word(group))
    store_word(group, half)
    open_gap(top, room, arrays, i + 1)
    set_entry(s, top, room, i + 1, right, GROUP, keys + 1)
    sum_entry(s, top, room, i, group, GROUP, keys + 1)


@structure
def shrink(s, i, group, j, leaf):
    """Leaf j of group i lost a level: drop it when empty, join it with its neighbour when small."""
    keys, arrays, size = load_word(s + KEYS), leaf_arrays(s), load_word(leaf)
    if size == 0:
        free_node(s, leaf, LEAF, arrays)
        close_gap(group, GROUP, arrays + 1, j)
        shrink_top(s, i, group)
    elif size < LEAF // 4 and j + 1 < load_word(group):
        right = load_at(array_of(group, GROUP, keys), j + 1)
        if size + load_word(right) <= LEAF * 3 // 4:
            move_entries(leaf, LEAF, right, LEAF, arrays, 0, load_word(right))
            free_node(s, right, LEAF, arrays)
            close_gap(group, GROUP, arrays + 1, j + 1)
            sum_entry(s, group, GROUP, j, leaf, LEAF, keys)
            shrink_top(s, i, group)


@structure
def shrink_top(s, i, group):
    """Group i lost a leaf: the same one floor higher."""
    keys, arrays, size = load_word(s + KEYS), leaf_arrays(s) + 1, load_word(group)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    if size == 0:
        free_node(s, group, GROUP, arrays)
        close_gap(top, room, arrays, i)
    elif size < GROUP // 4 and i + 1 < load_word(top):
        right = load_at(array_of(top, room, keys), i + 1)
        if size + load_word(right) <= GROUP * 3 // 4:
            move_entries(group, GROUP, right, GROUP, arrays, 0, load_word(right))
            free_node(s, right, GROUP, arrays)
            close_gap(top, room, arrays, i + 1)
            sum_entry(s, top, room, i, group, GROUP, keys + 1)
