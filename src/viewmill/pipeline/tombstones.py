"""Upsert images of rows by key: the newest image wins, in whatever order images arrive.

takes  images of rows (inserts and deletes) without the rows they replace, a column that orders them
does   replaces the row of each key unless the present row is newer; a delete leaves a tombstone, so
       that an older image that arrives later has no effect

A tombstone is kept as long as an older image may still arrive: if the order is the event time of a
source with LATENESS, until the watermark passes it, and later images of unknown keys are refused;
without LATENESS, forever.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.names import folder_name, quoted
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Date, Decimal, Float, Integer, Timestamp
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import consolidate, group_rows
from viewmill.deltas.delta import Delta, concat
from viewmill.errors import ForbiddenChange, InvalidArgument
from viewmill.mill.mill import Mill
from viewmill.mill.table import Table
from viewmill.pipeline.source import Source

_PREFIX = "_viewmill_deleted_"
_MAX_DIGITS = 18  # wider decimals are stored as codes, which are not ordered

Refused = list[tuple[str, str]]


def tombstones_of(source: Source) -> str:
    """The name of the table with the deleted keys of a source and the order of their deletes."""
    return _PREFIX + folder_name(source.name.lower())


def create_tombstones(mill: Mill, source: Source) -> None:
    """Create the table of tombstones for a source with an order."""
    if source.order is None:
        return
    table = mill.core.catalog.table(source.name).table
    kind = table.schema[table.schema.find(source.order) or 0].type
    is_wide = isinstance(kind, Decimal) and kind.precision > _MAX_DIGITS
    if is_wide or not isinstance(kind, Date | Decimal | Float | Integer | Timestamp):
        raise InvalidArgument(
            f'order="{source.order}" of source "{source.name}" is {kind}',
            hint="Order rows by a number, a date or a time.",
        )
    fields = [table.schema[table.schema.find(each) or 0] for each in _columns(source)]
    columns = ", ".join(
        f"{quoted(each.name)} {each.type}{'' if each.nullable else ' NOT NULL'}" for each in fields
    )
    keys = ", ".join(quoted(each) for each in source.key)
    name = tombstones_of(source)
    statement = f"CREATE TABLE {quoted(name)} ({columns}, PRIMARY KEY ({keys}))"
    before = mill.definition(name)
    if before is None:
        mill.sql(statement)
    elif before != statement:
        raise ForbiddenChange(
            f'source "{source.name}" was ordered by another column than "{source.order}"',
            detail="Deleted keys are remembered with the order of their deletes.",
            hint="Give the pipeline another storage directory to take the source anew.",
        )


def _columns(source: Source) -> list[str]:
    assert source.order is not None
    known = {each.lower() for each in source.key}
    return [*source.key, *([] if source.order.lower() in known else [source.order])]


def take_images(mill: Mill, source: Source, images: Delta) -> Refused:
    """Add the effect of images to the current batch; gives the images that came too late."""
    table = mill.core.catalog.table(source.name).table
    new = _newest(table, images, source.order)
    if source.order is None:
        mill.change(source.name, _replacing(table, new))
        return []
    deleted = mill.core.catalog.table(tombstones_of(source)).table
    order = source.order
    found, now = table.held(new)
    ranks = _ranks(new, order)
    marks = _projected(new, deleted.schema)
    is_dead, graves = deleted.held(marks)
    keep = ~found | (_ranks(now, order) <= ranks)
    keep &= ~is_dead | (_ranks(graves, order) <= ranks)
    horizon = _horizon(source, table, deleted, ranks)
    late = (
        np.zeros(new.size, np.bool_) if horizon is None else (ranks < horizon) & ~found & ~is_dead
    )
    keep &= ~late
    mill.change(source.name, _replacing(table, new.take(keep)))
    buried = marks.take(keep & (new.multiplicities() < 0))
    buried.multiplicity = None
    dug_up = graves.take(keep & is_dead)
    change = consolidate(concat(deleted.schema, [buried, dug_up.negated()]))
    if horizon is not None:
        change = _without_old(deleted, change, order, horizon)
    mill.change(tombstones_of(source), change)
    return _refused(mill, new.take(late))


def _newest(table: Table, images: Delta, order: str | None) -> Delta:
    """The winning image of each key: the one with the largest `order`; among equals an insert,
    then the last one."""
    if order is not None:
        images = images.take(np.lexsort([images.multiplicities(), _ranks(images, order)]))
    last, _ = group_rows(table.keys(images)[::-1])
    return images.take(np.sort(images.size - 1 - last))


def _ranks(delta: Delta, order: str) -> npt.NDArray[Any]:
    """Sortable numbers for the order column; NULL is older than everything."""
    at = delta.schema.find(order)
    assert at is not None
    words, mask = delta.pair(at)
    least = -np.inf if words.dtype == np.float64 else np.iinfo(np.int64).min
    return words if mask is None else np.where(mask.astype(bool), least, words)


def _replacing(table: Table, images: Delta) -> Delta:
    """Images, one per key, as a delta: delete the present row, insert the image if it is one."""
    gone = images.take(images.multiplicities() < 0)
    gone.multiplicity = -np.ones(gone.size, np.int64)
    come = images.take(np.arange(images.size))
    come.multiplicity = None
    return consolidate(concat(table.schema, [table.replacement(come, None), gone]))


def _projected(delta: Delta, schema: Schema) -> Delta:
    """The columns of a schema, by name."""
    at = [delta.schema.find(each.name) or 0 for each in schema]
    pairs = [delta.pair(i) for i in at]
    columns, nulls = tuple(each[0] for each in pairs), tuple(each[1] for each in pairs)
    return Delta(schema, columns, nulls, delta.multiplicities(), delta.size)


def _horizon(source: Source, table: Table, deleted: Table, ranks: npt.NDArray[Any]) -> int | None:
    """The moment before which images are too late; None if they never are."""
    lateness = table.options.lateness
    if lateness is None or (source.timestamp or "").lower() != (source.order or "").lower():
        return None
    graves = _ranks(deleted.contents(), source.order or "")
    seen = [int(each.max()) for each in (ranks, graves) if len(each)]
    seen += [] if table.newest is None else [table.newest]
    return max(seen) - lateness if seen else None


def _without_old(deleted: Table, change: Delta, order: str, horizon: int) -> Delta:
    """Add deletes of the tombstones before the horizon to the change of the tombstones."""
    after = consolidate(concat(deleted.schema, [deleted.contents(), change]))
    old = after.take(_ranks(after, order) < horizon)
    return consolidate(concat(deleted.schema, [change, old.negated()]))


def _refused(mill: Mill, late: Delta) -> Refused:
    rows = decode_delta(replace(late, multiplicity=None), mill.core.dictionary).to_pylist()
    why = "the row is older than LATENESS allows"
    return [(why, json.dumps(row, default=str)) for row in rows]
