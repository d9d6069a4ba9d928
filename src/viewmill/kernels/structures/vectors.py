"""Runs of words at an address, read by index: LLVM sees the stride and uses wide registers."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure

_I8, _I64, _F64 = ir.IntType(8), ir.IntType(64), ir.DoubleType()


@intrinsic
def load_at(typing_context, base, i):
    """Word i after `base`."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.load(builder.gep(pointer, [arguments[1]]))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def store_at(typing_context, base, i, value):
    """Word i after `base` becomes `value`."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _I64.as_pointer())
        builder.store(arguments[2], builder.gep(pointer, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def load_float_at(typing_context, base, i):
    """Float i after `base`."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _F64.as_pointer())
        return builder.load(builder.gep(pointer, [arguments[1]]))

    return types.float64(types.int64, types.int64), generate


@intrinsic
def store_float_at(typing_context, base, i, value):
    """Float i after `base` becomes `value`."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _F64.as_pointer())
        builder.store(arguments[2], builder.gep(pointer, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), generate


_VECTOR = ir.VectorType(_F64, 8)


def _splat(builder, value, kind):
    """The value in every lane."""
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    return builder.shuffle_vector(first, none, zeros)


@intrinsic
def add_scaled(typing_context, to, factor, source):
    """Eight floats at `to` += factor * eight floats at `source`, in one register."""

    def generate(context, builder, signature, arguments):
        to, source = (builder.inttoptr(arguments[i], _VECTOR.as_pointer()) for i in (0, 2))
        factor = _splat(builder, arguments[1], _VECTOR)
        product = builder.fmul(factor, builder.load(source, align=8))
        builder.store(builder.fadd(builder.load(to, align=8), product), to, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, types.int64), generate


@intrinsic
def move_words(typing_context, to, source, words):
    """Copy words; the places may overlap."""

    def generate(context, builder, signature, arguments):
        to, source = (builder.inttoptr(each, _I8.as_pointer()) for each in arguments[:2])
        cgutils.raw_memmove(
            builder, to, source, arguments[2], context.get_constant(types.intp, 8), align=8
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@structure
def sum_words(base, start, end):
    """The sum of words start to end, modulo 2^64."""
    total = 0
    for i in range(start, end):
        total += load_at(base, i)
    return total


@structure
def add_to_words(base, start, end, x):
    """Add x to words start to end."""
    for i in range(start, end):
        store_at(base, i, load_at(base, i) + x)


@structure
def count_upto(base, size, x):
    """How many of `size` words are at most x."""
    count = 0
    for i in range(size):
        count += 1 if load_at(base, i) <= x else 0
    return count


@structure
def scan_upto(base, size, goal, running):
    """The first i whose running sum reaches `goal`, and the sum before it; size if none does.

    No word is negative. Sixteen at a time, because the sum of sixteen takes wide registers.
    """
    i = 0
    while i + 16 <= size:
        more = sum_words(base, i, i + 16)
        if running + more >= goal:
            break
        running += more
        i += 16
    while i < size:
        more = load_at(base, i)
        if running + more >= goal:
            return i, running
        running += more
        i += 1
    return size, running
