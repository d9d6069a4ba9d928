"""Match the rows of groups with a row pattern, in the order that SQL prefers.

takes  arrays: rows by group and time, the steps of a pattern (program.row_patterns), what rows meet
gives  arrays: a row for each row that is shown, and cuts; Numba compiles it when the compiler is on

From each start the steps are followed, at a SPLIT the preferred way first; the other waits on a
stack until the first has failed. What has failed at a row fails again, as long as conditions do not
depend on the match so far: `seen` remembers it, so that every step is taken once at each row.

A cut is a row from which one could start anew; it was certain once no row up to its moment can
change any more. An attempt that has seen the end of its group may end otherwise with later rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewmill.kernels.compiler import also_compiled

CHAR, SPLIT, JUMP, START, END, HIDE, SHOW, MATCH = range(8)
ROW, OWN, COUNT, SUM, MIN, MAX, CLASSIFIER, NUMBER = range(8)
ONE, ALL, OMIT_EMPTY, UNMATCHED = range(4)
PAST, NEXT, FIRST, LAST = range(4)
FAILED, FULL, TOO_LONG, SUM_OVERFLOW = -1, -2, -3, -4
NO_SKIP = -5  # AFTER MATCH SKIP TO a row that is not there
ERROR = -6  # a condition has failed
_LARGEST = 9223372036854775807
_MOST_STEPS = 20_000_000  # of one attempt
_CUT_EVERY = 64  # rows between cuts that no match parts


@also_compiled
def holds(
    condition: int, leaves: Any, row: int, start: int, begin: int, end: int, labels: Any,
    number: int, given: Any, state: Any, machine: Any,
) -> int:  # fmt: skip
    """Whether a row meets the rest of a condition; replaced where Python computes it."""
    return 1


@also_compiled
def note_row(
    leaf: int, leaves: Any, row: int, start: int, label: int, given: Any, state: Any
) -> int:
    """Take a row into the state of a leaf: the state at a row is that of the match up to it."""
    kind, mask, argument, is_last = (
        leaves[leaf, 0],
        leaves[leaf, 1],
        leaves[leaf, 2],
        leaves[leaf, 3],
    )
    integers, floats, nulls = given
    whole, real, lost, count = state
    is_first = row == start
    a = 0 if is_first else whole[leaf, row - 1]
    b = 0.0 if is_first else real[leaf, row - 1]
    c = 0.0 if is_first else lost[leaf, row - 1]
    n = 0 if is_first else count[leaf, row - 1]
    if (mask >> label) & 1:
        if kind in (ROW, CLASSIFIER):
            if is_last or n == 0:
                a = row
            n += 1
        elif kind == COUNT:
            if argument < 0 or not nulls[argument, row]:
                n += 1
        elif kind != OWN and kind != NUMBER and not nulls[argument, row]:
            x, y = integers[argument, row], floats[argument, row]
            if kind == SUM:
                if leaves[leaf, 6]:
                    total = b + y
                    rest = (b - total) + y if abs(b) >= abs(y) else (y - total) + b
                    if np.isfinite(rest):
                        c += rest
                    b = total
                else:
                    if (x > 0 and a > _LARGEST - x) or (x < 0 and a < -_LARGEST - 1 - x):
                        return SUM_OVERFLOW
                    a += x
            else:
                less = x < a
                if leaves[leaf, 6]:
                    less = y < b or (b != b and y == y)  # NaN is the largest
                if n == 0 or less == (kind == MIN):
                    a, b = x, y
            n += 1
    whole[leaf, row], real[leaf, row], lost[leaf, row], count[leaf, row] = a, b, c, n
    return 0


@also_compiled
def row_of(leaf: int, leaves: Any, row: int, start: int, labels: Any, state: Any) -> int:
    """The row that a leaf navigates to before it is moved by its shift; -1 if there is none."""
    whole, _, _, count = state
    mask, is_last, offset = leaves[leaf, 1], leaves[leaf, 3], leaves[leaf, 4]
    if row < start or count[leaf, row] <= offset:
        return -1
    at = whole[leaf, row]
    left = offset
    while left > 0:
        if is_last:
            at = whole[leaf, at - 1]
        else:
            at += 1
            while not (mask >> labels[at]) & 1:
                at += 1
        left -= 1
    return int(at)


@also_compiled
def value_of(
    leaf: int, leaves: Any, row: int, start: int, last: int, begin: int, end: int, labels: Any,
    number: int, given: Any, state: Any,
) -> Any:  # fmt: skip
    """The value of a leaf at a row: as an integer, as a float, and whether it is not NULL.

    `last` is the last row that has a label.
    """
    kind, argument = leaves[leaf, 0], leaves[leaf, 2]
    integers, floats, nulls = given
    whole, real, lost, count = state
    if kind == NUMBER:
        return number, 0.0, 1
    if kind in (ROW, CLASSIFIER):
        at = row_of(leaf, leaves, row, start, labels, state)
        if at < 0:
            return 0, 0.0, 0
        at += leaves[leaf, 5]
        if kind == CLASSIFIER:
            if at < start or at > last:
                return 0, 0.0, 0
            return labels[at], 0.0, 1
        if at < begin or at >= end or nulls[argument, at]:
            return 0, 0.0, 0
        return integers[argument, at], floats[argument, at], 1
    n = 0 if row < start else count[leaf, row]
    if kind == COUNT:
        return n, 0.0, 1
    if n == 0:
        return 0, 0.0, 0
    if kind == SUM and leaves[leaf, 6]:
        return 0, real[leaf, row] + lost[leaf, row], 1
    return whole[leaf, row], real[leaf, row], 1


@also_compiled
def grown(array: Any) -> Any:
    """A copy with twice the room."""
    return np.concatenate((array, np.empty_like(array)))


@also_compiled
def attempt(
    start: int, begin: int, end: int, is_fresh: bool, number: int, moments: Any, steps: Any,
    conditions: Any, met: Any, leaves: Any, given: Any, state: Any, machine: Any, within: int,
    remembers: bool, seen: Any, stamp: int, labels: Any, hidden: Any, stack: Any, trail: Any,
    reach: Any,
) -> int:  # fmt: skip
    """Match from a start: the row after the match, or FAILED.

    `reach` has the last row that was looked at, whether the end was seen, the length of the trail.
    """
    step, row, hides, waiting, passed, taken = 0, start, 0, 0, 0, 0
    while True:
        taken += 1
        if taken > _MOST_STEPS:
            return TOO_LONG
        operation, a, b = steps[step, 0], steps[step, 1], steps[step, 2]
        goes_on = True
        if operation == CHAR:
            if row >= end:
                reach[1] = 1
                goes_on = False
            else:
                reach[0] = max(reach[0], row)
                test, has_rest = conditions[a, 0], conditions[a, 1]
                goes_on = test < 0 or met[test, row] != 0
                if goes_on and within >= 0 and moments[row] - moments[start] > within:
                    goes_on = False
                if goes_on:
                    labels[row], hidden[row] = a, hides > 0
                    for leaf in range(len(leaves)):
                        if note_row(leaf, leaves, row, start, a, given, state) != 0:
                            return SUM_OVERFLOW
                    if has_rest:
                        found = holds(
                            a, leaves, row, start, begin, end, labels, number, given, state, machine
                        )
                        if found < 0:
                            return ERROR
                        goes_on = found == 1
                if goes_on:
                    row += 1
                    step += 1
        elif operation == SPLIT:
            place = steps[step, 3]
            if remembers:
                goes_on = seen[place, row] != stamp
                seen[place, row] = stamp
            else:  # a loop that took no row goes on outside
                at = passed - 1
                while at >= 0 and trail[at, 1] == row and goes_on:
                    goes_on = trail[at, 0] != step
                    at -= 1
            if goes_on:
                if waiting == len(stack) or passed == len(trail):
                    return FULL
                trail[passed, 0], trail[passed, 1], trail[passed, 2] = step, row, place
                passed += 1
                stack[waiting, 0], stack[waiting, 1] = b, row
                stack[waiting, 2], stack[waiting, 3] = hides, passed
                waiting += 1
                step = a
        elif operation == JUMP:
            step = a
        elif operation == START:
            goes_on = is_fresh and row == begin
            step += 1
        elif operation == END:
            goes_on = row == end
            if goes_on:
                reach[1] = 1
            else:
                reach[0] = max(reach[0], row)
            step += 1
        elif operation in (HIDE, SHOW):
            hides += 1 if operation == HIDE else -1
            step += 1
        else:
            reach[2] = passed
            return int(row)
        if not goes_on:
            if waiting == 0:
                reach[2] = 0
                return FAILED
            waiting -= 1
            step, row = stack[waiting, 0], stack[waiting, 1]
            hides, passed = stack[waiting, 2], stack[waiting, 3]


@also_compiled
def following(start: int, after: int, skip: int, skip_to: int, labels: Any) -> int:
    """Where matching goes on after a match."""
    if after == start or skip == NEXT:
        return start + 1
    if skip == PAST:
        return after
    at = start if skip == FIRST else after - 1
    while start <= at < after and not (skip_to >> labels[at]) & 1:
        at += 1 if skip == FIRST else -1
    return NO_SKIP if at <= start or at >= after else at


def match_rows(
    begins: Any,  # of each group's rows, those before the first start included; and the end
    since: Any,  # by group: the moment after which a match may start
    is_new: Any,  # whether nothing is before its rows
    numbers: Any,  # how many matches are before them
    known: Any,  # the moment at which all before was certain
    contexts: Any,  # rows after this moment were given
    last_match: Any,  # of each group: its chain goes on from here
    last_cut: Any,
    moments: Any,
    steps: Any,
    conditions: Any,  # of each variable: its test, and whether there is more to it
    met: Any,  # by test and row
    machine: Any,  # what computes the rest of conditions
    leaves: Any,  # of conditions
    measured: Any,  # leaves of what is shown
    given: Any,  # what they read of rows: integers, floats, nulls
    settings: Any,  # skip, skip to, shown, within, remembers, loops, lookback, lookahead
    first_match: int,
    cut_row: Any, cut_known: Any, cut_match: Any, cut_before: Any, cut_context: Any,
    cut_number: Any, cut_span: Any, first_cut: int,
) -> Any:  # fmt: skip
    """Match each group; what is shown and the cuts are chained behind those of their group."""
    skip, skip_to, shown, within = settings[0], settings[1], settings[2], settings[3]
    remembers, loops, lookback, lookahead = settings[4] != 0, settings[5], settings[6], settings[7]
    size, width = len(moments), len(measured)
    labels, hidden = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.uint8)
    state = (np.zeros((len(leaves), size), np.int64), np.zeros((len(leaves), size)),
             np.zeros((len(leaves), size)), np.zeros((len(leaves), size), np.int64))  # fmt: skip
    own = (np.zeros((width, size), np.int64), np.zeros((width, size)),
           np.zeros((width, size)), np.zeros((width, size), np.int64))  # fmt: skip
    splits = 0
    for i in range(len(steps)):
        splits = max(splits, steps[i, 3] + 1)
    seen = np.zeros((splits if remembers else 1, size + 1), np.int32)
    stack, trail = np.empty((256, 4), np.int64), np.empty((256, 3), np.int64)
    reach = np.zeros(3, np.int64)
    owners, befores = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    integers = np.empty((size + 1, width), np.int64)
    floats, counts = np.empty((size + 1, width)), np.empty((size + 1, width), np.int64)
    made, cuts, stamp, problem = 0, first_cut, 0, 0
    for group in range(len(begins) - 1):
        begin, end = begins[group], begins[group + 1]
        position = begin
        while position < end and moments[position] <= since[group]:
            position += 1
        number, covered, certain = numbers[group], position, known[group]
        last_position = position
        reach[0], reach[1] = -1, 0
        stamp += 1
        while position < end:
            if within >= 0 and remembers:
                stamp += 1
            after = FULL
            while after == FULL:
                after = attempt(
                    position, begin, end, is_new[group] != 0, number + 1, moments, steps,
                    conditions, met, leaves, given, state, machine, within, remembers, seen, stamp,
                    labels, hidden, stack, trail, reach,
                )  # fmt: skip
                if after == FULL:
                    stack, trail = grown(stack), grown(trail)
                    stamp += 1
            if after < FAILED:
                problem = after
                break
            start, low, high = position, position, position
            if after == FAILED:
                position += 1
                if shown == UNMATCHED and start >= covered:
                    high = start + 1
            else:
                number += 1
                reach[0] = max(reach[0], after - 1)
                position = following(start, after, skip, skip_to, labels)
                if position < 0:
                    problem = NO_SKIP
                    break
                covered = max(covered, after)
                if remembers and (loops or within >= 0):
                    stamp += 1
                elif remembers:  # what has not failed may be tried again
                    for i in range(reach[2]):
                        seen[trail[i, 2], trail[i, 1]] = 0
                for row in range(start, after):
                    for leaf in range(width):
                        if note_row(leaf, measured, row, start, labels[row], given, own) != 0:
                            problem = SUM_OVERFLOW
                high = after
                if shown == ONE:
                    low = max(start, after - 1)
                    high = low + 1
                elif after == start and shown != OMIT_EMPTY:
                    high = start + 1
            for row in range(low, high):
                if after > start and shown != ONE and hidden[row]:
                    continue
                if made == len(owners):
                    owners, befores = grown(owners), grown(befores)
                    integers, floats, counts = grown(integers), grown(floats), grown(counts)
                for leaf in range(width):
                    if measured[leaf, 0] == OWN:
                        at = measured[leaf, 2]
                        x, y = given[0][at, row], given[1][at, row]
                        n = 0 if given[2][at, row] else 1
                    elif after == FAILED:
                        x, y, n = 0, 0.0, 0
                    else:
                        last = after - 1
                        seen_to = last if measured[leaf, 7] else min(row, last)
                        x, y, n = value_of(
                            leaf, measured, seen_to, start, last, begin, end, labels, number,
                            given, own,
                        )  # fmt: skip
                    integers[made, leaf], floats[made, leaf], counts[made, leaf] = x, y, n
                owners[made], befores[made] = group, last_match[group]
                last_match[group] = first_match + made
                made += 1
            # Rows of one moment stay together, so that a cut can be said as a moment.
            is_end = position >= end
            if reach[1] or reach[0] + lookahead >= end:
                reach[1] = 1
                continue
            if shown == UNMATCHED and covered > position:
                continue
            if not is_end and moments[position] == moments[position - 1]:
                continue
            if reach[0] >= 0:
                certain = max(certain, moments[reach[0] + lookahead])
            certain = max(certain, moments[position - 1])
            old = last_cut[group]
            older = cut_before[old] if old >= 0 else -1
            span = position - last_position
            at = cuts
            # Of cuts after the same match, the first, the last and some between are enough.
            if (
                older >= 0
                and cut_match[old] == last_match[group] == cut_match[older]
                and cut_span[old] + span <= _CUT_EVERY
            ):
                span += cut_span[old]
                if old >= first_cut:
                    at = old
                old = older
            before = position - lookback
            while begin < before < end and moments[before] == moments[before - 1]:
                before -= 1
            cut_row[at], cut_known[at], cut_span[at] = position - 1, certain, span
            cut_match[at], cut_before[at] = last_match[group], old
            cut_context[at] = moments[before - 1] if before > begin else contexts[group]
            cut_number[at] = number
            last_cut[group] = at
            last_position = position
            if at == cuts:
                cuts += 1
        if problem != 0:
            break
    return problem, made, cuts, owners, befores, integers, floats, counts
