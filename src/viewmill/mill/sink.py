"""Keep the targets of views up to date: a thread per sink, which never holds up a commit.

takes  a view, a sink, and the changes of the view as its subscribers get them
does   brings the sink to all rows first, then applies what waits, and tries again what failed
next   outbox, where changes wait; `viewmill.sinks.sink`, what a sink is
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from viewmill.deltas.arrow import arrow_schema
from viewmill.deltas.consolidate import consolidate
from viewmill.errors import InvalidArgument, SinkBroken, ViewmillError
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.changes import Change
from viewmill.mill.outbox import Outbox, Waiting
from viewmill.program.threads import one_of_ours
from viewmill.sinks.sink import Origin, OutOfStep, Sink

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

_FIRST_S, _LONGEST_S = 0.1, 60.0  # between two attempts
_CLOSING_S = 5.0  # for what waits when a mill is closed
_LOOK_S = 1.0  # how often an idle thread looks whether its view was dropped
_AT_MOST, _AT_MOST_EACH = 256, 10_000  # changes that wait


class Delivery:
    """One sink of one view."""

    def __init__(self, mill: Mill, view: str, sink: Sink) -> None:
        self._mill, self.view, self.sink = weakref.ref(mill), mill[view].name, sink
        self._moved = threading.Condition()
        self._outbox = Outbox(_AT_MOST_EACH if sink.takes_each_version else _AT_MOST)
        self._current: Waiting | None = None  # being delivered, or failed
        self._entry: ViewEntry | None = None  # whose changes come; None: to begin anew
        self._listener: _Listener | None = None
        self._is_urgent = False  # whether somebody waits for the next attempt
        self._delivered = -1  # how many changes of those that came; -1: not even all rows
        self._version: int | None = None
        self._attempts = self._failed = self._errors = 0  # `_failed`: the last attempt that did
        self._error: BaseException | None = None
        self._stopped = False
        self._since: float | None = time.monotonic()  # when the oldest change that waits came
        self._thread = threading.Thread(
            target=self._run, name=f"viewmill-sink-{self.view}", daemon=True
        )
        weakref.finalize(mill, self._end)
        _DELIVERIES.add(self)

    def start(self) -> None:
        """Open the sink, and deliver in a thread; what waiting cannot heal is raised here."""
        try:
            self._begin()
        except ViewmillError:
            self._stop_listening()
            self.sink.close()
            raise
        except Exception as why:  # noqa: BLE001 (a target that cannot be reached may come back)
            self._note_error(why)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        """How far it is, for `mill.status()`."""
        with self._moved:
            count = len(self._outbox) + (self._current is not None)
            return {
                "view": self.view,
                "sink": self.sink.title,
                "guarantee": self.sink.guarantee,
                "state": self._state(),
                "version": self._version,
                "waiting": count,
                "lag_s": 0.0 if self._since is None else time.monotonic() - self._since,
                "error": None if self._error is None else _text(self._error),
            }

    def _state(self) -> str:
        if self._stopped:
            return "stopped"
        if self._error is None:
            return "writing"
        return "failed" if isinstance(self._error, SinkBroken) else "retrying"

    # Waiting for it.

    def flush(self, deadline: float) -> bool:
        """Wait until the sink has what is committed now; an attempt that fails is raised."""
        if threading.current_thread() is self._thread:
            raise InvalidArgument("a sink cannot wait for itself")
        with self._moved:
            attempts, wanted, self._is_urgent = self._attempts, self._outbox.came, True
            self._moved.notify_all()
            if self._stopped:  # in a forked child
                return False
            while not self._has(wanted):
                if self._error is not None and (
                    self._failed > attempts or self._state() == "failed"
                ):
                    raise _named(self.sink, self._error)
                left = deadline - time.monotonic()
                if left <= 0 or not self._is_alive():
                    return False
                self._moved.wait(min(left, _LOOK_S))
        return True

    def _has(self, wanted: int) -> bool:
        return self._is_level() and self._delivered >= wanted

    def _is_level(self) -> bool:
        """Whether the sink lacks nothing but what waits."""
        return self._entry is not None and not self._entry.dropped

    def _is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopped

    def stop(self) -> None:
        """Deliver what waits if that is soon done, and end the thread."""
        is_other = threading.current_thread() is not self._thread
        if is_other and self._error is None and self._is_alive():
            self._flush_at_the_end()
        self._end()
        self._stop_listening()
        if is_other and self._thread.is_alive():
            self._thread.join(timeout=_CLOSING_S)

    def _flush_at_the_end(self) -> None:
        """What cannot be written now is written by the next start: it has all rows."""
        try:
            self.flush(time.monotonic() + _CLOSING_S)
        except ViewmillError:
            return

    def _end(self) -> None:
        with self._moved:
            self._stopped = True
            self._moved.notify_all()

    def after_fork(self) -> None:
        """In a forked child: the thread is gone, it may have held the lock, and the connections
        are the parent's."""
        self._moved, self._stopped = threading.Condition(), True
        if self._listener is not None:
            self._listener.is_over = True

    # In the thread.

    def _run(self) -> None:
        with one_of_ours():
            while self._wait():
                try:
                    self._work()
                except OutOfStep:
                    self._begin_anew()
                except BaseException as why:  # noqa: BLE001 (the target's or the user's)
                    self._note_error(why)
                else:
                    self._note_success()
            self.sink.close()

    def _wait(self) -> bool:
        """Until there is something to do; False if there never will be."""
        with self._moved:
            if self._errors:
                self._pause(min(_FIRST_S * 2.0 ** (self._errors - 1), _LONGEST_S))
            self._is_urgent = False
            while not self._stopped and (not self._is_due() or self._state() == "failed"):
                self._moved.wait(_LOOK_S)
            self._attempts += 1
            return not self._stopped

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not (self._stopped or self._is_urgent) and time.monotonic() < until:
            self._moved.wait(until - time.monotonic())

    def _is_due(self) -> bool:
        return not self._is_level() or self._current is not None or len(self._outbox) > 0

    def _note_error(self, why: BaseException) -> None:
        with self._moved:
            self._error, self._errors = why, min(self._errors + 1, 30)
            self._failed = self._attempts
            if isinstance(why, ViewmillError):
                self._put_back()
            self._moved.notify_all()

    def _put_back(self) -> None:
        """A sink that refused a change did not write it: later changes may put it right."""
        current, self._current = self._current, None
        if current is None:
            return
        if current.change.is_whole:
            self._entry = None  # its rows are read again
        else:
            self._outbox.put_back(current)

    def _note_success(self) -> None:
        with self._moved:
            self._error, self._errors = None, 0
            if not self._is_due():
                self._since = None
            self._moved.notify_all()

    def _work(self) -> None:
        if not self._is_level():
            self._begin()
        current = self._take()
        if current is None:
            return
        if self.sink.takes_whole and not current.change.is_whole:
            self._begin()
            current = self._take()
            if current is None:
                return
        change = current.change
        if not self.sink.has_taken(change):
            (self.sink.replace if change.is_whole else self.sink.apply)(change)
        with self._moved:
            self._version, self._delivered, self._current = change.version, current.number, None

    def _take(self) -> Waiting | None:
        """What to deliver next: all that waits as one change, unless versions come one by one."""
        with self._moved:
            if self._current is None and len(self._outbox):
                take_all = not self.sink.takes_each_version
                self._current = self._outbox.take_all() if take_all else self._outbox.take_first()
            return self._current

    def _begin_anew(self) -> None:
        with self._moved:
            self._entry, self._current = None, None

    def _begin(self) -> None:
        """Open the sink and subscribe; what it lacks is the difference to all rows."""
        mill = self._mill()
        if mill is None:
            return
        self._stop_listening()
        with mill.core.write_lock:
            entry = mill.core.catalog.view(self.view)
            origin = Origin(entry.name, arrow_schema(entry.schema))
        self.sink.open(origin)
        with mill.core.write_lock:
            if mill.core.catalog.view(self.view) is not entry:
                raise OutOfStep("the view was replaced")
            listener = _Listener(self, entry)
            listener.stop = mill[self.view].subscribe(listener.take)
            contents = consolidate(entry.block.maintainer.contents())
            rows = Change(entry.name, mill.version, contents, mill.core.dictionary, is_whole=True)
            rows.to_arrow()  # here, where nobody changes them
            with self._moved:
                self._outbox.clear()
                self._current, self._delivered = Waiting(self._outbox.came, rows), -1
                self._entry, self._listener = entry, listener
                self._since = self._since or time.monotonic()

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.end()

    def put(self, change: Change) -> None:
        """Let a change wait."""
        self._since = self._since or time.monotonic()
        self._outbox.put(change)
        self._moved.notify_all()

    @property
    def moved(self) -> threading.Condition:
        """Held when something changes here."""
        return self._moved


