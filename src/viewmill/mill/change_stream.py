"""The changes of a table or view, as a stream that another thread reads.

takes  a name
gives  its rows as they are now, then what each commit changes: Arrow tables whose last column,
       `_multiplicity`, says how many rows came or went

A commit only puts its delta in a queue. A reader who is too slow loses the stream, not the writer.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, as_delta
from viewmill.errors import SnapshotTooOld, UnknownName, UnsupportedQuery, nearest
from viewmill.mill.catalog import BrokenEntry, PlainEntry, TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.refresh import refresh_due
from viewmill.mill.window_families import note_followers

MAX_WAITING_ROWS = 2_000_000
MULTIPLICITY = "_multiplicity"


class ChangeStream:
    """Rows with multiplicity from the version of now on, until `close`."""

    def __init__(self, core: Core, name: str, *, with_rows: bool = True) -> None:
        self._core, self._name = core, name
        self._queue: queue.SimpleQueue[tuple[int, Any, Any]] = queue.SimpleQueue()
        self._waiting_rows, self._is_lost = 0, False
        with core.lock:
            core.require_open()
            self._entry = _followed(core, name)
            if with_rows:
                with core.write_lock:
                    refresh_due(core, reading={self._entry.name})
                    rows = core.arrow(self._entry.name)
                self._queue.put((core.version, _with_ones(rows), None))
            self._stop = self._follow()

    def next(self, timeout: float) -> tuple[int, Any] | None:
        """A version and its change; None if nothing came in time."""
        if self._is_lost:
            raise SnapshotTooOld(
                f'the changes of "{self._name}" came faster than they were read',
                detail=f"More than {MAX_WAITING_ROWS:,} rows were waiting.",
                hint="Subscribe again, which begins with the rows of then.",
            )
        try:
            version, change, dictionary = self._queue.get(timeout=timeout)
        except queue.Empty:
            self._require_there()
            return None
        if dictionary is None:
            return version, change
        self._waiting_rows -= change.size
        return version, decode_delta(change, dictionary, multiplicity=MULTIPLICITY)

    def close(self) -> None:
        """Follow no more."""
        self._stop()

    def _require_there(self) -> None:
        self._core.require_open()
        if self._core.catalog.get(self._name) is not self._entry:
            raise UnknownName(f'"{self._name}" was dropped or replaced')

    def _follow(self) -> Callable[[], None]:
        entry, core = self._entry, self._core
        if isinstance(entry, TableEntry):
            noting = _TableNoting(entry.name, lambda delta: self._put(core.version, delta))
            core.noting.append(noting)
            return lambda: _remove(core, core.noting, noting)
        listeners = entry.listeners
        listeners.append(self._put)
        note_followers(core, entry)

        def stop() -> None:
            _remove(core, listeners, self._put)
            with core.lock:
                if core.catalog.get(entry.name) is entry:
                    note_followers(core, entry)

        return stop

    def _put(self, version: int, delta: Delta) -> None:
        if self._waiting_rows + delta.size > MAX_WAITING_ROWS:
            self._is_lost = True
        if not self._is_lost:
            self._waiting_rows += delta.size
            self._queue.put((version, delta, self._core.dictionary))


class _TableNoting:
    """Passes on what commits change in one table."""

    def __init__(self, name: str, put: Callable[[Delta], None]) -> None:
        self._name, self._put = name.lower(), put

    def note(self, changes: Mapping[str, Changed]) -> None:
        """Take the change of each table and view."""
        for name, change in changes.items():
            if name.lower() == self._name and change.size:
                self._put(as_delta(change))


def _remove(core: Core, found: list[Any], each: Any) -> None:
    with core.lock:
        if each in found:
            found.remove(each)


def _followed(core: Core, name: str) -> TableEntry | ViewEntry:
    match core.catalog.get(name):
        case None:
            raise UnknownName(
                f'there is no table or view "{name}"', hint=nearest(name, core.catalog.names())
            )
        case PlainEntry() as entry:
            raise UnsupportedQuery(
                f'"{entry.name}" is a plain view, whose changes nobody computes',
                hint="Subscribe to a materialized view with its query.",
            )
        case BrokenEntry() as entry:
            raise entry.error()
        case ViewEntry() as entry if entry.enumerator is not None:
            raise UnsupportedQuery(
                f'view "{entry.name}" is {entry.enumerator.form} and does not list its changes',
                hint="Keep it with RESULT LISTED.",
            )
        case entry:
            return entry


def _with_ones(rows: Any) -> Any:
    ones = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    return rows.append_column(MULTIPLICITY, ones)
