"""Tables whose entries lie side by side, found through a separate table of slots.

table   ENTRIES (address)  COUNT  ROOM  MASK (slots - 1; -1 in a table so small that it has none)
entry   [mark]  key words  payload words
slots   behind the last place: upper half of the hash, then the entry's number + 1; 0 is free
tags    in their stead in a small table: the upper byte of each entry's hash

Entries are dense, so visiting them is a walk through memory; a probe that meets another key hardly
ever looks at its entry; a slot is small, so many fit the cache. The tags of a small table are all
compared at once, and entries are looked at only where one is equal. Erasing moves the last entry
into the hole. A table knows neither the length of its keys nor of its entries: who calls says both.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.heap import (
    HUGE,
    HUGE_PAGE,
    allocate,
    allocate_table,
    can_grow,
    clear_bytes,
    copy_bytes,
    grow_table,
    move_bytes,
    out_of_line,
    prefetch,
    release,
    release_table,
)
from viewmill.kernels.structures.memory import (
    load_byte,
    load_word,
    store_byte,
    store_word,
    trailing_zeros,
)

ENTRIES, COUNT, ROOM, MASK = 0, 8, 16, 24
TABLE_WORDS = 4

U = np.uint64
_SEED, _FIRST, _SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
_U32, _U29 = U(32), U(29)
_NUMBER = 0xFFFFFFFF
_TAG = ~_NUMBER
_FETCHED = 1536  # bytes of an entry that are asked for ahead
_MIDDLE = 32 << 10  # bytes
_LONG = 80  # bytes: what room is left over costs more than moving now and then
_SCANNED = 24  # up to so many entries have tags instead of slots
_STEPPED = 16  # up to so many entries room grows by a few
_ONES, _TOPS = 0x0101010101010101, np.int64(-0x7F7F7F7F7F7F7F80)  # of each byte the lowest, highest


@inline_structure
def hash_key(key, words):
    """The hash of `words` words: its upper half is the tag, whose lower bits are the home slot."""
    h = _SEED
    for i in range(words):
        h ^= U(load_word(key + 8 * i))
        h *= _FIRST
        h ^= h >> _U32
    h *= _SECOND
    return np.int64(h ^ (h >> _U29))


@inline_structure
def home_of(h, mask):
    """The home slot of a hash, or of a slot: both have the tag, so that slots move without keys."""
    return (h >> 32) & mask


@inline_structure
def same_key(left, right, words):
    """Whether two keys are equal."""
    for i in range(words):  # noqa: SIM110
        if load_word(left + 8 * i) != load_word(right + 8 * i):
            return False
    return True


@inline_structure
def slots_of(d, stride):
    """Where the slots begin."""
    return load_word(d + ENTRIES) + load_word(d + ROOM) * stride


@inline_structure
def dense_find(d, key, words, h, key_at, stride):
    """The address of the key in its entry, or 0. `key_at` is where keys begin in an entry."""
    mask = load_word(d + MASK)
    first = load_word(d + ENTRIES) + key_at
    if mask < 0:
        return small_find(d, key, words, h, first, stride)
    slots = slots_of(d, stride)
    i = home_of(h, mask)
    while True:
        slot = load_word(slots + 8 * i)
        if slot == 0:
            return 0
        if (slot ^ h) & _TAG == 0:
            at = first + ((slot & _NUMBER) - 1) * stride
            if same_key(at, key, words):
                return at
        i = (i + 1) & mask


@inline_structure
def small_find(d, key, words, h, first, stride):
    """The same in a small table, whose keys begin at `first`."""
    count = load_word(d + COUNT)
    tags, wanted = slots_of(d, stride), tag_of(h) * _ONES
    for j in range(0, count, 8):
        differing = load_word(tags + j) ^ wanted
        # The highest bit of each byte that is zero, and seldom that of one beside it.
        equal = (differing - _ONES) & ~differing & _TOPS
        while equal != 0:
            i = j + (trailing_zeros(equal) >> 3)
            if i < count and same_key(first + i * stride, key, words):
                return first + i * stride
            equal &= equal - 1
    return 0


@inline_structure
def tag_of(h):
    """The upper byte of a hash."""
    return (h >> 56) & 0xFF


@inline_structure
def fetch_slot(d, key, words, stride):
    """Ask for the memory of a key's home slot."""
    mask = load_word(d + MASK)
    if mask >= 0:
        prefetch(slots_of(d, stride) + 8 * home_of(hash_key(key, words), mask))


