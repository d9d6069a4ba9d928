"""Tables whose entries lie side by side, found through a separate table of slots.

table   ENTRIES (address)  COUNT  ROOM
        MASK (slots - 1; SMALL in a table so small that it has none, DIRECT if it has a map)
entry   [mark]  key words  payload words
slots   behind the last place: upper half of the hash, then the entry's number + 1; 0 is free
tags    in their stead in a small table: the upper byte of each entry's hash
map     in their stead where keys are integers close together (see `direct`)

Entries are dense, so visiting them is a walk through memory; a probe that meets another key hardly
ever looks at its entry; a slot is small, so many fit the cache. The tags of a small table are all
compared at once, and entries are looked at only where one is equal. Erasing moves the last entry
into the hole. A table knows neither the length of its keys nor of its entries: who calls says both.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.direct import (
    fetch_number,
    fill_map,
    has_place,
    most_places,
    number_of,
    place_of,
    range_of,
)
from viewmill.kernels.structures.heap import (
    HUGE,
    HUGE_PAGE,
    MAPPED,
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
    store_number,
    store_word,
    trailing_zeros,
)

ENTRIES, COUNT, ROOM, MASK = 0, 8, 16, 24
TABLE_WORDS = 4
SMALL, DIRECT = -1, -2  # in MASK

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
def dense_find(d, key, words, key_at, stride):
    """The address of the key in its entry, or 0. `key_at` is where keys begin in an entry."""
    mask = load_word(d + MASK)
    first = load_word(d + ENTRIES) + key_at
    if mask == DIRECT:
        number = number_of(slots_of(d, stride), load_word(key))
        return first + (number - 1) * stride if number != 0 else 0
    h = hash_key(key, words)
    if mask == SMALL:
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
    """Ask for the memory of a key's home slot, or of its number."""
    mask = load_word(d + MASK)
    if mask == DIRECT:
        fetch_number(slots_of(d, stride), load_word(key))
    elif mask >= 0:
        prefetch(slots_of(d, stride) + 8 * home_of(hash_key(key, words), mask))


@inline_structure
def fetch_entry(d, key, words, stride):
    """Ask for the memory of the entry in a key's home slot, which is most often its own."""
    mask = load_word(d + MASK)
    number = 0
    if mask == DIRECT:
        number = number_of(slots_of(d, stride), load_word(key))
    elif mask >= 0:
        home = home_of(hash_key(key, words), mask)
        number = load_word(slots_of(d, stride) + 8 * home) & _NUMBER
    if number != 0:
        at = load_word(d + ENTRIES) + (number - 1) * stride
        for offset in range(0, min(stride, _FETCHED), 64):
            prefetch(at + offset)
        prefetch(at + stride - 8)  # it may begin within a line


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
        extend(d, room, before, now, words, key_at, stride)
    else:
        move_table(d, room, now, words, key_at, stride)
    return now - before


@structure
def extend(d, room, before, now, words, key_at, stride):
    """Give a huge table more room where it is: its slots move behind the new end."""
    old_room = load_word(d + ROOM)
    n, old_n = slot_count(room), slot_count(old_room)
    old = old_room * stride  # where slots begin, counted from the first entry
    new, aside = room * stride, 0
    if n != old_n and old + 8 * old_n > new:  # the new slots would overwrite the old ones
        aside = allocate(8 * old_n)
        copy_bytes(aside, load_word(d + ENTRIES) + old, 8 * old_n)
    entries = grow_table(load_word(d + ENTRIES), before, now)
    if entries == -1:
        release(aside)
        raise MemoryError
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    if n == old_n:
        move_bytes(entries + new, entries + old, 8 * n)
        return
    enter_all(d, words, key_at, stride, aside if aside != 0 else entries + old, old_n)
    release(aside)


