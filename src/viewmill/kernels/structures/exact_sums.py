"""Sums of floats that lose nothing: what comes and goes leaves no trace, in any order.

An infinite product of finite floats counts as 2^1024, so it shows as infinity while it is there.

slot     three floats whose exact sum is the value; or MARK, the address of a long number, and 0
long     LIMBS words, two's complement, the lowest first: a multiple of 2^-LOWEST, wide enough for
         any sum of floats and of products of two floats

Three floats carry 159 bits, or more where there are gaps, so nearly every sum stays with them:
error-free addition passes on what rounding takes from one to the next, and only what the third
cannot take makes the number a long one. It becomes short again as soon as it fits.

The long numbers of a state are in blocks of its pool (see `exact_pools`). A number under way lies
on the stack of a kernel, EXACT_WORDS words, and its long form right behind the slot's three words.
"""

from __future__ import annotations

import math

import numpy as np

from viewmill.kernels.compiler import inline_structure, structure
from viewmill.kernels.structures.blocks import scratch
from viewmill.kernels.structures.exact_pools import (
    EPOCH,
    MADE,
    NUMBER,
    POOL,
    leave_block,
    make_block,
    make_pool,
    note_replaced,
)
from viewmill.kernels.structures.heap import clear_bytes, copy_bytes, out_of_line
from viewmill.kernels.structures.memory import (
    float_bits,
    load_float,
    load_word,
    store_float,
    store_word,
)
from viewmill.kernels.structures.wide import leading_zeros
from viewmill.kernels.structures.wide_values import wide_product
from viewmill.program.states import EXACT_WORDS

LIMBS, LOWEST = EXACT_WORDS - 3, 2176
MARK = 0x7FF4000000000001  # the bits of a NaN: no sum of finite floats has them
_SPLIT = 134217729.0  # 2^27 + 1
_SAFE_LOW, _SAFE_HIGH = 2.0**-900, 2.0**900  # products between them have an exact remainder
_LARGEST = 1.7976931348623157e308
_SHORT = 2.0**1000  # three floats below this are added without overflow

U = np.uint64
_U0, _U1, _U63 = U(0), U(1), U(63)
_FRACTION = (1 << 52) - 1
_TOP_BITS = U(2)  # a term has 62 bits, so that a product of two has a sign


# Floats.


@inline_structure
def two_sum(a, b):
    """a + b as a rounded part and the rest, exactly."""
    high = a + b
    moved = high - a
    return high, (a - (high - moved)) + (b - moved)


@structure
def two_product(a, b):
    """a * b as a rounded part and the rest, exactly between the safe bounds (Dekker)."""
    high = a * b
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


@inline_structure
def is_safe(x):
    """Whether a factor or a product is far from what rounds to zero and to infinity."""
    return _SAFE_LOW < abs(x) < _SAFE_HIGH


@structure
def mantissa(x):
    """The whole number m for which x = m * 2^exponent."""
    bits = float_bits(x)
    m = bits & _FRACTION
    if (bits >> 52) & 0x7FF != 0:
        m |= _FRACTION + 1
    return -m if bits < 0 else m


@structure
def exponent(x):
    """The exponent of `mantissa`."""
    return max((float_bits(x) >> 52) & 0x7FF, 1) - 1075


# Long numbers.


@structure
def long_add(to, low, high, shift):
    """A long number += (high:low) * 2^(shift - LOWEST), the two words being one signed number."""
    out_of_line()
    i, r = shift >> 6, U(shift & 63)
    a, b, sign = U(low), U(high), U(high >> 63)
    first = a << r
    second = (b << r) | ((a >> _U1) >> (_U63 - r))
    third = (sign << r) | ((b >> _U1) >> (_U63 - r))
    carry = _U0
    for j in range(i, LIMBS):
        word = sign
        if j == i:
            word = first
        elif j == i + 1:
            word = second
        elif j == i + 2:
            word = third
        elif carry == (sign & _U1):
            return  # adding 0, or -1 and a carry, changes nothing
        old = U(load_word(to + 8 * j))
        total = old + word
        more = _U1 if total < old else _U0
        now = total + carry
        if now < total:
            more = _U1
        store_word(to + 8 * j, np.int64(now))
        carry = more


