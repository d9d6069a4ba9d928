"""Queries that run, and what stops them: their deadline, or who cancels them.

Interrupting a query before it runs has no effect, so the watch interrupts again until it is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from viewmill.serve.failures import Refused


class Running:
    """The query of one connection, if there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self._deadline = 0.0
        self._is_cancelled = False

    @contextmanager
    def query(self, seconds: float) -> Iterator[None]:
        """A statement begins, and ends; what stopped it is raised in place of other errors."""
        self._is_cancelled, self._deadline = False, time.monotonic() + seconds
        try:
            yield
        except Exception as why:
            self.check(seconds, why)
            raise
        finally:
            self._deadline = 0.0

    def check(self, seconds: float, why: Exception | None = None) -> None:
        """Raise if the statement must stop."""
        if self._is_cancelled:
            raise Refused("57014", "the query was cancelled by its client") from why
        if self._deadline and time.monotonic() > self._deadline:
            raise Refused(
                "57014",
                f"the query took more than {seconds:g} s",
                hint="SET statement_timeout allows less, the server's own limit is not passed.",
            ) from why

    @contextmanager
    def watch(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While an engine runs the statement."""
        with self._lock:
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None

    def cancel(self) -> None:
        """The client asks to stop."""
        self._is_cancelled = True
        self.tick(time.monotonic())

    def tick(self, now: float) -> None:
        """Stop a query that is cancelled or too late; called again and again."""
        with self._lock:
            is_late = bool(self._deadline) and now > self._deadline
            if self._interrupt is not None and (self._is_cancelled or is_late):
                self._interrupt()
