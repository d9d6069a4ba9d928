"""All strings of a mill, each under its id: found by their bytes, read by their place.

header   TABLE MASK COUNT LIMIT PLACES FREE END NEEDED RECENT
entry    hash (0: free)   id
recent   first word   second word   length (-1: free)   id: of SHORT bytes at most, seen lately
text     its length in bytes, then words of eight bytes each, the first byte highest, zeros behind:
         the order of the words is the order of the strings

Texts lie in blocks that never move, and nothing is ever taken out. What does not fit stops the
kernel, and its caller makes room: an entry and a place for each of LIMIT ids, NEEDED bytes of text.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.keyed import same_words
from viewmill.kernels.structures.memory import load_byte, load_word, store_byte, store_word

TABLE, MASK, COUNT, LIMIT, PLACES, FREE, END, NEEDED = 0, 8, 16, 24, 32, 40, 48, 56
RECENT = 64
HEADER_WORDS = 9
RECENT_ENTRIES = 256
SHORT = 16
_ENTRY, _RECENT_ENTRY = 16, 32

U = np.uint64
_FACTOR, _TAKEN = U(0x9E3779B97F4A7C15), U(1 << 63)
_U29, _U32, _U56 = U(29), U(32), U(56)


def integer_loader(bits):
    """What loads a signed integer of so many bits from any address."""

    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            kind = ir.IntType(bits)
            place = builder.inttoptr(arguments[0], kind.as_pointer())
            word = builder.load(place, align=1)
            return word if bits == 64 else builder.sext(word, ir.IntType(64))

        return types.int64(types.int64), generate

    return load


_load_anywhere = intrinsic(integer_loader(64))
_load_half = intrinsic(integer_loader(32))


@intrinsic
def _turned(typing_context, word):
    """The bytes of a word in the opposite order."""

    def generate(context, builder, signature, arguments):
        return builder.bswap(arguments[0])

    return types.int64(types.int64), generate


@intrinsic
def _store_half(typing_context, address, value):
    def generate(context, builder, signature, arguments):
        kind = ir.IntType(32)
        place = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.store(builder.trunc(arguments[1], kind), place, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@structure
def _first_word(start, length, end):
    """The first eight bytes of `length`, zeros behind; nothing is read from `end` on."""
    size = max(min(length, 8), 0)
    if start + 8 <= end:  # with what follows, which is cut off
        half = U(32 - 4 * size)  # half of the bits to cut: a shift by 64 would do nothing
        return np.int64((U(_turned(_load_anywhere(start))) >> half >> half) << half << half)
    word = U(0)
    for j in range(size):
        word |= U(load_byte(start + j)) << U(56 - 8 * j)
    return np.int64(word)


@structure
def _write_text(place, start, length, end):
    """Write `length` bytes as a text."""
    store_word(place, length)
    for j in range((length + 7) >> 3):
        store_word(place + 8 + 8 * j, _first_word(start + 8 * j, length - 8 * j, end))


@structure
def text_bounds(ends, are_wide, i):
    """Where string i begins and ends; `ends` are offsets of 8 bytes if `are_wide`, else of 4."""
    if are_wide:
        return load_word(ends + 8 * i), load_word(ends + 8 * i + 8)
    return _load_half(ends + 4 * i), _load_half(ends + 4 * i + 4)


@structure
def is_text(place, start, length, end):
    """Whether `length` bytes are the text at `place`; nothing is read from `end` on."""
    if load_word(place) != length:
        return False
    for j in range((length + 7) >> 3):
        if _first_word(start + 8 * j, length - 8 * j, end) != load_word(place + 8 + 8 * j):
            return False
    return True


@structure
def intern_texts(s, done, size, ends, are_wide, data, data_end, mask, rows, ids):
    """Write the ids of the strings from `done` on, new ones if need be; where it stopped.

    `ends` are Arrow's offsets into `data`, `data_end` is the end of what may be read; `mask` is 0
    or the address of a byte for each string, 1 if it is NULL; `rows` is 0 or the address of the
    numbers of those strings that are wanted.
    """
    for i in range(done, size):
        if mask != 0 and load_byte(mask + i) != 0:
            store_word(ids + 8 * i, 0)
            continue
        start, end = text_bounds(ends, are_wide, i if rows == 0 else load_word(rows + 8 * i))
        length, recent = end - start, 0
        if length <= SHORT:
            first = _first_word(data + start, length, data_end)
            second = _first_word(data + start + 8, length - 8, data_end)
            recent = _recent(s, first, second)
            if (
                load_word(recent) == first
                and load_word(recent + 8) == second
                and load_word(recent + 16) == length
            ):
                store_word(ids + 8 * i, load_word(recent + 24))
                continue
        words = 1 + ((length + 7) >> 3)
        free = load_word(s + FREE)
        if free + 8 * words > load_word(s + END) or load_word(s + COUNT) == load_word(s + LIMIT):
            store_word(s + NEEDED, 8 * words)
            return i
        _write_text(free, data + start, length, data_end)
        id_ = _find_or_add(s, free, words)
        store_word(ids + 8 * i, id_)
        if recent != 0:
            store_word(recent, first)
            store_word(recent + 8, second)
            store_word(recent + 16, length)
            store_word(recent + 24, id_)
    return size


@structure
def _recent(s, first, second):
    """Where a short text is if it was seen lately."""
    h = (U(first) ^ (U(second) * _FACTOR)) * _FACTOR
    return load_word(s + RECENT) + _RECENT_ENTRY * np.int64(h >> _U56)


@structure
def _hash_text(place, words):
    """A hash that is never 0, of one multiplication for each word."""
    h = U(0)
    for i in range(words):
        h = (h ^ U(load_word(place + 8 * i))) * _FACTOR
        h ^= h >> _U29
    h *= _FACTOR
    return np.int64((h ^ (h >> _U32)) | _TAKEN)


@structure
def _find_or_add(s, free, words):
    """The id of the text at `free`, which is kept if it is new."""
    table, mask = load_word(s + TABLE), load_word(s + MASK)
    hash_ = _hash_text(free, words)
    at = hash_ & mask
    while True:
        entry = table + _ENTRY * at
        found = load_word(entry)
        if found == hash_:
            id_ = load_word(entry + 8)
            if same_words(load_word(load_word(s + PLACES) + 8 * id_), free, words):
                return id_
        elif found == 0:
            id_ = load_word(s + COUNT)
            store_word(entry, hash_)
            store_word(entry + 8, id_)
            store_word(load_word(s + PLACES) + 8 * id_, free)
            store_word(s + COUNT, id_ + 1)
            store_word(s + FREE, free + 8 * words)
            return id_
        at = (at + 1) & mask


@structure
def spread_texts(s, table, mask):
    """Enter all entries in a new, empty table."""
    old = load_word(s + TABLE)
    for i in range(load_word(s + MASK) + 1):
        hash_ = load_word(old + _ENTRY * i)
        if hash_ != 0:
            at = hash_ & mask
            while load_word(table + _ENTRY * at) != 0:
                at = (at + 1) & mask
            store_word(table + _ENTRY * at, hash_)
            store_word(table + _ENTRY * at + 8, load_word(old + _ENTRY * i + 8))
    store_word(s + TABLE, table)
    store_word(s + MASK, mask)
    return 0


@structure
def measure_texts(places, count, size, mask, ids):
    """How many bytes the strings of ids have; NULL and what has no id have none."""
    total = 0
    for i in range(size):
        id_ = load_word(ids + 8 * i)
        if id_ < count and (mask == 0 or load_byte(mask + i) == 0):
            total += load_word(load_word(places + 8 * id_))
    return total


@structure
def copy_texts(places, count, size, mask, ids, ends, data):
    """Write the strings of ids as Arrow lays them out; `data` has 7 bytes more than they need."""
    total = 0
    _store_half(ends, 0)
    for i in range(size):
        id_ = load_word(ids + 8 * i)
        if id_ < count and (mask == 0 or load_byte(mask + i) == 0):
            place = load_word(places + 8 * id_)
            length = load_word(place)
            for j in range((length + 7) >> 3):
                _put(data + total + 8 * j, load_word(place + 8 + 8 * j))
            total += length
        _store_half(ends + 4 * i + 4, total)
    return total


@structure
def _put(address, word):
    """Write the eight bytes of a word, the highest first, at any address."""
    left = U(word)
    for j in range(8):
        store_byte(address + j, np.uint8(left >> U(56 - 8 * j)))
