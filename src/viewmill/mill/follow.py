"""Follow a source: its rows and its offsets are committed together, so each row is taken once.

takes  a source, the table that its rows go to
does   passes over what the source has now, asked by `catch_up` or by a thread of its own
next   offsets, which commits
"""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from viewmill.deltas.arrow import arrow_schema
from viewmill.errors import ViewmillError
from viewmill.mill.offsets import commit_step, read_offsets
from viewmill.program.threads import one_of_ours
from viewmill.sources.source import Source, Step, Stream

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

_LONGEST_S = 60.0  # between two attempts
_SLICE_S = 0.25  # how long a stream waits before it looks whether it was stopped


class Follower:
    """One source that a mill follows."""

    def __init__(self, mill: Mill, name: str, source: Source, every: float) -> None:
        self._mill, self.name, self.source, self._every = weakref.ref(mill), name, source, every
        self._lock, self._awake = threading.Lock(), threading.Event()
        self._offsets: dict[str, str] | None = None  # None: to be read from the mill
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._rows, self._errors, self._caught_up = 0, 0, time.monotonic()
        self._error: ViewmillError | None = None
        if isinstance(source, Stream):
            source.begin(is_durable=mill.core.store is not None)
        _FOLLOWERS.add(self)

    def start(self) -> None:
        """Follow in a thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"viewmill-source-{self.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a step that is being committed is finished."""
        self._stopped = True
        self._awake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self.source.close()

    def forget(self) -> None:
        """Nobody goes on from here; what a source keeps at its server is given up."""
        mill = self._mill()
        if mill is None or not isinstance(self.source, Stream):
            return
        try:
            self.source.forget(read_offsets(mill, self.name))
        except ViewmillError as why:  # it can be away forever, and following has to end
            warnings.warn(f"{why.message}; what it keeps for us stays", stacklevel=3)

    def after_fork(self) -> None:
        """In a forked child: the thread is gone, and it may have held the lock."""
        self._lock, self._awake = threading.Lock(), threading.Event()
        self._thread, self._stopped = None, True

    def status(self) -> dict[str, Any]:
        """How far it is, for `mill.status()`."""
        return {
            "source": self.source.title,
            "reads": self.source.reads,
            "state": self._state(),
            "offset": dict(self._offsets or {}),
            "rows": self._rows,
            "lag_s": time.monotonic() - self._caught_up,
            "error": None if self._error is None else str(self._error),
        }

    def _state(self) -> str:
        if self._stopped:
            return "stopped"
        if self._error is not None:
            return "failed" if self._thread is None else "retrying"
        return "following"

    def catch_up(self, deadline: float) -> bool:
        """Take everything that is there now; False if the deadline passes first."""
        if not self._lock.acquire(timeout=max(0.0, min(deadline - time.monotonic(), 1e6))):
            return False
        try:
            return self._pass_over(deadline)
        finally:
            self._lock.release()

    def _pass_over(self, deadline: float) -> bool:
        mill, began = self._mill(), time.monotonic()
        if mill is None or self._stopped:
            return True
        try:
            is_complete = self._take(mill, deadline)
        except Exception as why:  # noqa: BLE001 (it is raised with its source's name)
            self.source.close()
            self._errors += 1
            self._error = _named(self.source, why)
            raise self._error from (None if self._error is why else why)
        self._error, self._errors = None, 0
        if is_complete:
            self._caught_up = began
        return is_complete

    def _take(self, mill: Mill, deadline: float) -> bool:
        table = mill.core.catalog.table(self.name).table
        schema, key = arrow_schema(table.schema), table.options.primary_key
        if self._offsets is None:
            self._offsets = read_offsets(mill, self.name)
        for step in self.source.changes(self._offsets, schema, key):
            self._commit(mill, step)
            if self._stopped or time.monotonic() > deadline:
                return False
        return True

    def _commit(self, mill: Mill, step: Step) -> None:
        """One version with the rows and the offsets. Until it is done, only the mill knows both."""
        offsets, self._offsets = self._offsets or {}, None
        commit_step(mill, self.name, self.source, step, lambda: not self._stopped)
        self._offsets = {**offsets, **step.offsets}
        self._rows += step.rows

    def _run(self) -> None:
        with one_of_ours():
            while not self._stopped:
                mill = self._mill()
                if mill is None or mill.core.closed:
                    self.source.close()
                    return
                del mill
                self._pause(self._attempt())

    def _pause(self, seconds: float) -> None:
        """Wait for the next pass; a source that says when rows come ends it."""
        if self._error is not None or not isinstance(self.source, Stream):
            self._awake.wait(seconds)
            return
        self.source.wait(min(seconds, _SLICE_S))

    def _attempt(self) -> float:
        """Pass over the source once; how long to wait until the next time."""
        try:
            self.catch_up(float("inf"))
        except ViewmillError:  # `status` has it
            longest = max(self._every, _LONGEST_S)
            return min(max(self._every, 0.1) * 2.0 ** min(self._errors, 16), longest)
        return self._every


def catch_up(followers: Sequence[Follower], timeout: float | None) -> bool:
    """Have all followers take what is there, then raise the first error."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    is_complete, first = True, None
    for each in followers:
        try:
            is_complete = each.catch_up(deadline) and is_complete
        except ViewmillError as why:
            first = first or why
    if first is not None:
        raise first
    return is_complete


def _named(source: Source, why: Exception) -> ViewmillError:
    """The error with the name of its source."""
    if not isinstance(why, ViewmillError):
        return ViewmillError(f"{source.title}: {why}", detail=type(why).__name__)
    if not why.message.startswith(source.title):
        why.message = f"{source.title}: {why.message}"
        why.args = (why.message,)
    return why


_FOLLOWERS: weakref.WeakSet[Follower] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_FOLLOWERS):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
