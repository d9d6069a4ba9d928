"""Partials of many groups, each group's in order, and the aggregate of any stretch of them.

A group has a block of rows in shared arrays: its partials in the order of their panes, and beside
them what the technique keeps. A block that is full is moved to one of twice the size.

naive           nothing; a stretch is put together partial by partial
slickdeque_inv  the sum of all partials before this one: a stretch is one subtraction
flatfat         a binary tree over the block: a stretch is log n combinations, in order

blocks   by group: start, capacity, head (the first partial not yet left behind), end
heap     0: first row never used, 1 + k: the first free block of 2^k rows
ops      by component: kind, its first word, its first real
A payload whose words and reals are all 0 is that of no rows.
"""

import numpy as np

U = np.uint64

NAIVE, INVERSE, TREE = 0, 1, 2
ADD, WIDE, FLOAT, MOMENTS, BEST, LATEST, USER = 0, 1, 2, 3, 4, 5, 6
MERGE, SET, REMOVE = 0, 1, 2
LOW = 0xFFFFFFFF


def combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r):
    """The operation of a user, put here by who builds the kernel."""


def add_words(to_w, to, old_w, old, new_w, new, w):
    low = old_w[U(old), U(w + 1)] + new_w[U(new), U(w + 1)]
    to_w[U(to), U(w)] = old_w[U(old), U(w)] + new_w[U(new), U(w)] + (low >> 32)
    to_w[U(to), U(w + 1)] = low & LOW


def add_reals(to_r, to, old_r, old, new_r, new, r):
    """Two-sum: what an addition loses is itself a float, and carried along."""
    a, b = old_r[U(old), U(r)], new_r[U(new), U(r)]
    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)
    more = old_r[U(old), U(r + 1)] + new_r[U(new), U(r + 1)]
    to_r[U(to), U(r)] = total
    to_r[U(to), U(r + 1)] = more + lost if np.isfinite(lost) else more


def merge_moments(to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r):
    """Chan's formula: means are merged, so nothing cancels."""
    n, k = old_w[U(old), U(w)], new_w[U(new), U(w)]
    if n == 0 or k == 0:
        mean = new_r[U(new), U(r)] if n == 0 else old_r[U(old), U(r)]
        squares = new_r[U(new), U(r + 1)] if n == 0 else old_r[U(old), U(r + 1)]
    else:
        apart = new_r[U(new), U(r)] - old_r[U(old), U(r)]
        mean = old_r[U(old), U(r)] + apart * k / (n + k)
        squares = old_r[U(old), U(r + 1)] + new_r[U(new), U(r + 1)]
        squares += apart * apart * n * k / (n + k)
    to_w[U(to), U(w)] = n + k
    to_r[U(to), U(r)] = mean
    to_r[U(to), U(r + 1)] = squares


def choose(to_w, to, old_w, old, new_w, new, w, latest):
    """Count, key, time, arrival, shown, null: the larger key, of equal ones the earlier row."""
    n, k = old_w[U(old), U(w)], new_w[U(new), U(w)]
    takes_new = n == 0
    if n != 0 and k != 0:
        a, b = old_w[U(old), U(w + 1)], new_w[U(new), U(w + 1)]
        if a != b:
            takes_new = b > a
        else:
            a, b = old_w[U(old), U(w + 2)], new_w[U(new), U(w + 2)]
            if a == b:
                a, b = old_w[U(old), U(w + 3)], new_w[U(new), U(w + 3)]
            takes_new = (b > a) == latest and a != b
    for i in range(1, 6):
        to_w[U(to), U(w + i)] = new_w[U(new), U(w + i)] if takes_new else old_w[U(old), U(w + i)]
    to_w[U(to), U(w)] = n + k


def combine(ops, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new):
    """Row `to` becomes the older row and the newer one together; it may be one of them."""
    for c in range(ops.shape[0]):
        kind, w, r = ops[U(c), U(0)], ops[U(c), U(1)], ops[U(c), U(2)]
        if kind == ADD:
            to_w[U(to), U(w)] = old_w[U(old), U(w)] + new_w[U(new), U(w)]
        elif kind == WIDE:
            add_words(to_w, to, old_w, old, new_w, new, w)
        elif kind == FLOAT:
            add_reals(to_r, to, old_r, old, new_r, new, r)
        elif kind == MOMENTS:
            merge_moments(to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r)
        elif kind < USER:
            choose(to_w, to, old_w, old, new_w, new, w, kind == LATEST)
        else:
            which = kind - USER
            combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r)


