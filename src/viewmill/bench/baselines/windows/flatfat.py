"""FlatFAT: a binary tree in an array, its leaves a ring.

log2 n operations per slide; the root answers the longest range. Where order matters the ring may
have wrapped, and the answer is [oldest..end) before [0..oldest), not the root.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import COMMUTATIVE, add_up, combine

NEEDS = ""
U = np.uint64


def space(n):
    leaves = 1
    while leaves < n:
        leaves *= 2
    return 2 * leaves, 1


def slide(x, out, values, cursors, n, identity):
    leaves = values.size // 2
    p = cursors[0]
    for i in range(x.size):
        renew(x[U(i)], values, leaves, p)
        p = p + 1 if p + 1 < n else 0
        if COMMUTATIVE or p == 0:
            out[U(i)] = values[1]
        else:
            newer = stretch(values, leaves, 0, p, identity)
            out[U(i)] = combine(stretch(values, leaves, p, n, identity), newer)
    cursors[0] = p
    return 0


def slide_all(x, ranges, out, seen, values, cursors, n, identity):
    leaves = values.size // 2
    p = cursors[0]
    for i in range(x.size):
        renew(x[U(i)], values, leaves, p)
        p = p + 1 if p + 1 < n else 0
        for j in range(ranges.size):
            out[U(j)] = last(values, leaves, p, ranges[U(j)], n, identity)
        seen[0] += add_up(out)
    cursors[0] = p
    return 0


def renew(new, values, leaves, p):
    """Set leaf p and everything above it, carrying the value up."""
    at = leaves + p
    values[U(at)] = new
    total = new
    while at > 1:
        if COMMUTATIVE:
            total = combine(total, values[U(at ^ 1)])
        elif at & 1:
            total = combine(values[U(at - 1)], total)
        else:
            total = combine(total, values[U(at + 1)])
        at >>= 1
        values[U(at)] = total


def last(values, leaves, p, count, n, identity):
    """The last `count` partials, the newest of them just before p."""
    if count == leaves and COMMUTATIVE:
        return values[1]
    end = p if p > 0 else n
    if count <= end:
        return stretch(values, leaves, end - count, end, identity)
    newer = stretch(values, leaves, 0, end, identity)
    return combine(stretch(values, leaves, n - (count - end), n, identity), newer)


def stretch(values, leaves, start, end, identity):
    """Leaves start to end, by the fewest nodes that cover them, in order."""
    low, high = start + leaves, end + leaves
    before, after = identity, identity
    has_before, has_after = False, False
    while low < high:
        if low & 1:
            value = values[U(low)]
            before = combine(before, value) if has_before else value
            has_before, low = True, low + 1
        if high & 1:
            high -= 1
            value = values[U(high)]
            after = combine(value, after) if has_after else value
            has_after = True
        low, high = low >> 1, high >> 1
    if has_before and has_after:
        return combine(before, after)
    return before if has_before else after
