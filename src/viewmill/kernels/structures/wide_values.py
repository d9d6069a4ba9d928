"""128-bit integers as values: pairs of words, the low one first. All arithmetic is modulo 2^128."""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word

_I64, _I128, _I256 = ir.IntType(64), ir.IntType(128), ir.IntType(256)
_PAIR = types.UniTuple(types.int64, 2)


def _join(builder, pair):
    low = builder.zext(builder.extract_value(pair, 0), _I128)
    high = builder.zext(builder.extract_value(pair, 1), _I128)
    return builder.or_(low, builder.shl(high, ir.Constant(_I128, 64)))


def _split(context, builder, value):
    low = builder.trunc(value, _I64)
    high = builder.trunc(builder.lshr(value, ir.Constant(_I128, 64)), _I64)
    return context.make_tuple(builder, _PAIR, (low, high))


@intrinsic
def wide_mul(typing_context, a, b):
    """The product of two wide values."""

    def generate(context, builder, signature, arguments):
        a, b = (_join(builder, each) for each in arguments)
        return _split(context, builder, builder.mul(a, b))

    return _PAIR(_PAIR, _PAIR), generate


@intrinsic
def wide_times(typing_context, a, x):
    """A wide value times an int."""

    def generate(context, builder, signature, arguments):
        product = builder.mul(_join(builder, arguments[0]), builder.sext(arguments[1], _I128))
        return _split(context, builder, product)

    return _PAIR(_PAIR, types.int64), generate


@intrinsic
def wide_product(typing_context, x, y):
    """The product of two ints, which always fits."""

    def generate(context, builder, signature, arguments):
        x, y = (builder.sext(each, _I128) for each in arguments)
        return _split(context, builder, builder.mul(x, y))

    return _PAIR(types.int64, types.int64), generate


@intrinsic
def wide_plus(typing_context, a, b):
    """The sum of two wide values."""

    def generate(context, builder, signature, arguments):
        a, b = (_join(builder, each) for each in arguments)
        return _split(context, builder, builder.add(a, b))

    return _PAIR(_PAIR, _PAIR), generate


@intrinsic
def add_wide_value(typing_context, address, w):
    """The wide number at `address` += w."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _I128.as_pointer())
        total = builder.add(builder.load(pointer, align=8), _join(builder, arguments[1]))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, _PAIR), generate


@intrinsic
def add_wide_product(typing_context, address, w, m):
    """The wide number at `address` += w * m; how often that left 128 bits, with its sign."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _I128.as_pointer())
        w = builder.sext(_join(builder, arguments[1]), _I256)
        product = builder.mul(w, builder.sext(arguments[2], _I256))
        old = builder.sext(builder.load(pointer, align=8), _I256)
        total = builder.add(old, product)
        kept = builder.trunc(total, _I128)
        builder.store(kept, pointer, align=8)
        over = builder.sub(total, builder.sext(kept, _I256))
        return builder.trunc(builder.ashr(over, ir.Constant(_I256, 128)), _I64)

    return types.int64(types.int64, _PAIR, types.int64), generate


@structure
def wide_of(x):
    """An int as a wide value."""
    return wide_product(x, 1)


@structure
def wide_at(s, e, k):
    """The value of a wide slot."""
    return load_word(e + 8 * k), load_word(e + 8 * k + 8)


@structure
def wide_is_zero(w):
    """Whether a wide value is 0."""
    return (w[0] | w[1]) == 0


@structure
def wide_value_fits(w):
    """Whether a wide value is an int64."""
    return w[1] == w[0] >> 63


@structure
def wide_low(w):
    """The lower word: the value, if it fits."""
    return w[0]


@structure
def wide_high(w):
    """The upper word."""
    return w[1]


@structure
def wide_from(low, high):
    """The value of two words."""
    return low, high


@structure
def pair_add(high, low, x):
    """A compensated sum += x, as its two parts."""
    total = high + x
    if not math.isfinite(total):
        return total, 0.0
    moved = total - high
    low += (high - (total - moved)) + (x - moved)
    high = total + low
    return high, low - (high - total)


@structure
def wide_to_real(w):
    """A wide value as a float."""
    if w[1] == w[0] >> 63:
        return float(w[0])
    return float(w[1]) * 18446744073709551616.0 + (
        float(w[0]) if w[0] >= 0 else float(w[0]) + 18446744073709551616.0
    )
