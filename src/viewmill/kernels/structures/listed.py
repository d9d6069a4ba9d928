"""A map whose entries lie together by the first part of their key.

header   the table of lists, BYTES PREFIX_WORDS REST_WORDS PAYLOAD_WORDS LIST_STRIDE STRIDE KINDS
         ENTRY_COUNT LOGGED LOG LOG_SIZE LOG_ROOM NARROW OUTGROWN, then those of `singles`
list     prefix words, then a table (see `dense`) of the entries that have them
entry    rest words, payload words, links (see `linked` and `listed_payloads`)
log      with LOGGED: prefix words, rest words, payload words as they were before each touch

What a fan-out visits is one walk through memory. A list that becomes empty is dropped. Room for one
entry is a single (see `singles`), any other is the C library's.
"""

from __future__ import annotations

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.dense import (
    COUNT,
    ENTRIES,
    MASK,
    ROOM,
    SMALL,
    TABLE_WORDS,
    dense_add,
    dense_erase,
    dense_find,
    dense_release,
    dense_resize,
    fetch_entry,
    fetch_slot,
    has_room,
    is_sparse,
    larger,
    make_room,
    slots_bytes,
)
from viewmill.kernels.structures.heap import (
    allocate,
    allocate_table,
    copy_bytes,
    out_of_line,
    prefetch,
    release,
)
from viewmill.kernels.structures.indexed import is_zero
from viewmill.kernels.structures.listed_payloads import (
    KINDS,
    PAYLOAD_WORDS,
    list_is_zero,
    may_be_zero,
    read_payload,
    write_payload,
)
from viewmill.kernels.structures.memory import load_word, spill, store_word
from viewmill.kernels.structures.singles import give_single, release_singles, take_single

BYTES = 8 * TABLE_WORDS
PREFIX_WORDS, REST_WORDS = 40, 48
LIST_STRIDE, STRIDE, ENTRY_COUNT = 64, 72, 88
LOGGED, LOG, LOG_SIZE, LOG_ROOM = 96, 104, 112, 120
HEADER_WORDS = 24  # the last one is that of `exact_sums`
_FETCHED = 448  # bytes of a list that are prefetched


@inline_structure
def list_of(s, prefix):
    """The list of the entries whose key begins with `prefix`, or 0."""
    return find_list(s, spill(prefix), len(prefix))


@inline_structure
def find_list(s, at, words):
    """The list of a prefix at an address, or 0."""
    found = dense_find(s, at, words, 0, load_word(s + LIST_STRIDE))
    return found + 8 * words if found != 0 else 0


@inline_structure
def list_size(s, list_):
    """How many entries a list has."""
    return load_word(list_ + COUNT) if list_ != 0 else 0


@inline_structure
def list_at(s, list_, j):
    """Entry j of a list."""
    entry = load_word(list_ + ENTRIES) + j * load_word(s + STRIDE)
    return entry + 8 * load_word(s + REST_WORDS)


@inline_structure
def list_word(s, e, i):
    """Word i of the rest of the key of entry e."""
    return load_word(e - 8 * (load_word(s + REST_WORDS) - i))


@inline_structure
def list_find(s, prefix, rest):
    """The entry of a key, or 0."""
    list_ = list_of(s, prefix)
    if list_ == 0:
        return 0
    at = spill(rest)
    words = len(rest)
    found = dense_find(list_, at, words, 0, load_word(s + STRIDE))
    return found + 8 * words if found != 0 else 0


@structure
def list_fetch(s, prefix):
    """Prefetch the slot that says where a list is."""
    out_of_line()
    fetch_slot(s, spill(prefix), len(prefix), load_word(s + LIST_STRIDE))


@structure
def list_fetch_head(s, prefix):
    """Prefetch a list's head."""
    out_of_line()
    fetch_entry(s, spill(prefix), len(prefix), load_word(s + LIST_STRIDE))


@structure
def list_fetch_entries(s, prefix):
    """Prefetch a list's first entries."""
    out_of_line()
    list_ = list_of(s, prefix)
    if list_ != 0:
        entries = load_word(list_ + ENTRIES)
        size = min(load_word(list_ + COUNT) * load_word(s + STRIDE), _FETCHED)
        for offset in range(0, size, 64):
            prefetch(entries + offset)


@structure
def list_fetch_end(s, prefix):
    """Prefetch where an entry is looked for in a list, and where it would go."""
    out_of_line()
    list_ = list_of(s, prefix)
    if list_ != 0:
        entries, stride = load_word(list_ + ENTRIES), load_word(s + STRIDE)
        count, room = load_word(list_ + COUNT), load_word(list_ + ROOM)
        prefetch(entries + room * stride)
        if count < room:
            prefetch(entries + count * stride)
        else:  # it may have to move
            for offset in range(0, min(count * stride, _FETCHED), 64):
                prefetch(entries + offset)


@inline_structure
def list_touch(s, prefix, rest):
    """The entry of a key, made if absent."""
    first, second = spill(prefix), spill(rest)
    e = touch_entry(s, first, len(prefix), second, len(rest))
    if load_word(s + LOGGED) != 0:
        log_entry(s, first, second, e)
    return e


