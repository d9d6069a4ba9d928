"""All about one table or view, and its first rows.

takes  a mill and a name
gives  plain data for the page of that table or view
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from viewmill.algebra.names import quoted
from viewmill.console.nodes import node_facts, source_facts
from viewmill.console.replies import rows_reply
from viewmill.console.watch import Watch, is_shown
from viewmill.errors import UnknownName, nearest
from viewmill.mill.catalog import BrokenEntry, Entry, PlainEntry, TableEntry, ViewEntry
from viewmill.mill.mill import Mill

SHOWN = 50
PLAN = ("strategy", "incremental", "reason", "chosen", "offered", "rejected", "states",
        "result_bytes", "policies", "adaptive", "windows")  # fmt: skip


def _entry(mill: Mill, name: str) -> TableEntry | ViewEntry | BrokenEntry:
    found = mill.core.catalog.get(name)
    if found is None or isinstance(found, PlainEntry) or not is_shown(found.name):
        hint = nearest(name, mill.core.catalog.names())
        raise UnknownName(f'no table or materialized view "{name}"', hint=hint)
    return found


def details(mill: Mill, watch: Watch, name: str) -> dict[str, Any]:
    """Definition, plan, status and history."""
    with mill.core.lock:
        entry = _entry(mill, name)
        known = {**node_facts(mill, entry), "sql": entry.sql}
        known["readers"] = sorted(_names(mill.core.catalog.readers(entry.name)))
        match entry:
            case TableEntry():
                return {**known, "columns": _columns(entry), "status": mill_table(mill, entry)}
            case BrokenEntry():
                return known
            case ViewEntry():
                return {**known, **_of_view(mill, watch, entry)}


def _of_view(mill: Mill, watch: Watch, entry: ViewEntry) -> dict[str, Any]:
    view = mill.view(entry.name)
    explained = view.explain()
    return {
        "status": view.status(),
        "plan": {key: explained.record[key] for key in PLAN},
        "text": str(explained),
        "history": [asdict(each) for each in watch.of_view(entry.name)],
    }


def mill_table(mill: Mill, entry: TableEntry) -> dict[str, Any]:
    """The status of a table."""
    table = entry.table
    return {
        "rows": table.rows,
        "bytes": table.nbytes,
        "version": table.version,
        "options": str(table.options),
        "refused": 0 if table.parts is None else table.parts.refused_count,
        **source_facts(mill, entry),
    }


def _columns(entry: TableEntry) -> list[dict[str, Any]]:
    fields = entry.table.schema
    return [{"name": e.name, "type": str(e.type), "nullable": e.nullable} for e in fields]


def _names(entries: list[Entry]) -> list[str]:
    return [each.name for each in entries if not isinstance(each, PlainEntry)]


def plan_picture(mill: Mill, name: str) -> str:
    """The plan of a view as SVG."""
    return str(mill.view(name).explain("svg"))


def first_rows(mill: Mill, name: str) -> dict[str, Any]:
    """The first rows of a table or view."""
    entry = _entry(mill, name)
    if isinstance(entry, BrokenEntry):
        raise entry.error()
    if isinstance(entry, ViewEntry):
        view = mill.view(entry.name)
        return rows_reply(view.head(SHOWN), view.count())
    found = mill.sql(f"SELECT * FROM {quoted(entry.name)} LIMIT {SHOWN}").to_arrow()
    return rows_reply(found, entry.table.rows)
