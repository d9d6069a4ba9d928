"""The payloads of lists, in half the room while all their numbers are small.

takes  entries of `Listed` states
gives  what reads and adds to their payloads and links

narrow   four bytes for each word: an int has 32 bits, a wide one 64, a link 32
wide     eight bytes for each word

A state that may be narrow begins so. A number that outgrows its place is kept modulo 2^32 or 2^64,
which is enough to take the change away again, and the word is set that OUTGROWN points to: whoever
runs the triggers takes the batch back, makes the state wide and applies the batch again.
"""

from __future__ import annotations

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.heap import copy_bytes
from viewmill.kernels.structures.indexed import is_zero
from viewmill.kernels.structures.memory import (
    load_half,
    load_number,
    load_word,
    store_number,
    store_word,
)
from viewmill.kernels.structures.wide_values import add_wide_value

# Words of a listed state's header.
PAYLOAD_WORDS, KINDS, NARROW, OUTGROWN = 56, 80, 128, 136

U = np.uint64


@inline_structure
def is_narrow(s):
    """Whether payloads have four bytes for each word."""
    return load_word(s + NARROW) != 0


@inline_structure
def list_int(s, e, k):
    """The value of an int slot."""
    return load_half(e + 4 * k) if is_narrow(s) else load_word(e + 8 * k)


@inline_structure
def list_wide(s, e, k):
    """The value of a wide slot."""
    if is_narrow(s):
        low = load_word(e + 4 * k)
        return low, low >> 63
    return load_word(e + 8 * k), load_word(e + 8 * k + 8)


@inline_structure
def plus(x, y):
    """The sum modulo 2^64: compiled code believes that one with a sign does not overflow."""
    return np.int64(U(x) + U(y))


@inline_structure
def list_add(s, e, k, x):
    """Int slot += x."""
    if not is_narrow(s):
        store_word(e + 8 * k, load_word(e + 8 * k) + x)
        return
    old = load_half(e + 4 * k)
    now = plus(old, x)
    store_number(e + 4 * k, now)
    if now != load_half(e + 4 * k) or (now < old) != (x < 0):
        store_word(load_word(s + OUTGROWN), 1)


@inline_structure
def list_add_wide(s, e, k, w):
    """Wide slot += the wide value w."""
    if not is_narrow(s):
        add_wide_value(e + 8 * k, w)
        return
    old, low = load_word(e + 4 * k), w[0]
    now = plus(old, low)
    store_word(e + 4 * k, now)
    if w[1] != low >> 63 or (now < old) != (low < 0):
        store_word(load_word(s + OUTGROWN), 1)


@structure
def list_is_zero(s, e, first, words):
    """Whether `words` words of a payload from word `first` are zero."""
    if not is_narrow(s):
        return is_zero(load_word(s + KINDS) + 8 * first, words, e + 8 * first)
    for k in range(first, first + words):  # noqa: SIM110
        if load_number(e + 4 * k) != 0:
            return False
    return True


@inline_structure
def may_be_zero(s, e):
    """Whether the first word of a payload is zero: only then all may be."""
    return (load_number(e) if is_narrow(s) else load_word(e)) == 0


@inline_structure
def link_of(s, e, k):
    """The number in link k of an entry."""
    return load_number(e + 4 * k) if is_narrow(s) else load_word(e + 8 * k)


@inline_structure
def set_link(s, e, k, number):
    """Write the number of link k of an entry."""
    if is_narrow(s):
        store_number(e + 4 * k, number)
    else:
        store_word(e + 8 * k, number)


# As words of eight bytes, for who loads and exports.


@structure
def is_high(s, k):
    """Whether word k of a payload is the upper half of a wide number."""
    words = load_word(s + PAYLOAD_WORDS)
    return k < words and load_word(load_word(s + KINDS) + 8 * (words + k)) != 0


@structure
def read_payload(s, to, e):
    """Copy the payload of an entry to words."""
    words = load_word(s + PAYLOAD_WORDS)
    if not is_narrow(s):
        copy_bytes(to, e, 8 * words)
        return
    for k in range(words):
        if is_high(s, k):
            store_word(to + 8 * k, load_word(to + 8 * k - 8) >> 63)
        elif is_high(s, k + 1):
            store_word(to + 8 * k, load_word(e + 4 * k))
        else:
            store_word(to + 8 * k, load_half(e + 4 * k))


@structure
def write_payload(s, e, source):
    """Set the payload of an entry to words."""
    words = load_word(s + PAYLOAD_WORDS)
    if not is_narrow(s):
        copy_bytes(e, source, 8 * words)
        return
    for k in range(words):
        word = load_word(source + 8 * k)
        if is_high(s, k):
            if word != load_word(source + 8 * k - 8) >> 63:
                store_word(load_word(s + OUTGROWN), 1)
        elif is_high(s, k + 1):
            store_word(e + 4 * k, word)
        else:
            store_number(e + 4 * k, word)
            if load_half(e + 4 * k) != word:
                store_word(load_word(s + OUTGROWN), 1)
