"""Notice refreshes, and remember the last ones of all views.

takes  a mill, again and again
gives  which views have changed since the last look, and a history of refreshes

Counters of views are compared; nothing is called by commits, so that they cost what they did.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from viewmill.errors import OWN
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.mill import Mill
from viewmill.mill.window_families import window_of

_REMEMBERED = 20_000  # refreshes, of all views together


@dataclass(frozen=True)
class Refreshed:
    """What happened to a view between two looks."""

    view: str
    at: float  # seconds since 1970
    version: int
    refreshes: int
    rows_changed: int
    kind: str
    error: str


@dataclass(frozen=True)
class _Seen:
    """The counters of a view at the last look."""

    entry: ViewEntry
    refreshes: int
    rows_changed: int
    waiting_rows: int
    error: str
    tier: str


class Watch:
    """Compares a mill with what it was at the last look."""

    def __init__(self) -> None:
        self.history: deque[Refreshed] = deque(maxlen=_REMEMBERED)
        self.version = -1
        self._seen: dict[str, _Seen] = {}
        self._others: tuple[object, ...] = ()

    def look(self, mill: Mill) -> list[str] | None:
        """The views that have changed; None if nothing has."""
        core = mill.core
        with core.lock:
            views = core.catalog.views()
            tables = tuple(id(each) for each in core.catalog.tables())
            others = (mill, core.trouble, _sources(mill), tables)
            version = core.version
        now, before, seen = time.time(), self._seen, dict[str, _Seen]()
        changed = []
        for entry in views:
            old = before.get(entry.name)
            seen[entry.name] = new = _seen(mill, entry)
            if new == old:
                continue
            changed.append(entry.name)
            if old is not None and old.entry is entry:
                self._remember(old, new, now, version)
        gone = [name for name in before if name not in seen]
        is_same = (version, others) == (self.version, self._others) and not changed and not gone
        self._seen, self.version, self._others = seen, version, others
        return None if is_same else [*changed, *gone]

    def _remember(self, old: _Seen, new: _Seen, now: float, version: int) -> None:
        if new.refreshes == old.refreshes and new.error == old.error:
            return
        step = Refreshed(
            new.entry.name,
            now,
            version,
            new.refreshes - old.refreshes,
            new.rows_changed - old.rows_changed,
            new.entry.refresh_kind,
            new.error,
        )
        self.history.append(step)

    def of_view(self, name: str, last: int = 100) -> list[Refreshed]:
        """The last refreshes of a view, the newest first."""
        found = (each for each in reversed(self.history.copy()) if each.view == name)
        return [each for each, _ in zip(found, range(last), strict=False)]


def is_shown(name: str) -> bool:
    """Whether a table is the user's and not one that we keep notes in."""
    return not name.startswith(OWN)


def _sources(mill: Mill) -> tuple[object, ...]:
    """Whether the sources of tables fail; that they were asked again is no news."""
    return tuple((name, each["state"], each["error"]) for name, each in mill.sources().items())


def _seen(mill: Mill, entry: ViewEntry) -> _Seen:
    window = window_of(entry)
    refreshes = entry.refreshes if window is None else max(entry.refreshes, window.batches)
    error = entry.failure or entry.outdated or ""
    tier = mill.core.tiers.of_view(entry) if mill.core.tiers.compiling else ""
    return _Seen(entry, refreshes, entry.rows_changed, entry.waiting_rows, error, tier)
