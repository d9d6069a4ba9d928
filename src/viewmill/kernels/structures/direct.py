"""Entries found by their key itself: a map of numbers where keys are integers close together.

map     LOW (the key of the first place), PLACES, then four bytes for each place: the number of the
        entry that has this key + 1, or 0

It lies where the slots of a table would (see `dense`) and takes no more room. Nothing is hashed, no
two keys meet, and no key is compared. Places are counted modulo 2^64, so that every key has one:
without a sign, because compiled code believes that signed numbers do not overflow.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.heap import clear_bytes, prefetch
from viewmill.kernels.structures.memory import load_number, load_word, store_number, store_word

LOW, PLACES, NUMBERS = 0, 8, 16

U = np.uint64


@structure
def most_places(size):
    """How many places a map of so many bytes has."""
    return (size - NUMBERS) >> 2


@inline_structure
def has_place(map_, key):
    """Whether a key lies in the map."""
    return U(key) - U(load_word(map_ + LOW)) < U(load_word(map_ + PLACES))


@inline_structure
def place_of(map_, key):
    """Where the number of a key is that lies in the map."""
    return map_ + NUMBERS + 4 * np.int64(U(key) - U(load_word(map_ + LOW)))


@inline_structure
def number_of(map_, key):
    """The number of the entry with this key + 1, or 0."""
    return load_number(place_of(map_, key)) if has_place(map_, key) else 0


@inline_structure
def fetch_number(map_, key):
    """Ask for the memory of a key's number."""
    if has_place(map_, key):
        prefetch(place_of(map_, key))


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
def fill_map(map_, size, keys, count, stride, low, high):
    """Lay out a map of so many bytes for the keys between two, and enter those there are.

    What places are left over lie half below and half above them: as often as a key comes that
    lies outside, what is left over has halved, so that it does not come often.
    """
    clear_bytes(map_, size)
    places = most_places(size)
    spare = places - 1 - (high - low)
    store_word(map_ + LOW, np.int64(U(low) - U(spare >> 1)))
    store_word(map_ + PLACES, places)
    for i in range(count):
        store_number(place_of(map_, load_word(keys + i * stride)), i + 1)


@structure
def forget_numbers(map_):
    """No key has an entry."""
    clear_bytes(map_ + NUMBERS, 4 * load_word(map_ + PLACES))
