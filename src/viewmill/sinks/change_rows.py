"""Changes as rows of a file or a table: each with `_change_type` and `_commit_version`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.errors import ForbiddenChange
from viewmill.sinks.sink import MULTIPLICITY

CHANGE, VERSION = "_change_type", "_commit_version"


def change_rows(table: pa.Table, version: int) -> pa.Table:
    """Turn `_multiplicity` into `_change_type` and `_commit_version`; deletes come first."""
    times = table.column(MULTIPLICITY).combine_chunks().to_numpy(zero_copy_only=False)
    gone, come = np.flatnonzero(times < 0), np.flatnonzero(times > 0)
    positions = np.concatenate([np.repeat(gone, -times[gone]), np.repeat(come, times[come])])
    words = ["delete"] * int(-times[gone].sum()) + ["insert"] * int(times[come].sum())
    rows = table.drop_columns([MULTIPLICITY]).take(pa.array(positions, pa.int64()))
    rows = rows.append_column(CHANGE, pa.array(words, pa.string()))
    return rows.append_column(VERSION, pa.array([version] * len(words), pa.int64()))


def net_rows(place: str, changes: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """The sum of the changes in `place`, as rows with `_multiplicity`."""
    found = [schema.empty_table()]
    for table in changes:
        rows = table.drop_columns([CHANGE, VERSION])
        inserted = pc.equal(table.column(CHANGE), "insert").to_numpy()
        times = pa.array(np.where(inserted, 1, -1), pa.int64())
        rows = rows.append_column(MULTIPLICITY, times)
        if rows.column_names != schema.names:
            raise _other_columns(place)
        try:
            found.append(rows.cast(schema))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _other_columns(place) from None
    return pa.concat_tables(found)


def repeated(table: pa.Table) -> pa.Table:
    """Rows with `_multiplicity` as rows that stand there so often."""
    times = table.column(MULTIPLICITY).to_numpy().clip(0)
    rows = table.drop_columns([MULTIPLICITY])
    if (times == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(times)), times), pa.int64()))


def _other_columns(place: str) -> ForbiddenChange:
    return ForbiddenChange(
        f"{place} holds the changes of a view with other columns",
        hint="Give the sink another path: it starts with all rows of the view.",
    )


def with_multiplicity(rows: pa.Table, times: int) -> pa.Table:
    """Add a `_multiplicity` column with one value."""
    return rows.append_column(MULTIPLICITY, pa.array([times] * rows.num_rows, pa.int64()))
