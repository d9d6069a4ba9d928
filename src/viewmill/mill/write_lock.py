"""The write lock of a mill, which defers signal handlers until a change is complete.

takes  Ctrl-C and other signals that have a Python handler, while the main thread holds the lock
does   notes them, and calls their handlers when the change is done, or was taken back

Handlers run between any two instructions and may raise: half of a change would stay. Who insists,
with a third signal, interrupts all the same; the mill is closed then, and opened again it is right.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from viewmill.program.signals import WATCHED, get_handler, set_handler

_INSISTING = 3
_LOOK_S = 0.2  # for signals, while another thread has the lock


class WriteLock:
    """A re-entrant lock; the outermost holder in the main thread is not interrupted."""

    def __init__(self, lock: Any, abandon: Callable[[], None]) -> None:
        self._lock, self._abandon = lock, abandon
        self._main = threading.main_thread().ident
        self._depth = 0  # in the main thread
        self._replaced: dict[int, Any] = {}  # handlers, by the number of their signal
        self._came: list[int] = []
        self._own = self._note

    def __enter__(self) -> None:
        if threading.get_ident() != self._main:
            self._lock.acquire()
            return
        if not self._depth:
            self._replace_handlers()
        self._depth += 1
        if not self._lock.acquire(False):
            self._wait()

    def _wait(self) -> None:
        """Wait for another thread; here a signal may interrupt."""
        while not self._lock.acquire(timeout=_LOOK_S):
            if self._came and self._depth == 1:
                self._end()
                self._replace_handlers()
                self._depth = 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()
        if threading.get_ident() != self._main:
            return
        if self._depth == 1:
            self._end()
        else:
            self._depth -= 1

    def _replace_handlers(self) -> None:
        own = self._own
        for number in WATCHED:
            handler = get_handler(number)
            if not callable(handler) or handler is own:
                continue
            self._replaced[number] = handler
            set_handler(number, own)

    def _end(self) -> None:
        """Restore the handlers, and call those whose signal was received."""
        came, self._came, self._depth = self._came, [], 0
        replaced = self._replaced
        handlers = [*replaced.items()]
        for number, handler in handlers:
            set_handler(number, handler)
            del replaced[number]
        if came:
            known = dict(handlers)
            for number in dict.fromkeys(came):
                known[number](number, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)
        if self._depth and len(self._came) < _INSISTING:
            return
        handler = self._replaced[number]
        self._came.clear()
        if self._depth:
            self._abandon()
        else:  # between changes: the handler was not put back yet, or is just being replaced
            set_handler(number, handler)
        handler(number, frame)
