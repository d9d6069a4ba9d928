"""SlickDeque (Non-Inv): a deque of the partials that may still be an answer.

For selective operations (combine(a, b) is a or b). A new partial drops those before it that it
beats; the oldest one left answers the longest range, and walking on from it answers shorter ones.
Less than 2 operations per slide.
"""

import numpy as np

from viewmill.bench.baselines.windows.operation import combine, wide_vectors

NEEDS = "selective"
U = np.uint64


def space(n):
    ring = 1
    while ring < n + 1:
        ring *= 2
    return ring, ring + 4 + n + 1


def push(new, now, values, ages, cursors, n, mask):
    """Put a partial on the deque: cursors 0 and 1 are its head and its end."""
    head, end = cursors[0], cursors[1]
    while end != head and combine(values[U((end - 1) & mask)], new) == new:
        end -= 1
    values[U(end & mask)] = new
    ages[U(end & mask)] = now
    end += 1
    if ages[U(head & mask)] <= now - n:
        head += 1
    cursors[0], cursors[1] = head, end


def slide(x, out, values, cursors, n, identity):
    mask = values.size - 1
    ages = cursors[4:]
    now, head, end = cursors[2], cursors[0], cursors[1]
    for i in range(x.size):
        new = x[U(i)]
        while end != head and combine(values[U((end - 1) & mask)], new) == new:
            end -= 1
        values[U(end & mask)] = new
        ages[U(end & mask)] = now
        end += 1
        if ages[U(head & mask)] <= now - n:
            head += 1
        now += 1
        out[U(i)] = values[U(head & mask)]
    cursors[2], cursors[0], cursors[1] = now, head, end
    return 0


def slide_all(x, ranges, out, seen, values, cursors, n, identity):
    wide_vectors()
    mask = values.size - 1
    ages, shorter = cursors[4:], cursors[4 + mask + 1 :]
    if cursors[3] == 0:
        cursors[3] = count_shorter(ranges, shorter, n)
    now = cursors[2]
    for i in range(x.size):
        push(x[U(i)], now, values, ages, cursors, n, mask)
        head, end, start = cursors[0], cursors[1], 0
        total = seen[0]
        for at in range(end - 2, head - 1, -1):
            older = shorter[U(now - ages[U(at & mask)] + 1)]
            if start < older:
                total += fill(out, start, older, values[U((at + 1) & mask)])
                start = older
        if start < ranges.size:
            total += fill(out, start, ranges.size, values[U(head & mask)])
        seen[0] = total
        now += 1
    cursors[2] = now
    return 0


def count_shorter(ranges, shorter, n):
    """shorter[a] becomes the number of ranges below a: the first that age a answers."""
    j = 0
    for age in range(n + 1):
        while j < ranges.size and ranges[U(j)] < age:
            j += 1
        shorter[U(age)] = j
    return 1


def fill(out, start, end, value):
    """Write a run of equal answers; their sum."""
    wide_vectors()
    for j in range(start, end):
        out[U(j)] = value
    return value * (end - start)