@inline_structure
def fetch_entry(d, key, words, stride):
    """Ask for the memory of the entry in a key's home slot, which is most often its own."""
    mask = load_word(d + MASK)
    if mask >= 0:
        slot = load_word(slots_of(d, stride) + 8 * home_of(hash_key(key, words), mask))
        if slot != 0:
            at = load_word(d + ENTRIES) + ((slot & _NUMBER) - 1) * stride
            prefetch(at)
            for offset in range(64, min(stride, _FETCHED), 64):
                prefetch(at + offset)


@structure
def put_slot(slots, mask, slot):
    """Write a slot to the first free place from its home on."""
    i = home_of(slot, mask)
    while load_word(slots + 8 * i) != 0:
        i = (i + 1) & mask
    store_word(slots + 8 * i, slot)


@structure
def slot_count(room):
    """Slots for so many entries: a power of two, three quarters full at most."""
    if room <= _SCANNED:
        return 0
    n = 32
    while n * 3 < room * 4:
        n *= 2
    return n


@structure
def tail_bytes(room):
    """What lies behind the entries: slots or tags."""
    if room <= _SCANNED:
        return (room + 7) & ~7
    return 8 * slot_count(room)


@structure
def table_bytes(room, stride):
    """What a table of this room takes."""
    return room * stride + tail_bytes(room)


@structure
def dense_resize(d, room, words, key_at, stride):
    """Move the entries to a place with another room. Gives the bytes taken more than before."""
    out_of_line()
    old_room = load_word(d + ROOM)
    before = table_bytes(old_room, stride) if old_room > 0 else 0
    now = table_bytes(room, stride)
    if room > old_room and can_grow(before):
        extend(d, room, before, now, stride)
    else:
        move_table(d, room, now, words, key_at, stride)
    return now - before


@structure
def extend(d, room, before, now, stride):
    """Give a huge table more room where it is: its slots move behind the new end."""
    n, old_slots = slot_count(room), load_word(d + MASK) + 1
    old = load_word(d + ROOM) * stride  # where slots begin, counted from the first entry
    new, aside = room * stride, 0
    if n != old_slots and old + 8 * old_slots > new:  # the new slots would overwrite the old ones
        aside = allocate(8 * old_slots)
        copy_bytes(aside, load_word(d + ENTRIES) + old, 8 * old_slots)
    entries = grow_table(load_word(d + ENTRIES), before, now)
    if entries == -1:
        release(aside)
        raise MemoryError
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    store_word(d + MASK, n - 1)
    if n == old_slots:
        move_bytes(entries + new, entries + old, 8 * n)
        return
    clear_bytes(entries + new, 8 * n)
    put_slots(entries + new, n - 1, aside if aside != 0 else entries + old, old_slots)
    release(aside)


@structure
def move_table(d, room, now, words, key_at, stride):
    """Copy a table to a place with another room."""
    old, old_room, count = load_word(d + ENTRIES), load_word(d + ROOM), load_word(d + COUNT)
    n, old_slots = slot_count(room), load_word(d + MASK) + 1
    old_tags = slots_of(d, stride)
    entries = allocate_table(now)
    copy_bytes(entries, old, count * stride)
    slots = entries + room * stride
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    store_word(d + MASK, n - 1)
    if n > 0:
        clear_bytes(slots, 8 * n)
    if n > 0 and old_slots > 0:
        put_slots(slots, n - 1, old + old_room * stride, old_slots)
    elif n > 0:
        for j in range(count):
            h = hash_key(entries + j * stride + key_at, words)
            put_slot(slots, n - 1, (h & _TAG) | (j + 1))
    else:  # a small table was small before, or empty
        for j in range(0, count, 8):
            store_word(slots + j, load_word(old_tags + j))
    if old_room > 0:
        release_table(old, table_bytes(old_room, stride))


