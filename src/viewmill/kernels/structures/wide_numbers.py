"""The numbers of a mill that are wider than a word, each under its code; see `deltas.wide_codes`.

header   LOCK COUNT TABLE SIZE, then the addresses of blocks
table    id + 1 of each number (0: free), at its hash or behind; SIZE is a power of two
block b  2^(b + FIRST) numbers of two words each, the low one first; blocks never move

Who adds a number holds the lock; who reads one needs none.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import allocate, clear_bytes, out_of_line, release
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.kernels.structures.wide import leading_zeros
from viewmill.kernels.structures.wide_arithmetic import wide_absolute, wide_compare, wide_negate

LOCK, COUNT, TABLE, SIZE, BLOCKS = 0, 8, 16, 24, 32
FIRST = 8
HEADER_WORDS = 4 + 40
_FIRST_SIZE = 1 << 10
_OWN = 1 << 62

U = np.uint64
_FACTOR, _OTHER_FACTOR = U(0x9E3779B97F4A7C15), U(0xE7037ED1A0B428DB)
_I64 = ir.IntType(64)


@intrinsic
def _try_lock(typing_context, address):
    """Set the word at an address to 1; whether it was 0."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _I64.as_pointer())
        zero, one = ir.Constant(_I64, 0), ir.Constant(_I64, 1)
        pair = builder.cmpxchg(place, zero, one, "acquire", "monotonic")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64), generate


@intrinsic
def _unlock(typing_context, address):
    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _I64.as_pointer())
        builder.store_atomic(ir.Constant(_I64, 0), place, "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@structure
def is_own(word):
    """Whether a word is the number itself, no code."""
    return -_OWN < word < _OWN


@structure
def wide_word(texts, w):
    """The word of a wide value."""
    if w[1] == w[0] >> 63 and is_own(w[0]):
        return w[0]
    return code_of(load_word(texts - 8), w)


@structure
def wide_number(texts, word):
    """The wide value of a word."""
    if is_own(word):
        return word, word >> 63
    return number_of(load_word(texts - 8), word)


@structure
def wide_less(texts, a, b):
    """Whether the number of word a is less than that of word b."""
    if (a >= _OWN and b >= _OWN) or (a <= -_OWN and b <= -_OWN):
        return wide_compare(wide_number(texts, a), wide_number(texts, b)) < 0
    return a < b


@structure
def number_of(s, code):
    """The wide value of a code."""
    place = _place(s, (code if code > 0 else -code) - _OWN)
    size = load_word(place), load_word(place + 8)
    return size if code > 0 else wide_negate(size)


@structure
def _place(s, id_):
    """Where number `id_` lies, or will."""
    n = id_ + (1 << FIRST)
    block = 63 - FIRST - np.int64(leading_zeros(U(n)))
    return load_word(s + BLOCKS + 8 * block) + 16 * (n - (1 << (block + FIRST)))


@structure
def code_of(s, w):
    """The code of a wide value, a new one if need be."""
    out_of_line()
    size = wide_absolute(w)
    while not _try_lock(s + LOCK):
        pass
    if 2 * load_word(s + COUNT) >= load_word(s + SIZE):
        _grow(s)
    table, mask = load_word(s + TABLE), load_word(s + SIZE) - 1
    at = _hash(size) & mask
    id_ = load_word(table + 8 * at) - 1
    while id_ >= 0:
        place = _place(s, id_)
        if load_word(place) == size[0] and load_word(place + 8) == size[1]:
            break
        at = (at + 1) & mask
        id_ = load_word(table + 8 * at) - 1
    if id_ < 0:
        id_ = _add(s, size)
        store_word(table + 8 * at, id_ + 1)
    _unlock(s + LOCK)
    return _OWN + id_ if w[1] >= 0 else -_OWN - id_


@structure
def _add(s, size):
    id_ = load_word(s + COUNT)
    n = id_ + (1 << FIRST)
    if n & (n - 1) == 0:  # the first of a block
        block = 63 - FIRST - np.int64(leading_zeros(U(n)))
        store_word(s + BLOCKS + 8 * block, allocate(16 * n))
    place = _place(s, id_)
    store_word(place, size[0])
    store_word(place + 8, size[1])
    store_word(s + COUNT, id_ + 1)
    return id_


@structure
def _hash(size):
    mixed = U(size[0]) * _FACTOR ^ (U(size[1]) * _OTHER_FACTOR)
    return np.int64((mixed ^ (mixed >> U(31))) * _FACTOR >> U(16))


@structure
def _grow(s):
    """A table of twice as many entries; nobody reads the old one without the lock."""
    old, count = load_word(s + TABLE), load_word(s + COUNT)
    entries = max(2 * load_word(s + SIZE), _FIRST_SIZE)
    table = allocate(8 * entries)
    clear_bytes(table, 8 * entries)
    for id_ in range(count):
        place = _place(s, id_)
        at = _hash((load_word(place), load_word(place + 8))) & (entries - 1)
        while load_word(table + 8 * at) != 0:
            at = (at + 1) & (entries - 1)
        store_word(table + 8 * at, id_ + 1)
    store_word(s + TABLE, table)
    store_word(s + SIZE, entries)
    if old != 0:
        release(old)


# Kernels that Python calls.


@structure
def encode_wides(s, size, low, high, words):
    """Write the words of numbers whose halves are at `low` and `high`."""
    for i in range(size):
        w = load_word(low + 8 * i), load_word(high + 8 * i)
        has_code = w[1] != w[0] >> 63 or not is_own(w[0])
        store_word(words + 8 * i, code_of(s, w) if has_code else w[0])
    return 0


@structure
def decode_wides(s, size, words, low, high):
    """Write the halves of the numbers of words."""
    for i in range(size):
        word = load_word(words + 8 * i)
        w = (word, word >> 63) if is_own(word) else number_of(s, word)
        store_word(low + 8 * i, w[0])
        store_word(high + 8 * i, w[1])
    return 0


@structure
def free_wides(s):
    """Give the memory back."""
    release(load_word(s + TABLE))
    for block in range(HEADER_WORDS - 4):
        release(load_word(s + BLOCKS + 8 * block))
    return 0
