"""The cofactor ring: the count of rows, the sums of columns, the products of pairs of columns.

block    the upper triangle, by rows, of the matrix that sums z zᵀ with z = (1, x1, ..., xk):
         the first row is the count and the sums. (k + 1)(k + 2) / 2 floats
padded   rows begin at a multiple of `pad` columns and end at one: whole vectors, where columns are
         many. Between the true beginning and the row's own are zeros
low      for each float of a block that is kept, what rounding took from it

A view holds a block of the columns below it and nothing of the others, so a product multiplies only
what is there: between columns of one part its own products, between two parts the product of sums.
"""

from __future__ import annotations

from viewmill.kernels.compiler import inline_structure, structure, wide_vectors
from viewmill.kernels.structures.blocks import scratch
from viewmill.kernels.structures.heap import clear_bytes, out_of_line
from viewmill.kernels.structures.indexed import LOW_BYTES, widen
from viewmill.kernels.structures.memory import (
    load_word,
    spill,
    spill_floats,
    store_float,
)
from viewmill.kernels.structures.vectors import (
    add_lanes,
    load_at,
    load_float_at,
    put_scaled_lanes,
    rounded_lanes,
    store_float_at,
)


@structure
def block_size(k):
    """How many floats a block of k columns has."""
    return (k + 1) * (k + 2) // 2


@structure
def cofactor_none(p, n):
    """The zero of the ring: n floats."""
    clear_bytes(p, 8 * n)


@structure
def cofactor_lift(p, m, xs):
    """The block of a row, m times."""
    lift_at(p, float(m), spill_floats(xs), len(xs))


@structure
def lift_at(p, m, x, k):
    """The same of k columns at an address."""
    store_float(p, m)
    put_scaled(p + 8, m, x, k)
    row = p + 8 * (k + 1)
    for i in range(k):
        put_scaled(row, m * load_float_at(x, i), x + 8 * i, k - i)
        row += 8 * (k - i)


@inline_structure
def put_scaled(to, factor, source, n):
    """n floats become factor times others, in whole vectors: up to seven behind them are zero."""
    for j in range(0, n, 8):
        put_scaled_lanes(to + 8 * j, factor, source + 8 * j, n - j)


# Adding.


@structure
def cofactor_add(s, e, k, low, p, n):
    """The block kept at word k of an entry += the block p of n floats, without rounding."""
    add_kept(e + 8 * k, e + 8 * low, p, n)


@structure
def add_kept(high_at, low_at, p, n):
    """high + low += p, float by float: error-free addition, then the low part is taken over."""
    out_of_line()
    wide_vectors()
    for j in range(n):
        high, x = load_float_at(high_at, j), load_float_at(p, j)
        total = high + x
        moved = total - high
        low = load_float_at(low_at, j) + ((high - (total - moved)) + (x - moved))
        high = total + low
        store_float_at(high_at, j, high + 0.0)
        store_float_at(low_at, j, (low - (high - total)) + 0.0)


@structure
def cofactor_add_whole(s, e, k, low, p, n):
    """The same where entries may have no low parts yet; gives the entry, which may have moved."""
    if load_word(s + LOW_BYTES) != 0:
        if is_added(e + 8 * k, p, n):
            return e
        e = widen(s, e)
    add_kept(e + 8 * k, e + 8 * low, p, n)
    return e


@structure
def floats_clear_low(s, e, k, n):
    """Make n low parts zero, if they have room."""
    if load_word(s + LOW_BYTES) == 0:
        clear_bytes(e + 8 * k, 8 * n)


@structure
def is_added(high_at, p, n):
    """high += p if rounding takes nothing from any sum, as from whole numbers; else nothing."""
    out_of_line()
    wide_vectors()
    rounded = 0
    for j in range(0, n, 8):
        rounded |= rounded_lanes(high_at + 8 * j, p + 8 * j, n - j)
    if rounded != 0:
        return False
    for j in range(0, n, 8):
        add_lanes(high_at + 8 * j, p + 8 * j, n - j)
    return True


@structure
def cofactor_add_total(s, e, k, low, p, n):
    """The block of a result += p; its low parts are taken over when it is shown."""
    add_total(e + 8 * k, e + 8 * low, p, n)


@structure
def add_total(high_at, low_at, p, n):
    """high + low += p, float by float."""
    out_of_line()
    wide_vectors()
    for j in range(n):
        high, x = load_float_at(high_at, j), load_float_at(p, j)
        total = high + x
        moved = total - high
        store_float_at(high_at, j, total)
        low = (high - (total - moved)) + (x - moved)
        store_float_at(low_at, j, load_float_at(low_at, j) + low)


