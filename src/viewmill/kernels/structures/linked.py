"""Entries of lists that remember where they lead: a lookup without a hash, and without a slot.

takes  an entry e of a `Listed` state s, one of its links, the `Indexed` state that it leads to
gives  what `indexed_find` and `indexed_touch` give

A link is a word behind the payload of a list's entry: the number of the entry of the other state
that has the key wanted. It is only a guess, because entries move when others are dropped; the key
found there says whether it still holds, and else it is looked up and remembered anew.
"""

from __future__ import annotations

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.dense import COUNT, ENTRIES, dense_find, same_key
from viewmill.kernels.structures.heap import out_of_line, prefetch
from viewmill.kernels.structures.indexed import KEY_AT, STRIDE, make_entry, note
from viewmill.kernels.structures.listed import STRIDE as LIST_STEP
from viewmill.kernels.structures.listed import list_at, list_of, list_size
from viewmill.kernels.structures.listed_payloads import link_of, set_link
from viewmill.kernels.structures.memory import load_word, spill

_FETCHED = 16  # entries of a list whose links are prefetched


@inline_structure
def linked_find(t, key, s, e, k):
    """The entry of a key in `t`, or 0; word k of entry e of a list remembers where."""
    at = spill(key)
    words = len(key)
    found = guessed(t, at, words, link_of(s, e, k))
    if found == 0:
        found = look_up(t, at, words, s, e, k, False)
    return found + 8 * words if found != 0 else 0


@inline_structure
def linked_touch(t, key, s, e, k):
    """The entry of a key in `t`, made if absent, and noted in the journal if there is one."""
    at = spill(key)
    words = len(key)
    found = guessed(t, at, words, link_of(s, e, k))
    if found == 0:
        found = look_up(t, at, words, s, e, k, True)
    elif load_word(t + KEY_AT) != 0 and load_word(found - 8) == 0:
        note(t, found, 1)
    return found + 8 * words


@inline_structure
def guessed(t, at, words, number):
    """The address of the key in the entry with this number, or 0 if that has another key."""
    if number >= load_word(t + COUNT):
        return 0
    found = load_word(t + ENTRIES) + number * load_word(t + STRIDE) + load_word(t + KEY_AT)
    return found if same_key(found, at, words) else 0


@structure
def look_up(t, at, words, s, e, k, make):
    """The address of the key in its entry, or 0, remembered by the link."""
    out_of_line()
    key_at, stride = load_word(t + KEY_AT), load_word(t + STRIDE)
    found = dense_find(t, at, words, key_at, stride)
    if found == 0:
        if not make:
            return 0
        found = make_entry(t, at, words)
    elif make and key_at != 0 and load_word(found - 8) == 0:
        note(t, found, 1)
    set_link(s, e, k, (found - key_at - load_word(t + ENTRIES)) // stride)
    return found


@structure
def list_fetch_linked(s, prefix, k, t):
    """Prefetch the entries of `t` that the first entries of a list link to."""
    out_of_line()
    list_ = list_of(s, prefix)
    if list_ != 0:
        fetch_linked(s, list_, 0, k, t)


@structure
def list_fetch_next(s, list_, j, k, t):
    """Prefetch the entries of `t` that entry j of a list and some after it link to."""
    out_of_line()
    fetch_linked(s, list_, j, k, t)


@structure
def fetch_linked(s, list_, j, k, t):
    """Prefetch the entries of `t` that list entries from j on link to.

    Links are guesses, but a prefetch of the wrong memory does no harm.
    """
    step, stride = load_word(s + LIST_STEP), load_word(t + STRIDE)
    first = list_at(s, list_, 0)
    entries, count = load_word(t + ENTRIES), load_word(t + COUNT)
    for i in range(j, min(j + _FETCHED, list_size(s, list_))):
        number = link_of(s, first + i * step, k)
        if number < count:
            prefetch(entries + number * stride)
