"""The cofactor ring: the count of rows, the sums of columns, the products of pairs of columns.

block    the upper triangle, by rows, of the matrix that sums z zᵀ with z = (1, x1, ..., xk):
         the first row is the count and the sums. (k + 1)(k + 2) / 2 floats
kept     a block, and then as many floats with what rounding took from it

A view holds a block of the columns below it and nothing of the others, so a product multiplies only
what is there: between columns of one part its own products, between two parts the product of sums.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.heap import clear_bytes, out_of_line
from viewmill.kernels.structures.memory import spill, spill_floats, store_float
from viewmill.kernels.structures.vectors import load_at, load_float_at, store_float_at


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
    for j in range(k):
        store_float_at(p, 1 + j, m * load_float_at(x, j))
    row = p + 8 * (k + 1)
    for i in range(k):
        first = load_float_at(x, i)
        for j in range(k - i):
            store_float_at(row, j, m * (first * load_float_at(x + 8 * i, j)))
        row += 8 * (k - i)


@structure
def cofactor_add(s, e, k, p, n):
    """The block kept at word k of an entry += the block p of n floats, without rounding."""
    add_kept(e + 8 * k, e + 8 * (k + n), p, n)


@structure
def add_kept(high_at, low_at, p, n):
    """high + low += p, float by float: error-free addition, then the low part is taken over."""
    for j in range(n):
        high, x = load_float_at(high_at, j), load_float_at(p, j)
        total = high + x
        moved = total - high
        low = load_float_at(low_at, j) + ((high - (total - moved)) + (x - moved))
        high = total + low
        store_float_at(high_at, j, high + 0.0)
        store_float_at(low_at, j, (low - (high - total)) + 0.0)


@structure
def cofactor_join(p, parts, sizes):
    """The product of several blocks over disjoint columns, whose columns follow one another."""
    join_at(p, spill(parts), spill(sizes), len(parts))


@structure
def other_counts(parts, n, left, right):
    """The product of the counts of all parts but two."""
    weight = 1.0
    for q in range(n):
        if q != left and q != right:
            weight *= load_float_at(load_at(parts, q), 0)
    return weight


@structure
def join_at(p, parts, sizes, n):
    """The same by address."""
    out_of_line()
    columns = 0
    for q in range(n):
        columns += load_at(sizes, q)
    store_float(p, other_counts(parts, n, -1, -1))
    # The first row: each part's sums as often as the others have rows.
    at = 1
    for q in range(n):
        part, weight = load_at(parts, q), other_counts(parts, n, q, q)
        for j in range(load_at(sizes, q)):
            store_float_at(p, at + j, weight * load_float_at(part, 1 + j))
        at += load_at(sizes, q)
    row, left = p + 8 * (columns + 1), columns
    for q in range(n):
        row = join_rows(row, left, parts, sizes, n, q)
        left -= load_at(sizes, q)


@structure
def join_rows(row, left, parts, sizes, n, q):
    """The rows of part q: its own products, then its sums times those of the parts behind it.

    `left` columns from here on. The first row of them serves as the sums behind, made once.
    """
    part, k = load_at(parts, q), load_at(sizes, q)
    if k == 0:
        return row
    own, weight = part + 8 * (k + 1), other_counts(parts, n, q, q)
    behind = row + 8 * k  # where the first row's entries of the parts behind are
    at = 0
    for r in range(q + 1, n):
        other, pair = load_at(parts, r), other_counts(parts, n, q, r)
        for j in range(load_at(sizes, r)):
            store_float_at(behind, at + j, pair * load_float_at(other, 1 + j))
        at += load_at(sizes, r)
    for i in range(k):
        width = k - i
        for j in range(width):
            store_float_at(row, j, weight * load_float_at(own, j))
        if i > 0:
            factor = load_float_at(part, 1 + i)
            for j in range(at):
                store_float_at(row + 8 * width, j, factor * load_float_at(behind, j))
        own += 8 * width
        row += 8 * (width + at)
    factor = load_float_at(part, 1)
    for j in range(at):
        store_float_at(behind, j, factor * load_float_at(behind, j))
    return row


@structure
def cofactor_show(q, block, order, k):
    """Count, sums and products of a block, its columns in another order: `order` says where."""
    show_at(q, block, spill(order), k)


@structure
def show_at(q, block, order, k):
    """The same by address."""
    out_of_line()
    size = block_size(k)
    store_float(q, kept_float(block, size, 0))
    for j in range(k):
        store_float_at(q, 1 + j, kept_float(block, size, 1 + load_at(order, j)))
    at = 1 + k
    for i in range(k):
        for j in range(i, k):
            a, b = load_at(order, i), load_at(order, j)
            low, high = min(a, b), max(a, b)
            # Row r of the triangle begins behind r rows of k + 1, k, ... floats.
            row = (low + 1) * (k + 1) - (low + 1) * low // 2
            store_float_at(q, at, kept_float(block, size, row + high - low))
            at += 1


@structure
def kept_float(block, size, j):
    """Float j of a kept block, rounded once."""
    return load_float_at(block, j) + load_float_at(block, size + j)
