"""Sums of wide products of the cofactor ring: where a batch gathers the change of its result.

place    how many products wait   8 words
         WAITING rows of their means, then as many of those times the count of their rows
         the padded block, with rows up to the end of the last vector
         what is inside of each part, which products of means get wrong

c v vᵀ, v the means of all columns and c the count, is right between two parts, and inside of a
part of one row. Products wait until they are many, because the sums of many stay in registers.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from viewmill.kernels.compiler import structure, use_wide_vectors, wide_vectors
from viewmill.kernels.structures.cofactor import ROUNDED, block_size, join_at
from viewmill.kernels.structures.heap import allocate, clear_bytes, out_of_line, release
from viewmill.kernels.structures.memory import load_word, spill, store_word
from viewmill.kernels.structures.vectors import (
    LANES,
    add_outers,
    for_each_vector,
    load_at,
    load_float_at,
    load_lanes,
    multiply_add,
    splat,
    store_float_at,
    vector_at,
)

WAITING = 16
HEAD = 64  # bytes before the first row

_F64, _I64 = ir.DoubleType(), ir.IntType(64)


@structure
def padded_width(columns):
    """How many floats the first row of a padded block has."""
    return (columns + 8) & -8


@structure
def step_bytes(columns):
    """What a row of means takes: behind its end the vector of its last part may go on."""
    return 8 * (padded_width(columns) + 8)


@structure
def gathered_block(p, columns):
    """The address of the padded block."""
    return p + HEAD + 2 * WAITING * step_bytes(columns)


@structure
def insides_at(p, columns):
    """The address where the insides of parts are gathered."""
    end = padded_width(columns)
    return gathered_block(p, columns) + 4 * end * (end + 8)


@structure
def inside_bytes(k):
    """What that takes of a part of k columns: whole vectors, which do not meet another part's."""
    return 8 * ((k * (k + 1) // 2 + 7) & -8)


@structure
def cofactor_begin(p, columns, words):
    """Reset `words` words to nothing gathered."""
    store_word(p, 0)
    block = gathered_block(p, columns)
    clear_bytes(block, p + 8 * words - block)


@intrinsic(prefer_literal=True)
def cofactor_gather(typing_context, p, parts, sizes, change):
    """What p gathers += the product of several blocks; `change` is the number of one row's.

    What is inside of a part, but of the one row's, is gathered apart: see `cofactor_gathered`.
    True if there is more to do: `cofactor_gather_more`. All is known but where the blocks are, so
    that it comes down to a few vectors.
    """
    widths = [each.literal_value for each in sizes]
    one_row = change.literal_value

    def generate(context, builder, signature, arguments):
        use_wide_vectors(builder)
        blocks = [builder.extract_value(arguments[1], q) for q in range(len(widths))]
        counts = [builder.load(_float_at(builder, each)) for each in blocks]
        zero = ir.Constant(_F64, 0.0)
        is_none = builder.fcmp_ordered("==", counts[0], zero)
        for each in counts[1:]:
            is_none = builder.or_(is_none, builder.fcmp_ordered("==", each, zero))
        before = builder.basic_block
        with builder.if_then(builder.not_(is_none), likely=True):
            is_full = _gather(builder, arguments[0], blocks, counts, widths, one_row)
            inside = builder.basic_block
        more = builder.phi(ir.IntType(1))
        more.add_incoming(ir.Constant(ir.IntType(1), 1), before)
        more.add_incoming(is_full, inside)
        return more

    return types.boolean(p, parts, sizes, change), generate


def _float_at(builder, place):
    return builder.inttoptr(place, _F64.as_pointer())


def _gather(builder, p, blocks, counts, widths, one_row):
    """A row of means that waits, and what is inside of parts; whether that was the last place."""

    def plus(place, number):
        return builder.add(place, ir.Constant(_I64, number))

    columns = sum(widths)
    end = (columns + LANES) // LANES * LANES
    step, waiting = 8 * (end + LANES), builder.load(builder.inttoptr(p, _I64.as_pointer()))
    means = plus(builder.add(p, builder.mul(waiting, ir.Constant(_I64, step))), HEAD)
    weighted = plus(means, WAITING * step)
    own = plus(p, HEAD + 2 * WAITING * step + 4 * end * (end + LANES))
    one, total = ir.Constant(_F64, 1.0), counts[0]
    for each in counts[1:]:
        total = builder.fmul(total, each)
    builder.store(one, _float_at(builder, means))
    builder.store(total, _float_at(builder, weighted))
    at = 8
    for q, (block, width) in enumerate(zip(blocks, widths, strict=True)):
        mean = builder.fdiv(one, counts[q])
        weight = splat(builder, builder.fmul(total, mean))
        mean = splat(builder, mean)

        def put(offset, lanes, block=block, at=at, mean=mean, weight=weight):
            sums = load_lanes(builder, plus(builder.add(block, offset), 8), lanes)
            for row, factor in ((means, mean), (weighted, weight)):
                place = vector_at(builder, plus(builder.add(row, offset), at))
                builder.store(builder.fmul(factor, sums), place, align=8)

        def add(offset, lanes, block=block, own=own, width=width, weight=weight):
            found = load_lanes(builder, plus(builder.add(block, offset), 8 * (width + 1)), lanes)
            place = vector_at(builder, builder.add(own, offset))
            total = multiply_add(builder, weight, found, builder.load(place, align=8))
            builder.store(total, place, align=8)

        for_each_vector(builder, width, put)
        products = width * (width + 1) // 2
        if q != one_row:
            for_each_vector(builder, products, add)
        own = plus(own, 8 * ((products + LANES - 1) // LANES * LANES))
        at += 8 * width
    waiting = plus(waiting, 1)
    builder.store(waiting, builder.inttoptr(p, _I64.as_pointer()))
    return builder.icmp_signed("==", waiting, ir.Constant(_I64, WAITING))


@structure
def cofactor_gather_more(p, parts, sizes, change):
    """What is seldom to do: add the products that wait, or one in which a count is zero."""
    gather_more_at(p, spill(parts), spill(sizes), len(parts), change)


@structure
def gather_more_at(p, parts, sizes, n, change):
    """`cofactor_gather_more` by address."""
    out_of_line()
    columns = 0
    for q in range(n):
        columns += load_at(sizes, q)
    if load_word(p) == WAITING:
        add_waiting(p, columns)
        return
    for q in range(n):
        part = load_at(parts, q)
        if load_float_at(part, 0) == 0.0:
            if q != change and is_some(part, block_size(load_at(sizes, q))):
                gather_product(p, columns, parts, sizes, n)
            return


@structure
def add_waiting(p, columns):
    """Add the products that wait to the block, tile by tile."""
    out_of_line()
    wide_vectors()
    end, step, waiting = padded_width(columns), step_bytes(columns), load_word(p)
    means, row = p + HEAD, gathered_block(p, columns)
    weighted = means + WAITING * step
    for r in range(0, end, 8):
        width = 8 * (end - r)
        for b in range(r, end, 8):
            add_outers(row + 8 * (b - r), width, weighted + 8 * r, means + 8 * b, step, waiting)
        row += 8 * width
    store_word(p, 0)


@structure
def is_some(p, n):
    """Whether any of n floats is not zero."""
    for j in range(n):  # noqa: SIM110
        if load_float_at(p, j) != 0.0:
            return True
    return False


@structure
def gather_product(p, columns, parts, sizes, n):
    """A product in which a count is zero, so that there is no mean."""
    out_of_line()
    made = allocate(8 * block_size(columns))
    join_at(made, parts, sizes, n)
    end = padded_width(columns)
    row, at = gathered_block(p, columns), made
    for r in range(columns + 1):
        start = r & -8
        for j in range(columns + 1 - r):
            place = row + 8 * (r - start)
            store_float_at(place, j, load_float_at(place, j) + load_float_at(at, j))
        at += 8 * (columns + 1 - r)
        row += 8 * (end - start)
    own = insides_at(p, columns)
    at, left = made + 8 * (columns + 1), columns
    for q in range(n):
        k, place = load_at(sizes, q), own
        for width in range(k, 0, -1):
            for j in range(width):
                store_float_at(place, j, load_float_at(place, j) + load_float_at(at, j))
            place += 8 * width
            at += 8 * left
            left -= 1
        own += inside_bytes(k)
    release(made)


@structure
def cofactor_gathered(p, sizes, change):
    """The padded block of all that was gathered."""
    return gathered_at(p, spill(sizes), len(sizes), change)


@structure
def gathered_at(p, sizes, n, change):
    """`cofactor_gathered` by address: what is inside of parts replaces products of means."""
    out_of_line()
    columns = 0
    for q in range(n):
        columns += load_at(sizes, q)
    add_waiting(p, columns)
    end, block = padded_width(columns), gathered_block(p, columns)
    own, row, i = insides_at(p, columns), block + 8 * end, 1
    for q in range(n):
        k, place = load_at(sizes, q), own
        for width in range(k, 0, -1):
            start = i & -8
            if q != change:
                for j in range(width):
                    store_float_at(row, i - start + j, load_float_at(place, j))
            place += 8 * width
            row += 8 * (end - start)
            i += 1
        own += inside_bytes(k)
    make_whole(block, end * (end + 8) // 2)
    return block


@structure
def make_whole(p, n):
    """Only whole numbers are gathered; what divisions by counts left beside them goes."""
    out_of_line()
    wide_vectors()
    for j in range(n):
        x = load_float_at(p, j)
        if abs(x) < ROUNDED:
            store_float_at(p, j, np.rint(x))
