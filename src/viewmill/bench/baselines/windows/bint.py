"""B-Int: base intervals of 1, 2, 4, ... partials, each level a ring.

An interval is made when its last partial comes. An answer takes the fewest intervals that cover its
range. log2 n operations per slide.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import add_up, combine

NEEDS = ""
U = np.uint64


def space(n):
    ring = 1
    while ring < n:
        ring *= 2
    return 2 * ring, 1


def slide(x, out, values, cursors, n, identity):
    now, ring = cursors[0], values.size // 2
    for i in range(x.size):
        add(x[U(i)], values, ring, now)
        now += 1
        out[U(i)] = cover(values, ring, now - n, now, identity)
    cursors[0] = now
    return 0


def slide_all(x, ranges, out, seen, values, cursors, n, identity):
    now, ring = cursors[0], values.size // 2
    for i in range(x.size):
        add(x[U(i)], values, ring, now)
        now += 1
        for j in range(ranges.size):
            out[U(j)] = cover(values, ring, now - ranges[U(j)], now, identity)
        seen[0] += add_up(out)
    cursors[0] = now
    return 0


def add(new, values, ring, now):
    """Level k lies at ring >> k of `values`, like the levels of a tree."""
    values[U(ring + (now & (ring - 1)))] = new
    total, width, at = new, ring, now
    while at & 1 and width > 1:
        before = values[U(width + ((at - 1) & (width - 1)))]
        total = combine(before, total)
        at, width = at >> 1, width >> 1
        values[U(width + (at & (width - 1)))] = total


def cover(values, ring, start, end, identity):
    """Partials start to end: up over odd starts and odd ends until they meet."""
    start = max(start, 0)
    width, low, high = ring, start, end
    before, after = identity, identity
    has_before, has_after = False, False
    while low < high:
        if low & 1:
            value = values[U(width + (low & (width - 1)))]
            before = combine(before, value) if has_before else value
            has_before, low = True, low + 1
        if high & 1:
            high -= 1
            value = values[U(width + (high & (width - 1)))]
            after = combine(value, after) if has_after else value
            has_after = True
        if width == 1 and low < high:
            before, has_before, low = values[1], True, high
        low, high, width = low >> 1, high >> 1, width >> 1
    if has_before and has_after:
        return combine(before, after)
    return before if has_before else after
