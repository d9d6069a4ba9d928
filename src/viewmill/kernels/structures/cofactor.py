"""The cofactor ring: the count of rows, the sums of columns, the products of pairs of columns.

block    the upper triangle, by rows, of the matrix that sums z zᵀ with z = (1, x1, ..., xk):
         the first row is the count and the sums. (k + 1)(k + 2) / 2 floats
padded   rows begin at a multiple of `pad` columns and end at one: whole vectors, where columns are
         many. Between the true beginning and the row's own are zeros
low      for each float of a block, kept or under way, what rounding took from it: twice the digits
         of a float, without which the variance of numbers far from zero is lost. Its address is 0
         where all numbers are whole and nothing was taken from them
peaks    behind the low parts of a kept block, for each column the largest that its sum of squares
         has been; negative as long as all of them were small whole numbers, which lose nothing

A view holds a block of the columns below it and nothing of the others, so a product multiplies only
what is there: between columns of one part its own products, between two parts the product of sums.
"""

from __future__ import annotations

import math

from viewmill.kernels.compiler import inline_structure, structure, wide_vectors
from viewmill.kernels.structures.blocks import scratch
from viewmill.kernels.structures.exact_sums import two_product, two_sum
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

_EXACT_FACTOR = 67108864.0  # 2^26: the product of two smaller integers is an exact float
_WHOLE = 2.0**53  # a float below it shows whether it is whole
# Shares of the largest sum of squares that two floats carry: of a sum of squares, and of a variance
# if the sum of squares has sunk far. What is lost is 2^-106 of the largest.
_CARRIED, _FAR, _CARRIED_VARIANCE = 2.0**-44, 2.0**-24, 2.0**-62
_ROUNDED_ONCE = 2.0**32  # one float loses 2^-53: it counts as this many times as much
ROUNDED = 2.0**50  # what a batch gathers is exact below it


@structure
def block_size(k):
    """How many floats a block of k columns has."""
    return (k + 1) * (k + 2) // 2


@structure
def cofactor_none(p, n):
    """The zero of the ring: n floats."""
    clear_bytes(p, 8 * n)


@structure
def cofactor_lift(p, low, m, xs):
    """The block of a row, m times; gives where its low parts are, or 0."""
    x = spill_floats(xs)
    lift_at(p, float(m), x, len(xs))
    if is_small(m, x, len(xs)):
        return 0
    return lift_low_at(low, float(m), x, len(xs))


@inline_structure
def is_small(m, x, k):
    """Whether all products of a row are whole numbers that a float holds."""
    if m != 1 and m != -1:
        return False
    for i in range(k):
        each = load_float_at(x, i)
        if not abs(each) < _EXACT_FACTOR or each != math.floor(each):
            return False
    return True


@structure
def lift_at(p, m, x, k):
    """The block of a row of k columns at address x, m times."""
    store_float(p, m)
    put_scaled(p + 8, m, x, k)
    row = p + 8 * (k + 1)
    for i in range(k):
        put_scaled(row, m * load_float_at(x, i), x + 8 * i, k - i)
        row += 8 * (k - i)


@structure
def lift_low_at(low, m, x, k):
    """What rounding took from the block of a row; gives its address."""
    out_of_line()
    store_float(low, 0.0)
    at = 1
    for i in range(-1, k):
        high, rest = m, 0.0
        if i >= 0:
            high, rest = two_product(m, load_float_at(x, i))
        for j in range(max(i, 0), k):
            y = load_float_at(x, j)
            _, more = two_product(high, y)
            more += rest * y
            store_float_at(low, at, more)
            at += 1
    return low


@inline_structure
def put_scaled(to, factor, source, n):
    """n floats become factor times others, in whole vectors: up to seven behind them are zero."""
    for j in range(0, n, 8):
        put_scaled_lanes(to + 8 * j, factor, source + 8 * j, n - j)


# Adding.


@structure
def cofactor_add(s, e, k, low, p, rest, n):
    """The block kept at word k of an entry += the block p of n floats, whose low parts are at
    `rest`."""
    add_kept(e + 8 * k, e + 8 * low, p, n)
    if rest != 0:
        add_rest(e + 8 * k, e + 8 * low, rest, n)


