"""Keep the targets of views up to date: a thread per sink, which never holds up a commit.

takes  a view, a sink, and the changes of the view as its subscribers get them
does   brings the sink to all rows first, then applies what waits, and tries again what failed
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from viewmill.deltas.arrow import arrow_schema
from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import concat
from viewmill.errors import SinkBroken, ViewmillError
from viewmill.mill.changes import Change
from viewmill.program.threads import one_of_ours
from viewmill.sinks.sink import Origin, OutOfStep, Sink

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

_FIRST_S, _LONGEST_S = 0.1, 60.0  # between two attempts
_CLOSING_S = 5.0  # for what waits when a mill is closed
_MERGED_AT = 256  # changes that wait


class Delivery:
    """One sink of one view."""

    def __init__(self, mill: Mill, view: str, sink: Sink) -> None:
        self._mill, self.view, self.sink = weakref.ref(mill), mill[view].name, sink
        self._moved = threading.Condition()
        self._waiting: list[Change] = []
        self._current: Change | None = None  # being delivered, or failed
        self._is_whole = False  # whether it is all rows
        self._is_urgent = False  # whether somebody waits for the next attempt
        self._is_level = False  # whether the sink has all but what waits
        self._unsubscribe: Callable[[], None] = lambda: None
        self._version: int | None = None
        self._attempts = self._failed = self._errors = 0  # `_failed`: the last attempt that did
        self._error: Exception | None = None
        self._stopped = False
        self._since: float | None = None  # when the oldest change that waits came
        self._thread = threading.Thread(
            target=self._run, name=f"viewmill-sink-{self.view}", daemon=True
        )
        self._memory_id = uuid.uuid4().hex
        weakref.finalize(mill, self._end)

    def start(self) -> None:
        """Open the sink, and deliver in a thread; what waiting cannot heal is raised here."""
        try:
            self._begin()
        except ViewmillError:
            self.stop()
            raise
        except Exception as why:  # noqa: BLE001 (a target that cannot be reached may come back)
            self._note_error(why)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        """How far it is, for `mill.status()`."""
        with self._moved:
            count = len(self._waiting) + (self._current is not None)
            since = self._since if count or not self._is_level else None
            return {
                "view": self.view,
                "sink": self.sink.title,
                "guarantee": self.sink.guarantee,
                "state": self._state(),
                "version": self._version,
                "waiting": count,
                "lag_s": 0.0 if since is None else time.monotonic() - since,
                "error": None if self._error is None else _text(self._error),
            }

    def _state(self) -> str:
        if self._stopped:
            return "stopped"
        if self._error is None:
            return "writing"
        return "failed" if isinstance(self._error, SinkBroken) else "retrying"

    def flush(self, deadline: float) -> bool:
        """Wait until the sink has what is committed now; an attempt that fails is raised."""
        with self._moved:
            attempts, self._is_urgent = self._attempts, True
            self._moved.notify_all()
            while not self._is_done():
                if self._error is not None and self._failed > attempts:
                    raise ViewmillError(f"{self.sink.title}: {_text(self._error)}")
                left = deadline - time.monotonic()
                if left <= 0 or not (self._moved.wait(min(left, 1.0)) or self._is_alive()):
                    return False
        return True

    def _is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopped

    def _is_done(self) -> bool:
        return self._is_level and not self._waiting and self._current is None

    def stop(self) -> None:
        """Deliver what waits if that is soon done, and end the thread."""
        if self._thread.is_alive() and self._error is None:
            try:
                if self.flush(time.monotonic() + _CLOSING_S):
                    self._note_version()
            except Exception:  # noqa: BLE001 (the next start goes on from what the target has)
                self._error = None
        self._unsubscribe()
        self._end()
        if self._thread.is_alive():
            self._thread.join(timeout=_CLOSING_S)
        self.sink.close()

    def _end(self) -> None:
        with self._moved:
            self._stopped = True
            self._moved.notify_all()

    def _note_version(self) -> None:
        mill = self._mill()
        if mill is not None and mill[self.view].is_immediate:
            with mill.core.lock:
                version = mill.version
                is_done = self._is_done()
            if is_done:
                self.sink.note(version)

    # In the thread.

    def _run(self) -> None:
        with one_of_ours():
            while self._wait():
                try:
                    self._work()
                except OutOfStep as why:
                    self._is_level, self._current = False, None
                    self._note_error(why)
                except Exception as why:  # noqa: BLE001 (the target's or the user's)
                    self._note_error(why)
                else:
                    self._note_success()

    def _wait(self) -> bool:
        """Until there is something to do; False if there never will be."""
        with self._moved:
            if self._errors and not self._stopped and not self._is_urgent:
                pause = min(_FIRST_S * 2.0 ** (self._errors - 1), _LONGEST_S)
                until = time.monotonic() + pause
                while not (self._stopped or self._is_urgent) and time.monotonic() < until:
                    self._moved.wait(until - time.monotonic())
            self._is_urgent = False
            while not self._stopped and (self._is_done() or self._state() == "failed"):
                self._moved.wait()
            self._attempts += 1
            return not self._stopped

    def _note_error(self, why: Exception) -> None:
        with self._moved:
            self._error, self._errors = why, min(self._errors + 1, 30)
            self._failed = self._attempts
            self._moved.notify_all()

    def _note_success(self) -> None:
        with self._moved:
            self._error, self._errors = None, 0
            if self._is_done():
                self._since = None
            self._moved.notify_all()

    def _work(self) -> None:
        if not self._is_level:
            self._begin()
        current = self._current
        if current is not None and self._errors and self.sink.has_taken(current):
            self._done(current)
        current = self._take()
        if current is None:
            return
        if self._is_whole:
            self.sink.replace(current)
        else:
            self.sink.apply(current)
        self._done(current)

    def _done(self, change: Change) -> None:
        with self._moved:
            self._version, self._current, self._is_whole = change.version, None, False

    def _take(self) -> Change | None:
        """What to deliver next: all that waits as one change, unless versions come one by one."""
        with self._moved:
            if self._current is not None and (self._is_whole or self.sink.takes_each_version):
                return self._current
            held = [] if self._current is None else [self._current]
            ready = held + self._waiting
            if not ready:
                return None
            count = 1 if self.sink.takes_each_version else _same_dictionary(ready)
            self._current, self._waiting = _merged(ready[:count]), ready[count:]
            return self._current

    def _begin(self) -> None:
        """Open the sink; what it lacks is all rows, unless it has just this version."""
        mill = self._mill()
        if mill is None:
            return
        view = mill[self.view]
        entry = mill.core.catalog.view(self.view)
        owner = self._owner(mill, f"{entry.created} {entry.sql}")
        found = self.sink.open(Origin(self.view, arrow_schema(entry.schema), owner))
        self._unsubscribe()
        with mill.core.write_lock:
            listener = _Listener(self)
            stop = view.subscribe(listener.take)
            rows = None
            if found != mill.version or not view.is_immediate:
                contents = consolidate(entry.block.maintainer.contents())
                rows = Change(self.view, mill.version, contents, mill.core.dictionary)
                rows.to_arrow()
            version = mill.version
        listener.stop = stop
        self._unsubscribe = listener.end
        with self._moved:
            self._current, self._is_whole, self._is_level = rows, rows is not None, True
            self._version = found if rows is None else None
            self._waiting = [each for each in listener.early if each.version >= version]
            listener.owner, self._since = self, time.monotonic()

    def _owner(self, mill: Mill, definition: str) -> str:
        store = mill.core.store
        place = self._memory_id if store is None else str(store.path)
        return hashlib.blake2b(f"{place} {definition}".encode(), digest_size=16).hexdigest()

    def put(self, change: Change) -> None:
        """Let a change wait."""
        with self._moved:
            if not self._waiting and self._current is None:
                self._since = time.monotonic()
            self._waiting.append(change)
            if len(self._waiting) >= _MERGED_AT and not self.sink.takes_each_version:
                count = _same_dictionary(self._waiting)
                self._waiting = [_merged(self._waiting[:count]), *self._waiting[count:]]
            self._moved.notify_all()


class _Listener:
    """Takes the changes of one subscription; those of an ended one are no longer wanted."""

    def __init__(self, owner: Delivery) -> None:
        self.owner: Delivery | None = None
        self.early: list[Change] = []  # that came before `_begin` was done
        self.stop: Callable[[], None] = lambda: None
        self._moved, self._is_over = owner._moved, False

    def take(self, change: Change) -> None:
        """Pass a change on."""
        with self._moved:
            if self._is_over:
                return
            if self.owner is None:
                self.early.append(change)
            else:
                self.owner.put(change)

    def end(self) -> None:
        """Take no more."""
        with self._moved:
            self._is_over = True
        self.stop()


def _same_dictionary(changes: list[Change]) -> int:
    """How many changes from the first on can be added up."""
    first = changes[0].dictionary
    for i, each in enumerate(changes):
        if each.dictionary is not first:
            return i
    return len(changes)


def _merged(changes: list[Change]) -> Change:
    first, last = changes[0], changes[-1]
    if len(changes) == 1:
        return first
    parts = [each.delta for each in changes]
    return Change(
        first.view, last.version, consolidate(concat(parts[0].schema, parts)), first.dictionary
    )


def _text(why: Exception) -> str:
    return str(why) if isinstance(why, ViewmillError) else f"{type(why).__name__}: {why}"
