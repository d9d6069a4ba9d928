"""FlatFIT: each partial knows how far ahead its aggregate reaches.

An answer hops from the oldest partial to the newest; on the way back every place it touched learns
to reach the newest in one hop. 3 operations on average, n when the whole window is new.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import add_up, combine

NEEDS = ""
U = np.uint64


def space(n):
    return n, 2 * n + 2


def slide(x, out, values, cursors, n, identity):
    reach, stack = cursors[2:], cursors[2 + n :]
    p = begin(reach, cursors, n)
    for i in range(x.size):
        values[U(p)] = x[U(i)]
        reach[U(p)] = p + 1 if p + 1 < n else 0
        p = reach[U(p)]
        out[U(i)] = answer(values, reach, stack, p, p)
    cursors[0] = p
    return 0


def slide_all(x, ranges, out, seen, values, cursors, n, identity):
    reach, stack = cursors[2:], cursors[2 + n :]
    p = begin(reach, cursors, n)
    for i in range(x.size):
        values[U(p)] = x[U(i)]
        reach[U(p)] = p + 1 if p + 1 < n else 0
        p = reach[U(p)]
        for j in range(ranges.size - 1, -1, -1):  # the longest first: it shortens the others' way
            oldest = p - ranges[U(j)]
            out[U(j)] = answer(values, reach, stack, oldest if oldest >= 0 else oldest + n, p)
        seen[0] += add_up(out)
    cursors[0] = p
    return 0


def begin(reach, cursors, n):
    """Where the next partial goes; at first each place reaches just the next one."""
    if cursors[1] == 0:
        for j in range(n):
            reach[U(j)] = j + 1 if j + 1 < n else 0
        cursors[1] = 1
    return cursors[0]


def answer(values, reach, stack, oldest, end):
    """From `oldest` up to `end`, the place after the newest partial, where the oldest of all is."""
    depth, at = 0, oldest
    while reach[U(at)] != end:
        stack[U(depth)] = at
        depth += 1
        at = reach[U(at)]
    total = values[U(at)]
    while depth > 0:
        depth -= 1
        at = stack[U(depth)]
        total = combine(values[U(at)], total)
        values[U(at)] = total
        reach[U(at)] = end
    return total