def subtract(ops, to_w, to, all_w, whole, old_w, old):
    """Row `to` becomes the whole without the older part; for what has an inverse."""
    for c in range(ops.shape[0]):
        kind, w = ops[U(c), U(0)], ops[U(c), U(1)]
        if kind == ADD:
            to_w[U(to), U(w)] = all_w[U(whole), U(w)] - old_w[U(old), U(w)]
        else:
            low = all_w[U(whole), U(w + 1)] - old_w[U(old), U(w + 1)]
            to_w[U(to), U(w)] = all_w[U(whole), U(w)] - old_w[U(old), U(w)] + (low >> 32)
            to_w[U(to), U(w + 1)] = low & LOW


def copy_row(to_w, to_r, to, from_w, from_r, at):
    for i in range(from_w.shape[1]):
        to_w[U(to), U(i)] = from_w[U(at), U(i)]
    for i in range(from_r.shape[1]):
        to_r[U(to), U(i)] = from_r[U(at), U(i)]


def clear_row(to_w, to_r, to):
    for i in range(to_w.shape[1]):
        to_w[U(to), U(i)] = 0
    for i in range(to_r.shape[1]):
        to_r[U(to), U(i)] = 0.0


def find(panes, start, head, end, pane):
    """The first place from head to end whose pane is not before this one."""
    low, high = head, end
    if low < high and panes[U(start + high - 1)] < pane:
        return high
    while low < high:
        middle = (low + high) >> 1
        if panes[U(start + middle)] < pane:
            low = middle + 1
        else:
            high = middle
    return low


# Blocks.


def exponent(capacity):
    k = 0
    while (1 << k) < capacity:
        k += 1
    return k


def take_block(heap, panes, capacity):
    """A block of so many rows, or -1 if there is no room."""
    k = exponent(capacity)
    start = heap[U(1 + k)]
    if start >= 0:
        heap[U(1 + k)] = panes[U(start)]
        return start
    start = heap[0]
    if start + capacity > panes.size:
        return -1
    heap[0] = start + capacity
    return start


def free_block(heap, panes, start, capacity):
    k = exponent(capacity)
    panes[U(start)] = heap[U(1 + k)]
    heap[U(1 + k)] = start


def make_place(blocks, heap, group, panes, words, reals, more_w, more_r, mode, ops):
    """See that the group's block has a place behind its end; 0 if there is no room for that."""
    start, capacity = blocks[U(group), U(0)], blocks[U(group), U(1)]
    head, end = blocks[U(group), U(2)], blocks[U(group), U(3)]
    if capacity > 0 and end < capacity:
        return 1
    if capacity == 0:
        start = take_block(heap, panes, 4)
        if start < 0:
            return 0
        blocks[U(group), U(0)], blocks[U(group), U(1)] = start, 4
        blocks[U(group), U(2)] = blocks[U(group), U(3)] = 0
        clear_tree(start, 4, more_w, more_r, mode)
        return 1
    to, larger = start, capacity
    if 2 * head < capacity:
        larger = 2 * capacity
        to = take_block(heap, panes, larger)
        if to < 0:
            return 0
    for i in range(head, end):
        panes[U(to + i - head)] = panes[U(start + i)]
        copy_row(words, reals, to + i - head, words, reals, start + i)
    if to != start:
        free_block(heap, panes, start, capacity)
    blocks[U(group), U(0)], blocks[U(group), U(1)] = to, larger
    blocks[U(group), U(2)], blocks[U(group), U(3)] = 0, end - head
    rebuild(blocks, group, words, reals, more_w, more_r, mode, ops, 0)
    return 1


def clear_tree(start, capacity, more_w, more_r, mode):
    if mode == TREE:
        for i in range(capacity):
            clear_row(more_w, more_r, start + i)


# What the technique keeps.


def rebuild(blocks, group, words, reals, more_w, more_r, mode, ops, since):
    """Make right what is kept beside the partials from place `since` on."""
    start, capacity, end = blocks[U(group), U(0)], blocks[U(group), U(1)], blocks[U(group), U(3)]
    if mode == INVERSE:
        for i in range(since, end):
            if i == 0:
                clear_row(more_w, more_r, start)
            else:
                at = start + i - 1
                combine(ops, more_w, more_r, at + 1, more_w, more_r, at, words, reals, at)
    elif mode == TREE:
        for node in range(capacity - 1, 0, -1):
            join_node(start, capacity, end, node, words, reals, more_w, more_r, ops)


def join_node(start, capacity, end, node, words, reals, more_w, more_r, ops):
    """An inner node from the two below it; the leaves are the partials themselves."""
    left, to = 2 * node, start + node
    if left < capacity:
        combine(
            ops, more_w, more_r, to, more_w, more_r, start + left, more_w, more_r, start + left + 1
        )
        return
    leaf = left - capacity
    if leaf + 1 < end:
        at = start + leaf
        combine(ops, more_w, more_r, to, words, reals, at, words, reals, at + 1)
    elif leaf < end:
        copy_row(more_w, more_r, to, words, reals, start + leaf)
    else:
        clear_row(more_w, more_r, to)


