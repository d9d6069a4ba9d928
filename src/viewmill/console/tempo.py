"""How fast a mill takes changes: its last commits, by moments of equal length.

takes  commits, while a page is open
gives  rows, commits and times of each moment, of the mill or of one table or view

Nothing is called by commits while nobody looks.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from viewmill.mill.mill import Mill
from viewmill.serve.commits import Commit, Watching

_REMEMBERED = 20_000
_SPAN_S, _MOMENTS = 120, 60


class Tempo:
    """Takes the commits of one mill."""

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque(maxlen=_REMEMBERED)
        self._watching: Watching | None = None

    def put(self, commit: Commit) -> None:
        """Take a commit."""
        self._commits.append(commit)

    def follow(self, mill: Mill) -> None:
        """Begin, if that was not done."""
        if self._watching is None:
            self._watching = Watching.of(mill.core)
            self._watching.add(self)

    def rest(self) -> None:
        """Stop; what came is kept."""
        if self._watching is not None:
            self._watching.remove(self)
            self._watching = None

    def moments(self, name: str | None = None) -> dict[str, Any]:
        """The last two minutes: of a table or view, the rows that changed in it."""
        wide = _SPAN_S / _MOMENTS
        first = (time.time() // wide - _MOMENTS + 1) * wide
        found: list[list[tuple[int, float]]] = [[] for _ in range(_MOMENTS)]
        for commit in reversed(self._commits.copy()):
            at = commit.start_ns / 1e9
            if at < first:
                break
            rows = _rows(commit, name)
            if rows is not None:
                found[min(_MOMENTS - 1, int((at - first) // wide))].append((rows, commit.seconds))
        took = sorted(each[1] * 1e3 for moment in found for each in moment)
        return {
            "first": first,
            "seconds": wide,
            "rows": [sum(rows for rows, _ in moment) for moment in found],
            "commits": [len(moment) for moment in found],
            "ms": [max((each[1] for each in moment), default=0.0) * 1e3 for moment in found],
            "p50_ms": _quantile(took, 0.5),
            "p99_ms": _quantile(took, 0.99),
        }


def _rows(commit: Commit, name: str | None) -> int | None:
    """The rows that a commit changed; None if it was about something else."""
    if name is None:
        return sum(commit.tables.values())
    return commit.views.get(name, commit.tables.get(name))


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
