"""A step of a source as a change of its table.

takes  a step: rows that come, go, replace others by key, or lack columns
gives  one delta, so that the table's checks see the net effect
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Schema
from viewmill.deltas.consolidate import consolidate, group_rows
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, joined
from viewmill.deltas.rows import to_delta
from viewmill.errors import SourceBroken
from viewmill.mill.core import Core
from viewmill.mill.table import Table, among
from viewmill.sources.source import Patch, Step


def change_of(core: Core, name: str, step: Step) -> dict[str, Changed]:
    """What a step changes, by table; nothing if it has no rows."""
    table = core.catalog.table(name).table
    parts = _parts(core, table, step)
    if not step.replaces:
        return {name: joined(table.schema, parts)} if parts else {}
    parts.append(table.contents().negated())
    return {name: consolidate(concat(table.schema, parts))}


def _parts(core: Core, table: Table, step: Step) -> list[Delta]:
    parts: list[Delta] = []
    if step.deleted is not None and step.deleted.num_rows:
        parts.append(to_delta(step.deleted, table.schema, core.dictionary).negated())
    if step.inserted is not None and step.inserted.num_rows:
        parts.append(to_delta(step.inserted, table.schema, core.dictionary))
    new = [_patched(core, table, each) for each in step.patches]
    if step.upserted is not None and step.upserted.num_rows:
        new.append(to_delta(step.upserted, table.schema, core.dictionary))
    rows = concat(table.schema, new) if new else Delta.empty(table.schema)
    if new:
        parts.append(rows if step.replaces else table.replacement(rows, None))
    if step.removed is not None and step.removed.num_rows and not step.replaces:
        parts.append(_removed(table, _keys(core, table, step.removed), rows))
    return parts


def _removed(table: Table, gone: Delta, come: Delta) -> Delta:
    """The deletes of rows by key; 1.0 that goes and 1.00 that comes are one key."""
    first, _ = group_rows(table.keys(gone))
    gone = gone.take(np.sort(first))
    if come.size:
        gone = gone.take(~among(table.keys(gone), table.keys(come)))
    found, rows = table.held(gone)
    return rows.take(found).negated()


def _keys(core: Core, table: Table, keys: pa.Table) -> Delta:
    """Rows of which only the key counts."""
    fields = tuple(
        each if each.name in table.options.primary_key else replace(each, nullable=True)
        for each in table.schema
    )
    return to_delta(keys.select(_names(table, keys)), Schema(fields), core.dictionary)


def _names(table: Table, keys: pa.Table) -> list[str]:
    wanted = {each.lower() for each in table.options.primary_key}
    return [each for each in keys.column_names if each.lower() in wanted]


def _patched(core: Core, table: Table, patch: Patch) -> Delta:
    """Rows with the columns that they lack from the rows that the table has."""
    fields = tuple(replace(each, nullable=True) for each in table.schema)
    new = to_delta(patch.rows, Schema(fields), core.dictionary)
    found, old = table.held(_keys(core, table, patch.keys))
    if not found.all():
        row = patch.keys.slice(int(np.argmin(found)), 1).to_pylist()[0]
        raise SourceBroken(
            f"a row was changed that the table does not have: {row}",
            hint="Unfollow, empty the table, and follow again from a new snapshot.",
        )
    given = {each.lower() for each in patch.rows.column_names}
    pairs = [
        (new if each.name.lower() in given else old).pair(i) for i, each in enumerate(table.schema)
    ]
    columns, nulls = tuple(each[0] for each in pairs), tuple(each[1] for each in pairs)
    return Delta(table.schema, columns, nulls, None, new.size)
