"""Time that passes in a mill: views over `now()` change without any change of a table.

takes  the clock of the mill, the deadlines of the views that read it
does   a tick: rows come and go whose time has come, as a version of their own

The time of a mill stands still between ticks, so that all views show one moment. Every commit and
every read begins with a tick. A durable mill writes its time down with each version, so that it is
opened as it was and goes on from there: whoever follows its versions misses nothing.
"""

from __future__ import annotations

import datetime as dt
import json
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from viewmill.algebra.clock import CLOCK
from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.errors import InvalidArgument
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.memory import refresh_blocks
from viewmill.mill.refresh import is_appended, leave_waiting_for_time, publish, roll_back
from viewmill.program.program import Timed

_NOTHING = Delta.empty(Schema(()))


def timed_views(core: Core) -> list[ViewEntry]:
    """The views whose rows time changes."""
    return [entry for entry in core.catalog.views() if _timed(entry)]


def _timed(entry: ViewEntry) -> list[Any]:
    bodies = ((b.maintainer, b.program.body) for b in entry.blocks)
    return [made for made, body in bodies if isinstance(body, Timed) and not body.tables]


def next_deadline(entries: Iterable[ViewEntry]) -> int | None:
    """The first moment at which time alone changes one of the views."""
    found = (each.next_deadline() for entry in entries for each in _timed(entry))
    return min(found, default=None)


def tick(core: Core, *, to: int | None = None) -> None:
    """Let time pass: refresh the views that have rows whose time has come."""
    time = core.time
    moment = max(time.reached, time.read() if to is None else to)
    if moment == time.reached:
        return
    if core.catalog.generation != time.generation:
        time.note(core.catalog.generation, timed_views(core))
    due = [e for e in time.watched if not e.dropped and _is_due(e, moment)]
    if not due:
        time.reached = moment
        return
    _refresh(core, due, moment)


def _is_due(entry: ViewEntry, moment: int) -> bool:
    return any(each.next_deadline() <= moment for each in _timed(entry))


def _refresh(core: Core, due: list[ViewEntry], moment: int) -> None:
    before, version = core.time.reached, core.version + 1
    core.time.reached = moment
    immediate = core.catalog.immediate()
    outputs: dict[str, Delta] = {}
    try:
        if any(entry.name in immediate for entry in due):
            outputs = refresh_blocks(core, {CLOCK: _NOTHING}, _concerned(core, immediate))
            for prepare in core.preparations:
                prepare(version, outputs)
            if core.store is not None and not core.read_only:
                core.store.append(version, {}, time_record(core))
    except BaseException as why:
        if not is_appended(core, version):
            core.time.reached = before
            roll_back(core, (), why)
            raise
        _publish(core, version, outputs, due, before)
        raise
    _publish(core, version, outputs, due, before)


def _publish(
    core: Core, version: int, outputs: dict[str, Delta], due: list[ViewEntry], before: int
) -> None:
    publish(core, version if outputs else core.version, {}, outputs, core.now())
    for entry in due:
        if entry.name not in outputs and not entry.is_immediate:
            leave_waiting_for_time(core, entry, before, _NOTHING)


def _concerned(core: Core, immediate: set[str]) -> set[str]:
    """The immediate views that time may change, and those that read them."""
    found: set[str] = set()
    for view in core.catalog.in_order():
        if view.name in immediate and (_timed(view) or not view.reads.isdisjoint(found)):
            found.add(view.name.lower())
    return {name for name in immediate if name.lower() in found}


# What is written down.


def time_record(core: Core, created: Iterable[ViewEntry] = ()) -> dict[str, str]:
    """The time of the mill, for the store, if there are views that it changes."""
    if core.store is None or core.read_only:
        return {}
    if core.time.generation != core.catalog.generation:
        core.time.note(core.catalog.generation, timed_views(core))
    if not core.time.watched and not any(map(_timed, created)):
        return {}
    return {CLOCK: json.dumps({"kind": "clock", "sql": "", "reached": core.time.reached})}


def restore_time(core: Core, record: str | None) -> None:
    """Begin at the time that the views showed last; a record that says nothing is ignored."""
    if record is None:
        return
    try:
        reached = json.loads(record)["reached"]
        core.time.reached = int(np.int64(operator.index(reached)))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return


def microseconds(moment: object) -> int:
    """A datetime, or UTC microseconds, as UTC microseconds."""
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    if isinstance(moment, str):
        try:
            moment = dt.datetime.fromisoformat(moment)
        except ValueError:
            raise InvalidArgument(f"{moment!r} is no time") from None
    if not isinstance(moment, dt.datetime):
        raise InvalidArgument(f"a time is a datetime or UTC microseconds, not {moment!r}")
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


Clocks = Callable[[], Any] | dt.datetime | str | int | None


def reader(clock: Clocks) -> Callable[[], int] | None:
    """What gives the time: the user's function, or a clock that only `advance` moves."""
    if clock is None:
        return None
    if callable(clock):
        return lambda: microseconds(clock())
    start = microseconds(clock)
    return lambda: start
