"""SlickDeque (Inv): Panes (Inv) with one running value for each range.

2 operations per range and slide. The ranges' oldest partials lie side by side in the ring, so all
ranges 1..n are one vector operation.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import (
    add_up,
    combine,
    inverse,
    wide_vectors,
)

NEEDS = "inverse"
U = np.uint64


def space(n):
    return 2 * n + 1, 1


def slide(x, out, values, cursors, n, identity):
    p, total = cursors[0], values[U(2 * n)]
    for i in range(x.size):
        total = inverse(combine(total, x[U(i)]), values[U(p)])
        values[U(p)] = x[U(i)]
        p += 1
        if p == n:
            p = 0
        out[U(i)] = total
    cursors[0], values[U(2 * n)] = p, total
    return 0


def slide_all(x, ranges, out, seen, values, cursors, n, identity):
    """The running values stay in `out` from call to call.

    The ring is filled from its end and kept twice: the partial that is k slides old lies at p + k.
    """
    wide_vectors()
    p = cursors[0]
    for i in range(x.size):
        new = x[U(i)]
        if ranges.size == n:
            seen[0] += renew_all(new, values[p : p + n], out)
        else:
            for j in range(ranges.size):
                oldest = values[U(p + ranges[U(j)] - 1)]
                out[U(j)] = inverse(combine(out[U(j)], new), oldest)
            seen[0] += add_up(out)
        p = p - 1 if p > 0 else n - 1
        values[U(p)] = new
        values[U(p + n)] = new
    cursors[0] = p
    return 0


def renew_all(new, oldest, out):
    """Every running value takes the new partial and gives up its oldest; their sum."""
    wide_vectors()
    total = 0 * new
    for j in range(out.size):
        answer = inverse(combine(out[U(j)], new), oldest[U(j)])
        out[U(j)] = answer
        total += answer
    return total
