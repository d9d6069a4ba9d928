"""Tables whose entries lie side by side, found through a separate table of slots.

table   ENTRIES (address)  COUNT  ROOM
        MASK (slots - 1; SMALL in a table so small that it has none, DIRECT if it has a map)
entry   [mark]  key words  payload words
slots   behind the last place: upper half of the hash, then the entry's number + 1; 0 is free
tags    in their stead in a small table: the upper byte of each entry's hash
map     in their stead where keys are integers close together (see `direct`); its numbers lie apart

Entries are dense, so visiting them is a walk through memory; a probe that meets another key hardly
ever looks at its entry; a slot is small, so many fit the cache. The tags of a small table are all
compared at once, and entries are looked at only where one is equal. Erasing moves the last entry
into the hole. A table knows neither the length of its keys nor of its entries: who calls says both.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.direct import (
    LOW,
    MAP_BYTES,
    NUMBERS,
    PLACES,
    fetch_number,
    has_place,
    new_map,
    number_of,
    numbers_bytes,
    place_of,
    range_of,
    reach,
    release_numbers,
    set_map,
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
_FETCHED = 1536  # bytes of an entry that are prefetched
_MIDDLE = 32 << 10  # bytes
_LONG_ENTRY = 80  # bytes: for these, unused room costs more than moving more often
_SPREAD = 12  # places of a map for an entry: farther apart keys are hashed
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
    """Find a key in a small table, whose keys begin at `first`."""
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
    """Prefetch a key's home slot, or its number in a direct map."""
    mask = load_word(d + MASK)
    if mask == DIRECT:
        fetch_number(slots_of(d, stride), load_word(key))
    elif mask >= 0:
        prefetch(slots_of(d, stride) + 8 * home_of(hash_key(key, words), mask))


@inline_structure
def fetch_entry(d, key, words, stride):
    """Prefetch the entry in a key's home slot, which is most often its own."""
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
def most_places(room):
    """How many places a map may come to have for so many entries."""
    return _SPREAD * room


@structure
def slots_bytes(room):
    """What lies behind so many entries where there is no map: slots or tags."""
    return (room + 7) & ~7 if room <= _SCANNED else 8 * slot_count(room)


@structure
def tail_bytes(d):
    """What lies behind the entries: slots, tags or a map without its numbers."""
    return MAP_BYTES if load_word(d + MASK) == DIRECT else slots_bytes(load_word(d + ROOM))


@structure
def block_bytes(d, stride):
    """What the entries and what lies behind them take."""
    room = load_word(d + ROOM)
    return room * stride + tail_bytes(d) if room > 0 else 0


@structure
def table_bytes(d, stride):
    """What a table takes."""
    numbers = numbers_bytes(slots_of(d, stride)) if load_word(d + MASK) == DIRECT else 0
    return block_bytes(d, stride) + numbers


@inline_structure
def has_room(d, key, stride):
    """Whether there is room for an entry with this key."""
    if load_word(d + COUNT) == load_word(d + ROOM):
        return False
    return load_word(d + MASK) != DIRECT or has_place(slots_of(d, stride), load_word(key))


@structure
def make_room(d, key, words, key_at, stride):
    """Let there be room for an entry with this key. Gives the bytes taken more than before."""
    out_of_line()
    before = table_bytes(d, stride)
    if load_word(d + COUNT) == load_word(d + ROOM):
        dense_resize(d, larger(load_word(d + ROOM), stride), words, key_at, stride)
    if not has_room(d, key, stride):
        make_place(d, load_word(key), key_at, stride)
    return table_bytes(d, stride) - before


@structure
def make_place(d, key, key_at, stride):
    """Let a table that has a map have a place for this key: in it, in a new one, or among slots."""
    room, count = load_word(d + ROOM), load_word(d + COUNT)
    if reach(slots_of(d, stride), key, most_places(room)):
        return
    low = high = key
    is_close = True
    if count > 0:
        keys = load_word(d + ENTRIES) + key_at
        low, high, is_close = range_of(keys, count, stride, most_places(room) >> 1)
        low, high = min(low, key), max(high, key)
    if is_close and U(high) - U(low) < U(most_places(room) >> 1):
        enter_directly(d, room, low, high, key_at, stride)
    else:
        move_to_slots(d, room, 1, key_at, stride)


@structure
def dense_resize(d, room, words, key_at, stride):
    """Move the entries to a place with another room. Gives the bytes taken more than before."""
    out_of_line()
    before, is_more = table_bytes(d, stride), room > load_word(d + ROOM)
    if load_word(d + MASK) == DIRECT and is_more:
        move_with_map(d, room, stride)
    elif room <= _SCANNED:
        move_with_tags(d, room, stride)
    else:
        enter_all(d, room, words, key_at, stride)
    return table_bytes(d, stride) - before


@structure
def enter_all(d, room, words, key_at, stride):
    """Move the entries to another room, and make a map of their keys, or slots."""
    if enter_if_close(d, room, words, key_at, stride):
        return
    block = block_bytes(d, stride)
    if load_word(d + MASK) >= 0 and room > load_word(d + ROOM) and can_grow(block):
        extend(d, room, block, stride)
    else:
        move_to_slots(d, room, words, key_at, stride)


@structure
def enter_if_close(d, room, words, key_at, stride):
    """Give a table this room and a map if its keys are integers close together; whether they are.

    They have to fit half of the places that a map may have, so that one whose keys become more as
    they did before stays a map.
    """
    count = load_word(d + COUNT)
    if words != 1 or count == 0:
        return False
    keys = load_word(d + ENTRIES) + key_at
    low, high, is_close = range_of(keys, count, stride, most_places(room) >> 1)
    if is_close:
        enter_directly(d, room, low, high, key_at, stride)
    return is_close