# Multiplying.


@structure
def counts_behind(to, parts, n):
    """For each part the product of the counts of those behind it; gives that of all."""
    count = 1.0
    for i in range(n):
        q = n - 1 - i
        store_float_at(to, q, count)
        count *= load_float_at(load_at(parts, q), 0)
    return count


@structure
def sums_behind(to, parts, sizes, n, q, behind, before):
    """The sums of the parts behind part q, weighted for its products with them. How many."""
    at, weight = 0, before
    for r in range(q + 1, n):
        other, width = load_at(parts, r), load_at(sizes, r)
        pair = weight * load_float_at(behind, r)
        for j in range(width):
            store_float_at(to, at + j, pair * load_float_at(other, 1 + j))
        at += width
        weight *= load_float_at(other, 0)
    return at


@structure
def cofactor_join(p, parts, sizes):
    """The product of several blocks over disjoint columns, whose columns follow one another."""
    join_at(p, spill(parts), spill(sizes), len(parts))


@structure
def join_at(p, parts, sizes, n):
    """Row after row: a part's own products, then its sums times those of the parts behind it."""
    out_of_line()
    wide_vectors()
    behind = scratch(64)
    store_float(p, counts_behind(behind, parts, n))
    columns = 0
    for q in range(n):
        columns += load_at(sizes, q)
    row, at, before = p + 8 * (columns + 1), 1, 1.0
    for q in range(n):
        part, k = load_at(parts, q), load_at(sizes, q)
        weight = before * load_float_at(behind, q)
        for j in range(k):
            store_float_at(p, at + j, weight * load_float_at(part, 1 + j))
        if k > 0:
            row = join_rows(row, parts, sizes, n, q, behind, before)
        at += k
        before *= load_float_at(part, 0)


@structure
def join_rows(row, parts, sizes, n, q, behind, before):
    """The rows of part q."""
    part, k = load_at(parts, q), load_at(sizes, q)
    own, weight = part + 8 * (k + 1), before * load_float_at(behind, q)
    sums = row + 8 * k  # in the place of the first row's products, which are made last
    width = sums_behind(sums, parts, sizes, n, q, behind, before)
    for i in range(k):
        for j in range(k - i):
            store_float_at(row, j, weight * load_float_at(own, j))
        if i > 0:
            factor = load_float_at(part, 1 + i)
            for j in range(width):
                store_float_at(row + 8 * (k - i), j, factor * load_float_at(sums, j))
        own += 8 * (k - i)
        row += 8 * (k - i + width)
    factor = load_float_at(part, 1)
    for j in range(width):
        store_float_at(sums, j, factor * load_float_at(sums, j))
    return row


@structure
def cofactor_turn(q, p, order, columns):
    """The block p with its columns in another order: `order` says where they are."""
    turn_at(q, p, spill(order), columns)


@structure
def turn_at(q, p, order, k):
    """The same by address."""
    out_of_line()
    store_float(q, load_float_at(p, 0))
    at = 1
    for i in range(-1, k):
        for j in range(max(i, 0), k):
            a = 0 if i < 0 else 1 + load_at(order, i)
            b = 1 + load_at(order, j)
            store_float_at(q, at, load_float_at(p, float_place(min(a, b), max(a, b), k, 1)))
            at += 1


# Showing.


@structure
def cofactor_show(q, s, e, k, low, order, columns, pad):
    """Count, sums and products of a block, its columns in another order: `order` says where."""
    show_at(q, e + 8 * k, e + 8 * low, spill(order), columns, pad)


@structure
def show_at(q, high, low, order, k, pad):
    """The same by address."""
    out_of_line()
    store_float(q, load_float_at(high, 0) + load_float_at(low, 0))
    at = 1
    for i in range(-1, k):
        for j in range(max(i, 0), k):
            a = 0 if i < 0 else 1 + load_at(order, i)
            b = 1 + load_at(order, j)
            place = float_place(min(a, b), max(a, b), k, pad)
            store_float_at(q, at, load_float_at(high, place) + load_float_at(low, place))
            at += 1


@structure
def float_place(row, column, k, pad):
    """Where an entry of the triangle of k columns lies: behind the rows above it."""
    end = (k + pad) // pad * pad
    whole, rest = row // pad, row % pad
    skipped = pad * (pad * (whole * (whole - 1) // 2) + rest * whole)
    return row * end - skipped + column - pad * whole
