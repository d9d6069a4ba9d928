"""The two loops of a pattern view: groups to numbers, rows through automata.

takes  arrays
gives  arrays; plain functions that Numba compiles when the compiler is on
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from viewmill.kernels import compiler

SUM, MIN, MAX, FIRST, LAST, COUNT = range(6)
PARTS = 3  # floats whose exact sum a sum is


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled unless the compiler is off."""
    if compiler.is_on():
        return compiler.compile_loop(function)
    return np.errstate(over="ignore", invalid="ignore")(function)


def assign(words: Any, hashes: Any, table: Any, keys: Any, known: int, slots: Any) -> int:
    """The number of each row's key; new keys get the next numbers. Gives how many are known then.

    `table` has a power of two of places and must have room for all rows; `keys` holds the words of
    each number.
    """
    mask = len(table) - 1
    width = words.shape[1]
    for i in range(len(words)):
        place = np.int64(hashes[i]) & mask
        while True:
            slot = table[place]
            if slot < 0:
                table[place] = known
                for j in range(width):
                    keys[known, j] = words[i, j]
                slots[i] = known
                known += 1
                break
            same = True
            for j in range(width):
                if keys[slot, j] != words[i, j]:
                    same = False
                    break
            if same:
                slots[i] = slot
                break
            place = (place + 1) & mask
    return known


def advance(
    starts: Any,  # of each group's rows, and the end of the last
    bits: Any,  # by word and row: 32 steps in a word
    automata: Any,  # the first phase of each automaton, and the end of the last
    enter: Any,  # the bit of each phase's step into it
    stay: Any,  # and of the step that stays, -1 if there is none
    measured: Any,  # the first measure of each automaton, and the end of the last
    functions: Any,
    phases: Any,  # of each measure, 0 for all
    arguments: Any,  # of each measure
    is_float: Any,
    integers: Any,  # by argument and row
    floats: Any,
    nulls: Any,
    before: Any,  # by automaton and group, the runs before: from where to where
    old_phase: Any,
    old_rows: Any,
    old_integers: Any,
    old_floats: Any,
    old_counts: Any,
    room: Any,  # where the runs of each automaton are written from
    run_group: Any,  # the runs after: written here
    run_phase: Any,
    run_rows: Any,
    run_integers: Any,
    run_floats: Any,
    run_counts: Any,
    made: Any,  # how many of each automaton
) -> int:
    """Take the runs of every group and automaton through the rows, each row once.

    Gives -1, or the automaton of which a sum does not fit.
    """
    size, width = len(enter), old_integers.shape[1]
    rows = np.zeros(size, np.int64)
    integer = np.zeros((size, width), np.int64)
    real = np.zeros((size, width, PARTS), np.float64)
    count = np.zeros((size, width), np.int64)
    for group in range(len(starts) - 1):
        rows[:] = 0
        for k in range(len(automata) - 1):
            for run in range(before[k, group, 0], before[k, group, 1]):
                p = automata[k] + old_phase[run] - 1
                rows[p] = old_rows[run]
                for m in range(measured[k + 1] - measured[k]):
                    integer[p, m] = old_integers[run, m]
                    for j in range(PARTS):
                        real[p, m, j] = old_floats[run, m, j]
                    count[p, m] = old_counts[run, m]
        for row in range(starts[group], starts[group + 1]):
            for k in range(len(automata) - 1):
                first = automata[k]
                # From the last phase down, so that a step reads what was there before the row.
                for p in range(automata[k + 1] - 1, first - 1, -1):
                    best = -1
                    step = stay[p]
                    if step >= 0 and rows[p] > 0 and (bits[step >> 5, row] >> (step & 31)) & 1:
                        best = p
                    step = enter[p]
                    fresh = False
                    if (bits[step >> 5, row] >> (step & 31)) & 1:
                        if p == first:
                            fresh = best < 0
                        elif rows[p - 1] > 0 and (best < 0 or rows[p - 1] > rows[p]):
                            best = p - 1  # who has more rows started earlier
                    if best < 0 and not fresh:
                        rows[p] = 0
                        continue
                    rows[p] = 1 if fresh else rows[best] + 1
                    for m in range(measured[k + 1] - measured[k]):
                        n = 0 if fresh else count[best, m]
                        a = 0 if fresh else integer[best, m]
                        for j in range(PARTS):
                            real[p, m, j] = 0.0 if fresh else real[best, m, j]
                        b = real[p, m, 0]
                        whole = measured[k] + m
                        if phases[whole] == 0 or phases[whole] == p - first + 1:
                            f, at = functions[whole], arguments[whole]
                            if nulls[at, row]:
                                # first and last are of rows, NULL or not: the sign tells a NULL.
                                if f == LAST or (f == FIRST and n == 0):
                                    n = -1
                            else:
                                x, y = integers[at, row], floats[at, row]
                                if f == SUM:
                                    if is_float[whole]:
                                        # What one float loses goes to the next; both stay as they
                                        # are if their sum is too large.
                                        for j in range(PARTS):
                                            b = real[p, m, j]
                                            total = b + y
                                            back = total - b
                                            lost = (b - (total - back)) + (y - back)
                                            if np.isfinite(lost):
                                                real[p, m, j], y = total, lost
                                            elif not (np.isfinite(b) and np.isfinite(y)):
                                                real[p, m, j], y = total, 0.0
                                        b = real[p, m, 0]
                                    else:
                                        if (x > 0 and a > 9223372036854775807 - x) or (
                                            x < 0 and a < -9223372036854775808 - x
                                        ):
                                            return k
                                        a += x
                                    n += 1
                                elif f == COUNT:
                                    n += 1
                                elif f == FIRST:
                                    if n == 0:
                                        a, b, n = x, y, 1
                                elif f == LAST:
                                    a, b, n = x, y, 1
                                else:
                                    less = x < a
                                    if is_float[whole]:
                                        less = y < b or (b != b and y == y)  # NaN is the largest
                                    if n == 0 or less == (f == MIN):
                                        a, b = x, y
                                    n += 1
                        count[p, m] = n
                        integer[p, m] = a
                        real[p, m, 0] = b
        for k in range(len(automata) - 1):
            for p in range(automata[k], automata[k + 1]):
                if rows[p] > 0:
                    at = room[k] + made[k]
                    run_group[at] = group
                    run_phase[at] = p - automata[k] + 1
                    run_rows[at] = rows[p]
                    for m in range(measured[k + 1] - measured[k]):
                        run_integers[at, m] = integer[p, m]
                        for j in range(PARTS):
                            run_floats[at, m, j] = real[p, m, j]
                        run_counts[at, m] = count[p, m]
                    made[k] += 1
    return -1
