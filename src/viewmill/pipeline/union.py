"""One stream out of many: every batch has one id for all sources.

takes  the selected rows of each source
gives  a DataFrame of (source, one nullable struct per source), JVM only; and the way back, from a
       batch of it as an Arrow table to the rows of each source
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.names import quoted

_SOURCE = "source"


def union(selected: Sequence[Any]) -> Any:
    """The rows of all sources in one DataFrame; those of a single source are taken as they are."""
    if len(selected) == 1:
        return selected[0]
    frames = []
    for i, rows in enumerate(selected):
        inside = ", ".join(f"{quoted(name)}" for name in rows.columns)
        frames.append(rows.selectExpr(f"{i} AS {_SOURCE}", f"struct({inside}) AS {_column(i)}"))
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def split(table: pa.Table, names: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of each source, those without rows left out."""
    if len(names) == 1:
        return {names[0]: table} if table.num_rows else {}
    pieces: dict[int, list[pa.RecordBatch]] = {}
    for batch in table.to_batches():
        # A batch comes from one partition, which belongs to one source; but that is Spark's affair.
        for i in pc.unique(batch.column(_SOURCE)).to_pylist():
            rows = batch.column(_column(i))
            if rows.null_count:
                rows = rows.filter(pc.equal(batch.column(_SOURCE), i))
            pieces.setdefault(i, []).append(pa.RecordBatch.from_struct_array(rows))
    return {names[i]: pa.Table.from_batches(found) for i, found in pieces.items()}


def _column(i: int) -> str:
    return f"source_{i}"
