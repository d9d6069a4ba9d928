"""Table statistics for the planner: row counts and numbers of distinct values.

takes  the mill's tables and views, the query that is planned
gives  `Statistics`
next   planner

Distinct values are counted when a view is created or explained, never at a refresh, and only in
columns that the query joins or groups by. Integers in a range not much larger than the table are
counted exactly; other columns are estimated from a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.expressions import Call, Column, Expression, walk
from viewmill.algebra.relations import Aggregate, Distinct, Filter, Join, Relation, Scan
from viewmill.algebra.walk import scans, sources, walk_relations
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.program.parts import SECOND
from viewmill.strategies.strategy import PartLayout, Statistics

_SAMPLE = 50_000
_RANGE = 8  # integers are counted exactly if their range is at most so many times the rows


def statistics(core: Core, query: Relation) -> Statistics:
    """The statistics of the tables and views that a query reads."""
    # A net count is negative where deletes came before their inserts.
    rows = {entry.name: max(0, entry.table.rows) for entry in core.catalog.tables()}
    read = [core.catalog.get(name) for name in sources(query)]
    rows |= {entry.name: entry.rows for entry in read if isinstance(entry, ViewEntry)}
    # An empty STATIC table has not been loaded yet, so it may still change.
    static = frozenset(
        e.name for e in core.catalog.tables() if e.table.options.static and e.table.rows
    )
    return Statistics(rows, static, _distinct(core, query), _parts(core))


def _parts(core: Core) -> dict[str, PartLayout]:
    found = {}
    for entry in core.catalog.tables():
        parts = entry.table.parts
        if parts is not None:
            loaded = parts.catalog()
            rows = sum(each.rows for each in loaded) // len(loaded) if loaded else None
            options = parts.options
            found[entry.name] = PartLayout(options.length * SECOND, rows, options.retention)
    return found


def _distinct(core: Core, query: Relation) -> dict[tuple[str, str], int]:
    """Distinct values by source and column; not needed for a query of one table."""
    read = scans(query)
    if len(read) < 2:
        return {}
    wanted = set(_columns(query))
    found: dict[tuple[str, str], int] = {}
    for scan in read:
        names = [name for name in scan.schema.names if name in wanted]
        for name in names:
            own = name.removeprefix(f"{scan.alias}.")
            if (scan.source, own) not in found:
                values = values_of(core, scan, own)
                if values:
                    found[scan.source, own] = values
    return found


def _columns(query: Relation) -> Iterator[str]:
    """The columns in equalities and in GROUP BY or DISTINCT."""
    for relation in walk_relations(query):
        match relation:
            case Join(condition=condition) if condition is not None:
                yield from _equated(condition)
            case Filter(condition=condition):
                yield from _equated(condition)
            case Aggregate(keys=keys):
                yield from (part.name for _, key in keys for part in _columns_in(key))
            case Distinct(input=inner):
                yield from inner.schema.names


def _equated(condition: Expression) -> Iterator[str]:
    for part in walk(condition):
        if isinstance(part, Call) and part.function == "=":
            sides = [list(_columns_in(side)) for side in part.arguments]
            if all(sides):
                yield from (column.name for side in sides for column in side)


def _columns_in(expression: Expression) -> Iterator[Column]:
    return (part for part in walk(expression) if isinstance(part, Column))


def values_of(core: Core, scan: Scan, column: str) -> int:
    """The number of distinct values of a column, 0 if unknown."""
    entry = core.catalog.get(scan.source)
    if isinstance(entry, TableEntry):
        table = entry.table
        if not table.rows:
            return 0
        return table.remembered(f"distinct {column}", lambda: count_values(table.arrow(), column))
    if isinstance(entry, ViewEntry) and entry.rows:
        return count_values(core.arrow(scan.source), column)
    return 0


def count_values(table: pa.Table, column: str) -> int:
    """The approximate number of distinct values of a column."""
    values = table.column(column).drop_null()
    if len(values) == 0:
        return 0
    if pa.types.is_integer(values.type) or pa.types.is_date32(values.type):
        counted = _count_in_range(values)
        if counted is not None:
            return counted
    if len(values) <= _SAMPLE:
        return _count(values)
    step = len(values) // _SAMPLE
    sample = values.take(np.arange(0, step * _SAMPLE, step))
    return _estimate(_count(sample), _SAMPLE, len(values))


def _count(values: Any) -> int:
    if pa.types.is_nested(values.type):
        return len({repr(each) for each in values.to_pylist()})
    return int(pc.count_distinct(values).as_py())


def _count_in_range(values: Any) -> int | None:
    """Count distinct integers with a bitmap over their range; None if the range is too wide."""
    words = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    values = values.cast(words)
    bounds = pc.min_max(values).as_py()
    low, high = bounds["min"], bounds["max"]
    if high - low > _RANGE * len(values) + 1024:
        return None
    seen = np.zeros(high - low + 1, np.bool_)
    for chunk in values.chunks:
        seen[chunk.to_numpy(zero_copy_only=False).astype(np.int64) - low] = True
    return int(np.count_nonzero(seen))


def _estimate(seen: int, sample: int, rows: int) -> int:
    """Values in all rows, from those in a sample, if all values are equally frequent.

    >>> _estimate(100, 50_000, 1_000_000)
    100
    >>> _estimate(50_000, 50_000, 1_000_000)
    1000000
    """
    if seen == sample:
        return rows
    low, high = float(seen), float(rows)
    for _ in range(60):  # d values show d * (1 - (1 - 1/d)^n) of themselves in n rows
        middle = (low + high) / 2
        shown = middle * -np.expm1(sample * np.log1p(-1 / middle)) if middle > 1 else 1.0
        low, high = (middle, high) if shown < seen else (low, middle)
    return min(rows, round(low))
