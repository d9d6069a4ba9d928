"""A map from key to payload, growing inside the kernel, with or without a journal.

header   a table (see `dense`), BYTES KEY_WORDS PAYLOAD_WORDS STRIDE KEY_AT KINDS COMMITTED
         JOURNAL TOUCHED JOURNAL_ROOM LOW_BYTES LAST_TOUCHED
journal  entry's number   1 if the key was there before   key words   payload words as they were

Without a journal an entry is dropped by `indexed_settle` as soon as its payload is zero. With one,
entries stay until commit or rollback, which also tell the journal when an entry moves.
"""

from __future__ import annotations

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.dense import (
    COUNT,
    DIRECT,
    ENTRIES,
    MASK,
    ROOM,
    TABLE_WORDS,
    dense_add,
    dense_erase,
    dense_find,
    dense_map,
    dense_release,
    dense_resize,
    fetch_entry,
    fetch_slot,
    has_room,
    is_sparse,
    make_room,
    slots_of,
    tail_bytes,
)
from viewmill.kernels.structures.direct import forget_numbers
from viewmill.kernels.structures.heap import (
    allocate,
    allocate_table,
    clear_bytes,
    copy_bytes,
    out_of_line,
    release,
    release_table,
)
from viewmill.kernels.structures.memory import load_word, spill, store_word
from viewmill.kernels.structures.wide_values import add_wide_value

BYTES = 8 * TABLE_WORDS
KEY_WORDS, PAYLOAD_WORDS, STRIDE, KEY_AT, KINDS, COMMITTED = 40, 48, 56, 64, 72, 80
JOURNAL, TOUCHED, JOURNAL_ROOM = 88, 96, 104
LOW_BYTES = 112  # that an entry would need more; 0 once it has them
LAST_TOUCHED = 120
HEADER_WORDS = 24  # the last one is that of `exact_sums`

_CACHED_BYTES = 1 << 20

EXACT, IGNORED = 0, 1  # what a payload word is to `is_zero`


@inline_structure
def indexed_find(s, key):
    """The entry of a key, or 0."""
    at = spill(key)
    words = len(key)
    found = dense_find(s, at, words, load_word(s + KEY_AT), load_word(s + STRIDE))
    return found + 8 * words if found != 0 else 0


@inline_structure
def indexed_touch(s, key):
    """The entry of a key, made if absent; noted in the journal if there is one."""
    at = spill(key)
    words = len(key)
    key_at = load_word(s + KEY_AT)
    found = dense_find(s, at, words, key_at, load_word(s + STRIDE))
    if found == 0:
        return make_entry(s, at, words) + 8 * words
    if key_at != 0 and load_word(found - 8) == 0:
        note(s, found, 1)
    return found + 8 * words


@inline_structure
def exceeds_cache(s):
    """Whether a state, this one or one with lists, exceeds the CPU caches."""
    return load_word(s + BYTES) > _CACHED_BYTES


@structure
def indexed_fetch(s, key):
    """Prefetch the slot that says where a key's entry is."""
    out_of_line()
    fetch_slot(s, spill(key), len(key), load_word(s + STRIDE))


@structure
def indexed_fetch_entry(s, key):
    """Prefetch a key's entry."""
    out_of_line()
    fetch_entry(s, spill(key), len(key), load_word(s + STRIDE))


@structure
def make_entry(s, at, words):
    """A new entry, noted; its key's address."""
    out_of_line()
    key_at = load_word(s + KEY_AT)
    add_room(s, at, words)
    found = dense_add(s, at, words, key_at, load_word(s + STRIDE))
    if key_at != 0:
        note(s, found, 0)
    return found


@inline_structure
def add_room(s, at, words):
    """Let there be room for an entry with the key at `at`."""
    stride = load_word(s + STRIDE)
    if not has_room(s, at, stride):
        more = make_room(s, at, words, load_word(s + KEY_AT), stride)
        store_word(s + BYTES, load_word(s + BYTES) + more)


@structure
def grow(s, room):
    """Give the table another room."""
    out_of_line()
    more = dense_resize(
        s, room, load_word(s + KEY_WORDS), load_word(s + KEY_AT), load_word(s + STRIDE)
    )
    store_word(s + BYTES, load_word(s + BYTES) + more)


@structure
def widen(s, e):
    """Give every entry room for low parts, which are zero; where entry e went."""
    out_of_line()
    old, room, count = load_word(s + ENTRIES), load_word(s + ROOM), load_word(s + COUNT)
    stride, more = load_word(s + STRIDE), load_word(s + LOW_BYTES)
    wide, tail = stride + more, tail_bytes(s)
    entries = allocate_table(room * wide + tail)
    widen_journal(s, more)
    for i in range(count):
        copy_bytes(entries + i * wide, old + i * stride, stride)
        clear_bytes(entries + i * wide + stride, more)
    copy_bytes(entries + room * wide, old + room * stride, tail)
    release_table(old, room * stride + tail)
    store_word(s + ENTRIES, entries)
    store_word(s + STRIDE, wide)
    store_word(s + LOW_BYTES, 0)
    store_word(s + BYTES, load_word(s + BYTES) + room * more)
    number = (e - old) // stride
    return entries + number * wide + (e - old - number * stride)


