"""Hashes of rows: one of the columns that place a row in a bucket, one of the whole row.

takes  Arrow tables with the columns of a view
gives  two 64-bit hashes for each row; equal rows have equal hashes

DuckDB computes them. They may differ in another version of it: then no bucket is found as it was
written, and all buckets are written anew at the next start.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Filter, Limit, Project, Relation, Sort

Hashes = npt.NDArray[np.uint64]


class Hashed(NamedTuple):
    """Rows with the hashes of their placing columns, and of all their columns."""

    rows: pa.Table
    places: Hashes
    digests: Hashes

    def take(self, positions: npt.NDArray[np.int64]) -> Hashed:
        """Some of the rows."""
        taken = self.rows.combine_chunks().take(pa.array(positions))
        return Hashed(taken, self.places[positions], self.digests[positions])

    def slice(self, start: int, end: int) -> Hashed:
        """The rows between two positions."""
        rows = self.rows.slice(start, end - start)
        return Hashed(rows, self.places[start:end], self.digests[start:end])


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One for all: to make it takes 25 ms. DuckDB complains if it outlives the interpreter."""
    atexit.register(_connection.cache_clear)
    return duckdb.connect(":memory:")


class RowHashes:
    """Hashes rows by the columns at `placing`; `seed` makes them those of one pipeline."""

    def __init__(self, placing: Sequence[int], width: int, seed: str) -> None:
        chosen = [f"c{i}" for i in placing] or [f"c{i}" for i in range(width)]
        whole = ", ".join(f"c{i}" for i in range(width))
        self._query = f"SELECT hash($seed, {', '.join(chosen)}), hash($seed, {whole}, 1) FROM rows"
        self._names = [f"c{i}" for i in range(width)]
        self._seed = seed

    def of(self, rows: pa.Table) -> Hashed:
        """The rows with their hashes."""
        with _connection().cursor() as cursor:
            cursor.register("rows", rows.rename_columns(self._names))
            found = cursor.execute(self._query, {"seed": self._seed}).fetchnumpy()
        places, digests = (np.asarray(each, np.uint64) for each in found.values())
        return Hashed(rows, places, digests)


def group_columns(query: Relation) -> list[int]:
    """The output columns that are the keys of the query's groups; none if a key is not put out.

    An update of a group is a delete and an insert with the same keys: both are in one bucket.
    """
    names: list[str | None] = [each.name for each in query.schema]
    while isinstance(query, Sort | Limit | Filter | Project):
        if isinstance(query, Project):
            passed = {
                name: each.name
                for name, each in query.outputs
                if isinstance(each, Column) and each.outer == 0
            }
            names = [None if name is None else passed.get(name) for name in names]
        query = query.input
    if not isinstance(query, Aggregate):
        return []
    keys = {name for name, _ in query.keys}
    found = [i for i, name in enumerate(names) if name in keys]
    return found if {names[i] for i in found} == keys else []
