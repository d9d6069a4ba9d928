"""Windows over tables: ticks, and the rows of a window for the engine.

The rows are cut from the table itself, independently of the code that maintains windows, so that
`verify` compares two implementations.
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
from viewmill.deltas.product import as_delta
from viewmill.errors import InvalidArgument
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.create import save, table_record
from viewmill.mill.memory import refresh_blocks
from viewmill.mill.passing_time import microseconds
from viewmill.mill.refresh import (
    hears_ticks,
    maintain_parts,
    publish,
    refresh_due,
    roll_back,
    with_expired,
)
from viewmill.mill.window_families import fill_new_windows

_BY = ("max_by", "min_by")
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def advance(core: Core, name: str, to: datetime.datetime | int) -> None:
    """Move the watermark of a table to `to`: windows that end by then are answered."""
    entry = core.catalog.table(name)
    _require_time(entry)
    moment = microseconds(to)
    reached = core.watermark(entry)
    if reached is not None and moment < reached:
        shown = _EPOCH + reached * _MICROSECOND
        raise InvalidArgument(
            f'time cannot move back for table "{entry.name}"',
            detail=f"It has reached {shown}; {_EPOCH + moment * _MICROSECOND} is before that.",
        )
    before = core.ticks.get(entry.name)
    if moment == before:
        return
    fill_new_windows(core, [entry.name])
    core.ticks[entry.name] = moment
    try:
        entry.table.reach(moment)
        change = as_delta(with_expired(core, entry, Delta.empty(entry.table.schema)))
        among = core.catalog.immediate() if change.size else _concerned(core, entry)
        outputs = refresh_blocks(core, {entry.name: change}, among)
        save(core, {entry.name: table_record(core, entry)})
    except BaseException as why:
        if before is None:
            del core.ticks[entry.name]
        else:
            core.ticks[entry.name] = before
        roll_back(core, [entry], why)
        raise
    entry.table.commit(core.version)
    publish(core, core.version, {entry.name: change}, outputs, core.now(), {entry.name: reached})
    if entry.table.parts is not None:
        maintain_parts(core)
    refresh_due(core, reading=None)


def _concerned(core: Core, entry: TableEntry) -> set[str]:
    """The immediate views that a tick of a table may change, and those that read them."""
    found: set[str] = set()
    for view in core.catalog.in_order():
        if hears_ticks(view, entry.name) or not view.reads.isdisjoint(found):
            found.add(view.name.lower())
    return {name for name in core.catalog.immediate() if name.lower() in found}


def _require_time(entry: TableEntry) -> None:
    column = entry.table.options.timestamp_by
    at = None if column is None else entry.table.schema.find(column)
    if at is None or not isinstance(entry.table.schema[at].type, Timestamp):
        raise InvalidArgument(
            f'table "{entry.name}" has no time column',
            hint="Declare it with TIMESTAMP BY and a TIMESTAMP column.",
        )


# A window's rows for the engine.


def cut_windows(
    core: Core,
    relation: Relation,
    tables: Mapping[str, Any],
    reached: Mapping[str, int | None],
) -> tuple[Relation, dict[str, Any]]:
    """Replace each window in a relation by a table with its rows; gives these tables as well.

    `tables` and `reached` replace the rows and the watermarks of some sources.
    """
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
        entry = core.catalog.table(each.source)
        end = reached[entry.name] if entry.name in reached else core.watermark(entry)
        made[name.lower()] = _window_rows(core, each, each.window, tables, end)
        cut.add(name)
        return replace(each, source=name, window=None)

    return transform(relation, change), made


def _choosing_earliest(group: Aggregate) -> Aggregate:
    """In a window MAX_BY(x, y) takes the earliest of the rows with the same y."""
    calls = tuple(
        (
            name,
            replace(call, function=f"earliest_{call.function}") if call.function in _BY else call,
        )
        for name, call in group.aggregates
    )
    return replace(group, aggregates=calls)


def _window_rows(
    core: Core,
    scan: Scan,
    window: SlidingWindow,
    tables: Mapping[str, Any],
    reached: int | None,
) -> pa.Table:
    rows = tables.get(scan.source.lower())
    rows = core.arrow(scan.source) if rows is None else rows
    if window.unit == "rows":
        if window.column:
            rows = _in_order(rows, window.column)
        end = window.last_end(rows.num_rows)
        first = max(0, end - window.size)
        return rows.slice(first, end - first).combine_chunks()  # FIRST and LAST go by their order
    if reached is None:
        return rows.slice(0, 0)
    end = window.last_end(reached)
    times = rows[window.column].cast(pa.int64())
    inside = pc.and_(pc.greater_equal(times, end - window.size), pc.less(times, end))
    return rows.filter(inside).sort_by(window.column).combine_chunks()


def _in_order(rows: pa.Table, column: str) -> pa.Table:
    """The rows by time, then by arrival; rows without a time come first."""
    without, timed = rows.filter(pc.is_null(rows[column])), rows.filter(pc.is_valid(rows[column]))
    order = pc.sort_indices(timed, [(column, "ascending")])
    return pa.concat_tables([without, timed.take(order)])
