"""Bring views that were opened from snapshots to the version of the log's end.

takes  views with the states of the checkpoint, and the changes of tables since
does   one refresh of all immediate views with the net change; deferred views take what they had
       taken, and the rest waits for them again
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from viewmill.deltas.consolidate import cancelled
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, as_delta
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.stale_views import History, Waiting, changes_since, is_stale, leave_waiting

_LOG = logging.getLogger("viewmill")


def take_tail(core: Core, history: History, entries: Sequence[ViewEntry]) -> None:
    """Let restored views take the changes after their snapshots."""
    immediate = [each for each in entries if each.is_immediate]
    tables = {name for each in immediate for name in each.reads if _is_table(core, name)}
    changes = {}
    for name in tables:
        entry = core.catalog.table(name)
        changes[entry.name] = [change for _, change in history.changes.get(entry.key, ())]
    _refresh(core, changes, immediate)
    for each in entries:
        if not each.is_immediate:
            _take_waiting(core, history, each)


def _is_table(core: Core, name: str) -> bool:
    return any(each.name.lower() == name for each in core.catalog.tables())


def _refresh(core: Core, changes: dict[str, list[Changed]], entries: Iterable[ViewEntry]) -> None:
    """Apply the net change of some tables to some views, and commit it."""
    by_name = {each.name: each for each in entries}
    deltas: dict[str, Changed] = {n: _net(each) for n, each in changes.items() if each}
    if deltas and by_name:
        outputs = core.runtime.refresh(deltas, set(by_name))
        core.runtime.commit()
        for name, output in outputs.items():
            by_name[name].kept_rows += output.net_rows
    for entry in by_name.values():
        entry.version = core.version


def _net(changes: Sequence[Changed]) -> Delta:
    return cancelled(concat(changes[0].schema, [as_delta(each) for each in changes]))


def _take_waiting(core: Core, history: History, entry: ViewEntry) -> None:
    """Let a deferred view take the changes up to its last refresh; the later ones wait."""
    saved = {"created": entry.created}
    if entry.stored_version is not None:
        saved["stale"] = entry.stored_version
    is_fresh = not is_stale(core, history.store, entry.name, saved)
    until = core.version if is_fresh else max(entry.stored_version or 0, entry.version)
    taken: Waiting = {}
    left: Waiting = {}
    for name, changes in changes_since(core, history, entry).items():
        for version, change in changes:
            (taken if version <= until else left).setdefault(name, []).append(change)
    _refresh(core, taken, [entry])
    if left:
        entry.version = until
        leave_waiting(core, entry, left)


def note_opened(core: Core, name: str, why: str) -> None:
    """Say how a view was opened that could not be restored from a snapshot."""
    entry = core.catalog.get(name)
    if isinstance(entry, ViewEntry) and entry.opened is None:
        entry.opened = f"computed: {why}" if why else "computed"
        if why:
            _LOG.info("view %s was computed when the mill was opened: %s", entry.name, why)
