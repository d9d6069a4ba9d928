"""Partials of many groups, each group's in order, and what a technique keeps beside them.

A group has a block of rows in shared arrays: its partials in the order of their panes, and beside
them what the technique keeps. A block that is full is moved to one of twice the size.

naive              nothing
slickdeque_inv     the sum of all partials before this one
flatfat            a binary tree over the block
bint               the same tree, whose nodes are made when their last partial comes
flatfit            how far each partial's aggregate reaches, and that aggregate
slickdeque_noninv  the partial below each one on the deque that ends with it; the sums of what has
                   an inverse, which counts have
panes_inv, twostacks, daba
                   what `stretches` keeps for one window; it is thrown away when a partial that it
                   has seen changes

blocks   by group: start, capacity, head (the first partial not yet left behind), end, how many
         places were dropped before the block, how far answers have looked (dropped ones counted),
         and a number that grows when a partial that they have seen changes
heap     0: first row never used, 1 + k: the first free block of 2^k rows
links    by place: numbers of places in the block
"""

import numpy as np

from viewmill.kernels.structures.windows.payload_rows import (
    BEST,
    beats,
    clear_row,
    combine,
    combine_sums,
    copy_row,
)

U = np.uint64

NAIVE, INVERSE, TREE, BINT, FLATFIT, DEQUE, RUNNING, TWOSTACKS, DABA = 0, 1, 2, 3, 4, 5, 6, 7, 8
MERGE, SET, REMOVE = 0, 1, 2


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


def make_place(blocks, heap, group, panes, words, reals, more_w, more_r, links, mode):
    """See that the group's block has a place behind its end: 0 if there is no room for that, 2 if
    what is kept must be made again, 3 if it has moved with the partials to the block's front."""
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
        return 2
    to, larger = start, capacity
    if 2 * head < capacity:
        larger = 2 * capacity
        to = take_block(heap, panes, larger)
        if to < 0:
            return 0
    for i in range(head, end):
        panes[U(to + i - head)] = panes[U(start + i)]
        copy_row(words, reals, to + i - head, words, reals, start + i)
        if mode in (INVERSE, DEQUE, FLATFIT, TWOSTACKS, DABA):
            copy_row(more_w, more_r, to + i - head, more_w, more_r, start + i)
        if mode in (DEQUE, FLATFIT):
            for c in range(links.shape[1]):
                links[U(to + i - head), U(c)] = links[U(start + i), U(c)] - head
    if to != start:
        free_block(heap, panes, start, capacity)
    blocks[U(group), U(0)], blocks[U(group), U(1)] = to, larger
    blocks[U(group), U(2)], blocks[U(group), U(3)] = 0, end - head
    blocks[U(group), U(4)] += head
    return 2 if mode in (TREE, BINT) else 3


# What the technique keeps.


def renew(
    blocks, group, since, is_one, words, reals, more_w, more_r, links, spare_w, spare_r, mode, ops
):
    """Make right what is kept: one partial is new or different, or all from place `since` on."""
    start, capacity, end = blocks[U(group), U(0)], blocks[U(group), U(1)], blocks[U(group), U(3)]
    head = blocks[U(group), U(2)]
    if mode in (INVERSE, DEQUE):
        for i in range(since, end):
            if i == 0:
                clear_row(more_w, more_r, start)
            else:
                at = start + i - 1
                combine_sums(ops, more_w, at + 1, more_w, at, words, at)
    if mode == DEQUE:
        for i in range(max(since, head), end):
            put_on_deque(start, head, i, words, reals, links, spare_w, spare_r, ops)
    elif mode in (TREE, BINT):
        # One partial: the nodes above it. More: all, the lowest first.
        node, width = (capacity + since) >> 1 if is_one else capacity - 1, 2
        while node > 0:
            if is_one and mode == BINT and (node + 1) * width - capacity > end:
                break  # its last partial is not there yet
            join_node(start, capacity, end, node, words, reals, more_w, more_r, ops)
            node, width = node >> 1 if is_one else node - 1, 2 * width
    elif mode == FLATFIT:
        is_new = is_one and since + blocks[U(group), U(4)] >= blocks[U(group), U(5)]
        for i in range(since if is_new else head, end):
            if i >= since or links[U(start + i), U(0)] > since:
                links[U(start + i), U(0)] = i + 1  # it reaches no farther than itself
                copy_row(more_w, more_r, start + i, words, reals, start + i)


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


