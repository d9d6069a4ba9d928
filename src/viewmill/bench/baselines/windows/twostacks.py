"""TwoStacks: a queue of two stacks in one ring.

The front stack holds, for each of its partials, the aggregate from there to the stack's end; of the
back stack only the aggregate of all is kept. When the front is used up the back is turned over.
3 operations on average, n at a turn.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import combine

NEEDS = ""
U = np.uint64


def space(n):
    return n + 1, 2


def slide(x, out, values, cursors, n, identity):
    """Values: a ring of n, then the aggregate of the back stack. The front is where the ring
    has not been overwritten since the last turn: from cursor 0 to n."""
    p, back = cursors[0], values[U(n)]
    i, size = 0, x.size
    while i < size:
        # From one turn to the next: partial p leaves, the new one takes its place.
        end = min(size, i + n - p)
        last = end if end < i + n - p else end - 1
        for k in range(i, last):
            back = combine(back, x[U(k)])
            values[U(p)] = x[U(k)]
            p += 1
            out[U(k)] = combine(values[U(p)], back)
        if last < end:
            out[U(last)] = combine(back, x[U(last)])
            values[U(p)] = x[U(last)]
            turn(values, n)
            p, back = 0, identity
        i = end
    cursors[0], values[U(n)] = p, back
    return 0


def turn(values, n):
    """The whole ring becomes the front: each place the aggregate from there to the end."""
    total = values[U(n - 1)]
    for j in range(n - 2, -1, -1):
        total = combine(values[U(j)], total)
        values[U(j)] = total
