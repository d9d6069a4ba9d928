"""Batches: several changes of one thread that become one version.

takes  changes and upserts of tables, in order
gives  the change of each table when the batch ends, relative to the tables at that time

Other threads may commit in the meantime, so the rows that an upsert replaces are looked up at the
end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, Product, as_delta, joined
from viewmill.errors import InvalidArgument
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core


@dataclass
class _Pending:
    """The changes of one table, each with whether it is an upsert."""

    entry: TableEntry
    parts: list[tuple[Delta | Product, bool]] = field(default_factory=list)


class Batch:
    """The changes of an open batch. In one that was left they are never committed."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}
        self.was_left = False  # by an exception

    def take(self, entry: TableEntry, *parts: Delta | Product) -> None:
        """Add changes of a table."""
        self._of(entry).parts += [(each, False) for each in parts]

    def upsert(self, entry: TableEntry, delta: Delta) -> None:
        """Add rows that replace those with the same keys."""
        entry.table.replacement(Delta.empty(delta.schema), None)  # raises if there is no key
        self._of(entry).parts.append((delta, True))

    def _of(self, entry: TableEntry) -> _Pending:
        return self._pending.setdefault(entry.name, _Pending(entry))

    def changes(self, core: Core) -> dict[str, Changed]:
        """The change of each table; raises if one was dropped meanwhile."""
        for name, pending in self._pending.items():
            if core.catalog.get(name) is not pending.entry:
                raise InvalidArgument(
                    f'table "{name}" was dropped while a batch that changes it was open',
                    hint="Nothing of the batch was changed.",
                )
        return {name: _change(each) for name, each in self._pending.items()}


def _change(pending: _Pending) -> Changed:
    table, parts = pending.entry.table, list[Delta | Product]()
    for part, is_upsert in pending.parts:
        if is_upsert:
            assert isinstance(part, Delta)
            before = consolidate(as_delta(joined(table.schema, parts))) if parts else None
            parts.append(table.replacement(part, before))
        else:
            parts.append(part)
    return joined(table.schema, parts)
