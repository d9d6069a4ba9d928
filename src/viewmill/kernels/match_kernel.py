"""MATCH_RECOGNIZE over the rows of groups: leftmost, greedy, on past the last row of a match.

takes  arrays: rows by group and time, the chains of matches and cuts (`kernels.match_chains`)
gives  arrays; plain functions that Numba compiles when the compiler is on

Threads stand in order of preference: an earlier start before a later one, and of one start the one
that stayed longer in an earlier variable. Two threads in one phase go the same way from there on,
so the preferred one stands for both. A match cuts off everything less preferred; it is final when
everything more preferred has failed. A cut is a row from which one could start anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewmill.kernels.pattern_kernels import COUNT, FIRST, LAST, MIN, SUM

_MOST_PARTS = 48  # floats whose exact sum any sum of floats is


def match_groups(
    begin: Any,  # of each group's rows, and the end of the last
    bits: Any,  # by word and row
    moments: Any,
    enter: Any,
    stay: Any,
    last_match: Any,  # of each group: its chain goes on from here
    last_cut: Any,
    borders: Any,  # of each new match the first row of each phase and the row after the last
    owner: Any,  # and its group
    match_before: Any,  # chain of matches: the one before
    cut_row: Any,  # chain of cuts: the last row that is done with
    cut_known: Any,  # the moment at which that was certain
    cut_match: Any,  # the match before it
    cut_before: Any,
    sizes: Any,  # of both chains, before and after
) -> int:
    """Match each group; new matches and cuts are chained behind those of their group."""
    size, first_match, first_cut = len(enter), sizes[0], sizes[1]
    threads = np.zeros((size + 1, size + 2), np.int64)  # phase, then the first row of each phase
    steps = np.zeros((size + 1, size + 2), np.int64)
    best = np.zeros(size + 1, np.int64)
    taken = np.zeros(size + 1, np.int64)
    matches, cuts = first_match, first_cut
    for group in range(len(begin) - 1):
        end, start = begin[group + 1], begin[group]
        is_open = True  # whether all so far is as it will stay
        while start < end:
            alive, has_match, row = 0, False, start
            while row < end:
                taken[:] = 0
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
                        if bit < 0 or not (bits[bit >> 5, row] >> (bit & 31)) & 1:
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
                    borders[matches - first_match, j] = best[j]
                owner[matches] = group
                match_before[matches] = last_match[group]
                last_match[group] = matches
                matches += 1
                start = best[size]
                # A match at whose end something more preferred was alive may still grow or move.
                is_open = is_open and alive == 0
            elif alive == 0:
                start = row
            else:
                break  # the rows from here on may become a match
            # Rows of one moment stay together, so that a cut can be said as a moment.
            if is_open and (start == end or moments[start] != moments[start - 1]):
                old = last_cut[group]
                older = cut_before[old] if old >= 0 else -1
                at = cuts
                # Of cuts after the same match, the first and the last are enough.
                if older >= 0 and cut_match[old] == last_match[group] == cut_match[older]:
                    if old >= first_cut:
                        at = old
                    old = older
                cut_row[at], cut_known[at] = start - 1, moments[row - 1]
                cut_match[at], cut_before[at] = last_match[group], old
                last_cut[group] = at
                if at == cuts:
                    cuts += 1
    sizes[0], sizes[1] = matches, cuts
    return int(matches - first_match)


def find_restarts(since: Any, last_cut: Any, known: Any, before: Any, found: Any) -> int:
    """For each group the last cut that was certain before a moment, -1 if there is none."""
    for i in range(len(since)):
        cut = last_cut[i]
        while cut >= 0 and known[cut] >= since[i]:
            cut = before[cut]
        found[i] = cut
    return len(since)


def end_chains(
    groups: Any, cuts: Any, last_match: Any, last_cut: Any, cut_before: Any, cut_match: Any,
    match_before: Any,
) -> int:  # fmt: skip
    """Let the chains of groups begin behind a cut each; how many matches are before them."""
    ended = 0
    for i in range(len(groups)):
        cut, group = cuts[i], groups[i]
        if cut < 0:
            continue
        match = cut_match[cut]
        at = last_cut[group]
        if at == cut:
            last_cut[group] = -1
        else:
            following = at
            while at != cut:
                following, at = at, cut_before[at]
                if cut_match[following] == match:
                    cut_match[following] = -1
            cut_before[following] = -1
        at = last_match[group]
        if at == match:
            last_match[group] = -1
        elif match >= 0:
            while match_before[at] != match:
                at = match_before[at]
            match_before[at] = -1
        while match >= 0:
            ended += 1
            match = match_before[match]
    return ended


def collect_chain(last: Any, until: Any, before: Any, found: Any, owner: Any) -> int:
    """The members of chains behind another member; how many there are."""
    count = 0
    for i in range(len(last)):
        at = last[i]
        while at != until[i]:
            found[count], owner[count] = at, i
            count += 1
            at = before[at]
    return count


def measure_matches(
    borders: Any,
    functions: Any,
    offsets: Any,  # of FIRST and LAST
    phases: Any,
    arguments: Any,
    is_float: Any,
    integers: Any,
    floats: Any,
    nulls: Any,
    out_integers: Any,
    out_floats: Any,
    out_counts: Any,
) -> int:
    """Aggregate each match; -1, or the measure of which a sum does not fit."""
    parts = np.zeros(_MOST_PARTS)
    for i in range(len(borders)):
        for m in range(len(functions)):
            low, high = borders[i, 0], borders[i, borders.shape[1] - 1]
            if phases[m] > 0:
                low, high = borders[i, phases[m] - 1], borders[i, phases[m]]
            f, at, n, a, b = functions[m], arguments[m], 0, 0, 0.0
            parts[:], used = 0.0, 0
            if f in (FIRST, LAST):
                row = low + offsets[m] if f == FIRST else high - 1 - offsets[m]
                n = -1  # tells a NULL
                if low <= row < high and not nulls[at, row]:
                    a, b, n = integers[at, row], floats[at, row], 1
                low = high
            for row in range(low, high):
                if nulls[at, row]:
                    continue
                x, y = integers[at, row], floats[at, row]
                if f == SUM:
                    if not is_float[m] and (
                        (x > 0 and a > 9223372036854775807 - x)
                        or (x < 0 and a < -9223372036854775808 - x)
                    ):
                        return m
                    a += x
                    j = 0
                    while j < _MOST_PARTS and y != 0.0:  # what one float loses goes to the next
                        b = parts[j]
                        total = b + y
                        back = total - b
                        lost = (b - (total - back)) + (y - back)
                        if np.isfinite(lost):
                            parts[j], y = total, lost
                        elif not (np.isfinite(b) and np.isfinite(y)):
                            parts[j], y = total, 0.0
                        j += 1
                    used = max(used, j)
                elif f != COUNT:
                    less = x < a
                    if is_float[m]:
                        less = y < b or (b != b and y == y)  # NaN is the largest
                    if n == 0 or less == (f == MIN):
                        a, b = x, y
                n += 1
            if f == SUM:
                # The first takes all that it can, then the next: one rounding is left.
                for _ in range(used):
                    for j in range(used - 1, 0, -1):
                        total = parts[j - 1] + parts[j]
                        if np.isfinite(total):
                            back = total - parts[j - 1]
                            lost = (parts[j - 1] - (total - back)) + (parts[j] - back)
                            parts[j - 1], parts[j] = total, lost
                b = 0.0
                for j in range(used - 1, -1, -1):
                    b += parts[j]
            out_integers[i, m], out_floats[i, m], out_counts[i, m] = a, b, n
    return -1


def mark_chains(last: Any, before: Any, is_kept: Any) -> int:
    """Mark the members of all chains; how many there are."""
    count = 0
    for i in range(len(last)):
        at = last[i]
        while at >= 0 and not is_kept[at]:
            is_kept[at] = 1
            count += 1
            at = before[at]
    return count
