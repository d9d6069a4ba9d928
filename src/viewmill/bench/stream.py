"""The rows of all tables as one stream of batches, the way a source would bring them.

Each table comes in its own order and all end together, so that orders meet their line items about
when they are placed. Tables of a few rows, nations and regions, come first, as DBToaster has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp, parse_one

from viewmill.sql.dialect import Viewmill

_STATIC_ROWS = 100  # tables of at most so many rows are loaded first


@dataclass(frozen=True)
class Batch:
    """Rows of one table."""

    table: str
    rows: pa.Table
    is_delete: bool = False

    def cut(self, size: int) -> Iterator[Batch]:
        """Cut the rows into batches of at most `size`."""
        for start in range(0, self.rows.num_rows, size):
            yield Batch(self.table, self.rows.slice(start, size), self.is_delete)


def tables_of(sql: str, known: Iterable[str]) -> list[str]:
    """Those of the known tables that a query reads."""
    named = {each.name for each in parse_one(sql, dialect=Viewmill).find_all(exp.Table)}
    return [name for name in known if name in named]


def stream(tables: Mapping[str, pa.Table], size: int) -> list[Batch]:
    """All rows in batches of at most `size`."""
    placed = []
    for name, rows in tables.items():
        batches = list(Batch(name, rows).cut(size))
        for i, batch in enumerate(batches):
            place = -1.0 if rows.num_rows <= _STATIC_ROWS else (i + 0.5) / len(batches)
            placed.append((place, batch))
    return [batch for _, batch in sorted(placed, key=lambda pair: pair[0])]


def row_count(batches: Iterable[Batch]) -> int:
    """How many rows there are in all."""
    return sum(batch.rows.num_rows for batch in batches)
