"""128-bit integers: two words in memory, the low one first."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word

_I64, _I128 = ir.IntType(64), ir.IntType(128)

U = np.uint64
_U0, _U1, _U32, _U63 = U(0), U(1), U(32), U(63)
_LOW = U(0xFFFFFFFF)
_BASE = U(1 << 32)
_HIGHEST = U((1 << 63) - 1)
_TWO_64 = 18446744073709551616.0


@intrinsic
def add_product(typing_context, address, x, m):
    """The wide number at `address` += x * m, exactly."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _I128.as_pointer())
        x, m = (builder.sext(each, _I128) for each in arguments[1:])
        total = builder.add(builder.load(pointer, align=8), builder.mul(x, m))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def product_high(typing_context, a, b):
    """The upper 64 bits of a * b, unsigned."""

    def generate(context, builder, signature, arguments):
        a, b = (builder.zext(each, _I128) for each in arguments)
        high = builder.lshr(builder.mul(a, b), ir.Constant(_I128, 64))
        return builder.trunc(high, _I64)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def product_overflows(typing_context, a, b):
    """Whether a * b, signed, leaves 64 bits."""

    def generate(context, builder, signature, arguments):
        pair = builder.smul_with_overflow(*arguments)
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, types.int64), generate


@structure
def magnitude(a):
    """|a| as an unsigned word; right for the lowest integer too."""
    return U(a) if a >= 0 else _U0 - U(a)


@intrinsic
def leading_zeros(typing_context, x):
    """How many upper bits of x are zero; x is not."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@structure
def divide(high, low, divisor):
    """(high:low) // divisor and the remainder, unsigned, where high < divisor.

    Schoolbook division with 32-bit digits (Knuth 4.3.1 D), because LLVM would call a C library
    for 128-bit division.
    """
    if high == _U0:
        return low // divisor, low % divisor
    shift = leading_zeros(divisor)
    v = divisor << shift
    v1, v0 = v >> _U32, v & _LOW
    # A shift by 64 is undefined, so the low part moves in two steps.
    u32 = (high << shift) | ((low >> _U1) >> (_U63 - shift))
    u10 = low << shift
    u1, u0 = u10 >> _U32, u10 & _LOW
    q1 = u32 // v1
    rest = u32 - q1 * v1
    while q1 >= _BASE or q1 * v0 > ((rest << _U32) | u1):
        q1 -= _U1
        rest += v1
        if rest >= _BASE:
            break
    u21 = (u32 << _U32) + u1 - q1 * v
    q0 = u21 // v1
    rest = u21 - q0 * v1
    while q0 >= _BASE or q0 * v0 > ((rest << _U32) | u0):
        q0 -= _U1
        rest += v1
        if rest >= _BASE:
            break
    remainder = ((u21 << _U32) + u0 - q0 * v) >> shift
    return (q1 << _U32) + q0, remainder


@structure
def round_half_up(quotient, remainder, divisor):
    """The quotient, one more where the remainder is at least half."""
    return quotient + _U1 if remainder >= divisor - remainder else quotient


@structure
def signed_fits(quotient, negative):
    """Whether a magnitude with this sign is an int64."""
    return quotient <= _HIGHEST or (negative and quotient == _HIGHEST + _U1)


@structure
def signed(quotient, negative):
    """The int64 of a magnitude and a sign."""
    return np.int64(_U0 - quotient) if negative else np.int64(quotient)


@structure
def product_ratio(a, b, n):
    """|a| * |b| / |n|, half away from zero, and whether the magnitude takes one word."""
    x, y, divisor = magnitude(a), magnitude(b), magnitude(n)
    high = product_high(x, y)
    if high >= divisor:
        return _U0, False
    quotient, remainder = divide(high, x * y, divisor)
    rounded = round_half_up(quotient, remainder, divisor)
    return rounded, rounded >= quotient


@structure
def wide_ratio_magnitude(at, scale, n):
    """|wide at `at`| * scale / |n|, half away from zero, and whether it takes one word."""
    low, high = U(load_word(at)), U(load_word(at + 8))
    if load_word(at + 8) < 0:
        low = _U0 - low
        high = ~high + (_U1 if low == _U0 else _U0)
    return ratio_magnitude(low, high, scale, n)


@structure
def ratio_magnitude(low, high, scale, n):
    """(high:low) * scale / |n|, half up, and whether it takes one word."""
    divisor = magnitude(n)
    if divisor == _U0:
        return _U0, False
    factor = U(scale)
    first = low * factor
    carry = product_high(low, factor)
    middle = high * factor + carry
    top = product_high(high, factor) + (_U1 if middle < carry else _U0)
    if top != _U0 or middle >= divisor:
        return _U0, False
    quotient, remainder = divide(middle, first, divisor)
    rounded = round_half_up(quotient, remainder, divisor)
    return rounded, rounded >= quotient


@structure
def wide_to_float(at):
    """The wide number at `at` as a float."""
    low, high = load_word(at), load_word(at + 8)
    if high == low >> 63:
        return np.float64(low)
    return np.float64(high) * _TWO_64 + np.float64(U(low))
