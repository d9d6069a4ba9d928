"""DABA (lite): TwoStacks whose turn is done a little at each slide, so that no slide is slow.

The ring from `front` to `end` is cut at left, right, half and back_start, in this order; see
Tangwongsan, Hirzel and Schneider, DEBS 2017.
5 operations on average, 8 at worst.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import combine

NEEDS = ""
U = np.uint64


def space(n):
    ring = 1
    while ring < n + 2:
        ring *= 2
    return ring + 2, 7


def slide(x, out, values, cursors, n, identity):
    """Values: a ring, then the aggregates of the middle and of the back."""
    mask = values.size - 3
    front, left, right = cursors[0], cursors[1], cursors[2]
    half, back_start, end = cursors[3], cursors[4], cursors[5]
    middle, back = values[U(mask + 1)], values[U(mask + 2)]
    if cursors[6] == 0:
        cursors[6], middle, back = 1, identity, identity
    for i in range(x.size):
        if end - front == n:
            front += 1
            left, right, half, back_start, middle, back = fix_up(
                values, mask, front, left, right, half, back_start, end, middle, back, identity
            )
        back = combine(back, x[U(i)])
        values[U(end & mask)] = x[U(i)]
        end += 1
        left, right, half, back_start, middle, back = fix_up(
            values, mask, front, left, right, half, back_start, end, middle, back, identity
        )
        out[U(i)] = back if front == back_start else combine(values[U(front & mask)], back)
    cursors[0], cursors[1], cursors[2] = front, left, right
    cursors[3], cursors[4], cursors[5] = half, back_start, end
    values[U(mask + 1)], values[U(mask + 2)] = middle, back
    return 0


def fix_up(values, mask, front, left, right, half, back_start, end, middle, back, identity):
    """One step of turning the back over; called after each push and each pop."""
    if left == back_start:  # all of it is turned: the back becomes what is turned next
        left, right, half, back_start = front, back_start, end, end
        middle, back = back, identity
    if front == back_start:
        return left, right, half, back_start, identity, identity
    if half != right:
        half -= 1
        if half + 1 != back_start:
            newer = values[U((half + 1) & mask)]
            values[U(half & mask)] = combine(values[U(half & mask)], newer)
    if left != right:
        values[U(left & mask)] = combine(values[U(left & mask)], middle)
        left += 1
    else:
        left, right, half = left + 1, right + 1, half + 1
        middle = identity if half == back_start else values[U(half & mask)]
    return left, right, half, back_start, middle, back
