"""The fast path of a commit: a small delta of one table, with every view refreshed at once.

takes  a delta that no deferred view waits for and no window or preparation reads
does   what `refresh.commit_batch` does, with the steps left out that have nothing to do
"""

from __future__ import annotations

from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, as_delta
from viewmill.mill import adaptive_recompute
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.refresh import append, commit_batch, is_appended, note_refresh, undo
from viewmill.mill.snapshots import note_changes

_NOBODY: set[str] = set()


def is_small_commit(core: Core, entry: TableEntry, change: Changed) -> bool:
    """Whether the fast path applies: nothing to admit, defer or recompute."""
    return (
        type(change) is Delta
        and entry.table.is_timeless
        and 0 < change.size < adaptive_recompute.LEAST_ROWS
        and core.catalog.is_all_immediate()
        and not (core.preparations or core.families or core.has_lost or core.starting)
        and core.runtime.reads_rows_only(entry.name)
    )


def commit_small(core: Core, entry: TableEntry, delta: Delta) -> None:
    """Stage the rows, refresh the views, log and keep; an error leaves everything as it was."""
    table, store, version = entry.table, core.store, core.version + 1
    given, outputs = delta, dict[str, Delta]()
    try:
        if not table.takes_all:
            delta = as_delta(table.as_held(delta))
            table.stage(delta)
        outputs = core.runtime.refresh_rows(entry.name, delta, core.catalog.immediate())
        if store is not None:
            append(core, store, version, ((entry, delta),))
    except BaseException as why:
        if not is_appended(core, version):
            if table.takes_all:
                table.stage(delta)  # who judges whether a plan is at fault reads the rows as of now
            instead = undo(core, why, {entry.name: given}, (entry,))
            if instead is None:
                raise
            commit_batch(core, instead)
            return
        # An interrupt after the commit point: the change is durable, so it stays.
        _keep(core, entry, delta, outputs)
        raise
    _keep(core, entry, delta, outputs)


def _keep(core: Core, entry: TableEntry, delta: Delta, outputs: dict[str, Delta]) -> None:
    now, table, catalog = core.now(), entry.table, core.catalog
    core.version += 1
    core.commits.count += 1
    arrivals = entry.arrivals or core.arrivals_of(entry)
    arrivals.note(delta.size, delta.deletes, table.rows, now)
    if table.takes_all:
        table.keep(delta, core.version)
    else:
        table.commit(core.version)
    core.runtime.commit()
    if core.noting:
        note_changes(core.noting, {entry.name: delta})
    for name, output in outputs.items():
        note_refresh(core, catalog.view(name), output, now, _NOBODY)
