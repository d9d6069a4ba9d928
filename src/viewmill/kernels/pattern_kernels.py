"""The two loops of a pattern view: groups to numbers, rows through automata.

takes  arrays
gives  arrays; plain functions that Numba compiles when the compiler is on
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from viewmill.kernels import compiler

SUM, MIN, MAX, FIRST, LAST, COUNT = range(6)

OVERFLOW = -1


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled unless the compiler is off."""
    if not compiler.is_on():
        return function
    made: Callable[..., Any] = numba.njit(function, nogil=True, error_model="numpy", cache=True)
    return made


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
    bits: Any,
    enter: Any,  # the bit of each phase's step into it
    stay: Any,  # and of the step that stays, -1 if there is none
    functions: Any,
    phases: Any,  # of each measure, 0 for all
    is_float: Any,
    integers: Any,  # argument of each measure and row
    floats: Any,
    nulls: Any,
    before: Any,  # the runs of each group before: from where to where
    old_phase: Any,
    old_rows: Any,
    old_integers: Any,
    old_floats: Any,
    old_counts: Any,
    run_group: Any,  # the runs after: written here
    run_phase: Any,
    run_rows: Any,
    run_integers: Any,
    run_floats: Any,
    run_counts: Any,
) -> int:
    """Take every group's runs through its rows. Gives the number of runs, or OVERFLOW."""
    size, measures = len(enter), len(functions)
    rows = np.zeros(size + 1, np.int64)
    integer = np.zeros((size + 1, measures), np.int64)
    real = np.zeros((size + 1, measures), np.float64)
    count = np.zeros((size + 1, measures), np.int64)
    made = 0
    for group in range(len(starts) - 1):
        rows[:] = 0
        for run in range(before[group, 0], before[group, 1]):
            phase = old_phase[run]
            rows[phase] = old_rows[run]
            for m in range(measures):
                integer[phase, m] = old_integers[run, m]
                real[phase, m] = old_floats[run, m]
                count[phase, m] = old_counts[run, m]
        for row in range(starts[group], starts[group + 1]):
            # From the last phase down, so that a step reads what was there before the row.
            for phase in range(size, 0, -1):
                best = -1
                stays = stay[phase - 1] >= 0 and rows[phase] > 0
                if stays and (bits[row] >> stay[phase - 1]) & 1:
                    best = phase
                if (bits[row] >> enter[phase - 1]) & 1:
                    # Rows follow one another: who has more of them started earlier.
                    started = phase > 1 and rows[phase - 1] > 0
                    if started and (best < 0 or rows[phase - 1] > rows[phase]):
                        best = phase - 1
                    elif phase == 1 and best < 0:
                        best = 0
                if best < 0:
                    rows[phase] = 0
                    continue
                fresh = best == 0
                rows[phase] = 1 if fresh else rows[best] + 1
                for m in range(measures):
                    n = 0 if fresh else count[best, m]
                    a = 0 if fresh else integer[best, m]
                    b = 0.0 if fresh else real[best, m]
                    if phases[m] == 0 or phases[m] == phase:
                        f = functions[m]
                        if nulls[m, row]:
                            # first and last are of rows, NULL or not: the sign tells a NULL.
                            if f == LAST or (f == FIRST and n == 0):
                                n = -1
                        else:
                            x, y = integers[m, row], floats[m, row]
                            if f == SUM:
                                if is_float[m]:
                                    b += y
                                else:
                                    if (x > 0 and a > 9223372036854775807 - x) or (
                                        x < 0 and a < -9223372036854775808 - x
                                    ):
                                        return OVERFLOW
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
                                if is_float[m]:
                                    less = y < b or (b != b and y == y)  # NaN is the largest
                                if n == 0 or less == (f == MIN):
                                    a, b = x, y
                                n += 1
                    count[phase, m] = n
                    integer[phase, m] = a
                    real[phase, m] = b
        for phase in range(1, size + 1):
            if rows[phase] > 0:
                run_group[made] = group
                run_phase[made] = phase
                run_rows[made] = rows[phase]
                for m in range(measures):
                    run_integers[made, m] = integer[phase, m]
                    run_floats[made, m] = real[phase, m]
                    run_counts[made, m] = count[phase, m]
                made += 1
    return made
