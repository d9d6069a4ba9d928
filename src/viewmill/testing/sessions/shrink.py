"""Make a failing session small: leave out steps, then rows, while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewmill.testing.sessions.steps import Step, without

_ROWS_AT = {"insert": 2, "delete": 2, "upsert": 2, "apply": 2}


def shrunk(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """A part of the session that fails and of which no step and no row can be left out."""
    found = list(steps)
    before = -1
    while before != _size(found):
        before = _size(found)
        found = _fewer_steps(found, fails)
        found = _fewer_rows(found, fails)
    return found


def _size(steps: Sequence[Step]) -> int:
    return sum(1 + len(step[_ROWS_AT[step[0]]]) if step[0] in _ROWS_AT else 1 for step in steps)


def _fewer_steps(steps: list[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    width = max(len(steps) // 2, 1)
    while True:
        start = len(steps) - width
        while start > -width:
            fewer = without(steps, max(start, 0), start + width)
            if fewer and fails(fewer):
                steps = fewer
            start -= width
        if width == 1:
            return steps
        width //= 2


def _fewer_rows(steps: list[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    for i in range(len(steps)):
        verb = steps[i][0]
        if verb not in _ROWS_AT:
            continue
        place = _ROWS_AT[verb]
        j = 0
        while j < len(steps[i][place]) > 1:
            step = list(steps[i])
            step[place] = [row for n, row in enumerate(step[place]) if n != j]
            fewer = [*steps[:i], tuple(step), *steps[i + 1 :]]
            if fails(fewer):
                steps = fewer
            else:
                j += 1
    return steps
