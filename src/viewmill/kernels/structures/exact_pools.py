"""The blocks of a state in which sums of floats lie that three floats cannot hold.

pool     FIRST EPOCH CHANGES CHANGED ROOM BYTES: the blocks of a state, whose header says where
block    NEXT BEFORE EPOCH, then the number: see `exact_sums`

A journal copies words. So a block that was there at the last commit is never changed: a change
makes a copy, a commit drops what was replaced, a rollback what was made.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import allocate, clear_bytes, copy_bytes, release
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.program.states import EXACT_WORDS

POOL = 184  # where the header of a state says where its pool is
NUMBER = 24  # where the number is in a block
MADE = 16  # and the epoch in which it was made
FIRST, EPOCH, CHANGES, CHANGED, ROOM, BYTES = 0, 8, 16, 24, 32, 40

_NEXT, _BEFORE = 0, 8
_BLOCK_BYTES = NUMBER + 8 * (EXACT_WORDS - 3)
_POOL_BYTES = 48


@structure
def leave_block(pool, block):
    """A slot does not lead to a block any more."""
    if load_word(block + MADE) == load_word(load_word(pool) + EPOCH):
        drop_block(load_word(pool), block)
    else:
        note_replaced(load_word(pool), block)


@structure
def make_pool(pool):
    """A pool without blocks."""
    made = allocate(_POOL_BYTES)
    clear_bytes(made, _POOL_BYTES)
    store_word(made + BYTES, _POOL_BYTES)
    store_word(pool, made)


@structure
def make_block(p):
    """A block of the pool p, the first of its list."""
    block, following = allocate(_BLOCK_BYTES), load_word(p + FIRST)
    store_word(block + _NEXT, following)
    store_word(block + _BEFORE, 0)
    store_word(block + MADE, load_word(p + EPOCH))
    if following != 0:
        store_word(following + _BEFORE, block)
    store_word(p + FIRST, block)
    store_word(p + BYTES, load_word(p + BYTES) + _BLOCK_BYTES)
    return block


@structure
def drop_block(p, block):
    """Take a block out of the list and give its memory back."""
    following, before = load_word(block + _NEXT), load_word(block + _BEFORE)
    if following != 0:
        store_word(following + _BEFORE, before)
    if before != 0:
        store_word(before + _NEXT, following)
    else:
        store_word(p + FIRST, following)
    release(block)
    store_word(p + BYTES, load_word(p + BYTES) - _BLOCK_BYTES)


@structure
def note_replaced(p, block):
    """A block that only the last commit knows: the next one drops it."""
    size, room = load_word(p + CHANGED), load_word(p + ROOM)
    if size == room:
        more = max(2 * room, 16)
        changes = allocate(8 * more)
        if room > 0:
            copy_bytes(changes, load_word(p + CHANGES), 8 * size)
            release(load_word(p + CHANGES))
        store_word(p + CHANGES, changes)
        store_word(p + ROOM, more)
        store_word(p + BYTES, load_word(p + BYTES) + 8 * (more - room))
    store_word(load_word(p + CHANGES) + 8 * size, block)
    store_word(p + CHANGED, size + 1)


# Kernels that Python calls, for states that have a pool.


@structure
def pool_commit(s):
    """What was replaced is gone."""
    p = load_word(s + POOL)
    for i in range(load_word(p + CHANGED)):
        drop_block(p, load_word(load_word(p + CHANGES) + 8 * i))
    store_word(p + CHANGED, 0)
    store_word(p + EPOCH, load_word(p + EPOCH) + 1)
    return 0


@structure
def pool_rollback(s):
    """What was made since the last commit is gone: it comes first in the list."""
    p = load_word(s + POOL)
    epoch = load_word(p + EPOCH)
    block = load_word(p + FIRST)
    while block != 0 and load_word(block + MADE) == epoch:
        drop_block(p, block)
        block = load_word(p + FIRST)
    store_word(p + CHANGED, 0)
    store_word(p + EPOCH, epoch + 1)
    return 0


@structure
def pool_clear(s):
    """No block is left, and no pool."""
    p = load_word(s + POOL)
    while load_word(p + FIRST) != 0:
        drop_block(p, load_word(p + FIRST))
    if load_word(p + ROOM) > 0:
        release(load_word(p + CHANGES))
    release(p)
    store_word(s + POOL, 0)
    return 0
