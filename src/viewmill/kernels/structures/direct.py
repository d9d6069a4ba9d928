"""Entries found by their key itself: a map of numbers where keys are integers close together.

map       LOW (the key of the first place), PLACES, NUMBERS (address)
numbers   four bytes for each place: the number of the entry that has this key + 1, or 0

A map lies where the slots of a table would (see `dense`), its numbers lie apart: entries that get
more room leave them alone, and keys that come one after the other make them longer, not new.
Nothing is hashed, no two keys meet, and no key is compared. Places are counted modulo 2^64, so that
every key has one: without a sign, because compiled code believes that signed numbers do not
overflow.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.heap import (
    allocate_cleared,
    can_grow,
    clear_bytes,
    copy_bytes,
    grow_table,
    prefetch,
    release_table,
)
from viewmill.kernels.structures.memory import load_number, load_word, store_number, store_word

LOW, PLACES, NUMBERS = 0, 8, 16
MAP_BYTES = 24

U = np.uint64
_U1 = U(1)


@inline_structure
def has_place(map_, key):
    """Whether a key lies in the map."""
    return U(key) - U(load_word(map_ + LOW)) < U(load_word(map_ + PLACES))


@inline_structure
def place_of(map_, key):
    """Where the number of a key is that lies in the map."""
    return load_word(map_ + NUMBERS) + 4 * np.int64(U(key) - U(load_word(map_ + LOW)))


@inline_structure
def number_of(map_, key):
    """The number of the entry with this key + 1, or 0."""
    return load_number(place_of(map_, key)) if has_place(map_, key) else 0


@inline_structure
def fetch_number(map_, key):
    """Prefetch a key's number."""
    if has_place(map_, key):
        prefetch(place_of(map_, key))


@structure
def numbers_bytes(map_):
    """What the numbers of a map take."""
    return 4 * load_word(map_ + PLACES)


@structure
def range_of(keys, count, stride, most):
    """The lowest and the highest of so many keys, and whether they fit so many places."""
    low = high = load_word(keys)
    for i in range(1, count):
        key = load_word(keys + i * stride)
        low, high = min(low, key), max(high, key)
        if U(high) - U(low) >= U(most):  # of keys far apart hardly any is looked at
            return low, high, False
    return low, high, True


@structure
def new_map(keys, count, stride, low, high):
    """LOW, PLACES and NUMBERS of a map for the keys between two, with those entered that there are.

    What lies above them is more than what lies below: keys that are not there yet are most often
    the next ones.
    """
    span = high - low + 1
    below = (span >> 4) + 8
    places = below + span + (span >> 1)
    numbers = allocate_cleared(4 * places)
    first = np.int64(U(low) - U(below))
    for i in range(count):
        place = np.int64(U(load_word(keys + i * stride)) - U(first))
        store_number(numbers + 4 * place, i + 1)
    return first, places, numbers


@structure
def reach(map_, key, most):
    """Let a map reach as far as a key that lies outside; False if that takes more places than most.

    It grows by half on the side of the key, so that this does not come often.
    """
    low, places = U(load_word(map_ + LOW)), U(load_word(map_ + PLACES))
    above, below = U(key) - low, low + places - U(key) - _U1  # one less than the places needed
    needed = min(above, below)
    if needed >= U(most):
        return False
    more = min(np.int64(needed + (needed >> _U1)) + 1, most)
    if above <= below:
        lengthen_above(map_, more)
    else:
        lengthen_below(map_, more)
    return True


@structure
def lengthen_above(map_, places):
    """Give a map so many places, the new ones above."""
    old, size, more = load_word(map_ + NUMBERS), numbers_bytes(map_), 4 * places
    if can_grow(size):
        numbers = grow_table(old, size, more)
        if numbers == -1:
            raise MemoryError
    else:
        numbers = allocate_cleared(more)
        copy_bytes(numbers, old, size)
        release_table(old, size)
    store_word(map_ + NUMBERS, numbers)
    store_word(map_ + PLACES, places)


@structure
def lengthen_below(map_, places):
    """Give a map so many places, the new ones below."""
    old, size, more = load_word(map_ + NUMBERS), numbers_bytes(map_), 4 * places
    numbers = allocate_cleared(more)
    copy_bytes(numbers + more - size, old, size)
    release_table(old, size)
    new = U(places - load_word(map_ + PLACES))
    store_word(map_ + LOW, np.int64(U(load_word(map_ + LOW)) - new))
    store_word(map_ + NUMBERS, numbers)
    store_word(map_ + PLACES, places)


@structure
def set_map(map_, low, places, numbers):
    """Write what a map is."""
    store_word(map_ + LOW, low)
    store_word(map_ + PLACES, places)
    store_word(map_ + NUMBERS, numbers)


@structure
def release_numbers(map_):
    """Give the numbers of a map back."""
    release_table(load_word(map_ + NUMBERS), numbers_bytes(map_))


@structure
def forget_numbers(map_):
    """No key has an entry."""
    clear_bytes(load_word(map_ + NUMBERS), numbers_bytes(map_))
