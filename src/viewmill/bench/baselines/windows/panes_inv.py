"""Panes (Inv), also called R-Int and subtract-on-evict: one running value for one range.

2 operations: the new partial is added, the one that leaves is taken away.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import combine, inverse

NEEDS = "inverse"
U = np.uint64


def space(n):
    return n + 1, 1


def slide(x, out, values, cursors, n, identity):
    p, total = cursors[0], values[U(n)]
    for i in range(x.size):
        total = inverse(combine(total, x[U(i)]), values[U(p)])
        values[U(p)] = x[U(i)]
        p += 1
        if p == n:
            p = 0
        out[U(i)] = total
    cursors[0], values[U(n)] = p, total
    return 0
