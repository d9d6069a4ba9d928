"""Tables of a pipeline that follow a source of `vm.sources`, in this process and beside Spark.

takes  the pipeline's mill, and what shows its sinks a version
does   takes what the sources have: once, or in a thread until it is stopped
next   mill.follow, which commits rows and offsets together
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from viewmill.errors import ViewmillError
from viewmill.mill.mill import Mill
from viewmill.program.threads import one_of_ours
from viewmill.sources.source import Source, Stream

_STREAM_S, _POLL_S, _LONGEST_S = 0.05, 1.0, 60.0  # between two looks
_PATIENCE_S = 10.0


class Followed:
    """The followed tables of one pipeline."""

    def __init__(self, mill: Mill, publish: Callable[[], None]) -> None:
        self._mill, self._publish = mill, publish
        self._sources: dict[str, Source] = {}
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self.turn = threading.RLock()  # held by whoever commits and shows it to sinks

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, name: str, source: Source, key: Sequence[str], options: str) -> None:
        """Let a table follow a source from the next start on."""
        self._mill.follow(name, source, key=key, options=options or "UNCHECKED", background=False)
        self._sources[name.lower()] = source

    def has(self, name: str) -> bool:
        """Whether a table follows a source."""
        return name.lower() in self._sources

    def take(self) -> None:
        """Take everything that is there now."""
        with self.turn:
            try:
                self._mill.catch_up()
            finally:
                self._publish()

    def start(self) -> None:
        """Take what comes, in a thread."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, name="viewmill-followed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        is_stream = any(isinstance(each, Stream) for each in self._sources.values())
        shortest = _STREAM_S if is_stream else _POLL_S
        pause = shortest
        with one_of_ours():
            while not self._stopped.wait(pause):
                try:
                    self.take()
                except ViewmillError:  # the status has it, and it may heal
                    pause = min(max(2 * pause, _POLL_S), _LONGEST_S)
                else:
                    pause = shortest

    @property
    def is_active(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End the thread after the step under way."""
        self._stopped.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE_S)

    def wait(self, timeout: float | None) -> bool:
        """Until the thread has ended; False if it has not by then."""
        thread, until = self._thread, None if timeout is None else time.monotonic() + timeout
        while thread is not None and thread.is_alive():  # in slices, so that Ctrl-C is heard
            left = 1.0 if until is None else until - time.monotonic()
            if left <= 0:
                return False
            thread.join(min(left, 1.0))
        return True


def flush_quietly(mill: Mill) -> None:
    """Let sinks write what waits, if that is soon done; a later start writes the rest."""
    with suppress(ViewmillError):
        mill.flush(_PATIENCE_S)
