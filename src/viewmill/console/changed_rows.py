"""The rows that the last refreshes of a view changed, while somebody looks at them.

takes  a view that a page asks about, again and again
gives  the first rows of each of its last changes, with their multiplicity

A view is followed from the first question on, until nobody has asked for a while.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewmill.console.replies import rows_reply
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.changes import Change
from viewmill.mill.mill import Mill

_CHANGES, _ROWS = 20, 20  # that are remembered of a view
_PATIENCE_S = 30.0
_MOST_VIEWS = 20


@dataclass
class _Followed:
    """A view that is followed."""

    entry: ViewEntry
    changes: deque[tuple[float, int, Change]]  # when, how many rows, the first of them
    stop: Callable[[], None]
    asked: float


class ChangedRows:
    """Follows the views of one mill that pages look at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}

    def of_view(self, mill: Mill, name: str) -> list[dict[str, Any]]:
        """The last changes of a view, the newest first; none at the first question."""
        entry = mill.core.catalog.view(name)
        with self._lock:
            found = self._followed.get(entry.name)
            if found is None or found.entry is not entry:
                self._forget(entry.name)
                self._forget_one_too_many()
                found = self._followed[entry.name] = _follow(mill, entry)
            found.asked = time.monotonic()
        return [_told(*each) for each in reversed(found.changes.copy())]

    def look(self) -> None:
        """Follow no more what nobody has asked about for a while."""
        end = time.monotonic() - _PATIENCE_S
        with self._lock:
            for name in [name for name, each in self._followed.items() if each.asked < end]:
                self._forget(name)

    def close(self) -> None:
        """Follow nothing."""
        with self._lock:
            for name in [*self._followed]:
                self._forget(name)

    def _forget_one_too_many(self) -> None:
        if len(self._followed) >= _MOST_VIEWS:
            self._forget(min(self._followed, key=lambda name: self._followed[name].asked))

    def _forget(self, name: str) -> None:
        found = self._followed.pop(name, None)
        if found is not None:
            found.stop()


def _follow(mill: Mill, entry: ViewEntry) -> _Followed:
    changes: deque[tuple[float, int, Change]] = deque(maxlen=_CHANGES)

    def take(change: Change) -> None:
        delta = change.delta
        first = delta.take(np.arange(min(delta.size, _ROWS)))
        kept = Change(change.view, change.version, first, change.dictionary)
        changes.append((time.time(), delta.size, kept))

    return _Followed(entry, changes, mill.view(entry.name).subscribe(take), time.monotonic())


def _told(at: float, size: int, change: Change) -> dict[str, Any]:
    return {"at": at, "version": change.version, **rows_reply(change.to_arrow(), size)}