@inline_structure
def touch_entry(s, prefix, prefix_words, rest, rest_words):
    """The entry of a key at addresses, made if absent."""
    list_ = find_list(s, prefix, prefix_words)
    found = 0
    if list_ == 0:
        list_ = make_list(s, prefix, prefix_words)
    else:
        found = dense_find(list_, rest, rest_words, 0, load_word(s + STRIDE))
    if found == 0:
        found = make_entry(s, list_, rest, rest_words)
    return found + 8 * rest_words


@structure
def make_entry(s, list_, rest, words):
    """A new entry of a list; its key's address."""
    out_of_line()
    stride = load_word(s + STRIDE)
    if not has_room(list_, rest, stride):
        room = load_word(list_ + ROOM)
        if room == 0:
            more = make_single(s, list_, stride)
        elif room == 1:
            more = leave_single(s, list_, stride)
        else:
            more = make_room(list_, rest, words, 0, stride)
        store_word(s + BYTES, load_word(s + BYTES) + more)
    store_word(s + ENTRY_COUNT, load_word(s + ENTRY_COUNT) + 1)
    return dense_add(list_, rest, words, 0, stride)


@structure
def make_list(s, at, words):
    """A new list."""
    out_of_line()
    stride = load_word(s + LIST_STRIDE)
    if not has_room(s, at, stride):
        store_word(s + BYTES, load_word(s + BYTES) + make_room(s, at, words, 0, stride))
    list_ = dense_add(s, at, words, 0, stride) + 8 * words
    store_word(list_ + MASK, SMALL)
    return list_


@structure
def resize_lists(s, room):
    """Give the table of lists another room."""
    more = dense_resize(s, room, load_word(s + PREFIX_WORDS), 0, load_word(s + LIST_STRIDE))
    store_word(s + BYTES, load_word(s + BYTES) + more)


@inline_structure
def make_single(s, list_, stride):
    """Give a list that has no room a single. Gives its bytes."""
    size = stride + slots_bytes(1)
    store_word(list_ + ENTRIES, take_single(s, size))
    store_word(list_ + ROOM, 1)
    return size


@structure
def leave_single(s, list_, stride):
    """Give a list of one entry room for a few. Gives the bytes taken more than before."""
    single, room = load_word(list_ + ENTRIES), larger(2, stride)
    size = room * stride + slots_bytes(room)
    entries = allocate_table(size)
    copy_bytes(entries, single, stride)
    store_word(entries + room * stride, load_word(single + stride))
    give_single(s, single)
    store_word(list_ + ENTRIES, entries)
    store_word(list_ + ROOM, room)
    return size - stride - slots_bytes(1)


@structure
def shrink_list(s, list_):
    """Give a list half the room."""
    room = load_word(list_ + ROOM) >> 1
    more = dense_resize(list_, room, load_word(s + REST_WORDS), 0, load_word(s + STRIDE))
    store_word(s + BYTES, load_word(s + BYTES) + more)


@structure
def release_list(s, list_):
    """Give the room of a list back. Gives its bytes."""
    stride = load_word(s + STRIDE)
    if load_word(list_ + ROOM) != 1:
        return dense_release(list_, stride)
    give_single(s, load_word(list_ + ENTRIES))
    store_word(list_ + ROOM, 0)
    return stride + slots_bytes(1)


@inline_structure
def list_settle(s, prefix, e):
    """Drop entry e of the list of `prefix` if its whole payload is zero."""
    if may_be_zero(s, e):
        drop_zero(s, spill(prefix), len(prefix), e)


@structure
def drop_zero(s, prefix, words, e):
    """Drop entry e, which may be zero, if its whole payload is."""
    out_of_line()
    if list_is_zero(s, e, 0, load_word(s + PAYLOAD_WORDS)):
        drop_entry(s, find_list(s, prefix, words), words, e)


@structure
def drop_entry(s, list_, words, e):
    """Drop entry e of a list whose prefix has so many words."""
    stride, rest = load_word(s + STRIDE), load_word(s + REST_WORDS)
    number = (e - load_word(list_ + ENTRIES)) // stride
    dense_erase(list_, number, rest, 0, stride)
    store_word(s + ENTRY_COUNT, load_word(s + ENTRY_COUNT) - 1)
    if load_word(list_ + COUNT) == 0:
        drop_list(s, list_, words)
    elif is_sparse(list_):
        shrink_list(s, list_)


@structure
def drop_list(s, list_, words):
    """Drop a list that became empty."""
    given = release_list(s, list_)
    store_word(s + BYTES, load_word(s + BYTES) - given)
    stride = load_word(s + LIST_STRIDE)
    number = (list_ - load_word(s + ENTRIES)) // stride
    dense_erase(s, number, words, 0, stride)
    if is_sparse(s):
        resize_lists(s, load_word(s + ROOM) >> 1)


# The log.


