"""Blocks of the cofactor ring whose numbers are exact: what comes and goes leaves no trace.

kept     the numbers of a block one after the other, each a sum slot (see `exact_sums`)
under way  the same numbers, each in the room of EXACT_WORDS words

They take over where the two floats of `cofactor` lose digits; a product takes microseconds.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.blocks import scratch
from viewmill.kernels.structures.cofactor import block_size, float_place
from viewmill.kernels.structures.exact_pools import POOL
from viewmill.kernels.structures.exact_sums import (
    add_exact,
    add_exact_product,
    exact_float,
    exact_none,
    exact_of,
)
from viewmill.kernels.structures.heap import out_of_line
from viewmill.kernels.structures.memory import load_float, spill, spill_floats, store_float
from viewmill.kernels.structures.vectors import load_at, load_float_at
from viewmill.program.states import EXACT_WORDS

KEPT, UNDER_WAY = 24, 8 * EXACT_WORDS  # bytes from one number to the next


@structure
def exact_block_none(p, n):
    """The zero of the ring: n numbers."""
    for j in range(n):
        exact_none(p + UNDER_WAY * j)


@structure
def exact_block_lift(p, m, xs):
    """The block of a row, m times."""
    exact_lift_at(p, m, spill_floats(xs), len(xs))


@structure
def exact_lift_at(p, m, x, k):
    """`exact_block_lift` by address."""
    out_of_line()
    one, other = scratch(EXACT_WORDS), scratch(EXACT_WORDS)
    at = exact_of(p, 1.0, m)
    for i in range(-1, k):
        exact_of(one, 1.0 if i < 0 else load_float_at(x, i), m)
        for j in range(max(i, 0), k):
            at += UNDER_WAY
            exact_of(other, load_float_at(x, j), 1)
            add_exact_product(0, exact_none(at), one, other, 1)


@structure
def exact_block_at(s, e, k, n):
    """The n numbers kept at word k of an entry."""
    return e + 8 * k


@structure
def exact_block_add(s, e, k, p, step, n):
    """A kept block += the block p, whose numbers are `step` bytes apart."""
    out_of_line()
    for j in range(n):
        add_exact(s + POOL, e + 8 * k + KEPT * j, p + step * j)


@structure
def exact_block_add_floats(s, e, k, p, n):
    """A kept block += n numbers of two floats each: n first parts, then n second ones."""
    out_of_line()
    number = scratch(EXACT_WORDS)
    for j in range(2 * n):
        to = e + 8 * k + KEPT * (j if j < n else j - n)
        add_exact(s + POOL, to, exact_of(number, load_float_at(p, j), 1))


@structure
def exact_block_join(p, parts, steps, sizes):
    """The product of several blocks over disjoint columns, whose columns follow one another."""
    exact_join_at(p, spill(parts), spill(steps), spill(sizes), len(parts))


@structure
def part_number(parts, steps, q, at):
    """The address of number `at` of part q."""
    return load_at(parts, q) + load_at(steps, q) * at


@structure
def exact_times_counts(p, parts, steps, n, q, r):
    """The number at p times the counts of all parts but two."""
    other = scratch(EXACT_WORDS)
    for t in range(n):
        if t != q and t != r:
            add_exact(0, exact_none(other), p)
            add_exact_product(0, exact_none(p), other, part_number(parts, steps, t, 0), 1)


@structure
def exact_join_at(p, parts, steps, sizes, n):
    """Row after row: a part's own products, then its sums times those of the parts behind it."""
    out_of_line()
    columns = 0
    for q in range(n):
        columns += load_at(sizes, q)
    exact_times_counts(exact_of(p, 1.0, 1), parts, steps, n, -1, -1)
    at, row = p + UNDER_WAY, p + UNDER_WAY * (columns + 1)
    for q in range(n):
        k = load_at(sizes, q)
        own = k + 1
        for i in range(k):
            add_exact(0, exact_none(at), part_number(parts, steps, q, 1 + i))
            exact_times_counts(at, parts, steps, n, q, -1)
            at += UNDER_WAY
            for _ in range(k - i):
                add_exact(0, exact_none(row), part_number(parts, steps, q, own))
                exact_times_counts(row, parts, steps, n, q, -1)
                own += 1
                row += UNDER_WAY
            for r in range(q + 1, n):
                for j in range(load_at(sizes, r)):
                    x = part_number(parts, steps, q, 1 + i)
                    y = part_number(parts, steps, r, 1 + j)
                    add_exact_product(0, exact_none(row), x, y, 1)
                    exact_times_counts(row, parts, steps, n, q, r)
                    row += UNDER_WAY


@structure
def exact_block_turn(q, p, step, order, columns):
    """The block p with its columns in another order: `order` says where they are."""
    exact_turn_at(q, p, step, spill(order), columns)


@structure
def exact_turn_at(q, p, step, order, k):
    """`exact_block_turn` by address."""
    out_of_line()
    at = q
    for i in range(-1, k):
        for j in range(-1 if i < 0 else i, k):
            place = turned_place(order, i, j, k)
            add_exact(0, exact_none(at), p + step * place)
            at += UNDER_WAY


@structure
def turned_place(order, i, j, k):
    """Where the product of columns i and j is, -1 being the column of ones."""
    a = 0 if i < 0 else 1 + load_at(order, i)
    b = 0 if j < 0 else 1 + load_at(order, j)
    return float_place(min(a, b), max(a, b), k, 1)


@structure
def exact_block_show(q, s, e, k, order, columns):
    """Count, sums and products of a kept block, its columns in another order, rounded; then what
    rounding takes from them."""
    exact_show_at(q, e + 8 * k, spill(order), columns)


@structure
def exact_show_at(q, kept, order, k):
    """`exact_block_show` by address. A count below one is empty: deletes came before inserts."""
    out_of_line()
    size, rest, minus = block_size(k), scratch(EXACT_WORDS), scratch(EXACT_WORDS)
    is_empty = load_float(kept) < 0.5
    at = 0
    for i in range(-1, k):
        for j in range(-1 if i < 0 else i, k):
            shown, lost = 0.0, 0.0
            if not is_empty:
                place = turned_place(order, i, j, k)
                add_exact(0, exact_none(rest), kept + KEPT * place)
                shown = exact_float(rest)
                add_exact(0, rest, exact_of(minus, -shown, 1))
                lost = exact_float(rest)
            store_float(q + 8 * at, shown)
            store_float(q + 8 * (at + size), lost)
            at += 1
