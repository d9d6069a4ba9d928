"""The aggregate of a stretch of a group's partials, by each technique.

Every kernel takes groups with the first pane and the end of a stretch each. Naive, SlickDeque,
FlatFAT, B-Int and FlatFIT answer any stretch at any time. Panes (Inv), TwoStacks and DABA keep one
window that slides: what they keep lies in `cursors` and `kept`, and is begun again where a stretch
lies before the last one, or a partial that they have seen has changed.

cursors  by group, all but the first with dropped places counted
    panes_inv  which number of changes it has seen, first, end
    twostacks  the same, first, end, where the back begins
    daba       the same, front, left, right, half, where the back begins, end
kept     by group: panes_inv and twostacks one row, daba two: the middle's aggregate and the back's
"""

import numpy as np

from viewmill.kernels.structures.windows.partials import find
from viewmill.kernels.structures.windows.payload_rows import (
    BEST,
    clear_row,
    combine,
    combine_sums,
    copy_row,
    subtract,
)

U = np.uint64


def places(blocks, panes, group, first, end):
    """Where the block of a group begins, and the places in it of the panes from first to end."""
    start, head = blocks[U(group), U(0)], blocks[U(group), U(2)]
    high = find(panes, start, head, blocks[U(group), U(3)], end)
    return start, find(panes, start, head, high, first), high


