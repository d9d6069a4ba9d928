"""MATCH_RECOGNIZE over the rows of one group: leftmost, greedy, on past the last row of a match.

Threads stand in order of preference: an earlier start before a later one, and of one start the one
that stayed longer in an earlier variable. Two threads in one phase go the same way from there on,
so the preferred one stands for both. A match cuts off everything less preferred; it is final when
everything more preferred has failed.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def find_matches(bits: Any, enter: Any, stay: Any, matches: Any, cuts: Any, counts: Any) -> int:
    """Write each match as the first row of each phase and the row after the last.

    The matches that no later row can change come first: counts[0] of counts[1]. Each of counts[2]
    cuts is a row from which one could start anew, when that was known, and the matches before it.
    """
    size, rows = len(enter), len(bits)
    threads = np.zeros((size + 1, size + 2), np.int64)  # phase, then the first row of each phase
    steps = np.zeros((size + 1, size + 2), np.int64)
    best = np.zeros(size + 1, np.int64)
    found, settled, made, begin = 0, 0, 0, 0
    is_open = True  # whether all so far is as it will stay
    while begin < rows:
        alive, has_match, row = 0, False, begin
        while row < rows:
            taken = np.zeros(size + 1, np.int64)
            count, is_cut = 0, False
            for t in range(alive + 1):
                is_new = t == alive
                if is_cut or (is_new and has_match):
                    break
                phase = 0 if is_new else threads[t, 0]
                for way in range(2):
                    # Greedy: to stay comes first.
                    target = phase if way == 0 else phase + 1
                    if target == 0 or target > size or taken[target] or is_cut:
                        continue
                    bit = stay[phase - 1] if way == 0 else enter[target - 1]
                    if bit < 0 or not (bits[row] >> bit) & 1:
                        continue
                    taken[target] = 1
                    steps[count, 0] = target
                    for j in range(1, size + 1):
                        steps[count, j] = threads[t, j] if not is_new else 0
                    if way == 1:
                        steps[count, target] = row
                    if target == size:
                        has_match = True
                        for j in range(size):
                            best[j] = steps[count, j + 1]
                        best[size] = row + 1
                        is_cut = True
                    count += 1
            for t in range(count):
                for j in range(size + 1):
                    threads[t, j] = steps[t, j]
            alive = count
            row += 1
            if alive == 0:
                break
        if has_match:
            for j in range(size + 1):
                matches[found, j] = best[j]
            found += 1
            begin = best[size]
            # A match at whose end something more preferred was alive may still grow or move.
            is_open = is_open and alive == 0
            if is_open:
                settled = found
        elif alive == 0:
            begin = row
        else:
            break  # the rows from here on may become a match
        if is_open:
            cuts[made, 0], cuts[made, 1], cuts[made, 2] = begin, row - 1, found
            made += 1
    counts[0], counts[1], counts[2] = settled, found, made
    return found
