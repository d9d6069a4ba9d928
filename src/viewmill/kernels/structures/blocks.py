"""Floats that a ring keeps side by side in an entry, and the room for one under way."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import clear_bytes
from viewmill.kernels.structures.memory import load_float, store_float, store_word

_I64 = ir.IntType(64)
_LINE = 8  # words in a line of the cache


@intrinsic(prefer_literal=True)
def scratch(typing_context, words):
    """The address of so many words on the stack, the same ones at every pass."""
    if not isinstance(words, types.IntegerLiteral):
        return None
    size = words.literal_value

    def generate(context, builder, signature, arguments):
        place = cgutils.alloca_once(builder, _I64, size=size)
        if size >= _LINE:
            place.align = 8 * _LINE  # vectors do not straddle two lines
        return builder.ptrtoint(place, _I64)

    return types.int64(words), generate


@structure
def floats_at(s, e, k):
    """The floats kept at word k of an entry."""
    return e + 8 * k


@structure
def floats_clear(s, e, k, n):
    """Make n floats zero."""
    clear_bytes(e + 8 * k, 8 * n)


@structure
def floats_get(s, e, k):
    """The float at word k of an entry."""
    return load_float(e + 8 * k)


@structure
def floats_set(s, e, k, x):
    """The float at word k of an entry becomes x; -0.0 becomes 0.0."""
    store_float(e + 8 * k, x + 0.0)


@structure
def ints_set(s, e, k, x):
    """The integer at word k of an entry becomes x."""
    store_word(e + 8 * k, x)


@structure
def floats_put(p, j, x):
    """Float j of a payload under way becomes x."""
    store_float(p + 8 * j, x)
