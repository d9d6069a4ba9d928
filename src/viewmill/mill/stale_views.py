"""Recover deferred views whose query fails over the present rows.

Opening a mill fills each view from the present rows. If the query of a deferred view fails over
them, the view is restored to its last version: filled from the rows of that version, with the later
changes waiting. The version is stored with the first change that waits for the view. The changes
are in the log; a checkpoint keeps a copy of those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewmill.algebra.walk import scans
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import without
from viewmill.deltas.delta import concat
from viewmill.deltas.product import Changed, as_delta
from viewmill.errors import EvaluationFailed, Overflow
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import names_in, prepare_view, view_record
from viewmill.mill.refresh import MULTIPLICITY, netted
from viewmill.mill.store import Store
from viewmill.mill.table import Table
from viewmill.mill.window_families import windows_in
from viewmill.program.kept_parts import KeptParts
from viewmill.sql.statements import CreateMaterializedView

Waiting = dict[str, list[Changed]]


@dataclass(frozen=True)
class History:
    """The changes in the log by table key and version, and a decoder for stored changes."""

    store: Store
    changes: Mapping[str, list[tuple[int, Changed]]]
    decode: Callable[[Table, Any], Changed]


def stale_records(core: Core, changed: Iterable[str]) -> dict[str, str]:
    """The catalog records of the views that a change makes stale, with their version."""
    names, found = {name.lower() for name in changed}, {}
    for entry in core.catalog.deferred():
        if entry.reads.isdisjoint(names) or not _can_return(core, entry):
            continue
        version = entry.version if entry.waiting_rows else core.version
        if entry.stored_version != version:
            entry.stored_version = version
            found[entry.name] = view_record(entry)
    return found


def _can_return(core: Core, entry: ViewEntry) -> bool:
    """Whether the rows of its tables determine those of a view: no parts and no windows."""
    if isinstance(entry.block.maintainer, KeptParts) or windows_in(entry):
        return False
    if any(scan.window is not None for scan in scans(entry.query)):
        return False
    return all(is_plain_table(core, name) for name in entry.reads)


def is_plain_table(core: Core, name: str) -> bool:
    """Whether a name is a table without parts."""
    found = core.catalog.get(name)
    return isinstance(found, TableEntry) and found.table.parts is None


def stale_checkpoint(core: Core) -> tuple[dict[str, Any], dict[str, str]]:
    """For a checkpoint: the waiting changes of stale views, and the version of each view."""
    states: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for entry in core.catalog.deferred():
        if entry.waiting_rows and _can_return(core, entry):
            notes[_note_name(entry.name, entry.created)] = str(entry.version)
            for source, change in netted(entry).items():
                rows = decode_delta(change, core.dictionary, multiplicity=MULTIPLICITY)
                states[_state_name(entry.name, entry.created, source)] = rows
    return states, notes


def _note_name(view: str, created: int) -> str:
    return f"version of {view.lower()}@{created}"


def _state_name(view: str, created: int, source: str) -> str:
    return f"waiting in {source.lower()} for {view.lower()}@{created}"


def open_stale_view(
    core: Core,
    history: History,
    saved: Mapping[str, Any],
    statement: CreateMaterializedView,
    why: Overflow | EvaluationFailed,
) -> ViewEntry:
    """Restore a view at its last version; raises `why` if the rows of that version are unknown."""
    names = names_in(core, statement.query)
    if "stale" not in saved or not all(is_plain_table(core, name) for name in names):
        raise why
    store, own = history.store, _note_name(statement.name, saved["created"])
    # A view that was fresh at the checkpoint has at least the checkpoint's version.
    known = int(store.notes().get(own, store.checkpoint_version()))
    version = max(saved["stale"], known)
    waiting = _waiting(core, history, version, statement.name, saved["created"], names)
    rows = {
        name: without(core.contents(name), concat(changes[0].schema, list(map(as_delta, changes))))
        for name, changes in waiting.items()
    }
    with core.reading(rows):
        entry = prepare_view(core, statement, saved["sql"])
    entry.version = version
    entry.waiting = waiting
    entry.waiting_rows = sum(each.size for changes in waiting.values() for each in changes)
    entry.waiting_since, entry.failure = core.now(), why.message
    return entry


def _waiting(
    core: Core, history: History, version: int, view: str, created: int, names: Iterable[str]
) -> Waiting:
    """The changes of each table after a version, from the checkpoint and the log."""
    found: Waiting = {}
    for name in names:
        table = core.catalog.table(name)
        kept = history.store.load_state(_state_name(view, created, table.name))
        changes = [c for v, c in history.changes.get(table.key, ()) if v > version]
        if kept is not None and version < history.store.checkpoint_version():
            changes.insert(0, history.decode(table.table, kept))
        if changes:
            found[table.name] = changes
    return found