def renew(blocks, group, place, words, reals, more_w, more_r, mode, ops):
    """One partial is new or different: make right what is kept."""
    start, capacity, end = blocks[U(group), U(0)], blocks[U(group), U(1)], blocks[U(group), U(3)]
    if mode == INVERSE:
        since = place if place == end - 1 else place + 1
        rebuild(blocks, group, words, reals, more_w, more_r, mode, ops, since)
    elif mode == TREE:
        node = (capacity + place) >> 1
        while node > 0:
            join_node(start, capacity, end, node, words, reals, more_w, more_r, ops)
            node >>= 1


# Kernels.


def change(
    done, groups, at_panes, how, new_w, new_r, was, old_w, old_r,
    blocks, heap, panes, words, reals, more_w, more_r, mode, ops,
):  # fmt: skip
    """Merge, set or remove partials, noting in `was` and `old` what was there before.

    Gives how many are done: fewer than all if there is no room for more.
    """
    for i in range(done, groups.size):
        group, pane = groups[U(i)], at_panes[U(i)]
        start, head, end = blocks[U(group), U(0)], blocks[U(group), U(2)], blocks[U(group), U(3)]
        place = find(panes, start, head, end, pane)
        there = place < end and panes[U(start + place)] == pane
        was[U(i)] = 1 if there else 0
        if there:
            copy_row(old_w, old_r, i, words, reals, start + place)
            if how[U(i)] == REMOVE:
                take_out(blocks, group, place, panes, words, reals)
                rebuild(blocks, group, words, reals, more_w, more_r, mode, ops, place)
                continue
            at = start + place
            if how[U(i)] == MERGE:
                combine(ops, words, reals, at, words, reals, at, new_w, new_r, i)
            else:
                copy_row(words, reals, at, new_w, new_r, i)
            renew(blocks, group, place, words, reals, more_w, more_r, mode, ops)
            continue
        clear_row(old_w, old_r, i)
        if how[U(i)] == REMOVE:
            continue
        if not make_place(blocks, heap, group, panes, words, reals, more_w, more_r, mode, ops):
            return i
        start, head, end = blocks[U(group), U(0)], blocks[U(group), U(2)], blocks[U(group), U(3)]
        place = find(panes, start, head, end, pane)
        for j in range(end, place, -1):
            panes[U(start + j)] = panes[U(start + j - 1)]
            copy_row(words, reals, start + j, words, reals, start + j - 1)
        panes[U(start + place)] = pane
        copy_row(words, reals, start + place, new_w, new_r, i)
        blocks[U(group), U(3)] = end + 1
        if place == end:
            renew(blocks, group, place, words, reals, more_w, more_r, mode, ops)
        else:
            rebuild(blocks, group, words, reals, more_w, more_r, mode, ops, place)
    return groups.size


def take_out(blocks, group, place, panes, words, reals):
    start, end = blocks[U(group), U(0)], blocks[U(group), U(3)]
    for j in range(place, end - 1):
        panes[U(start + j)] = panes[U(start + j + 1)]
        copy_row(words, reals, start + j, words, reals, start + j + 1)
    blocks[U(group), U(3)] = end - 1


def answer(
    groups, firsts, ends, out_w, out_r, spare_w, spare_r,
    blocks, panes, words, reals, more_w, more_r, mode, ops,
):  # fmt: skip
    """The aggregate of each group's partials whose panes are in [first, end)."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, head, end = blocks[U(group), U(0)], blocks[U(group), U(2)], blocks[U(group), U(3)]
        high = find(panes, start, head, end, ends[U(i)])
        low = find(panes, start, head, high, firsts[U(i)])
        clear_row(out_w, out_r, i)
        if low >= high:
            continue
        if mode == INVERSE:
            at = start + high - 1
            combine(ops, spare_w, spare_r, 0, more_w, more_r, at, words, reals, at)
            subtract(ops, out_w, i, spare_w, 0, more_w, start + low)
        elif mode == TREE:
            capacity = blocks[U(group), U(1)]
            stretch(
                start, capacity, low, high, out_w, out_r, i, spare_w, spare_r,
                words, reals, more_w, more_r, ops,
            )  # fmt: skip
        else:
            for at in range(start + low, start + high):
                combine(ops, out_w, out_r, i, out_w, out_r, i, words, reals, at)
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


def forget(groups, pane, blocks, heap, panes):
    """Leave behind these groups' partials before a pane; an empty group gives its block back."""
    for i in range(groups.size):
        group = groups[U(i)]
        start, head, end = blocks[U(group), U(0)], blocks[U(group), U(2)], blocks[U(group), U(3)]
        if end == 0:
            continue
        head = find(panes, start, head, end, pane)
        if head < end:
            blocks[U(group), U(2)] = head
            continue
        free_block(heap, panes, start, blocks[U(group), U(1)])
        for j in range(4):
            blocks[U(group), U(j)] = 0
    return 0
