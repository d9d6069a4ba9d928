"""Memory for many small blocks of one state, cut from large pieces.

header   PIECE (the newest one)  CURSOR  END  TAKEN (bytes of all pieces)  USED  LOOSE
         FREE (the first free block of each class)
piece    the piece before it, then blocks
block    while it is free: the next free one of its class

Lists grow and shrink by the thousand: taking a block is a few steps, and pieces are so large that
huge pages hold them. Blocks are not given back one by one; LOOSE says that most are free, and that
who owns them should move what is left (`listed_commit`).
"""

from __future__ import annotations

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.heap import allocate, out_of_line, release
from viewmill.kernels.structures.memory import load_word, store_word

PIECE, CURSOR, END, TAKEN, USED, LOOSE, FREE = 0, 8, 16, 24, 32, 40, 48
CLASSES = 5
POOL_WORDS = 6 + CLASSES
_SMALLEST, _LARGEST = 512, 4 << 20
_FEW = 1 << 16  # bytes not worth moving anything for


@inline_structure
def take_block(pool, class_, size):
    """A block of a class, whose blocks all have this size."""
    block = load_word(pool + FREE + 8 * class_)
    if block != 0:
        store_word(pool + FREE + 8 * class_, load_word(block))
    else:
        block = load_word(pool + CURSOR)
        if block + size > load_word(pool + END):
            add_piece(pool, size)
            block = load_word(pool + CURSOR)
        store_word(pool + CURSOR, block + size)
    store_word(pool + USED, load_word(pool + USED) + size)
    return block


@inline_structure
def give_block(pool, class_, size, block):
    """The block is free again."""
    store_word(block, load_word(pool + FREE + 8 * class_))
    store_word(pool + FREE + 8 * class_, block)
    used = load_word(pool + USED) - size
    store_word(pool + USED, used)
    if used * 4 < load_word(pool + TAKEN) - _FEW:
        store_word(pool + LOOSE, 1)


@structure
def add_piece(pool, least):
    """A piece of an eighth of what there is, so that little is left over."""
    out_of_line()
    size = max(min(load_word(pool + TAKEN) >> 3, _LARGEST), _SMALLEST, least + 8)
    piece = allocate(size)
    store_word(piece, load_word(pool + PIECE))
    store_word(pool + PIECE, piece)
    store_word(pool + CURSOR, piece + 8)
    store_word(pool + END, piece + size)
    store_word(pool + TAKEN, load_word(pool + TAKEN) + size)


@structure
def release_pieces(piece):
    """Give a piece back, and all before it."""
    while piece != 0:
        before = load_word(piece)
        release(piece)
        piece = before


@structure
def forget_pieces(pool):
    """A pool without memory. Gives its newest piece, which someone else must release."""
    piece = load_word(pool + PIECE)
    for offset in range(0, 8 * POOL_WORDS, 8):
        store_word(pool + offset, 0)
    return piece