@structure
def long_add_float(to, x):
    """A long number += x."""
    m = mantissa(x)
    long_add(to, m, m >> 63, exponent(x) + LOWEST)


@structure
def long_plus(to, other):
    """A long number += another."""
    out_of_line()
    carry = _U0
    for j in range(LIMBS):
        old = U(load_word(to + 8 * j))
        total = old + U(load_word(other + 8 * j))
        more = _U1 if total < old else _U0
        now = total + carry
        if now < total:
            more = _U1
        store_word(to + 8 * j, np.int64(now))
        carry = more


@structure
def long_top(number):
    """The first 64 bits of the magnitude, the last of them 1 if more follow, and their exponent;
    0 and 0 of zero."""
    out_of_line()
    is_negative = load_word(number + 8 * (LIMBS - 1)) < 0
    last = 0
    while last < LIMBS and load_word(number + 8 * last) == 0:
        last += 1
    if last == LIMBS:
        return _U0, 0
    j = LIMBS - 1
    while j > last and magnitude_limb(number, j, last, is_negative) == _U0:
        j -= 1
    top = magnitude_limb(number, j, last, is_negative)
    following = magnitude_limb(number, j - 1, last, is_negative) if j > last else _U0
    shift = leading_zeros(top)
    bits = (top << shift) | ((following >> _U1) >> (_U63 - shift))
    if last < j - 1 or (following << shift) != _U0:
        bits |= _U1
    return bits, 64 * j - LOWEST - np.int64(shift)


@structure
def magnitude_limb(number, j, last, is_negative):
    """Word j of the magnitude of a number whose lowest word that is not zero is `last`."""
    word = U(load_word(number + 8 * j))
    if not is_negative:
        return word
    return _U0 - word if j == last else ~word


@structure
def long_float(number):
    """A long number rounded to a float."""
    bits, exponent = long_top(number)
    size = math.ldexp(np.float64(bits), exponent)
    return -size if load_word(number + 8 * (LIMBS - 1)) < 0 else size


@structure
def long_take(number):
    """Take the first 62 bits away: what they are and their exponent, 0 and 0 of zero."""
    bits, exponent = long_top(number)
    if bits == _U0:
        return 0, 0
    size = np.int64(bits >> _TOP_BITS)
    if load_word(number + 8 * (LIMBS - 1)) < 0:
        size = -size
    long_add(number, -size, (-size) >> 63, exponent + 2 + LOWEST)
    return size, exponent + 2


# Slots. `pool` is the address of the word that says where the pool of a state is, 0 if the number
# lies on a stack.


@inline_structure
def is_long(at):
    """Whether a number is a long one."""
    return load_word(at) == MARK


@structure
def exact_float(at):
    """The value at `at`, rounded once."""
    first = load_float(at)
    if first != first:
        return long_float(load_word(at + 8))
    return first + (load_float(at + 8) + load_float(at + 16))


@inline_structure
def add_float(pool, at, x):
    """The number at `at` += x, which is finite."""
    if not add_short(at, x):
        add_long(pool, at, x)


@inline_structure
def add_short(at, x):
    """The number at `at` += x if three floats can hold the sum. Gives whether they can."""
    a, b, c = load_float(at), load_float(at + 8), load_float(at + 16)
    a, x = two_sum(a, x)
    # Not so if the number is a long one, which begins with a NaN, and of what overflows.
    if not abs(a) < _SHORT:
        return False
    b, x = two_sum(b, x)
    if x == 0.0 and c == 0.0:
        a, b = two_sum(a, b)
        # + 0.0 makes 0.0 of -0.0: a number that is zero has no bit set.
        store_float(at, a + 0.0)
        store_float(at + 8, b + 0.0)
        return True
    c, x = two_sum(c, x)
    if x != 0.0:
        return False
    b, c = two_sum(b, c)
    a, b = two_sum(a, b)
    b, c = two_sum(b, c)
    store_float(at, a + 0.0)
    store_float(at + 8, b + 0.0)
    store_float(at + 16, c + 0.0)
    return True


@structure
def add_long(pool, at, x):
    """The number at `at` += x, where a long number is needed."""
    out_of_line()
    long_add_float(made_long(pool, at), x)
    shorten(pool, at)


