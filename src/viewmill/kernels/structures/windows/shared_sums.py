"""Sums over many windows of one stream: SlickDeque (Inv) with all running values in one ring.

After each row the sum of all rows so far goes into a ring. A window's running value is the newest
entry less the entry where the window begins: one operation for each answer, whatever the range, and
the ring is shared by every window. Whole numbers only: a sum of all rows loses digits of floats.
"""

import numpy as np

U = np.uint64


def answer_sums(x, slides, firsts, ranges, out, answered, ring, cursors):
    """Feed rows; windows firsts[g] to firsts[g + 1] have slide slides[g].

    out[q] is the last answer of window q, and answered[0] the number of answers given.
    """
    mask = ring.size - 1
    now, total, given = cursors[0], cursors[1], answered[0]
    for i in range(x.size):
        total += x[U(i)]
        now += 1
        ring[U(now & mask)] = total
        for g in range(slides.size):
            if now % slides[U(g)] != 0:
                continue
            first, end = firsts[U(g)], firsts[U(g + 1)]
            for q in range(first, end):
                begin = max(now - ranges[U(q)], 0)
                out[U(q)] = total - ring[U(begin & mask)]
            given += end - first
    cursors[0], cursors[1], answered[0] = now, total, given
    return 0