@structure
def dense_map(d, words, key_at, stride):
    """Make a map for keys that have slots, if they are close together. Gives the bytes more."""
    before = table_bytes(d, stride)
    if load_word(d + MASK) >= 0:
        enter_if_close(d, load_word(d + ROOM), words, key_at, stride)
    return table_bytes(d, stride) - before


@structure
def enter_directly(d, room, low, high, key_at, stride):
    """Give a table this room and a map of its keys, which are integers between two."""
    keys, count = load_word(d + ENTRIES) + key_at, load_word(d + COUNT)
    old, size = 0, 0
    if load_word(d + MASK) == DIRECT:
        map_ = slots_of(d, stride)
        old, size = load_word(map_ + NUMBERS), numbers_bytes(map_)
    first, places, numbers = new_map(keys, count, stride, low, high)
    move_block(d, room, MAP_BYTES, stride)
    store_word(d + MASK, DIRECT)
    set_map(slots_of(d, stride), first, places, numbers)
    release_block(old, size)


@structure
def move_with_map(d, room, stride):
    """Give a table with a map more room; its numbers stay as they are."""
    map_ = slots_of(d, stride)
    low, places = load_word(map_ + LOW), load_word(map_ + PLACES)
    numbers = load_word(map_ + NUMBERS)
    move_block(d, room, MAP_BYTES, stride)
    set_map(slots_of(d, stride), low, places, numbers)


@structure
def move_with_tags(d, room, stride):
    """Give a small table another room."""
    old, old_room, count = load_word(d + ENTRIES), load_word(d + ROOM), load_word(d + COUNT)
    tags = slots_of(d, stride)
    entries = allocate_table(room * stride + slots_bytes(room))
    copy_bytes(entries, old, count * stride)
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    for i in range(0, count, 8):
        store_word(slots_of(d, stride) + i, load_word(tags + i))
    if old_room > 0:
        release_table(old, old_room * stride + slots_bytes(old_room))


@structure
def move_block(d, room, tail, stride):
    """Give the entries another room and so many bytes behind it; what lay behind them is lost."""
    old, before = load_word(d + ENTRIES), block_bytes(d, stride)
    now = room * stride + tail
    if can_grow(before) and can_grow(now):
        entries = grow_table(old, before, now)
        if entries == -1:
            raise MemoryError
    else:
        entries = allocate_table(now)
        copy_bytes(entries, old, load_word(d + COUNT) * stride)
        release_block(old, before)
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)


@structure
def release_block(block, size):
    """Give memory back that a table had, if it had any."""
    if size > 0:
        release_table(block, size)


@structure
def extend(d, room, before, stride):
    """Give a large table with slots more room where it is: its slots move behind the new end."""
    old_room, mask = load_word(d + ROOM), load_word(d + MASK)
    n, old_n = slot_count(room), mask + 1
    old = old_room * stride  # where slots begin, counted from the first entry
    new, aside = room * stride, 0
    if n != old_n and old + 8 * old_n > new:  # the new slots would overwrite the old ones
        aside = allocate(8 * old_n)
        copy_bytes(aside, load_word(d + ENTRIES) + old, 8 * old_n)
    entries = grow_table(load_word(d + ENTRIES), before, new + 8 * n)
    if entries == -1:
        release(aside)
        raise MemoryError
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    if n == old_n:
        move_bytes(entries + new, entries + old, 8 * n)
        return
    store_word(d + MASK, n - 1)
    clear_bytes(entries + new, 8 * n)
    put_slots(entries + new, n - 1, aside if aside != 0 else entries + old, old_n)
    release(aside)


@structure
def move_to_slots(d, room, words, key_at, stride):
    """Copy the entries to a place with another room, and slots behind it."""
    old, before, mask = load_word(d + ENTRIES), block_bytes(d, stride), load_word(d + MASK)
    tail, n = slots_of(d, stride), slot_count(room)
    entries = allocate_table(room * stride + 8 * n)
    copy_bytes(entries, old, load_word(d + COUNT) * stride)
    store_word(d + ENTRIES, entries)
    store_word(d + ROOM, room)
    store_word(d + MASK, n - 1)
    slots = slots_of(d, stride)
    clear_bytes(slots, 8 * n)
    if mask >= 0:
        put_slots(slots, n - 1, tail, mask + 1)
    else:
        hash_all(d, words, key_at, stride)
    if mask == DIRECT:
        release_numbers(tail)
    release_block(old, before)


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
    more = room + (room >> 2 if stride >= _LONG_ENTRY else room >> 1)
    if stride <= _LONG_ENTRY and _MIDDLE <= room * stride < MAPPED:
        more = 2 * room
    size = more * stride + slots_bytes(more)
    if size < HUGE:
        return more
    spare = (HUGE_PAGE - size) & (HUGE_PAGE - 1)
    return min(more + spare // stride, slot_count(more) * 3 // 4)


@structure
def dense_add(d, key, words, key_at, stride):
    """A new entry with this key and a payload of zeros, which has room; its key's address."""
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
        store_number(place_of(slots, load_word(key)), count + 1)
    elif mask == SMALL:
        store_byte(slots + count, np.uint8(tag_of(hash_key(key, words))))
    else:
        put_slot(slots, mask, (hash_key(key, words) & _TAG) | (count + 1))
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
    given = table_bytes(d, stride)
    if load_word(d + MASK) == DIRECT:
        release_numbers(slots_of(d, stride))
    release_block(load_word(d + ENTRIES), block_bytes(d, stride))
    store_word(d + ENTRIES, 0)
    store_word(d + COUNT, 0)
    store_word(d + ROOM, 0)
    store_word(d + MASK, SMALL)
    return given
