"""What Python calls of an ordered state: load, export, commit, take back, clear."""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import release
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.kernels.structures.ordered import (
    add_level,
    add_null,
    leaf_at,
    ordered_end,
    ordered_next,
)
from viewmill.kernels.structures.ordered_nodes import (
    BYTES,
    GROUP,
    GROUPS,
    GROUPS_COUNT,
    GROUPS_KNOWN,
    GROUPS_LEFT,
    GROUPS_ROOM,
    GROUPS_SEEN,
    KEYS,
    LEAF,
    LEVELS,
    LOG,
    LOG_ROOM,
    LOG_SIZE,
    NEGATIVE,
    NOTED_KNOWN,
    NULLS,
    STRAIN,
    TOP,
    TOP_ROOM,
    TOTALS,
    WORDS,
    array_of,
    free_node,
    leaf_arrays,
)
from viewmill.kernels.structures.vectors import load_at, store_at


@structure
def ordered_repeat(s, sign):
    """Make the noted changes once more, or with sign -1 take them back."""
    keys, words, size = load_word(s + KEYS), load_word(s + WORDS), load_word(s + LOG_SIZE)
    width = 8 * (1 + keys + words)
    forget_picks(s)
    for t in range(size):
        record = load_word(s + LOG) + t * width
        if load_word(record) != 0:
            add_null(s, record + 8 + 8 * keys, sign)
        else:
            add_level(s, record + 8, record + 8 + 8 * keys, sign)
    return 0


@structure
def forget_picks(s):
    """What was picked says nothing about what the levels are now."""
    store_word(s + GROUPS_KNOWN, 0)
    store_word(s + NOTED_KNOWN, 0)


@structure
def ordered_commit(s):
    """Forget the changes; a log that grew long is given back."""
    if load_word(s + GROUPS_SEEN) != load_word(s + LOG_SIZE):
        forget_picks(s)
    store_word(s + GROUPS_SEEN, 0)
    if load_word(s + LOG_ROOM) > 4096:
        width = 8 * (1 + load_word(s + KEYS) + load_word(s + WORDS))
        store_word(s + BYTES, load_word(s + BYTES) - load_word(s + LOG_ROOM) * width)
        release(load_word(s + LOG))
        store_word(s + LOG, 0)
        store_word(s + LOG_ROOM, 0)
    store_word(s + LOG_SIZE, 0)
    return 0


@structure
def ordered_load(s, rows, size):
    """Add rows of key words and payload words."""
    forget_picks(s)
    keys = load_word(s + KEYS)
    width = 8 * (keys + load_word(s + WORDS))
    for i in range(size):
        add_level(s, rows + i * width, rows + i * width + 8 * keys, 1)
    return 0


@structure
def ordered_load_null(s, words):
    """Add words to the level of NULL."""
    add_null(s, words, 1)
    return 0


@structure
def ordered_export(s, rows):
    """Write every level as a row of key words and payload words; gives how many."""
    words = load_word(s + KEYS) + load_word(s + WORDS)
    p, end, n = 0, ordered_end(s), 0
    while p != end:
        leaf, at = leaf_at(s, p), p & 0xFFFF
        for j in range(words):
            store_at(rows, n * words + j, load_at(array_of(leaf, LEAF, j), at))
        n += 1
        p = ordered_next(s, p)
    return n


@structure
def ordered_clear(s):
    """Hold nothing."""
    keys, arrays = load_word(s + KEYS), leaf_arrays(s)
    top, room = load_word(s + TOP), load_word(s + TOP_ROOM)
    if top != 0:
        for i in range(load_word(top)):
            group = load_at(array_of(top, room, keys), i)
            for j in range(load_word(group)):
                free_node(s, load_at(array_of(group, GROUP, keys), j), LEAF, arrays)
            free_node(s, group, GROUP, arrays + 1)
        free_node(s, top, room, arrays + 1)
    release(load_word(s + LOG))
    release(load_word(s + GROUPS))
    forget_picks(s)
    for offset in (TOP, TOP_ROOM, LEVELS, NEGATIVE, LOG, LOG_SIZE, LOG_ROOM, BYTES):
        store_word(s + offset, 0)
    for offset in (GROUPS, GROUPS_COUNT, GROUPS_ROOM, GROUPS_SEEN, GROUPS_LEFT):
        store_word(s + offset, 0)
    for j in range(load_word(s + WORDS)):
        for offset in (TOTALS, NULLS, STRAIN):
            store_at(load_word(s + offset), j, 0)
    return 0
