"""Naive (the paper's Panes): fold the window anew at each slide.

n - 1 operations. All ranges come out of one scan from the newest partial to the oldest.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import add_up, combine

NEEDS = ""
U = np.uint64


def space(n):
    return 2 * n, 1


def push(x, values, cursors, n):
    """Each partial is kept twice, n apart: the window is always one stretch without a border."""
    p = cursors[0]
    values[U(p)] = x
    values[U(p + n)] = x
    p += 1
    cursors[0] = p if p < n else 0
    return p


def slide(x, out, values, cursors, n, identity):
    for i in range(x.size):
        start = push(x[U(i)], values, cursors, n)
        total = values[U(start)]
        for j in range(start + 1, start + n):
            total = combine(total, values[U(j)])
        out[U(i)] = total
    return 0


def slide_all(x, ranges, out, seen, values, cursors, n, identity):
    for i in range(x.size):
        newest = push(x[U(i)], values, cursors, n) + n - 1
        total = values[U(newest)]
        age = 1
        for j in range(ranges.size):
            for k in range(age, ranges[U(j)]):
                total = combine(values[U(newest - k)], total)
            age = max(age, ranges[U(j)])
            out[U(j)] = total
        seen[0] += add_up(out)
    return 0
