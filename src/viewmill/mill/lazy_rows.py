"""Enumerate the rows of a factorized view on demand.

takes  a view's entry
gives  record batches one after another, the first rows, or the few that a SELECT needs
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Aggregate, Limit, Project, Relation, Scan
from viewmill.deltas.arrow import arrow_schema
from viewmill.deltas.delta import Delta
from viewmill.errors import InvalidArgument
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core

_ROWS_PER_BATCH = 65536


def lazy_batches(core: Core, entry: ViewEntry) -> Iterator[Any] | None:
    """The rows as record batches, enumerated on demand; None for a listed view."""
    if entry.enumerator is None:
        return None
    return _batches(core, entry, entry.enumerator.deltas())


def _batches(core: Core, entry: ViewEntry, deltas: Iterator[Delta]) -> Iterator[Any]:
    begun, dictionary = (entry.refreshes, entry.enumerator.moves), core.dictionary
    while True:
        with core.lock:
            core.require_open()
            if (entry.refreshes, entry.enumerator.moves) != begun or entry.dropped:
                raise InvalidArgument(
                    f'view "{entry.name}" changed while its rows were read',
                    detail="A factorized view makes its rows when they are asked for.",
                    hint="Start again, or take all at once: to_arrow().",
                )
            delta = next(deltas, None)
            if delta is None:
                return
            table = expanded(delta, dictionary)
        yield from table.to_batches()


def first_rows(core: Core, entry: ViewEntry, count: int) -> Any:
    """The first rows as an Arrow table, without enumerating others; None for a listed view."""
    if entry.enumerator is None:
        return None
    reader = _batches(core, entry, entry.enumerator.deltas(min(max(count, 1), _ROWS_PER_BATCH)))
    found, held = [], 0
    while held < count and (batch := next(reader, None)) is not None:
        found.append(batch)
        held += batch.num_rows
    schema = found[0].schema if found else arrow_schema(entry.schema)
    return pa.Table.from_batches(found, schema).slice(0, count)


def rows_for_limit(core: Core, query: Relation) -> dict[str, Any]:
    """The first rows of a factorized view, if a query is SELECT columns of it with a LIMIT."""
    if not isinstance(query, Limit) or query.count is None:
        return {}
    inner = query.input
    while isinstance(inner, Project):
        inner = inner.input
    entry = core.catalog.get(inner.source) if isinstance(inner, Scan) else None
    if not isinstance(entry, ViewEntry) or entry.enumerator is None:
        return {}
    return {entry.name.lower(): first_rows(core, entry, query.count + query.offset)}


def counted_view(core: Core, query: Relation) -> tuple[str, int] | None:
    """The column name and the number, if a query is SELECT COUNT(*) FROM a factorized view."""
    if not isinstance(query, Project) or len(query.outputs) != 1:
        return None
    (name, shown), group = query.outputs[0], query.input
    if not isinstance(group, Aggregate) or group.keys or len(group.aggregates) != 1:
        return None
    (own, call) = group.aggregates[0]
    is_count = (
        isinstance(call, AggregateCall)
        and call.function == "count"
        and not call.arguments
        and call.where is None
        and isinstance(shown, Column)
        and shown.name == own
    )
    scan = group.input
    while isinstance(scan, Project):
        scan = scan.input
    entry = core.catalog.get(scan.source) if is_count and isinstance(scan, Scan) else None
    if isinstance(entry, ViewEntry) and entry.enumerator is not None:
        return name, entry.enumerator.count()
    return None
