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
def load_half_at(typing_context, base, i):
    """The signed four bytes with number i after `base`."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.sext(builder.load(builder.gep(pointer, [arguments[1]])), _I64)

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


_I1, _I32 = ir.IntType(1), ir.IntType(32)
LANES = 8
_STRAIGHT = 32  # so many vectors are written one after the other, more in a loop
_VECTOR, _MASK = ir.VectorType(_F64, LANES), ir.VectorType(_I1, LANES)
_ZEROS = ir.Constant(_VECTOR, [0.0] * LANES)


def splat(builder, value, kind=None):
    """The value in every lane; floats, unless another kind of vector is said."""
    kind = kind or _VECTOR
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, value, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, none, zeros)


def _lane_mask(builder, size):
    """Which lanes hold the first `size` floats; all of them, if those are more."""
    kind = ir.VectorType(_I64, LANES)
    numbers = ir.Constant(kind, list(range(LANES)))
    return builder.icmp_signed("<", numbers, splat(builder, size, kind))


def _word(value):
    return ir.Constant(_I64, value)


def vector_at(builder, place):
    """The address as a pointer to a vector."""
    return builder.inttoptr(place, _VECTOR.as_pointer())


def load_lanes(builder, place, size):
    """The first `size` floats, or those of a mask, and zeros; memory beyond is not touched."""
    if isinstance(size, int) and size >= LANES:
        return builder.load(vector_at(builder, place), align=8)
    mask = ir.Constant(_MASK, [i < size for i in range(LANES)]) if isinstance(size, int) else size
    arguments = [_VECTOR.as_pointer(), _I32, _MASK, _VECTOR]
    function = _masked(builder, "load", ir.FunctionType(_VECTOR, arguments))
    return builder.call(function, [vector_at(builder, place), ir.Constant(_I32, 8), mask, _ZEROS])


def for_each_vector(builder, size, write):
    """Write what is done with `size` floats: for each vector its offset and how many are in it."""
    straight = size if size <= _STRAIGHT * LANES else size % LANES
    first = size - straight
    if first > 0:
        with cgutils.for_range(builder, ir.Constant(_I64, first // LANES)) as loop:
            write(builder.mul(loop.index, ir.Constant(_I64, 8 * LANES)), LANES)
    for j in range(first, size, LANES):
        write(ir.Constant(_I64, 8 * j), min(size - j, LANES))


def _store_lanes(builder, value, place, mask):
    arguments = [_VECTOR, _VECTOR.as_pointer(), _I32, _MASK]
    function = _masked(builder, "store", ir.FunctionType(ir.VoidType(), arguments))
    builder.call(function, [value, vector_at(builder, place), ir.Constant(_I32, 8), mask])


def _masked(builder, name, kind):
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.{name}.v8f64.p0")


def multiply_add(builder, x, y, z):
    """x y + z, rounded once where the machine can."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v8f64")
    return builder.call(function, [x, y, z])


@intrinsic
def add_outers(typing_context, tile, width, left, right, step, count):
    """Eight by eight floats += the sum of `count` products of eight floats by eight others.

    The rows of the tile are `width` bytes apart, the factors of one product and the next `step`.
    """

    def generate(context, builder, signature, arguments):
        tile, width, left, right, step, count = arguments
        rows = [builder.add(tile, builder.mul(width, _word(r))) for r in range(LANES)]
        sums = [cgutils.alloca_once(builder, _VECTOR) for _ in rows]
        for row, kept in zip(rows, sums, strict=True):
            builder.store(builder.load(vector_at(builder, row), align=8), kept)
        with cgutils.for_range(builder, count) as loop:
            at = builder.mul(loop.index, step)
            first, second = builder.add(left, at), builder.add(right, at)
            factors = builder.inttoptr(first, _F64.as_pointer())
            found = builder.load(vector_at(builder, second), align=8)
            for r, kept in enumerate(sums):
                factor = builder.load(builder.gep(factors, [_word(r)]))
                more = multiply_add(builder, splat(builder, factor), found, builder.load(kept))
                builder.store(more, kept)
        for row, kept in zip(rows, sums, strict=True):
            builder.store(builder.load(kept), vector_at(builder, row), align=8)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 6), generate


@intrinsic
def put_scaled_lanes(typing_context, to, factor, source, size):
    """Eight floats at `to` become factor * the first `size` at `source`, and zeros behind them."""

    def generate(context, builder, signature, arguments):
        to, factor, source, size = arguments
        found = load_lanes(builder, source, _lane_mask(builder, size))
        product = builder.fmul(splat(builder, factor), found)
        builder.store(product, vector_at(builder, to), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, types.int64, types.int64), generate


@intrinsic
def add_lanes(typing_context, to, source, size):
    """The first `size` of eight floats at `to` += those at `source`; -0.0 becomes 0.0."""

    def generate(context, builder, signature, arguments):
        to, source, size = arguments
        mask = _lane_mask(builder, size)
        found, kept = (load_lanes(builder, each, mask) for each in (source, to))
        total = builder.fadd(builder.fadd(kept, found), _ZEROS)
        _store_lanes(builder, total, to, mask)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def rounded_lanes(typing_context, to, source, size):
    """Which of the sums that `add_lanes` would make are rounded: a bit for each."""

    def generate(context, builder, signature, arguments):
        to, source, size = arguments
        mask = _lane_mask(builder, size)
        x, high = (load_lanes(builder, each, mask) for each in (source, to))
        total = builder.fadd(high, x)
        moved = builder.fsub(total, high)
        differs = builder.or_(
            builder.fcmp_unordered("!=", builder.fsub(total, moved), high),
            builder.fcmp_unordered("!=", x, moved),
        )
        return builder.zext(builder.bitcast(differs, _I8), _I64)

    return types.int64(types.int64, types.int64, types.int64), generate


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
