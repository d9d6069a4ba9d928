"""What each commit and each refresh did, for logs, traces and lineage.

takes  a mill's core
gives  `Commit`s to functions, in a thread of its own: who commits waits for none of them

A commit of a mill that nobody watches costs nothing more than before.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from viewmill.deltas.product import Changed
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.program.threads import one_of_ours

_LOG = logging.getLogger("viewmill.serve")
_MAX_WAITING = 100_000
_PATIENCE_S = 5.0


@dataclass
class Commit:
    """A commit, or a refresh on its own: what it changed, and how long it took."""

    start_ns: int  # UTC
    version: int = 0
    seconds: float = 0.0
    tables: dict[str, int] = field(default_factory=dict)  # changed rows by name
    views: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # how each view was refreshed
    error: str = ""


class Watching:
    """Gives the commits of a mill to functions, until the last of them is closed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._takers: list[Taker] = []
        self._now: Commit | None = None  # that is under way

    @classmethod
    def of(cls, core: Core) -> Watching:
        """The one of a mill."""
        found = getattr(core.watched, "__self__", None)
        return found if isinstance(found, cls) else cls(core)

    def add(self, taker: Taker) -> None:
        """Begin to give commits to a function."""
        with self._core.lock:
            if not self._takers:
                self._core.noting.append(self)
                self._core.watched = self.around
            self._takers.append(taker)

    def remove(self, taker: Taker) -> None:
        """Stop."""
        with self._core.lock:
            if taker in self._takers:
                self._takers.remove(taker)
            if not self._takers and self in self._core.noting:
                self._core.noting.remove(self)
                self._core.watched = None

    @contextmanager
    def around(self) -> Iterator[None]:
        """A commit or a refresh; one within another is a part of it."""
        if self._now is not None:
            yield
            return
        made = self._now = Commit(time.time_ns())
        start = time.perf_counter()
        try:
            yield
        except BaseException as why:
            made.error = getattr(why, "message", "") or f"{type(why).__name__}: {why}"
            raise
        finally:
            self._now = None
            made.version, made.seconds = self._core.version, time.perf_counter() - start
            for taker in self._takers:
                taker.put(made)

    def note(self, changes: Mapping[str, Changed]) -> None:
        """Take the change of each table and view."""
        if self._now is None:
            return
        for name, change in changes.items():
            entry = self._core.catalog.get(name)
            if isinstance(entry, ViewEntry):
                self._now.views[entry.name] = self._now.views.get(entry.name, 0) + change.size
                self._now.kinds[entry.name] = entry.refresh_kind
            elif entry is not None:
                self._now.tables[entry.name] = self._now.tables.get(entry.name, 0) + change.size


class Taker:
    """Gives commits to a function in a thread of its own. A context manager."""

    def __init__(self, core: Core, take: Callable[[Commit], object], what: str) -> None:
        self._take, self._what = take, what
        self._queue: queue.Queue[Commit | None] = queue.Queue(_MAX_WAITING)
        self._watching = Watching.of(core)
        self._lost, self._is_closed = 0, False
        self._thread = threading.Thread(target=self._run, name=f"viewmill-{what}", daemon=True)
        self._thread.start()
        self._watching.add(self)

    def put(self, commit: Commit) -> None:
        """Take a commit; it is lost where too many wait, for a writer never does."""
        try:
            self._queue.put_nowait(commit)
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Stop, after what has been taken."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watching.remove(self)
        try:
            self._queue.put(None, timeout=_PATIENCE_S)
        except queue.Full:
            return
        self._thread.join(_PATIENCE_S)

    def __enter__(self) -> Taker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self) -> None:
        with one_of_ours():
            while (commit := self._queue.get()) is not None:
                self._give(commit)

    def _give(self, commit: Commit) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            _LOG.warning("%d commits came faster than %s could take them", lost, self._what)
        try:
            self._take(commit)
        except Exception as why:  # noqa: BLE001 (the commit is done, whoever hears of it)
            _LOG.warning("%s failed: %s", self._what, why)
