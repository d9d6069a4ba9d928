"""The log of an ordered state: its changes since the commit, for a rollback and for a retry.

A record is 1 for the level of NULL, else 0, then the words of a key, then those of the payload.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.kernels.structures.ordered_nodes import (
    KEYS,
    LOG,
    LOG_ROOM,
    LOG_SIZE,
    WORDS,
    grow_records,
)
from viewmill.kernels.structures.vectors import load_at, store_at


@structure
def note(s, is_null, key, change):
    """Write a change down."""
    keys, words = load_word(s + KEYS), load_word(s + WORDS)
    size, width = load_word(s + LOG_SIZE), 8 * (1 + keys + words)
    if size == load_word(s + LOG_ROOM):
        grow_records(s, LOG, LOG_ROOM, width, 64)
    record = load_word(s + LOG) + size * width
    store_word(record, is_null)
    if is_null == 0:
        for j in range(keys):
            store_at(record, 1 + j, load_at(key, j))
    for j in range(words):
        store_at(record, 1 + keys + j, load_at(change, j))
    store_word(s + LOG_SIZE, size + 1)