def answer_naive(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """Partial by partial."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        for at in range(start + low, start + high):
            combine(ops, out_w, out_r, i, out_w, out_r, i, words, reals, at)
    return 0


def answer_inverse(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """One sum less another."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        if high < blocks[U(group), U(3)]:
            subtract(
                ops, out_w, out_r, i, more_w, more_r, start + high, more_w, more_r, start + low
            )  # fmt: skip
            continue
        at = start + high - 1
        combine_sums(ops, spare_w, 0, more_w, at, words, at)
        subtract(ops, out_w, out_r, i, spare_w, spare_r, 0, more_w, more_r, start + low)
    return 0


def answer_tree(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """The fewest nodes that cover it: of FlatFAT and of B-Int alike."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low < high:
            capacity = blocks[U(group), U(1)]
            stretch(
                start, capacity, low, high, out_w, out_r, i, spare_w, spare_r,
                words, reals, more_w, more_r, ops,
            )  # fmt: skip
    return 0


def stretch(
    start, capacity, low, high, out_w, out_r, to, spare_w, spare_r,
    words, reals, more_w, more_r, ops,
):  # fmt: skip
    """Leaves low to high by the fewest nodes that cover them, the older ones first."""
    low, high = low + capacity, high + capacity
    clear_row(spare_w, spare_r, 0)
    while low < high:
        if low & 1:
            if low >= capacity:
                at = start + low - capacity
                combine(ops, out_w, out_r, to, out_w, out_r, to, words, reals, at)
            else:
                at = start + low
                combine(ops, out_w, out_r, to, out_w, out_r, to, more_w, more_r, at)
            low += 1
        if high & 1:
            high -= 1
            if high >= capacity:
                at = start + high - capacity
                combine(ops, spare_w, spare_r, 0, words, reals, at, spare_w, spare_r, 0)
            else:
                at = start + high
                combine(ops, spare_w, spare_r, 0, more_w, more_r, at, spare_w, spare_r, 0)
        low, high = low >> 1, high >> 1
    combine(ops, out_w, out_r, to, out_w, out_r, to, spare_w, spare_r, 0)


def answer_deque(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """Down the deque that ends with the newest partial, as far as the stretch goes."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        at = start + high - 1
        combine_sums(ops, spare_w, 0, more_w, at, words, at)
        for c in range(ops.shape[0]):
            if ops[U(c), U(0)] < BEST:
                continue
            best = high - 1
            while links[U(start + best), U(c)] >= low:
                best = links[U(start + best), U(c)]
            w, r = ops[U(c), U(1)], ops[U(c), U(2)]
            for j in range(w, w + ops[U(c), U(3)]):
                out_w[U(i), U(j)] = words[U(start + best), U(j)]
            for j in range(r, r + ops[U(c), U(4)]):
                out_r[U(i), U(j)] = reals[U(start + best), U(j)]
        for c in range(ops.shape[0]):
            if ops[U(c), U(0)] < BEST:
                subtract(
                    ops[c : c + 1], out_w, out_r, i, spare_w, spare_r, 0, more_w, more_r,
                    start + low,
                )  # fmt: skip
    return 0


def answer_flatfit(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """Hop from the oldest partial to the end; every place on the way learns to reach the end."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        look_to(blocks, group, high)
        at, depth = low, 0
        while hop(links, start, at, high) != high:
            links[U(start + depth), U(1)] = at
            depth += 1
            at = hop(links, start, at, high)
        if links[U(start + at), U(0)] == high:
            copy_row(out_w, out_r, i, more_w, more_r, start + at)
        else:
            copy_row(out_w, out_r, i, words, reals, start + at)
        while depth > 0:
            depth -= 1
            at = links[U(start + depth), U(1)]
            if links[U(start + at), U(0)] > high:  # it reaches farther than was asked for
                combine(ops, out_w, out_r, i, words, reals, start + at, out_w, out_r, i)
                continue
            combine(ops, out_w, out_r, i, more_w, more_r, start + at, out_w, out_r, i)
            copy_row(more_w, more_r, start + at, out_w, out_r, i)
            links[U(start + at), U(0)] = high
    return 0


def hop(links, start, at, high):
    """Where the aggregate of a place ends, if that is within the stretch; else the next place."""
    reach = links[U(start + at), U(0)]
    return reach if reach <= high else at + 1


def look_to(blocks, group, high):
    """Answers have looked at partials up to this place."""
    seen = high + blocks[U(group), U(4)]
    if seen > blocks[U(group), U(5)]:
        blocks[U(group), U(5)] = seen


def begins_again(blocks, group, cursors, low, high, first, last):
    """Whether what is kept for a window from first to last cannot slide to this stretch."""
    dropped = blocks[U(group), U(4)]
    if cursors[U(group), U(0)] != blocks[U(group), U(6)] or first < dropped:
        return True
    return low + dropped < first or low + dropped > last or high + dropped < last


def answer_running(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """A running aggregate: what leaves is taken away by the inverse, what comes is added."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        look_to(blocks, group, high)
        dropped = blocks[U(group), U(4)]
        first, last = cursors[U(group), U(1)], cursors[U(group), U(2)]
        if begins_again(blocks, group, cursors, low, high, first, last):
            clear_row(kept_w, kept_r, group)
            first = last = low + dropped
        for at in range(first - dropped, low):
            subtract(
                ops, kept_w, kept_r, group, kept_w, kept_r, group, words, reals, start + at
            )  # fmt: skip
        for at in range(last - dropped, high):
            combine(ops, kept_w, kept_r, group, kept_w, kept_r, group, words, reals, start + at)
        cursors[U(group), U(0)] = blocks[U(group), U(6)]
        cursors[U(group), U(1)], cursors[U(group), U(2)] = low + dropped, high + dropped
        copy_row(out_w, out_r, i, kept_w, kept_r, group)
    return 0


def answer_twostacks(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """The front has its aggregates up to where the back begins; the back is one aggregate. When the
    front is used up the back is turned over."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        look_to(blocks, group, high)
        dropped = blocks[U(group), U(4)]
        last, back = cursors[U(group), U(2)], cursors[U(group), U(3)]
        first = cursors[U(group), U(1)]
        if begins_again(blocks, group, cursors, low, high, first, last):
            clear_row(kept_w, kept_r, group)
            last = back = low + dropped
        last, back = last - dropped, back - dropped
        for at in range(last, high):
            combine(ops, kept_w, kept_r, group, kept_w, kept_r, group, words, reals, start + at)
        if low > back:
            turn_over(start, low, high, words, reals, more_w, more_r, ops)
            clear_row(kept_w, kept_r, group)
            back = high
        cursors[U(group), U(0)] = blocks[U(group), U(6)]
        cursors[U(group), U(1)], cursors[U(group), U(2)] = low + dropped, high + dropped
        cursors[U(group), U(3)] = back + dropped
        if low < back:
            combine(
                ops, out_w, out_r, i, more_w, more_r, start + low, kept_w, kept_r, group
            )  # fmt: skip
        else:
            copy_row(out_w, out_r, i, kept_w, kept_r, group)
    return 0


def turn_over(start, low, high, words, reals, more_w, more_r, ops):
    """Each place gets the aggregate from it to the end."""
    copy_row(more_w, more_r, start + high - 1, words, reals, start + high - 1)
    for at in range(start + high - 2, start + low - 1, -1):
        combine(ops, more_w, more_r, at, words, reals, at, more_w, more_r, at + 1)


def answer_daba(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r, cursors, kept_w, kept_r,
    blocks, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """TwoStacks whose turn is done a little with each partial; see the bench's `daba`."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, low, high = places(blocks, panes, group, firsts[U(i)], ends[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        look_to(blocks, group, high)
        dropped = blocks[U(group), U(4)]
        front, last = cursors[U(group), U(1)], cursors[U(group), U(6)]
        if begins_again(blocks, group, cursors, low, high, front, last):
            for j in range(1, 7):
                cursors[U(group), U(j)] = low + dropped
            clear_row(kept_w, kept_r, 2 * group)
            clear_row(kept_w, kept_r, 2 * group + 1)
        cursors[U(group), U(0)] = blocks[U(group), U(6)]
        while cursors[U(group), U(1)] < low + dropped:
            cursors[U(group), U(1)] += 1
            fix_up(group, start - dropped, cursors, kept_w, kept_r, more_w, more_r, ops)
        back = 2 * group + 1
        for at in range(cursors[U(group), U(6)] - dropped, high):
            copy_row(more_w, more_r, start + at, words, reals, start + at)
            combine(ops, kept_w, kept_r, back, kept_w, kept_r, back, words, reals, start + at)
            cursors[U(group), U(6)] += 1
            fix_up(group, start - dropped, cursors, kept_w, kept_r, more_w, more_r, ops)
        if cursors[U(group), U(1)] == cursors[U(group), U(5)]:
            copy_row(out_w, out_r, i, kept_w, kept_r, back)
        else:
            combine(ops, out_w, out_r, i, more_w, more_r, start + low, kept_w, kept_r, back)
    return 0


def fix_up(group, base, cursors, kept_w, kept_r, more_w, more_r, ops):
    """One step of turning the back over; called after each partial that comes or goes."""
    front, left, right = cursors[U(group), U(1)], cursors[U(group), U(2)], cursors[U(group), U(3)]
    half, back_start = cursors[U(group), U(4)], cursors[U(group), U(5)]
    middle, back = 2 * group, 2 * group + 1
    if left == back_start:  # all of it is turned: the back becomes what is turned next
        left, right = front, back_start
        half = back_start = cursors[U(group), U(6)]
        copy_row(kept_w, kept_r, middle, kept_w, kept_r, back)
        clear_row(kept_w, kept_r, back)
    if front == back_start:
        clear_row(kept_w, kept_r, middle)
        clear_row(kept_w, kept_r, back)
    else:
        if half != right:
            half -= 1
            if half + 1 != back_start:
                at = base + half
                combine(ops, more_w, more_r, at, more_w, more_r, at, more_w, more_r, at + 1)
        if left != right:
            at = base + left
            combine(ops, more_w, more_r, at, more_w, more_r, at, kept_w, kept_r, middle)
            left += 1
        else:
            left, right, half = left + 1, right + 1, half + 1
            if half == back_start:
                clear_row(kept_w, kept_r, middle)
            else:
                copy_row(kept_w, kept_r, middle, more_w, more_r, base + half)
    cursors[U(group), U(2)], cursors[U(group), U(3)] = left, right
    cursors[U(group), U(4)], cursors[U(group), U(5)] = half, back_start


def fold(at, words, reals, out_w, out_r, ops):
    """Each payload into its place, together with those before it."""
    for i in range(at.size):
        to = at[U(i)]
        combine(ops, out_w, out_r, to, out_w, out_r, to, words, reals, i)
    return 0
