"""Payloads of partials as rows of words and reals: two made one, or one taken away again.

ops      by component: kind, its first word, its first real, how many words, how many reals
A payload whose words and reals are all 0 is that of no rows.
"""

import numpy as np

U = np.uint64

ADD, WIDE, FLOAT, BEST, LATEST, USER = 0, 1, 2, 3, 4, 5
LOW = 0xFFFFFFFF


def combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r):
    """The operation of a user, put here by who builds the kernel."""


def inverse_user(which, to_w, to_r, to, all_w, all_r, whole, old_w, old_r, old, w, r):
    """The inverse of a user's operation, if it has one."""


def add_words(to_w, to, old_w, old, new_w, new, w):
    low = old_w[U(old), U(w + 1)] + new_w[U(new), U(w + 1)]
    to_w[U(to), U(w)] = old_w[U(old), U(w)] + new_w[U(new), U(w)] + (low >> 32)
    to_w[U(to), U(w + 1)] = low & LOW


def two_sum(a, b):
    """A sum, and what it lacks, which is itself a float; infinities and NaN lack nothing. Both as
    they are if their sum is too large for a float: it may not be, once all is added."""
    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)
    if np.isfinite(lost):
        return total, lost
    if np.isfinite(a) and np.isfinite(b):
        return a, b
    return total, 0.0