@structure
def move_table(d, room, now, words, key_at, stride):
    """Copy a table to a place with another room."""
    old, old_room, count = load_word(d + ENTRIES), load_word(d + ROOM), load_word(d + COUNT)
    old_slots = slots_of(d, stride)
    entries = allocate_table(now)
    copy_bytes(entries, old, count * stride)
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    if slot_count(room) > 0:
        enter_all(d, words, key_at, stride, old_slots, slot_count(old_room))
    else:  # a small table was small before, or empty
        for i in range(0, count, 8):
            store_word(slots_of(d, stride) + i, load_word(old_slots + i))
    if old_room > 0:
        release_table(old, table_bytes(old_room, stride))


@structure
def enter_all(d, words, key_at, stride, old, old_n):
    """Make a map of all keys, or slots; `old` are so many slots, a map or tags from before."""
    mask = load_word(d + MASK)
    if enter_directly(d, words, key_at, stride):
        return
    slots, n = slots_of(d, stride), slot_count(load_word(d + ROOM))
    store_word(d + MASK, n - 1)
    clear_bytes(slots, 8 * n)
    if mask >= 0:
        put_slots(slots, n - 1, old, old_n)
    else:
        hash_all(d, words, key_at, stride)


@structure
def enter_directly(d, words, key_at, stride):
    """Make a map of all keys if they are integers close together; whether they are."""
    count, size = load_word(d + COUNT), 8 * slot_count(load_word(d + ROOM))
    if words != 1 or count == 0:
        return False
    keys = load_word(d + ENTRIES) + key_at
    low, high, is_close = range_of(keys, count, stride, most_places(size))
    if is_close:
        fill_map(slots_of(d, stride), size, keys, count, stride, low, high)
        store_word(d + MASK, DIRECT)
    return is_close


@structure
def hash_all(d, words, key_at, stride):
    """Enter every entry among slots that are free."""
    keys = load_word(d + ENTRIES) + key_at
    slots, mask = slots_of(d, stride), load_word(d + MASK)
    for i in range(load_word(d + COUNT)):
        h = hash_key(keys + i * stride, words)
        put_slot(slots, mask, (h & _TAG) | (i + 1))


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
    if stride <= _LONG and _MIDDLE <= room * stride < MAPPED:
        more = 2 * room
    size = table_bytes(more, stride)
    if size < HUGE:
        return more
    spare = (HUGE_PAGE - size) & (HUGE_PAGE - 1)
    return min(more + spare // stride, slot_count(more) * 3 // 4)


@structure
def dense_add(d, key, words, key_at, stride):
    """A new entry with this key and a payload of zeros, where there is room; its key's address."""
    count = load_word(d + COUNT)
    entry = load_word(d + ENTRIES) + count * stride
    for offset in range(0, stride, 8):
        store_word(entry + offset, 0)
    at = entry + key_at
    for i in range(words):
        store_word(at + 8 * i, load_word(key + 8 * i))
    store_word(d + COUNT, count + 1)
    mask, slots = load_word(d + MASK), slots_of(d, stride)
    if mask == DIRECT:
        add_directly(d, load_word(key), words, key_at, stride)
    elif mask == SMALL:
        store_byte(slots + count, np.uint8(tag_of(hash_key(key, words))))
    else:
        put_slot(slots, mask, (hash_key(key, words) & _TAG) | (count + 1))
    return at


@structure
def add_directly(d, key, words, key_at, stride):
    """Enter the last entry into the map; where its key is too far away, into another one."""
    map_, count = slots_of(d, stride), load_word(d + COUNT)
    if has_place(map_, key):
        store_number(place_of(map_, key), count)
    elif not enter_directly(d, words, key_at, stride):
        n = slot_count(load_word(d + ROOM))
        store_word(d + MASK, n - 1)
        clear_bytes(map_, 8 * n)
        hash_all(d, words, key_at, stride)


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
    elif mask == DIRECT:
        map_ = slots_of(d, stride)
        store_number(place_of(map_, load_word(entry + key_at)), 0)
        if number != last:
            store_number(place_of(map_, load_word(moved + key_at)), number + 1)
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
    store_word(d + MASK, SMALL)
    return table_bytes(room, stride) if room > 0 else 0