@structure
def add_rest(high_at, low_at, rest, n):
    """high + low += what is much smaller, float by float."""
    out_of_line()
    wide_vectors()
    for j in range(n):
        high, low = load_float_at(high_at, j), load_float_at(low_at, j) + load_float_at(rest, j)
        total = high + low
        store_float_at(high_at, j, total + 0.0)
        store_float_at(low_at, j, (low - (total - high)) + 0.0)


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
def cofactor_add_whole(s, e, k, low, p, rest, n):
    """A kept block += the block p, where entries may have no low parts yet.

    Gives the entry, which may have moved.
    """
    if load_word(s + LOW_BYTES) != 0:
        if rest == 0 and is_added(e + 8 * k, p, n):
            return e
        e = widen(s, e)
    cofactor_add(s, e, k, low, p, rest, n)
    return e


@structure
def floats_low(s, e, k, low, n, is_listed):
    """The address of the low parts of n kept floats, or 0 if all of these are whole numbers."""
    if not is_listed and load_word(s + LOW_BYTES) != 0:
        return 0
    for j in range(n):
        high = load_float_at(e + 8 * k, j)
        if load_float_at(e + 8 * low, j) != 0.0 or high != math.floor(high):
            return e + 8 * low
    return 0


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
def cofactor_add_total(s, e, k, low, p, rest, n):
    """The block of a result += p, whose low parts are at `rest`."""
    if rest == 0:
        add_total(e + 8 * k, e + 8 * low, p, n)
        return
    add_kept(e + 8 * k, e + 8 * low, p, n)
    add_rest(e + 8 * k, e + 8 * low, rest, n)


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


@structure
def cofactor_has_lost(s, e, k, low, n, columns, pad, gathered):
    """Whether a kept block of n floats may have lost digits that count: a column's sum of squares
    has sunk to so little of what it was that two floats do not carry the rest.

    `gathered` is what was added, if a batch gathered it in one float each, or 0.
    """
    return has_lost_at(e + 8 * k, e + 8 * low, e + 8 * (low + n), columns, pad, gathered)


@structure
def cofactor_has_lost_whole(s, e, k, low, n, columns, pad, gathered):
    """The same where entries may have no low parts yet: then they have lost nothing."""
    if load_word(s + LOW_BYTES) != 0:
        return False
    return cofactor_has_lost(s, e, k, low, n, columns, pad, gathered)


@structure
def has_lost_at(high_at, low_at, peaks, columns, pad, gathered):
    """`cofactor_has_lost` by address; notes the peaks."""
    out_of_line()
    count, lost = load_float_at(high_at, 0), False
    for i in range(1, columns + 1):
        place = float_place(i, i, columns, pad)
        squares, peak = abs(load_float_at(high_at, place)), load_float_at(peaks, i - 1)
        is_whole = squares < _WHOLE and load_float_at(low_at, place) == 0.0
        if peak <= 0.0 and is_whole and squares == math.floor(squares):
            store_float_at(peaks, i - 1, min(peak, -squares))
            continue
        peak = max(abs(peak), squares)
        if gathered != 0 and abs(load_float_at(gathered, place)) >= ROUNDED:
            peak = max(peak, _ROUNDED_ONCE * abs(load_float_at(gathered, place)))
        store_float_at(peaks, i - 1, peak)
        if squares >= _FAR * peak or count == 0.0:
            continue
        if squares < _CARRIED * peak:
            lost = True
        elif count > 1.5:
            lost = lost or abs(variance_at(high_at, low_at, i, place)) < _CARRIED_VARIANCE * peak
    return lost


@structure
def variance_at(high_at, low_at, i, place):
    """The sum of squares of column i around its mean, in twice the digits."""
    count, sums = load_float_at(high_at, 0), load_float_at(high_at, i)
    rest = load_float_at(low_at, i)
    whole = times_pair(load_float_at(high_at, place), load_float_at(low_at, place), count, 0.0)
    square = times_pair(sums, rest, sums, rest)
    high, low = two_sum(whole[0], -square[0])
    return (high + (low + (whole[1] - square[1]))) / count


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
def cofactor_join(p, low, parts, rests, sizes):
    """The product of several blocks over disjoint columns, whose columns follow one another; gives
    where its low parts are, or 0."""
    return join_pairs_at(p, low, spill(parts), spill(rests), spill(sizes), len(parts))


@structure
def cofactor_needs_low(rests):
    """Whether one of several blocks has low parts."""
    for each in rests:  # noqa: SIM110
        if each != 0:
            return True
    return False


@structure
def cofactor_pad(q, p, columns, pad):
    """The floats of a block with its rows padded; 0 of no block."""
    out_of_line()
    if p == 0:
        return 0
    clear_bytes(q, 8 * (float_place(columns, columns, columns, pad) + 1))
    at = 0
    for i in range(columns + 1):
        for j in range(i, columns + 1):
            store_float_at(q, float_place(i, j, columns, pad), load_float_at(p, at))
            at += 1
    return q


