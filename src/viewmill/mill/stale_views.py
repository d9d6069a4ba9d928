"""Recover deferred views whose query fails over the present rows.

Opening a mill fills each view from the present rows. If the query of a deferred view fails over
them, the view is restored to its last version: filled from the rows of that version, with the later
changes waiting. The version is stored with the first change that waits for the view. The changes
are in the log; a checkpoint keeps a copy of those before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewmill.algebra.walk import scans
from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.consolidate import without
from viewmill.deltas.delta import concat
from viewmill.deltas.product import Changed, as_delta
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import names_in, prepare_view, view_record
from viewmill.mill.refresh import MULTIPLICITY, netted
from viewmill.mill.store import Store
from viewmill.mill.table import Table
from viewmill.mill.window_families import windows_in
from viewmill.program.program import Timed
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
    if entry.kept_parts is not None or windows_in(entry):
        return False
    if any(isinstance(block.program.body, Timed) for block in entry.blocks):
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
    why: str | None,
) -> ViewEntry | None:
    """Restore a view at its last version; None if the rows of that version are unknown.

    `why` is what refreshing it failed with.
    """
    names = names_in(core, statement.query)
    if "stale" not in saved or not all(is_plain_table(core, name) for name in names):
        return None
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
    leave_waiting(core, entry, waiting)
    entry.failure = why
    return entry


def leave_waiting(core: Core, entry: ViewEntry, waiting: Waiting) -> None:
    """Let changes wait for a view."""
    entry.waiting = waiting
    entry.waiting_rows = sum(each.size for changes in waiting.values() for each in changes)
    entry.waiting_since = core.now()


# Which views were refreshed since the store noted that they are stale. Not synced: after a power
# loss a view may be as stale as it was some refreshes ago.
REFRESHED = "refreshed.json"


def note_refreshed(core: Core, entry: ViewEntry) -> None:
    """Note in the directory that a view, of which the store says that it is stale, is fresh."""
    store = core.store
    if store is None or core.read_only or entry.stored_version is None:
        return
    views = {view_key(each.name, each.created) for each in core.catalog.deferred()}
    noted = {key: version for key, version in _noted(store).items() if key in views}
    noted[view_key(entry.name, entry.created)] = core.version
    with core.after_commit("noting a refresh"):
        store.write_beside(REFRESHED, json.dumps(noted).encode())


def _noted(store: Store) -> dict[str, int]:
    """The version of the last refresh of views, as far as it is known."""
    try:
        noted = json.loads(store.read_beside(REFRESHED) or b"{}")
        return {str(key): int(version) for key, version in noted.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


def is_stale(core: Core, store: Store, view: str, saved: Mapping[str, Any]) -> bool:
    """Whether changes waited for a view when the mill was closed or killed."""
    if "stale" not in saved or saved["stale"] >= core.version:
        return False
    waited = _note_name(view, saved["created"]) in store.notes()
    if saved["stale"] < store.checkpoint_version() and not waited:
        return False  # it was fresh at the checkpoint, and nothing came for it since
    noted = _noted(store).get(view_key(view, saved["created"]))
    return noted is None or noted <= saved["stale"]


def view_key(view: str, created: int) -> str:
    """Names a view; one that is created again has another key."""
    return f"{view.lower()}@{created}"


def _waiting(
    core: Core, history: History, version: int, view: str, created: int, names: Iterable[str]
) -> Waiting:
    """The changes of each table after a version, from the checkpoint and the log."""
    found: Waiting = {}
    for name, changes in _changes(core, history, view, created, names).items():
        later = [change for v, change in changes if v > version]
        if later:
            found[name] = later
    return found


def changes_since(
    core: Core, history: History, entry: ViewEntry
) -> dict[str, list[tuple[int, Changed]]]:
    """What waited for a view at the checkpoint, as of its version, and the changes since."""
    return _changes(core, history, entry.name, entry.created, entry.reads)


def _changes(
    core: Core, history: History, view: str, created: int, names: Iterable[str]
) -> dict[str, list[tuple[int, Changed]]]:
    found = {}
    for name in names:
        table = core.catalog.table(name)
        changes = list(history.changes.get(table.key, ()))
        kept = history.store.load_state(_state_name(view, created, table.name))
        if kept is not None:
            at_checkpoint = history.store.checkpoint_version()
            changes.insert(0, (at_checkpoint, history.decode(table.table, kept)))
        found[table.name] = changes
    return found
