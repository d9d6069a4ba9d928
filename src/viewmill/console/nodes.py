"""The list and the graph of tables and views, a page at a time.

takes  a mill, a filter and the number of a page
gives  the tables and views of that page with their facts, what they read, and how many there are
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from viewmill.algebra.walk import sources
from viewmill.console.watch import is_shown
from viewmill.mill.catalog import BrokenEntry, PlainEntry, TableEntry, ViewEntry
from viewmill.mill.mill import Mill
from viewmill.mill.sharing import shared_with

PAGE = 50
FACTS = ("freshness", "rows", "rows_changed", "refreshes", "refresh_kind", "strategy", "tier",
         "lag_s", "waiting_rows", "state_bytes", "error")  # fmt: skip

Node = TableEntry | ViewEntry | BrokenEntry


@dataclass(frozen=True)
class Asked:
    """Which nodes, and which page of them."""

    text: str = ""  # in the name
    only: str = ""  # a kind, "stale" or "failing"
    page: int = 0


def page_of_nodes(mill: Mill, asked: Asked, sinks: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """One page of tables and views, tables first, and how they hang together."""
    core = mill.core
    failing = {name for name, each in mill.sources().items() if each["error"]}
    with core.lock:
        everything = _nodes(mill)
        found = [each for each in everything if _is_asked(each, asked, failing)]
        found.sort(key=lambda each: (not isinstance(each, TableEntry), each.name.lower()))
        last = max(0, (len(found) - 1) // PAGE)
        page = min(max(0, asked.page), last)
        shown = found[page * PAGE : (page + 1) * PAGE]
        nodes = [node_facts(mill, each) for each in shown]
        return {
            "nodes": nodes,
            "outside": _outside(mill, nodes),
            "sinks": [each for each in sinks if each["view"] in {node["name"] for node in nodes}],
            "found": len(found),
            "page": page,
            "pages": last + 1,
            "tables": sum(isinstance(each, TableEntry) for each in everything),
            "views": sum(not isinstance(each, TableEntry) for each in everything),
        }


def _nodes(mill: Mill) -> list[Node]:
    catalog = mill.core.catalog
    tables = [each for each in catalog.tables() if is_shown(each.name)]
    return [*tables, *catalog.views(), *catalog.broken()]


def _is_asked(entry: Node, asked: Asked, failing: set[str]) -> bool:
    if asked.text.lower() not in entry.name.lower():
        return False
    match asked.only:
        case "tables":
            return isinstance(entry, TableEntry)
        case "views":
            return not isinstance(entry, TableEntry)
        case "stale":
            return isinstance(entry, ViewEntry) and bool(entry.waiting_rows or entry.outdated)
        case "failing":
            return _is_failing(entry) or entry.name in failing
        case _:
            return True


def _is_failing(entry: Node) -> bool:
    if isinstance(entry, ViewEntry):
        return bool(entry.failure or entry.outdated)
    return isinstance(entry, BrokenEntry)


def node_facts(mill: Mill, entry: Node) -> dict[str, Any]:
    """A table or view as one line shows it."""
    match entry:
        case TableEntry():
            facts = {"kind": "table", "rows": entry.table.rows, "version": entry.table.version}
            return {"name": entry.name, "reads": [], **facts, **source_facts(mill, entry)}
        case BrokenEntry():
            facts = {"kind": "broken", "freshness": "broken", "error": entry.reason}
            return {"name": entry.name, "reads": _reads(mill, entry.reads), **facts}
        case ViewEntry():
            status = mill.view(entry.name).status()
            facts = {"kind": "view", **{name: status[name] for name in FACTS}}
            facts["blocks"] = _blocks(mill, entry)
            return {"name": entry.name, "reads": _reads(mill, entry.reads), **facts}


def _blocks(mill: Mill, entry: ViewEntry) -> list[dict[str, Any]]:
    """The blocks that a view is cut into, but for the last one, which is the view itself."""
    blocks = entry.plan.blocks
    if len(blocks) < 2:
        return []
    shared = shared_with(entry)
    names = {each.name for each in blocks}
    return [
        {
            "name": each.name,
            "strategy": each.chosen.strategy,
            "same": str(id(entry.placed.get(each.name))),  # equal for one that views share
            "shared_with": sorted(shared.get(each.name, ())),
            "blocks": [name for name in sources(each.query) if name in names],
            "reads": _reads(mill, [name for name in sources(each.query) if name not in names]),
        }
        for each in blocks
    ]


def source_facts(mill: Mill, entry: TableEntry) -> dict[str, Any]:
    """The source that a table follows; nothing if it follows none."""
    found = mill.sources().get(entry.name)
    if found is None:
        return {}
    return {
        "source": found["source"],
        "freshness": found["state"],
        "error": found["error"],
        "source_rows": found["rows"],
        "caught_up": time.time() - found["lag_s"],  # seconds since 1970
    }


def _reads(mill: Mill, names: Iterable[str]) -> list[str]:
    """Names in the case they were created with; those of plain views are left out."""
    found = [mill.core.catalog.get(name) for name in sorted(names)]
    known = [each for each in found if each is not None and not isinstance(each, PlainEntry)]
    return [each.name for each in known if is_shown(each.name)]


def _outside(mill: Mill, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What nodes of this page read and other pages have, at most one page of it."""
    here = {each["name"] for each in nodes}
    names = dict.fromkeys(name for each in nodes for name in each["reads"] if name not in here)
    entries = [mill.core.catalog.get(name) for name in list(names)[:PAGE]]
    return [
        {"name": each.name, "kind": "table" if isinstance(each, TableEntry) else "view"}
        for each in entries
        if each is not None
    ]