@inline_structure
def load_low(at, i):
    """Low part i, or 0."""
    return load_float_at(at, i) if at != 0 else 0.0


@inline_structure
def times_pair(a, b, c, d):
    """The product of two numbers of two parts each."""
    high, low = two_product(a, c)
    low += a * d + b * c
    total = high + low
    return total, low - (total - high)


@structure
def count_of_others(parts, rests, n, q, r):
    """The product of the counts of all parts but two."""
    high, low = 1.0, 0.0
    for t in range(n):
        if t != q and t != r:
            count = load_float_at(load_at(parts, t), 0), load_low(load_at(rests, t), 0)
            high, low = times_pair(high, low, count[0], count[1])
    return high, low


@structure
def join_pairs_at(p, low, parts, rests, sizes, n):
    """The product in twice the digits; gives where its low parts are, 0 if they are nothing."""
    out_of_line()
    columns = 0
    for q in range(n):
        columns += load_at(sizes, q)
    some = put_pair(p, low, 0, 1.0, 0.0, *count_of_others(parts, rests, n, -1, -1))
    at, row = 1, columns + 1
    for q in range(n):
        part, rest, k = load_at(parts, q), load_at(rests, q), load_at(sizes, q)
        weight = count_of_others(parts, rests, n, q, -1)
        own = k + 1
        for i in range(k):
            x, y = load_float_at(part, 1 + i), load_low(rest, 1 + i)
            some += put_pair(p, low, at, weight[0], weight[1], x, y)
            at += 1
            for j in range(k - i):
                a, b = load_float_at(part, own + j), load_low(rest, own + j)
                some += put_pair(p, low, row + j, weight[0], weight[1], a, b)
            own += k - i
            row += k - i
            for r in range(q + 1, n):
                pair = count_of_others(parts, rests, n, q, r)
                pair = times_pair(pair[0], pair[1], x, y)
                other, more, width = load_at(parts, r), load_at(rests, r), load_at(sizes, r)
                for j in range(width):
                    a, b = load_float_at(other, 1 + j), load_low(more, 1 + j)
                    some += put_pair(p, low, row + j, pair[0], pair[1], a, b)
                row += width
    return low if some != 0.0 else 0


@structure
def put_pair(p, low, at, a, b, c, d):
    """Float `at` of a block and of its low parts become a product; the low part's magnitude."""
    high, rest = times_pair(a, b, c, d)
    store_float_at(p, at, high)
    store_float_at(low, at, rest)
    return abs(rest)


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
    """The block p with its columns in another order: `order` says where they are. 0 of none."""
    if p == 0:
        return 0
    turn_at(q, p, spill(order), columns)
    return q


@structure
def turn_at(q, p, order, k):
    """Permute the columns of block p into q; `order` is an address."""
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
    """Count, sums and products of a block, its columns in another order: `order` says where.
    What rounding takes from them follows."""
    show_at(q, e + 8 * k, e + 8 * low, spill(order), columns, pad)


@structure
def show_at(q, high, low, order, k, pad):
    """`cofactor_show` by address. A count below one is empty: deletes came before inserts."""
    out_of_line()
    size = block_size(k)
    if load_float_at(high, 0) < 0.5:
        for at in range(2 * size):
            store_float_at(q, at, 0.0)
        return
    at = show_float(q, 0, size, load_float_at(high, 0), load_float_at(low, 0))
    for i in range(-1, k):
        for j in range(max(i, 0), k):
            a = 0 if i < 0 else 1 + load_at(order, i)
            b = 1 + load_at(order, j)
            place = float_place(min(a, b), max(a, b), k, pad)
            at = show_float(q, at, size, load_float_at(high, place), load_float_at(low, place))


@structure
def show_float(q, at, size, high, low):
    """A number and what rounding takes from it; gives the place of the next."""
    total, rest = two_sum(high, low)
    store_float_at(q, at, total)
    store_float_at(q, at + size, rest)
    return at + 1


@structure
def float_place(row, column, k, pad):
    """Where an entry of the triangle of k columns lies: behind the rows above it."""
    end = (k + pad) // pad * pad
    whole, rest = row // pad, row % pad
    skipped = pad * (pad * (whole * (whole - 1) // 2) + rest * whole)
    return row * end - skipped + column - pad * whole