@structure
def add_times(pool, at, x, m):
    """The number at `at` += x * m."""
    if m == 1:
        add_float(pool, at, x)
    elif m == -1:
        add_float(pool, at, -x)
    else:
        add_multiple(pool, at, x, m)


@structure
def add_multiple(pool, at, x, m):
    """The number at `at` += x * m, for any m."""
    out_of_line()
    if -9007199254740992 <= m <= 9007199254740992:
        add_product(pool, at, x, float(m))
        return
    low, high = wide_product(mantissa(x), m)
    add_scaled(pool, at, low, high, exponent(x))


@structure
def add_scaled(pool, at, low, high, exponent):
    """The number at `at` += (high:low) * 2^exponent."""
    out_of_line()
    if exponent < -LOWEST:
        return  # less than any float
    long_add(made_long(pool, at), low, high, exponent + LOWEST)
    shorten(pool, at)


@structure
def add_product(pool, at, x, y):
    """The number at `at` += x * y."""
    out_of_line()
    if x == 0.0 or y == 0.0:
        return
    if is_safe(x) and is_safe(y) and is_safe(x * y):
        high, low = two_product(x, y)
        add_float(pool, at, high)
        if low != 0.0:
            add_float(pool, at, low)
        return
    low, high = wide_product(mantissa(x), mantissa(y))
    add_scaled(pool, at, low, high, exponent(x) + exponent(y))


@structure
def add_exact(pool, at, a):
    """The number at `at` += the one at a."""
    out_of_line()
    if is_long(a):
        long_plus(made_long(pool, at), load_word(a + 8))
        shorten(pool, at)
        return
    for i in range(3):
        x = load_float(a + 8 * i)
        if x != 0.0:
            add_float(pool, at, x)


@structure
def add_exact_product(pool, at, a, b, sign):
    """The number at `at` += the product of two, or -= it."""
    out_of_line()
    if is_long(a) or is_long(b):
        add_long_product(pool, at, a, b, sign)
        return
    for i in range(3):
        x = sign * load_float(a + 8 * i)
        if x == 0.0:
            continue
        for j in range(3):
            y = load_float(b + 8 * j)
            if y != 0.0:
                add_product(pool, at, x, y)


@structure
def add_long_product(pool, at, a, b, sign):
    """The number at `at` += the product of two, or -= it, where one of them is long."""
    out_of_line()
    left, right = scratch(LIMBS), scratch(LIMBS)
    put_long(left, a)
    to = made_long(pool, at)
    while True:
        m, first = long_take(left)
        if m == 0:
            break
        put_long(right, b)
        while True:
            n, second = long_take(right)
            if n == 0:
                break
            low, high = wide_product(sign * m, n)
            if first + second >= -LOWEST:
                long_add(to, low, high, first + second + LOWEST)
    shorten(pool, at)


@structure
def put_long(to, at):
    """The number at `at` as a long one."""
    if is_long(at):
        copy_bytes(to, load_word(at + 8), 8 * LIMBS)
        return
    clear_bytes(to, 8 * LIMBS)
    for i in range(3):
        long_add_float(to, load_float(at + 8 * i))


@structure
def made_long(pool, at):
    """The address of the long number at `at`, which becomes one and may be changed."""
    out_of_line()
    if pool == 0:
        to = at + 24
        if not is_long(at):
            put_long(to, at)
            point_to(at, to)
        return to
    if load_word(pool) == 0:
        make_pool(pool)
    epoch = load_word(load_word(pool) + EPOCH)
    if is_long(at):
        old = load_word(at + 8) - NUMBER
        if load_word(old + MADE) == epoch:
            return old + NUMBER
        note_replaced(load_word(pool), old)
    block = make_block(load_word(pool))
    put_long(block + NUMBER, at)
    point_to(at, block + NUMBER)
    return block + NUMBER


@structure
def point_to(at, number):
    """The slot at `at` says where its long number is."""
    store_word(at, MARK)
    store_word(at + 8, number)
    store_word(at + 16, 0)