def quick_sum(a, b):
    """The same of numbers that are not too large: else what it lacks is NaN."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def add_large(a, b, c, x, y, z):
    """The sum of two sums of three floats, some of which are infinite, NaN or nearly too large."""
    a, x = two_sum(a, x)
    b, x = two_sum(b, x)
    a, y = two_sum(a, y)
    b, y = two_sum(b, y)
    a, z = two_sum(a, z)
    b, z = two_sum(b, z)
    c, x = two_sum(c, x)
    c = c + (x + y + z)
    b, c = two_sum(b, c)
    a, b = two_sum(a, b)
    b, c = two_sum(b, c)
    return a, b, c


def add_reals(to_r, to, old_r, old, new_r, new, r):
    """A sum is that of three floats: what an addition loses is added to the next of them."""
    a, b, c = old_r[U(old), U(r)], old_r[U(old), U(r + 1)], old_r[U(old), U(r + 2)]
    x, y, z = new_r[U(new), U(r)], new_r[U(new), U(r + 1)], new_r[U(new), U(r + 2)]
    d, x = quick_sum(a, x)
    e, x = quick_sum(b, x)
    if y != 0.0:
        d, y = quick_sum(d, y)
        e, y = quick_sum(e, y)
    if z != 0.0:
        d, z = quick_sum(d, z)
        e, z = quick_sum(e, z)
    f, x = quick_sum(c, x)
    f = f + (x + y + z)
    # The largest comes first and takes all that it can.
    e, f = quick_sum(e, f)
    d, e = quick_sum(d, e)
    e, f = quick_sum(e, f)
    if not np.isfinite(f):
        d, e, f = add_large(
            a, b, c, new_r[U(new), U(r)], new_r[U(new), U(r + 1)], new_r[U(new), U(r + 2)]
        )
    to_r[U(to), U(r)] = d
    to_r[U(to), U(r + 1)] = e
    to_r[U(to), U(r + 2)] = f


def choose(to_w, to, old_w, old, new_w, new, w, latest):
    """Count, key, time, arrival, shown, null: the larger key, of equal ones the earlier row."""
    n, k = old_w[U(old), U(w)], new_w[U(new), U(w)]
    takes_new = n == 0
    if n != 0 and k != 0:
        a, b = old_w[U(old), U(w + 1)], new_w[U(new), U(w + 1)]
        if a != b:
            takes_new = b > a
        else:
            a, b = old_w[U(old), U(w + 2)], new_w[U(new), U(w + 2)]
            if a == b:
                a, b = old_w[U(old), U(w + 3)], new_w[U(new), U(w + 3)]
            takes_new = (b > a) == latest and a != b
    for i in range(1, 6):
        to_w[U(to), U(w + i)] = new_w[U(new), U(w + i)] if takes_new else old_w[U(old), U(w + i)]
    to_w[U(to), U(w)] = n + k


def combine_one(kind, w, r, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new):
    """One component of row `to` becomes those of the older row and the newer one together."""
    if kind == ADD:
        to_w[U(to), U(w)] = old_w[U(old), U(w)] + new_w[U(new), U(w)]
    elif kind == WIDE:
        add_words(to_w, to, old_w, old, new_w, new, w)
    elif kind == FLOAT:
        add_reals(to_r, to, old_r, old, new_r, new, r)
    elif kind < USER:
        choose(to_w, to, old_w, old, new_w, new, w, kind == LATEST)
    else:
        which = kind - USER
        combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r)


def combine(ops, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new):
    """Row `to` becomes the older row and the newer one together; it may be one of them."""
    for c in range(ops.shape[0]):
        kind, w, r = ops[U(c), U(0)], ops[U(c), U(1)], ops[U(c), U(2)]
        combine_one(kind, w, r, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new)


def combine_sums(ops, to_w, to, old_w, old, new_w, new):
    """Combine only the components that have an inverse."""
    for c in range(ops.shape[0]):
        kind, w = ops[U(c), U(0)], ops[U(c), U(1)]
        if kind == ADD:
            to_w[U(to), U(w)] = old_w[U(old), U(w)] + new_w[U(new), U(w)]
        elif kind == WIDE:
            add_words(to_w, to, old_w, old, new_w, new, w)


def subtract(ops, to_w, to_r, to, all_w, all_r, whole, old_w, old_r, old):
    """Row `to` becomes the whole without the older part; components without an inverse stay."""
    for c in range(ops.shape[0]):
        kind, w, r = ops[U(c), U(0)], ops[U(c), U(1)], ops[U(c), U(2)]
        if kind == ADD:
            to_w[U(to), U(w)] = all_w[U(whole), U(w)] - old_w[U(old), U(w)]
        elif kind == WIDE:
            low = all_w[U(whole), U(w + 1)] - old_w[U(old), U(w + 1)]
            to_w[U(to), U(w)] = all_w[U(whole), U(w)] - old_w[U(old), U(w)] + (low >> 32)
            to_w[U(to), U(w + 1)] = low & LOW
        elif kind >= USER:
            which = kind - USER
            inverse_user(which, to_w, to_r, to, all_w, all_r, whole, old_w, old_r, old, w, r)


def beats(ops, c, old, new, words, reals, spare_w, spare_r):
    """Whether a partial that comes after another makes it useless: together they are the newer."""
    kind, w, r = ops[U(c), U(0)], ops[U(c), U(1)], ops[U(c), U(2)]
    if words[U(old), U(w)] == 0 or words[U(new), U(w)] == 0:
        return words[U(old), U(w)] == 0
    combine_one(kind, w, r, spare_w, spare_r, 0, words, reals, old, words, reals, new)
    is_newer = True
    for i in range(w + 1, w + ops[U(c), U(3)]):
        is_newer = is_newer and spare_w[U(0), U(i)] == words[U(new), U(i)]
    for i in range(r, r + ops[U(c), U(4)]):
        is_newer = is_newer and spare_r[U(0), U(i)] == reals[U(new), U(i)]
    return is_newer


def copy_row(to_w, to_r, to, from_w, from_r, at):
    for i in range(from_w.shape[1]):
        to_w[U(to), U(i)] = from_w[U(at), U(i)]
    for i in range(from_r.shape[1]):
        to_r[U(to), U(i)] = from_r[U(at), U(i)]


def clear_row(to_w, to_r, to):
    for i in range(to_w.shape[1]):
        to_w[U(to), U(i)] = 0
    for i in range(to_r.shape[1]):
        to_r[U(to), U(i)] = 0.0
