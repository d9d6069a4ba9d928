"""Views in parts by brute force: what INITIALIZE and UPDATE make of all rows that were admitted.

single   SELECT k, count(*) FROM s[i] GROUP BY k
joined   SELECT count(*) FROM s[i] JOIN d ON s.k = d.k, where d is a table without parts
coarse   SELECT count(*) FROM s[i*3..i*3+2], in parts three times as long
running  a count that each part carries on from the part before
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from viewmill.testing.oracle import Row, canonical
from viewmill.testing.sessions.world import Table, View


def note_start(view: View, tables: Mapping[str, Table]) -> None:
    """Note the part that a view starts with, once it can be computed: older rows may come first."""
    kind, table = view.definition["parts"], tables[view.definition["stream"]]
    newest, oldest = _newest(kind, table), _oldest(kind, table)
    if view.first_part is not None or newest is None:
        return
    first = newest if view.last is None else oldest
    view.first_part = first if first is not None and first <= newest else None


def part_rows(view: View, tables: Mapping[str, Table]) -> list[Row]:
    """The rows of the newest part of a view."""
    note_start(view, tables)
    kind, table = view.definition["parts"], tables[view.definition["stream"]]
    first, newest = view.first_part, _newest(kind, table)
    if first is None or newest is None or newest < first:
        return []
    k = table.roles.index("k")
    width = 3 if kind == "coarse" else 1
    parts = [(table.part_of(row) // width, row[k]) for row in table.held()]
    if kind == "single":
        return list(Counter(key for part, key in parts if part == newest).items())
    if kind == "running":
        return [(sum(part >= first for part, _ in parts),)]
    if kind == "joined":
        return [(_joined([key for part, key in parts if part == newest], view, tables),)]
    return [(sum(part == newest for part, _ in parts),)]


def _newest(kind: str, table: Table) -> int | None:
    newest = table.newest_part
    return newest if newest is None or kind != "coarse" else (newest - 2) // 3


def _oldest(kind: str, table: Table) -> int | None:
    parts = [table.part_of(row) for row in table.held()]
    if not parts:
        return None
    return -((2 - min(parts)) // 3) if kind == "coarse" else min(parts)


def _joined(keys: list[Any], view: View, tables: Mapping[str, Table]) -> int:
    other = tables[view.definition["other"]]
    there = Counter(canonical(row[other.roles.index("k")]) for row in other.rows())
    return sum(there[key] for key in keys if key is not None)
