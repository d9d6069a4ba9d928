"""All strings of a mill, each under its id: found by their bytes, read by their place.

header   TABLE SHIFT COUNT LIMIT PLACES FREE END NEEDED RECENT, then room for a run's strings
entry    the upper half of the hash   id + 1 (0: free). The hash >> SHIFT is its home, so that a
         larger table has its entries in the same order, and they move in one sweep
recent   first word   second word   length (-1: free)   id: of SHORT bytes at most, seen lately
run      number   hash: of each string that is looked up
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
from viewmill.kernels.structures.heap import prefetch
from viewmill.kernels.structures.memory import load_byte, load_word, store_byte, store_word
from viewmill.kernels.structures.wide import product_high

TABLE, SHIFT, COUNT, LIMIT, PLACES, FREE, END, NEEDED = 0, 8, 16, 24, 32, 40, 48, 56
RECENT, _RUN = 64, 72
_LONGEST_RUN = 32
HEADER_WORDS = 9 + 2 * _LONGEST_RUN
RECENT_ENTRIES = 256
SHORT = 16
_RECENT_ENTRY = 32

U = np.uint64
_FACTOR, _OTHER_FACTOR = U(0x9E3779B97F4A7C15), U(0xE7037ED1A0B428DB)
_U56, _ALL = U(56), U(0xFFFFFFFFFFFFFFFF)
_ID = 0xFFFFFFFF


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
def first_word(start, length, end):
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
    whole = length & ~7
    for j in range(0, whole, 8):
        store_word(place + 8 + j, _turned(_load_anywhere(start + j)))
    if whole < length:
        store_word(place + 8 + whole, first_word(start + whole, length - whole, end))


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
        if first_word(start + 8 * j, length - 8 * j, end) != load_word(place + 8 + 8 * j):
            return False
    return True


@structure
def intern_texts(s, done, size, ends, are_wide, data, data_end, mask, rows, ids):
    """Write the ids of the strings from `done` on, new ones if need be; where it stopped.

    `ends` are Arrow's offsets into `data`, `data_end` is the end of what may be read; `mask` is 0
    or the address of a byte for each string, 1 if it is NULL; `rows` is 0 or the address of the
    numbers of those strings that are wanted. Strings come in runs: the memory where those of a run
    are looked up is asked for before the first of them is.
    """
    while done < size:
        stop = min(done + _LONGEST_RUN, size)
        sought = _begin_run(s, done, stop, ends, are_wide, data, data_end, mask, rows, ids)
        for k in range(sought):
            i, hash_ = load_word(s + _RUN + 16 * k), load_word(s + _RUN + 16 * k + 8)
            start, end = text_bounds(ends, are_wide, i if rows == 0 else load_word(rows + 8 * i))
            id_ = _find_or_add(s, hash_, data + start, end - start, data_end)
            if id_ < 0:
                return i
            store_word(ids + 8 * i, id_)
        done = stop
    return size


@structure
def _begin_run(s, done, stop, ends, are_wide, data, data_end, mask, rows, ids):
    """Write what is known of the ids without a search; how many strings are to be looked up."""
    table, shift, sought = load_word(s + TABLE), U(load_word(s + SHIFT)), 0
    for i in range(done, stop):
        if mask != 0 and load_byte(mask + i) != 0:
            store_word(ids + 8 * i, 0)
            continue
        start, end = text_bounds(ends, are_wide, i if rows == 0 else load_word(rows + 8 * i))
        length = end - start
        if length <= SHORT:
            first = first_word(data + start, length, data_end)
            second = first_word(data + start + 8, length - 8, data_end)
            recent = _recent(s, first, second)
            if (
                load_word(recent) == first
                and load_word(recent + 8) == second
                and load_word(recent + 16) == length
            ):
                store_word(ids + 8 * i, load_word(recent + 24))
                continue
            hash_ = _hash_short(first, second, length)
        else:
            hash_ = _hash_long(data + start, length)
        prefetch(table + 8 * np.int64(U(hash_) >> shift))
        store_word(s + _RUN + 16 * sought, i)
        store_word(s + _RUN + 16 * sought + 8, hash_)
        sought += 1
    return sought


@structure
def _recent(s, first, second):
    """Where a short text is if it was seen lately."""
    h = (U(first) ^ (U(second) * _FACTOR)) * _FACTOR
    return load_word(s + RECENT) + _RECENT_ENTRY * np.int64(h >> _U56)


@structure
def _folded(a, b):
    """Both halves of a product, the one upon the other."""
    return product_high(a, b) ^ (a * b)


@structure
def _hash_short(first, second, length):
    h = _folded(U(first) ^ _FACTOR, U(length) ^ _OTHER_FACTOR)
    return np.int64(_folded(h ^ U(second), _FACTOR))


@structure
def _hash_long(start, length):
    """Of eight bytes at a time, the last eight whether or not some of them were taken before."""
    h = U(length) * _FACTOR
    for j in range(0, length - 8, 8):
        h = _folded(h ^ U(_load_anywhere(start + j)), _OTHER_FACTOR)
    return np.int64(_folded(h ^ U(_load_anywhere(start + length - 8)), _FACTOR))


@structure
def _find_or_add(s, hash_, start, length, data_end):
    """The id of a string, which is kept if it is new; -1 if there is no room for it."""
    table, shift = load_word(s + TABLE), U(load_word(s + SHIFT))
    mask = np.int64(_ALL >> shift)
    at = np.int64(U(hash_) >> shift)
    while True:
        entry = load_word(table + 8 * at)
        if entry == 0:
            break
        if (entry ^ hash_) & ~_ID == 0:
            id_ = (entry & _ID) - 1
            if is_text(load_word(load_word(s + PLACES) + 8 * id_), start, length, data_end):
                _remember(s, start, length, data_end, id_)
                return id_
        at = (at + 1) & mask
    id_ = _add(s, start, length, data_end)
    if id_ >= 0:
        store_word(table + 8 * at, (hash_ & ~_ID) | (id_ + 1))
        _remember(s, start, length, data_end, id_)
    return id_


@structure
def _add(s, start, length, data_end):
    """Keep a new string; its id, or -1 if there is no room."""
    needed, free, id_ = 8 + ((length + 7) & ~7), load_word(s + FREE), load_word(s + COUNT)
    if free + needed > load_word(s + END) or id_ == load_word(s + LIMIT):
        store_word(s + NEEDED, needed)
        return -1
    _write_text(free, start, length, data_end)
    store_word(load_word(s + PLACES) + 8 * id_, free)
    store_word(s + COUNT, id_ + 1)
    store_word(s + FREE, free + needed)
    return id_


@structure
def _remember(s, start, length, data_end, id_):
    """A short string is among those seen lately."""
    if length > SHORT:
        return
    first = first_word(start, length, data_end)
    second = first_word(start + 8, length - 8, data_end)
    recent = _recent(s, first, second)
    store_word(recent, first)
    store_word(recent + 8, second)
    store_word(recent + 16, length)
    store_word(recent + 24, id_)


@structure
def spread_texts(s, table, shift):
    """Enter all entries in a new, empty table of 2 ** (64 - shift) entries."""
    old, size = load_word(s + TABLE), np.int64(_ALL >> U(load_word(s + SHIFT))) + 1
    mask = np.int64(_ALL >> U(shift))
    for i in range(size):
        entry = load_word(old + 8 * i)
        if entry != 0:
            at = np.int64(U(entry) >> U(shift))
            while load_word(table + 8 * at) != 0:
                at = (at + 1) & mask
            store_word(table + 8 * at, entry)
    store_word(s + TABLE, table)
    store_word(s + SHIFT, shift)
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
