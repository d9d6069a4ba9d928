"""Windows on streams: how far time has come, ticks, and a window's rows for the engine.

The rows are cut here from the table itself, with none of the code that maintains windows, so that
`verify` compares two things.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.relations import Aggregate, Relation, Scan
from viewmill.algebra.types import Timestamp
from viewmill.algebra.walk import scans, transform
from viewmill.algebra.windows import SlidingWindow
from viewmill.deltas.delta import Delta
from viewmill.errors import InvalidArgument
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.create import save, table_record
from viewmill.mill.memory import refresh_blocks
from viewmill.mill.refresh import publish
from viewmill.program.window_parts import WindowParts

_BY = ("max_by", "min_by")
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def advance(core: Core, name: str, to: datetime.datetime | int) -> None:
    """Say that time has reached `to` for a table: windows that end by then are answered."""
    entry = core.catalog.table(name)
    _require_time(entry)
    moment = _microseconds(to)
    reached = watermark(core, entry)
    if reached is not None and moment < reached:
        shown = _EPOCH + reached * _MICROSECOND
        raise InvalidArgument(
            f'time cannot move back for table "{entry.name}"',
            detail=f"It has reached {shown}; {_EPOCH + moment * _MICROSECOND} is before that.",
        )
    before = core.ticks.get(entry.name)
    if moment == before:
        return
    core.ticks[entry.name] = moment
    try:
        for family in core.runtime.families(entry.name):
            if not family.names.isdisjoint(core.catalog.immediate()):
                family.advance(moment)
        for view in core.catalog.views():
            for block in view.blocks:
                reads = any(each.source == entry.name for each in block.program.inputs)
                if reads and isinstance(block.program.body, WindowParts):
                    block.maintainer.advance(moment)  # type: ignore[attr-defined]
        nothing = {entry.name: Delta.empty(entry.table.schema)}
        outputs = refresh_blocks(core, nothing, core.catalog.immediate())
        save(core, {entry.name: table_record(core, entry)})
    except BaseException:
        core.runtime.rollback()
        if before is None:
            del core.ticks[entry.name]
        else:
            core.ticks[entry.name] = before
        raise
    changed = {each: delta for each, delta in outputs.items() if delta.size}
    publish(core, core.version, {}, changed, core.now())


def watermark(core: Core, entry: TableEntry) -> int | None:
    """How far time has come for a table: the largest time less the lateness, or the last tick."""
    newest, tick = entry.table.newest, core.ticks.get(entry.name)
    if newest is None:
        return tick
    by_rows = newest - (entry.table.options.lateness or 0)
    return by_rows if tick is None else max(by_rows, tick)


def _require_time(entry: TableEntry) -> None:
    column = entry.table.options.timestamp_by
    at = None if column is None else entry.table.schema.find(column)
    if at is None or not isinstance(entry.table.schema[at].type, Timestamp):
        raise InvalidArgument(
            f'table "{entry.name}" has no time column',
            hint="Declare it with TIMESTAMP BY and a TIMESTAMP column.",
        )


def _microseconds(to: datetime.datetime | int) -> int:
    if isinstance(to, int) and not isinstance(to, bool):
        return to
    if not isinstance(to, datetime.datetime):
        raise InvalidArgument(f"a tick is a datetime or UTC microseconds, not {to!r}")
    if to.tzinfo is not None:
        to = to.astimezone(datetime.UTC).replace(tzinfo=None)
    return (to - _EPOCH) // _MICROSECOND


# A window's rows for the engine.


def cut_windows(
    core: Core, relation: Relation, tables: Mapping[str, Any]
) -> tuple[Relation, dict[str, Any]]:
    """The relation with each window as a table of its own, and those tables."""
    if not any(scan.window for scan in scans(relation)):
        return relation, dict(tables)
    made: dict[str, Any] = dict(tables)

    cut: set[str] = set()

    def change(each: Relation) -> Relation:
        if isinstance(each, Aggregate) and any(scan.source in cut for scan in scans(each)):
            return _choosing_earliest(each)
        if not isinstance(each, Scan) or each.window is None:
            return each
        name = f"{each.source}#{len(made)}"
        made[name.lower()] = _window_rows(core, each, each.window, tables)
        cut.add(name)
        return replace(each, source=name, window=None)

    return transform(relation, change), made


def _choosing_earliest(group: Aggregate) -> Aggregate:
    """A window has an order: of rows with the same y MAX_BY(x, y) takes the earliest there."""
    calls = tuple(
        (
            name,
            replace(call, function=f"earliest_{call.function}") if call.function in _BY else call,
        )
        for name, call in group.aggregates
    )
    return replace(group, aggregates=calls)


def _window_rows(
    core: Core, scan: Scan, window: SlidingWindow, tables: Mapping[str, Any]
) -> pa.Table:
    entry = core.catalog.table(scan.source)
    rows = tables.get(scan.source.lower())
    if window.unit == "rows":
        rows = core.arrow(scan.source) if rows is None else rows
        if window.column:
            rows = _in_order(rows, window.column)
        end = window.last_end(rows.num_rows)
        first = max(0, end - window.size)
        return rows.slice(first, end - first).combine_chunks()  # FIRST and LAST go by their order
    reached = watermark(core, entry)
    if rows is not None and rows.num_rows:  # as of an older version
        newest = pc.max(rows[window.column]).cast(pa.int64()).as_py()
        reached = max(newest - window.lateness, core.ticks.get(entry.name, newest))
    rows = core.arrow(scan.source) if rows is None else rows
    if reached is None:
        return rows.slice(0, 0)
    end = window.last_end(reached)
    times = rows[window.column].cast(pa.int64())
    inside = pc.and_(pc.greater_equal(times, end - window.size), pc.less(times, end))
    return rows.filter(inside).sort_by(window.column).combine_chunks()


def _in_order(rows: pa.Table, column: str) -> pa.Table:
    """The rows by time, then as they came; those without a time first."""
    without, timed = rows.filter(pc.is_null(rows[column])), rows.filter(pc.is_valid(rows[column]))
    order = pc.sort_indices(timed, [(column, "ascending")])
    return pa.concat_tables([without, timed.take(order)])