class _Listener:
    """Takes the changes of one subscription; those of an ended one are no longer wanted."""

    def __init__(self, owner: Delivery, entry: ViewEntry) -> None:
        self._owner, self._entry = owner, entry
        self.stop: Callable[[], None] = lambda: None
        self.is_over = False

    def take(self, change: Change) -> None:
        """Pass a change on; one of a view that was replaced may have other columns."""
        with self._owner.moved:
            if not self.is_over and not self._entry.dropped:
                self._owner.put(change)

    def end(self) -> None:
        """Take no more."""
        with self._owner.moved:
            self.is_over = True
        self.stop()


def flush(deliveries: Sequence[Delivery], timeout: float | None) -> bool:
    """Wait for all sinks, then raise the first error."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    is_complete, first = True, None
    for each in deliveries:
        try:
            is_complete = each.flush(deadline) and is_complete
        except ViewmillError as why:
            first = first or why
    if first is not None:
        raise first
    return is_complete


def _named(sink: Sink, why: BaseException) -> ViewmillError:
    """The error with the name of its sink."""
    if not isinstance(why, ViewmillError):
        return ViewmillError(f"{sink.title}: {_text(why)}")
    if sink.title in why.message:
        return why.with_traceback(None)
    return ViewmillError(f"{sink.title}: {why.message}", detail=why.detail, hint=why.hint)


def _text(why: BaseException) -> str:
    return str(why) if isinstance(why, ViewmillError) else f"{type(why).__name__}: {why}"


_DELIVERIES: weakref.WeakSet[Delivery] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_DELIVERIES):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