@structure
def record_bytes(s):
    """How long a record of the log is."""
    words = load_word(s + PREFIX_WORDS) + load_word(s + REST_WORDS) + load_word(s + PAYLOAD_WORDS)
    return 8 * words


@structure
def log_entry(s, prefix, rest, e):
    """Note an entry as it is."""
    out_of_line()
    size, room, width = load_word(s + LOG_SIZE), load_word(s + LOG_ROOM), record_bytes(s)
    if size == room:
        grow_log(s, room * 2 if room > 0 else 64, width)
    record = load_word(s + LOG) + size * width
    first, second = 8 * load_word(s + PREFIX_WORDS), 8 * load_word(s + REST_WORDS)
    copy_bytes(record, prefix, first)
    copy_bytes(record + first, rest, second)
    copy_bytes(record + first + second, e, 8 * load_word(s + PAYLOAD_WORDS))
    store_word(s + LOG_SIZE, size + 1)


@structure
def grow_log(s, room, width):
    """More room for records."""
    old, before = load_word(s + LOG), load_word(s + LOG_ROOM)
    log = allocate(room * width)
    if before > 0:
        copy_bytes(log, old, load_word(s + LOG_SIZE) * width)
        release(old)
    store_word(s + LOG, log)
    store_word(s + LOG_ROOM, room)
    store_word(s + BYTES, load_word(s + BYTES) + (room - before) * width)


@structure
def drop_log(s):
    """Give the log's memory back."""
    room = load_word(s + LOG_ROOM)
    if room > 0:
        release(load_word(s + LOG))
        store_word(s + BYTES, load_word(s + BYTES) - room * record_bytes(s))
    store_word(s + LOG_ROOM, 0)
    store_word(s + LOG_SIZE, 0)


# Kernels that Python calls.


@structure
def listed_commit(s):
    """Forget the log; a large one that was hardly used is given back."""
    room = load_word(s + LOG_ROOM)
    if room > 4096 and load_word(s + LOG_SIZE) * 8 < room:
        drop_log(s)
    store_word(s + LOG_SIZE, 0)
    return 0


@structure
def listed_rollback(s):
    """Put every logged entry back, the last one first: an entry may be logged more than once."""
    words, rest = load_word(s + PREFIX_WORDS), load_word(s + REST_WORDS)
    payload, kinds, width = load_word(s + PAYLOAD_WORDS), load_word(s + KINDS), record_bytes(s)
    for t in range(load_word(s + LOG_SIZE) - 1, -1, -1):
        record = load_word(s + LOG) + t * width
        e = touch_entry(s, record, words, record + 8 * words, rest)
        copy_bytes(e, record + 8 * (words + rest), 8 * payload)
        if is_zero(kinds, payload, e):
            drop_entry(s, find_list(s, record, words), words, e)
    store_word(s + LOG_SIZE, 0)
    return 0


@structure
def listed_clear(s):
    """Hold nothing."""
    stride, head = load_word(s + LIST_STRIDE), 8 * load_word(s + PREFIX_WORDS)
    given = 0
    for i in range(load_word(s + COUNT)):
        given += release_list(s, load_word(s + ENTRIES) + i * stride + head)
    given += dense_release(s, stride)
    release_singles(s)
    drop_log(s)
    store_word(s + ENTRY_COUNT, 0)
    store_word(s + BYTES, load_word(s + BYTES) - given)
    return 0


@structure
def listed_load(s, rows, size):
    """Add rows of prefix, rest and payload words."""
    prefix, rest = load_word(s + PREFIX_WORDS), load_word(s + REST_WORDS)
    payload, kinds = load_word(s + PAYLOAD_WORDS), load_word(s + KINDS)
    width = 8 * (prefix + rest + payload)
    for i in range(size):
        row = rows + i * width
        values = row + 8 * (prefix + rest)
        if not is_zero(kinds, payload, values):
            e = touch_entry(s, row, prefix, row + 8 * prefix, rest)
            write_payload(s, e, values)
    return 0


@structure
def listed_export(s, rows):
    """Write every entry as a row of prefix, rest and payload words; gives how many."""
    head, stride = 8 * load_word(s + PREFIX_WORDS), load_word(s + STRIDE)
    rest = 8 * load_word(s + REST_WORDS)
    width = rest + 8 * load_word(s + PAYLOAD_WORDS)
    n = 0
    for i in range(load_word(s + COUNT)):
        at = load_word(s + ENTRIES) + i * load_word(s + LIST_STRIDE)
        entries = load_word(at + head + ENTRIES)
        for j in range(load_word(at + head + COUNT)):
            to = rows + n * (head + width)
            copy_bytes(to, at, head)
            copy_bytes(to + head, entries + j * stride, rest)
            read_payload(s, to + head + rest, entries + j * stride + rest)
            n += 1
    return n


@structure
def listed_find_row(s, row):
    """The payload of the entry whose key a row begins with."""
    prefix, rest = load_word(s + PREFIX_WORDS), load_word(s + REST_WORDS)
    return touch_entry(s, row, prefix, row + 8 * prefix, rest)
