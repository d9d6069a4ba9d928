"""A map from key words to payload words, with a journal of every key touched since the commit.

header   TABLE MASK COUNT LIMIT JOURNAL TOUCHED ROOM KEY_WORDS PAYLOAD_WORDS STRIDE KINDS COMMITTED
entry    hash (0: free)   mark (journal number + 1, or 0)   key words   payload words
journal  entry's address  1 if the key was there before     key words   payload words as they were

Open addressing over a power of two, linear probing, backward-shift erase. Entries are erased at
commit and rollback only, so between them only growth moves an entry, and it tells the journal. An
entry is handed out as the address of its payload, live or journaled alike.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import prefetch
from viewmill.kernels.structures.memory import load_word, spill, store_word
from viewmill.kernels.structures.wide import (
    add_product,
    signed,
    signed_fits,
    wide_ratio_magnitude,
    wide_to_float,
)
from viewmill.kernels.structures.wide_values import add_wide_product, add_wide_value, wide_times

TABLE, MASK, COUNT, LIMIT = 0, 8, 16, 24
JOURNAL, TOUCHED, ROOM = 32, 40, 48
KEY_WORDS, PAYLOAD_WORDS, STRIDE, KINDS, COMMITTED = 56, 64, 72, 80, 88
HEADER_WORDS = 24  # the last one is that of `exact_sums`
MARK, KEY = 8, 16  # offsets within an entry; the hash is at 0

AHEAD = 12  # so many keys before it is needed an entry is prefetched
_FAST_CACHE_BYTES = 1 << 20

# What a payload word is to `is_void`: a word of what is exact, or not asked.
EXACT, IGNORED = 0, 1

U = np.uint64
_SEED, _FIRST, _SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
_U30, _U27, _U31 = U(30), U(27), U(31)
_TAKEN = U(1 << 63)


@structure
def hash_words(address, words):
    """A hash that is never 0. Its lower bits are the home position."""
    h = _SEED
    for i in range(words):
        h ^= U(load_word(address + 8 * i))
        h ^= h >> _U30
        h *= _FIRST
        h ^= h >> _U27
        h *= _SECOND
        h ^= h >> _U31
    return np.int64(h | _TAKEN)


@structure
def same_words(left, right, words):
    """Whether `words` words at two addresses are equal."""
    for i in range(words):  # noqa: SIM110
        if load_word(left + 8 * i) != load_word(right + 8 * i):
            return False
    return True


@structure
def copy_words(to, source, words):
    """Copy `words` words; the places do not overlap."""
    for i in range(words):
        store_word(to + 8 * i, load_word(source + 8 * i))


@structure
def find(s, address, words):
    """The entry's own address for a key, or the free place where it would go."""
    h = hash_words(address, words)
    table, mask, stride = load_word(s + TABLE), load_word(s + MASK), load_word(s + STRIDE)
    i = h & mask
    while True:
        at = table + i * stride
        stored = load_word(at)
        if stored == 0 or (stored == h and same_words(at + KEY, address, words)):
            return at, h
        i = (i + 1) & mask


@structure
def exceeds_fast_cache(s):
    """Whether the table is so large that looking a key up waits for memory."""
    return (load_word(s + MASK) + 1) * load_word(s + STRIDE) > _FAST_CACHE_BYTES


@structure
def fetch_entry(s, at):
    """Have an entry, which may span two cache lines, brought into the cache."""
    prefetch(at)
    prefetch(at + load_word(s + STRIDE) - 8)


@structure
def fetch_key(s, address, words):
    """Have the place where a key is looked for first brought into the cache."""
    i = hash_words(address, words) & load_word(s + MASK)
    fetch_entry(s, load_word(s + TABLE) + i * load_word(s + STRIDE))


@structure
def note(s, at, existed):
    """Journal an entry before its first change."""
    t, stride = load_word(s + TOUCHED), load_word(s + STRIDE)
    record = load_word(s + JOURNAL) + t * stride
    store_word(record, at)
    store_word(record + 8, existed)
    for offset in range(KEY, stride, 8):
        store_word(record + offset, load_word(at + offset))
    store_word(at + MARK, t + 1)
    store_word(s + TOUCHED, t + 1)