def put_on_deque(start, head, place, words, reals, links, spare_w, spare_r, ops):
    """For each component that chooses: the nearest partial before this one that it does not beat.

    From link to link one walks down the deque as it was when this partial had just been put on it.
    """
    for c in range(ops.shape[0]):
        if ops[U(c), U(0)] >= BEST:  # selective, wherever there is a deque
            below = place - 1
            while below >= head and beats(
                ops, c, start + below, start + place, words, reals, spare_w, spare_r
            ):
                below = links[U(start + below), U(c)]
            links[U(start + place), U(c)] = below


# Kernels.


def change(
    done, groups, at_panes, how, new_w, new_r, was, old_w, old_r, spare_w, spare_r,
    blocks, heap, panes, words, reals, more_w, more_r, links, mode, ops,
):  # fmt: skip
    """Merge, set or remove partials, noting in `was` and `old` what was there before.

    Gives how many are done: fewer than all if there is no room for more.
    """
    for i in range(done, groups.size):
        group, pane, is_one = groups[U(i)], at_panes[U(i)], True
        start, head, end = blocks[U(group), U(0)], blocks[U(group), U(2)], blocks[U(group), U(3)]
        place = find(panes, start, head, end, pane)
        there = place < end and panes[U(start + place)] == pane
        was[U(i)] = 1 if there else 0
        if place + blocks[U(group), U(4)] < blocks[U(group), U(5)]:
            blocks[U(group), U(6)] += 1
        since = place
        if there:
            at = start + place
            copy_row(old_w, old_r, i, words, reals, at)
            if how[U(i)] == MERGE:
                combine(ops, words, reals, at, words, reals, at, new_w, new_r, i)
            elif how[U(i)] == SET:
                copy_row(words, reals, at, new_w, new_r, i)
            else:
                take_out(blocks, group, place, panes, words, reals)
                is_one = False
        else:
            clear_row(old_w, old_r, i)
            if how[U(i)] == REMOVE:
                continue
            room = make_place(blocks, heap, group, panes, words, reals, more_w, more_r, links, mode)
            if room == 0:
                return i
            put_in(blocks, group, pane, panes, words, reals, new_w, new_r, i)
            is_one = room != 2 and place == end
            since = 0 if room == 2 else place - head if room == 3 else place
        renew(
            blocks, group, since, is_one, words, reals, more_w, more_r, links, spare_w, spare_r,
            mode, ops,
        )  # fmt: skip
    return groups.size


def put_in(blocks, group, pane, panes, words, reals, new_w, new_r, i):
    """A partial at its place; those behind it move on."""
    start, head, end = blocks[U(group), U(0)], blocks[U(group), U(2)], blocks[U(group), U(3)]
    place = find(panes, start, head, end, pane)
    for j in range(end, place, -1):
        panes[U(start + j)] = panes[U(start + j - 1)]
        copy_row(words, reals, start + j, words, reals, start + j - 1)
    panes[U(start + place)] = pane
    copy_row(words, reals, start + place, new_w, new_r, i)
    blocks[U(group), U(3)] = end + 1


def take_out(blocks, group, place, panes, words, reals):
    start, end = blocks[U(group), U(0)], blocks[U(group), U(3)]
    for j in range(place, end - 1):
        panes[U(start + j)] = panes[U(start + j + 1)]
        copy_row(words, reals, start + j, words, reals, start + j + 1)
    blocks[U(group), U(3)] = end - 1


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
        for j in range(6):
            blocks[U(group), U(j)] = 0
        blocks[U(group), U(6)] += 1
    return 0
