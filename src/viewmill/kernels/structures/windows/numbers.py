"""Numbers that stand for groups: an open hash table from the words of a key to 0, 1, 2, ..."""

import numpy as np

U = np.uint64


def mixed(keys, at):
    """A hash of a row of words."""
    h = U(0)
    for i in range(keys.shape[1]):
        h = (h ^ U(keys[U(at), U(i)])) * U(0xBF58476D1CE4E5B9)
        h ^= h >> U(29)
        h *= U(0x94D049BB133111EB)
        h ^= h >> U(32)
    return h


def is_equal(keys, at, known, number):
    same = True
    for i in range(keys.shape[1]):
        same = same and keys[U(at), U(i)] == known[U(number), U(i)]
    return same


def number_rows(done, keys, slots, known, count, out):
    """out[i] is the number of row i's key; new keys get the next ones.

    Gives how many rows are done: fewer than all if `known` is full. `slots` has twice its places.
    """
    mask = slots.size - 1
    for i in range(done, keys.shape[0]):
        at = np.int64(mixed(keys, i) & U(mask))
        while True:
            number = slots[U(at)]
            if number < 0:
                if count[0] >= known.shape[0]:
                    return i
                number = count[0]
                count[0] = number + 1
                slots[U(at)] = number
                for j in range(keys.shape[1]):
                    known[U(number), U(j)] = keys[U(i), U(j)]
                break
            if is_equal(keys, i, known, number):
                break
            at = (at + 1) & mask
        out[U(i)] = number
    return keys.shape[0]


def fill_slots(known, count, slots):
    """Put all known keys into empty slots."""
    mask = slots.size - 1
    for number in range(count[0]):
        at = np.int64(mixed(known, number) & U(mask))
        while slots[U(at)] >= 0:
            at = (at + 1) & mask
        slots[U(at)] = number
    return 0