@structure
def put_slots(slots, mask, old, count):
    """Enter old slots among new ones, which are free."""
    for i in range(count):
        slot = load_word(old + 8 * i)
        if slot != 0:
            put_slot(slots, mask, slot)


@structure
def larger(room, stride):
    """The next room: two, then four more while small; then half more, of long entries a quarter.

    Memory is dear when it is first touched: a table in the middle doubles, and one that is huge
    fills its last page.
    """
    if room < _STEPPED:
        return room + (4 if room > 2 else 2)
    more = room + (room >> 2 if stride >= _LONG else room >> 1)
    if stride <= _LONG and _MIDDLE <= room * stride < HUGE:
        more = 2 * room
    size = table_bytes(more, stride)
    if size < HUGE:
        return more
    spare = (HUGE_PAGE - size) & (HUGE_PAGE - 1)
    return min(more + spare // stride, slot_count(more) * 3 // 4)


@structure
def dense_add(d, key, words, h, key_at, stride):
    """A new entry with this key and a payload of zeros, where there is room; its key's address."""
    count = load_word(d + COUNT)
    entry = load_word(d + ENTRIES) + count * stride
    for offset in range(0, stride, 8):
        store_word(entry + offset, 0)
    at = entry + key_at
    for i in range(words):
        store_word(at + 8 * i, load_word(key + 8 * i))
    mask = load_word(d + MASK)
    if mask >= 0:
        put_slot(slots_of(d, stride), mask, (h & _TAG) | (count + 1))
    else:
        store_byte(slots_of(d, stride) + count, np.uint8(tag_of(h)))
    store_word(d + COUNT, count + 1)
    return at


@structure
def slot_of(slots, mask, h, number):
    """The slot of an entry that is there."""
    i = home_of(h, mask)
    while load_word(slots + 8 * i) & _NUMBER != number + 1:
        i = (i + 1) & mask
    return i


@structure
def free_slot(d, hole, stride):
    """Free a slot, moving those that were pushed past it back towards home."""
    slots, mask = slots_of(d, stride), load_word(d + MASK)
    i = hole
    while True:
        i = (i + 1) & mask
        slot = load_word(slots + 8 * i)
        if slot == 0:
            break
        if ((i - home_of(slot, mask)) & mask) >= ((i - hole) & mask):
            store_word(slots + 8 * hole, slot)
            hole = i
    store_word(slots + 8 * hole, 0)


@structure
def dense_erase(d, number, words, key_at, stride):
    """Drop an entry; the last one takes its number. Gives the address of what moved, or 0."""
    out_of_line()
    entries, last = load_word(d + ENTRIES), load_word(d + COUNT) - 1
    entry, moved = entries + number * stride, entries + last * stride
    mask = load_word(d + MASK)
    if mask >= 0:
        slots = slots_of(d, stride)
        hole = slot_of(slots, mask, hash_key(entry + key_at, words), number)
        free_slot(d, hole, stride)
        if number != last:
            h = hash_key(moved + key_at, words)
            i = slot_of(slots, mask, h, last)
            store_word(slots + 8 * i, (h & _TAG) | (number + 1))
    else:
        tags = slots_of(d, stride)
        store_byte(tags + number, load_byte(tags + last))
    store_word(d + COUNT, last)
    if number == last:
        return 0
    copy_bytes(entry, moved, stride)
    return entry


@structure
def is_sparse(d):
    """Whether a table should give memory back."""
    room = load_word(d + ROOM)
    return room > 64 and load_word(d + COUNT) * 4 < room


@structure
def dense_release(d, stride):
    """Hold nothing. Gives the bytes given back."""
    room = load_word(d + ROOM)
    if room > 0:
        release_table(load_word(d + ENTRIES), table_bytes(room, stride))
    store_word(d + ENTRIES, 0)
    store_word(d + COUNT, 0)
    store_word(d + ROOM, 0)
    store_word(d + MASK, -1)
    return table_bytes(room, stride) if room > 0 else 0
