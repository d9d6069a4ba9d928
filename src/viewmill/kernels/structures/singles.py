"""Room for lists of one entry: places of one length side by side, taken from pages and given back.

header   SINGLES NEXT LAST PAGES: a place that was given back and leads to the next one, the part of
         the newest page that was never used, and that page, which leads to the one before it

Where a key is another table's primary key most lists have one entry. To ask the C library for each
would take longer than all else that is done for it.
"""

from __future__ import annotations

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.heap import allocate, out_of_line, release
from viewmill.kernels.structures.memory import load_word, store_word

SINGLES, NEXT, LAST, PAGES = 144, 152, 160, 168
_FIRST_PAGE, _LARGEST_PAGE = 1 << 10, 1 << 16  # bytes


@inline_structure
def take_single(s, size):
    """A place of `size` bytes, the same at every call until `release_singles`."""
    place = load_word(s + SINGLES)
    if place != 0:
        store_word(s + SINGLES, load_word(place))
        return place
    place = load_word(s + NEXT)
    if place + size > load_word(s + LAST):
        place = new_page(s, size)
    store_word(s + NEXT, place + size)
    return place


@structure
def new_page(s, size):
    """The first place of a new page, twice as large as the one before it."""
    out_of_line()
    before = load_word(s + PAGES)
    room = _FIRST_PAGE if before == 0 else load_word(before + 8) * 2
    room = max(min(room, _LARGEST_PAGE), 64 + size)
    page = allocate(room)
    store_word(page, before)
    store_word(page + 8, room)
    store_word(s + PAGES, page)
    store_word(s + LAST, page + room)
    return page + 64


@inline_structure
def give_single(s, place):
    """Give a place back."""
    store_word(place, load_word(s + SINGLES))
    store_word(s + SINGLES, place)


@structure
def release_singles(s):
    """Give all places back, and their pages."""
    page = load_word(s + PAGES)
    while page != 0:
        before = load_word(page)
        release(page)
        page = before
    for offset in range(SINGLES, PAGES + 8, 8):
        store_word(s + offset, 0)
