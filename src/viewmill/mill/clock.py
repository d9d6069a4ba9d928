"""The thread that refreshes views whose policies name a time; started when there is such a view."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

from viewmill.mill.core import Core
from viewmill.mill.passing_time import next_deadline, timed_views
from viewmill.policies.policies import due_at
from viewmill.program.threads import one_of_ours

_IDLE_S = 3600.0


class Clock:
    """A thread that sleeps until the next view is due."""

    def __init__(
        self, core: Core, tick: Callable[[], bool], next_idle: Callable[[], int | None]
    ) -> None:
        self._core, self._tick, self._next_idle = core, tick, next_idle
        self._awake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        _CLOCKS.add(self)

    def wake(self) -> None:
        """Recompute when the next view is due, after a change; start the thread if needed."""
        if self._thread is None:
            core = self._core
            waits = core.catalog.deferred() or core.time.watched or self._next_idle() is not None
            if not waits or self._next_due() is None:
                return
            self._thread = threading.Thread(target=self._run, name="viewmill-clock", daemon=True)
            self._thread.start()
        self._awake.set()

    def _next_due(self) -> int | None:
        moments: list[int | None] = []
        for entry in self._core.catalog.deferred():
            if entry.waiting_rows and entry.failure is None:
                moments.append(due_at(entry.policies, entry.waits()))
        if not self._core.time.is_driven:
            moments.append(next_deadline(timed_views(self._core)))
            moments.append(self._next_idle())
        return min((moment for moment in moments if moment is not None), default=None)

    def _run(self) -> None:
        with one_of_ours():
            self._work()

    def _work(self) -> None:
        while not self._stopped:
            with self._core.lock:
                due = self._next_due()
            wait = _IDLE_S if due is None else max(0.0, (due - self._core.now()) / 1e6)
            self._awake.wait(min(wait, _IDLE_S))
            self._awake.clear()
            if self._stopped or not self._tick():
                return

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._awake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def after_fork(self) -> None:
        """In a forked child: the thread is gone, and it may have locked the event."""
        self._awake, self._thread = threading.Event(), None


_CLOCKS: weakref.WeakSet[Clock] = weakref.WeakSet()


def _after_fork() -> None:
    for clock in list(_CLOCKS):
        clock.after_fork()


os.register_at_fork(after_in_child=_after_fork)