@structure
def widen_journal(s, more):
    """Give every record of the journal so many bytes more, which are zero."""
    old, room, size = load_word(s + JOURNAL), load_word(s + JOURNAL_ROOM), record_bytes(s)
    if room == 0:
        return
    wide = size + more
    journal = allocate(room * wide)
    for t in range(load_word(s + TOUCHED)):
        copy_bytes(journal + t * wide, old + t * size, size)
        clear_bytes(journal + t * wide + size, more)
    release(old)
    store_word(s + JOURNAL, journal)
    store_word(s + BYTES, load_word(s + BYTES) + room * more)


@structure
def record_bytes(s):
    """How long a record of the journal is: an entry has a mark where a record has two words."""
    return load_word(s + STRIDE) + 8


@structure
def record_at(s, t):
    """The address of journal record t."""
    return load_word(s + JOURNAL) + t * record_bytes(s)


@structure
def note(s, at, existed):
    """Journal an entry before its first change; `at` is its key's address."""
    out_of_line()
    t = load_word(s + TOUCHED)
    if t == load_word(s + JOURNAL_ROOM):
        grow_journal(s)
    stride = load_word(s + STRIDE)
    record = record_at(s, t)
    store_word(record, (at - 8 - load_word(s + ENTRIES)) // stride)
    store_word(record + 8, existed)
    copy_bytes(record + 16, at, stride - 8)
    store_word(at - 8, t + 1)
    store_word(s + TOUCHED, t + 1)


@structure
def grow_journal(s):
    """Twice the room for records; a quarter more where that is much memory."""
    old, room = load_word(s + JOURNAL), load_word(s + JOURNAL_ROOM)
    size = record_bytes(s)
    more = room * 2 if room > 0 else max(4, min(64, 8192 // size), load_word(s + LAST_TOUCHED))
    if room * size > _CACHED_BYTES:
        more = room + (room >> 2)
    journal = allocate(more * size)
    if room > 0:
        copy_bytes(journal, old, load_word(s + TOUCHED) * size)
        release(old)
    store_word(s + JOURNAL, journal)
    store_word(s + JOURNAL_ROOM, more)
    store_word(s + BYTES, load_word(s + BYTES) + (more - room) * size)


# Payloads. An entry is the address of its payload.


@structure
def indexed_word(s, e, i):
    """Word i of the key of entry e."""
    return load_word(e - 8 * (load_word(s + KEY_WORDS) - i))


@structure
def indexed_add(s, e, k, x):
    """Int slot += x."""
    store_word(e + 8 * k, load_word(e + 8 * k) + x)


@structure
def indexed_add_wide(s, e, k, w):
    """Wide slot += the wide value w."""
    add_wide_value(e + 8 * k, w)


@structure
def is_zero(kinds, words, e):
    """Whether a whole payload is zero."""
    for k in range(words):
        if load_word(kinds + 8 * k) == EXACT and load_word(e + 8 * k) != 0:
            return False
    return True


@structure
def indexed_is_zero(s, e, first, words):
    """Whether `words` words of a payload from word `first` are zero."""
    return is_zero(load_word(s + KINDS) + 8 * first, words, e + 8 * first)


@inline_structure
def indexed_settle(s, e):
    """Drop an entry without journal if its whole payload is zero."""
    if load_word(e) == 0:
        drop_zero(s, e)


@structure
def drop_zero(s, e):
    """Drop an entry whose first word is zero, if its whole payload is."""
    out_of_line()
    if load_word(s + KEY_AT) == 0 and is_zero(
        load_word(s + KINDS), load_word(s + PAYLOAD_WORDS), e
    ):
        erase(s, (e - load_word(s + ENTRIES)) // load_word(s + STRIDE))
        if is_sparse(s):
            grow(s, load_word(s + ROOM) >> 1)


@structure
def erase(s, number):
    """Drop an entry, telling the journal where the last one went."""
    key_at = load_word(s + KEY_AT)
    moved = dense_erase(s, number, load_word(s + KEY_WORDS), key_at, load_word(s + STRIDE))
    if moved != 0 and key_at != 0 and load_word(moved) != 0:
        store_word(record_at(s, load_word(moved) - 1), number)


# The journal.


@structure
def indexed_touched(s):
    """How many keys were touched since the last commit."""
    return load_word(s + TOUCHED)


@structure
def indexed_before(s, t):
    """Touched key t as it was at the last commit; the payload of an absent key is zero."""
    return record_at(s, t) + 16 + 8 * load_word(s + KEY_WORDS)


@structure
def indexed_old(s, e):
    """Entry e as it was at the last commit."""
    mark = load_word(e - 8 * load_word(s + KEY_WORDS) - 8)
    return e if mark == 0 else indexed_before(s, mark - 1)


@structure
def entry_at(s, number):
    """The payload of entry `number`."""
    key = load_word(s + ENTRIES) + number * load_word(s + STRIDE) + load_word(s + KEY_AT)
    return key + 8 * load_word(s + KEY_WORDS)


@structure
def indexed_now(s, t):
    """Touched key t as it is."""
    return entry_at(s, load_word(record_at(s, t)))


@structure
def indexed_count(s):
    """How many positions `indexed_at` takes."""
    return load_word(s + COUNT)


@structure
def indexed_at(s, i):
    """The entry at position i, or 0. While COMMITTED is set: as it was at the last commit."""
    e = entry_at(s, i)
    if load_word(s + COMMITTED) != 0:
        mark = load_word(e - 8 * load_word(s + KEY_WORDS) - 8)
        if mark != 0:
            return indexed_before(s, mark - 1) if load_word(record_at(s, mark - 1) + 8) != 0 else 0
    return e


# Kernels that Python calls.


@structure
def indexed_commit(s):
    """Forget the journal and drop what became zero."""
    kinds, words = load_word(s + KINDS), load_word(s + PAYLOAD_WORDS)
    touched = load_word(s + TOUCHED)
    for t in range(touched):
        number = load_word(record_at(s, t))
        e = entry_at(s, number)
        store_word(e - 8 * load_word(s + KEY_WORDS) - 8, 0)
        if is_zero(kinds, words, e):
            erase(s, number)
    clear_journal(s)
    if is_sparse(s):
        grow(s, load_word(s + ROOM) >> 1)
    return 0


@structure
def indexed_rollback(s):
    """Go back to exactly the last commit."""
    key = 8 * load_word(s + KEY_WORDS)
    payload = load_word(s + STRIDE) - load_word(s + KEY_AT) - key
    for t in range(load_word(s + TOUCHED)):
        record = record_at(s, t)
        number = load_word(record)
        e = entry_at(s, number)
        store_word(e - key - 8, 0)
        if load_word(record + 8) == 0:
            erase(s, number)
        else:
            copy_bytes(e, record + 16 + key, payload)
    clear_journal(s)
    return 0


@structure
def clear_journal(s):
    """An empty journal; one that is large, or was hardly used, is given back.

    How many keys were touched is remembered: the next journal begins with room for as many.
    """
    room, touched, size = load_word(s + JOURNAL_ROOM), load_word(s + TOUCHED), record_bytes(s)
    if room * size > _CACHED_BYTES or (room > 4096 and touched * 8 < room):
        release(load_word(s + JOURNAL))
        store_word(s + JOURNAL_ROOM, 0)
        store_word(s + BYTES, load_word(s + BYTES) - room * size)
    store_word(s + LAST_TOUCHED, touched)
    store_word(s + TOUCHED, 0)


@structure
def indexed_empty(s):
    """Hold no entry, but keep the room for as many again. There is no journal."""
    count, room = load_word(s + COUNT), load_word(s + ROOM)
    if room > 4096 and count * 8 < room:
        return indexed_clear(s)
    mask, slots = load_word(s + MASK), slots_of(s, load_word(s + STRIDE))
    if mask == DIRECT:
        forget_numbers(slots)
    elif mask >= 0:
        clear_bytes(slots, 8 * (mask + 1))
    store_word(s + COUNT, 0)
    return 0


@structure
def indexed_clear(s):
    """Hold nothing."""
    given = dense_release(s, load_word(s + STRIDE))
    room = load_word(s + JOURNAL_ROOM)
    if room > 0:
        release(load_word(s + JOURNAL))
        given += room * record_bytes(s)
    store_word(s + JOURNAL_ROOM, 0)
    store_word(s + TOUCHED, 0)
    store_word(s + BYTES, load_word(s + BYTES) - given)
    return 0


@structure
def indexed_load(s, rows, size):
    """Add rows of key and payload words; there is no journal."""
    words, payload = load_word(s + KEY_WORDS), load_word(s + PAYLOAD_WORDS)
    key_at, stride, width = load_word(s + KEY_AT), load_word(s + STRIDE), 8 * (words + payload)
    kinds = load_word(s + KINDS)
    if load_word(s + COUNT) + size > load_word(s + ROOM):
        grow(s, load_word(s + COUNT) + size)
    for i in range(size):
        row = rows + i * width
        if not is_zero(kinds, payload, row + 8 * words):
            at = dense_find(s, row, words, key_at, stride)
            if at == 0:
                add_room(s, row, words)
                at = dense_add(s, row, words, key_at, stride)
            copy_bytes(at + 8 * words, row + 8 * words, 8 * payload)
    store_word(s + BYTES, load_word(s + BYTES) + dense_map(s, words, key_at, stride))
    return 0


@structure
def indexed_export(s, rows):
    """Write every entry as a row of key and payload words, as committed; gives how many."""
    key = 8 * load_word(s + KEY_WORDS)
    width = key + 8 * load_word(s + PAYLOAD_WORDS)
    n = 0
    for i in range(indexed_count(s)):
        e = indexed_at(s, i)
        if e != 0:
            copy_bytes(rows + n * width, e - key, width)
            n += 1
    return n


@structure
def indexed_find_row(s, row):
    """The payload of the entry whose key a row begins with."""
    words = load_word(s + KEY_WORDS)
    return dense_find(s, row, words, load_word(s + KEY_AT), load_word(s + STRIDE)) + 8 * words
