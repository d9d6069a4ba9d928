"""The signals that a program may handle in Python, and what their handlers raise.

takes  a block that calls a library which asks Python for signals, as DuckDB does
gives  what a handler raised in it. DuckDB would say "Query interrupted" or put the text of the
       exception into an error of its own, and let its other threads go on with the query
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

WATCHED = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)

# Without the enums, which cost ten times more.
set_handler: Callable[[int, Any], Any] = _signal.signal
get_handler: Callable[[int], Any] = _signal.getsignal


class Hearing:
    """In the block nothing is raised by signal handlers; `stop` is called instead, and what they
    raised is raised when the block ends."""

    def __init__(self, stop: Callable[[], object] = lambda: None) -> None:
        self._stop = stop
        self._replaced: dict[int, Any] = {}  # handlers, by the number of their signal
        self._raised: BaseException | None = None

    def __enter__(self) -> Hearing:
        if threading.get_ident() == threading.main_thread().ident:
            for number in WATCHED:
                handler = get_handler(number)
                if callable(handler):
                    self._replaced[number] = handler
                    set_handler(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        try:
            self._replaced[number](number, frame)
        except BaseException as why:  # noqa: BLE001 (it is raised later)
            self._raised = why
            self._stop()

    def check(self) -> None:
        """Raise what was heard so far."""
        if self._raised is not None:
            raise self._raised from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._replaced.items():
            set_handler(number, handler)
        if error is not self._raised:
            self.check()