@structure
def shorten(pool, at):
    """The long number at `at` becomes three floats if it can."""
    out_of_line()
    rest, number = scratch(LIMBS), load_word(at + 8)
    copy_bytes(rest, number, 8 * LIMBS)
    a = long_float(rest)
    if not abs(a) < _SHORT:
        return
    long_add_float(rest, -a)
    b = long_float(rest)
    long_add_float(rest, -b)
    c = long_float(rest)
    long_add_float(rest, -c)
    bits, _ = long_top(rest)
    if bits != _U0:
        return
    store_float(at, a + 0.0)
    store_float(at + 8, b + 0.0)
    store_float(at + 16, c + 0.0)
    if pool != 0:
        leave_block(pool, number - NUMBER)


@structure
def pool_add_floats(s, at, floats, size):
    """The number at `at` += so many floats."""
    for i in range(size):
        add_float(s + POOL, at, load_float(floats + 8 * i))
    return 0


# What triggers call.


@structure
def sum_at(s, e, k):
    """The value of a sum slot."""
    return exact_float(e + 8 * k)


@structure
def exact_part(s, e, k, i):
    """Part i of the value of a sum slot: floats, the largest first, whose exact sum it is.

    A value that would take more than three floats loses what the third leaves.
    """
    at = e + 8 * k
    if not is_long(at):
        return load_float(at + 8 * i)
    rest = scratch(LIMBS)
    copy_bytes(rest, load_word(at + 8), 8 * LIMBS)
    found = 0.0
    for _ in range(i + 1):
        found = min(max(long_float(rest), -_LARGEST), _LARGEST)
        long_add_float(rest, -found)
    return found


@structure
def exact_add(s, e, k, x, m):
    """Sum slot += x * m."""
    add_times(s + POOL, e + 8 * k, x, m)


@structure
def exact_add_number(s, e, k, a):
    """Sum slot += an exact number."""
    add_exact(s + POOL, e + 8 * k, a)


@structure
def exact_clear(s, e, k):
    """Sum slot = 0."""
    at = e + 8 * k
    if is_long(at):
        leave_block(s + POOL, load_word(at + 8) - NUMBER)
    exact_none(at)


@structure
def exact_at(s, e, k):
    """A sum slot as an exact number, which is good as long as the entry stays where it is."""
    return e + 8 * k


@structure
def exact_none(p):
    """Zero, in the room of EXACT_WORDS words."""
    store_word(p, 0)
    store_word(p + 8, 0)
    store_word(p + 16, 0)
    return p


@structure
def exact_of(p, x, m):
    """x * m."""
    add_times(0, exact_none(p), x, m)
    return p


@structure
def exact_times(p, a, m):
    """An exact number times an int."""
    if m == 1 and not is_long(a):  # as of each row of a table with a key
        copy_bytes(p, a, 24)
        return p
    exact_none(p)
    if not is_long(a) and -9007199254740992 <= m <= 9007199254740992:
        for i in range(3):
            x = load_float(a + 8 * i)
            if x != 0.0:
                add_times(0, p, x, m)
        return p
    add_exact_product(0, p, a, exact_wide(scratch(EXACT_WORDS), wide_product(m, 1)), 1)
    return p


@structure
def exact_wide(p, w):
    """A wide value."""
    out_of_line()
    exact_none(p)
    add_scaled(0, p, w[0], w[1], 0)
    return p


@structure
def exact_times_wide(p, a, w):
    """An exact number times a wide value."""
    if w[1] == w[0] >> 63:
        return exact_times(p, a, w[0])
    exact_none(p)
    add_exact_product(0, p, a, exact_wide(scratch(EXACT_WORDS), w), 1)
    return p


@structure
def exact_mul(p, a, b):
    """The product of two exact numbers."""
    add_exact_product(0, exact_none(p), a, b, 1)
    return p


@structure
def exact_scaled(p, a, x, y, z):
    """An exact number times the sum of three floats."""
    factor = exact_of(scratch(EXACT_WORDS), x, 1)
    add_float(0, factor, y)
    add_float(0, factor, z)
    return exact_mul(p, a, factor)


@structure
def exact_less(p, x, a):
    """x - a."""
    add_exact_product(0, exact_of(p, x, 1), a, exact_of(scratch(EXACT_WORDS), 1.0, 1), -1)
    return p


@structure
def exact_is_zero(a):
    """Whether an exact number is zero."""
    return (load_word(a) | load_word(a + 8) | load_word(a + 16)) == 0