@structure
def touch(s, address, words):
    """The payload of the key at `address`, made if absent, journaled."""
    at, h = find(s, address, words)
    if load_word(at) == 0:
        store_word(at, h)
        copy_words(at + KEY, address, words)
        store_word(s + COUNT, load_word(s + COUNT) + 1)
        note(s, at, 0)
    elif load_word(at + MARK) == 0:
        note(s, at, 1)
    return at + KEY + 8 * words


@structure
def keyed_touch(s, key):
    """The entry of a key (made if absent); its old payload is noted."""
    return touch(s, spill(key), len(key))


@structure
def keyed_full(s):
    """Whether there is no room for one more touch."""
    return load_word(s + COUNT) >= load_word(s + LIMIT) or load_word(s + TOUCHED) >= load_word(
        s + ROOM
    )


@structure
def keyed_touched(s):
    """How many keys were touched since the last commit."""
    return load_word(s + TOUCHED)


@structure
def payload_offset(s):
    """Where the payload begins in an entry."""
    return KEY + 8 * load_word(s + KEY_WORDS)


@structure
def record_at(s, t):
    """The address of journal record t."""
    return load_word(s + JOURNAL) + t * load_word(s + STRIDE)


@structure
def keyed_before(s, t):
    """Touched key t as it was at the last commit; the payload of an absent key is zero."""
    return record_at(s, t) + payload_offset(s)


@structure
def keyed_now(s, t):
    """Touched key t as it is."""
    return load_word(record_at(s, t)) + payload_offset(s)


@structure
def keyed_capacity(s):
    """How many positions `keyed_at` takes."""
    return load_word(s + MASK) + 1


@structure
def keyed_at(s, i):
    """The entry at position i, or -1. While COMMITTED is set: as it was at the last commit."""
    at = load_word(s + TABLE) + i * load_word(s + STRIDE)
    if load_word(at) == 0:
        return -1
    mark = load_word(at + MARK)
    if mark != 0 and load_word(s + COMMITTED) != 0:
        at = record_at(s, mark - 1)
        if load_word(at + 8) == 0:
            return -1
    return at + payload_offset(s)


@structure
def key_word(s, e, i):
    """Word i of the key of entry e."""
    return load_word(e - 8 * (load_word(s + KEY_WORDS) - i))


@structure
def keyed_add(s, e, k, x):
    """Int slot += x."""
    store_word(e + 8 * k, load_word(e + 8 * k) + x)


@structure
def keyed_add_wide(s, e, k, x, m):
    """Wide slot += x * m."""
    add_product(e + 8 * k, x, m)


@structure
def keyed_add_value(s, e, k, w, m):
    """Wide slot += w * m, which fits."""
    add_wide_value(e + 8 * k, wide_times(w, m))


@structure
def keyed_add_carried(s, e, k, c, w, m):
    """Wide slot k += w * m; int slot c counts how often that left 128 bits."""
    carry = add_wide_product(e + 8 * k, w, m)
    store_word(e + 8 * c, load_word(e + 8 * c) + carry)


@structure
def int_at(s, e, k):
    """The value of an int slot."""
    return load_word(e + 8 * k)


@structure
def wide_fits(s, e, k):
    """Whether a wide slot's value is an int64."""
    return load_word(e + 8 * k + 8) == load_word(e + 8 * k) >> 63


@structure
def wide_int(s, e, k):
    """The value of a wide slot that fits."""
    return load_word(e + 8 * k)


@structure
def wide_float(s, e, k):
    """The value of a wide slot as a float."""
    return wide_to_float(e + 8 * k)


@structure
def wide_ratio_fits(s, e, k, scale, n):
    """Whether wide * scale / n is an int64; n = 0 is not."""
    quotient, fits = wide_ratio_magnitude(e + 8 * k, scale, n)
    return fits and signed_fits(quotient, (load_word(e + 8 * k + 8) ^ n) < 0)


@structure
def wide_ratio(s, e, k, scale, n):
    """Wide * scale / n, half away from zero."""
    quotient, _ = wide_ratio_magnitude(e + 8 * k, scale, n)
    return signed(quotient, (load_word(e + 8 * k + 8) ^ n) < 0)


