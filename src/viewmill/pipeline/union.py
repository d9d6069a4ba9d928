"""One stream out of many: every batch has one id for all sources.

takes  sources
gives  a DataFrame of (source, one nullable struct per source), JVM only; and the way back, from a
       batch of it as an Arrow table to the rows of each source
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.pipeline.source import Source

_SOURCE = "source"


def union(sources: Sequence[Source]) -> Any:
    """All sources in one DataFrame; a single source is taken as it is."""
    if len(sources) == 1:
        return sources[0].selected()
    frames = []
    for i, source in enumerate(sources):
        rows = source.selected()
        inside = ", ".join(f"`{name}`" for name in rows.columns)
        frames.append(rows.selectExpr(f"{i} AS {_SOURCE}", f"struct({inside}) AS {_column(i)}"))
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def split(table: pa.Table, sources: Sequence[Source]) -> dict[str, pa.Table]:
    """The rows of each source, those without rows left out."""
    if len(sources) == 1:
        return {sources[0].name: table} if table.num_rows else {}
    pieces: dict[int, list[pa.RecordBatch]] = {}
    for batch in table.to_batches():
        # A batch comes from one partition, which belongs to one source; but that is Spark's affair.
        for i in pc.unique(batch.column(_SOURCE)).to_pylist():
            rows = batch.column(_column(i))
            if rows.null_count:
                rows = rows.filter(pc.equal(batch.column(_SOURCE), i))
            pieces.setdefault(i, []).append(pa.RecordBatch.from_struct_array(rows))
    return {sources[i].name: pa.Table.from_batches(found) for i, found in pieces.items()}


def _column(i: int) -> str:
    return f"source_{i}"