@structure
def is_void(s, at):
    """Whether an entry's whole payload is zero."""
    payload, kinds = at + payload_offset(s), load_word(s + KINDS)
    for k in range(load_word(s + PAYLOAD_WORDS)):
        if load_word(kinds + 8 * k) == EXACT and load_word(payload + 8 * k) != 0:
            return False
    return True


@structure
def erase(s, at):
    """Free an entry's place, moving those that were pushed past it back towards home."""
    table, mask, stride = load_word(s + TABLE), load_word(s + MASK), load_word(s + STRIDE)
    hole = (at - table) // stride
    i = hole
    while True:
        i = (i + 1) & mask
        source = table + i * stride
        h = load_word(source)
        if h == 0:
            break
        if ((i - h) & mask) >= ((i - hole) & mask):
            to = table + hole * stride
            copy_words(to, source, stride >> 3)
            mark = load_word(to + MARK)
            if mark != 0:
                store_word(record_at(s, mark - 1), to)
            hole = i
    free = table + hole * stride
    for offset in range(0, stride, 8):
        store_word(free + offset, 0)
    store_word(s + COUNT, load_word(s + COUNT) - 1)


@structure
def commit(s):
    """Forget the journal and erase what became void. Gives 1 if memory should be given back."""
    touched, room = load_word(s + TOUCHED), load_word(s + ROOM)
    is_large = exceeds_fast_cache(s)
    for t in range(touched):
        if is_large and t + AHEAD < touched:
            fetch_entry(s, load_word(record_at(s, t + AHEAD)))
        at = load_word(record_at(s, t))
        store_word(at + MARK, 0)
        if is_void(s, at):
            erase(s, at)
    store_word(s + TOUCHED, 0)
    capacity = load_word(s + MASK) + 1
    roomy = room > 4096 and touched * 8 < room
    return 1 if roomy or (capacity > 1024 and load_word(s + COUNT) * 8 < capacity) else 0


@structure
def rollback(s):
    """Go back to exactly the last commit."""
    for t in range(load_word(s + TOUCHED)):
        record = record_at(s, t)
        at = load_word(record)
        store_word(at + MARK, 0)
        if load_word(record + 8) == 0:
            erase(s, at)
        else:
            for offset in range(KEY, load_word(s + STRIDE), 8):
                store_word(at + offset, load_word(record + offset))
    store_word(s + TOUCHED, 0)
    return 0


@structure
def rehash(s, table, capacity):
    """Move every entry to an empty table."""
    old, stride, mask = load_word(s + TABLE), load_word(s + STRIDE), capacity - 1
    for j in range(load_word(s + MASK) + 1):
        source = old + j * stride
        h = load_word(source)
        if h == 0:
            continue
        i = h & mask
        while load_word(table + i * stride) != 0:
            i = (i + 1) & mask
        to = table + i * stride
        copy_words(to, source, stride >> 3)
        mark = load_word(to + MARK)
        if mark != 0:
            store_word(record_at(s, mark - 1), to)
    store_word(s + TABLE, table)
    store_word(s + MASK, mask)
    return 0


@structure
def load_rows(s, rows, size):
    """Set `size` entries from rows of key and payload words; there is room, and no journal."""
    words, width = load_word(s + KEY_WORDS), load_word(s + STRIDE) - KEY
    for i in range(size):
        row = rows + i * width
        at, h = find(s, row, words)
        if load_word(at) == 0:
            store_word(at, h)
            store_word(s + COUNT, load_word(s + COUNT) + 1)
        copy_words(at + KEY, row, width >> 3)
        if is_void(s, at):
            erase(s, at)
    return 0


@structure
def export_rows(s, rows):
    """Write every entry as a row of key and payload words, as committed; gives how many."""
    width, key = load_word(s + STRIDE) - KEY, 8 * load_word(s + KEY_WORDS)
    n = 0
    for i in range(keyed_capacity(s)):
        e = keyed_at(s, i)
        if e != -1:
            copy_words(rows + n * width, e - key, width >> 3)
            n += 1
    return n


@structure
def find_row(s, row):
    """The payload of the entry whose key a row begins with."""
    at, _ = find(s, row, load_word(s + KEY_WORDS))
    return at + payload_offset(s)
