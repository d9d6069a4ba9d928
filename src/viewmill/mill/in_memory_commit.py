"""The fast path of a commit: a small delta of one unchecked table in a mill without a store.

takes  a delta that needs no validation and no log record, and that no deferred view waits for
does   what `refresh.commit_batch` does, with the steps left out that have nothing to do
"""

from __future__ import annotations

from viewmill.deltas.delta import Delta
from viewmill.errors import EvaluationFailed, Overflow
from viewmill.mill import adaptive_recompute
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.refresh import commit_batch, note_refresh, roll_back

_NOBODY: set[str] = set()


def is_in_memory_commit(core: Core, entry: TableEntry, delta: Delta) -> bool:
    """Whether the fast path applies: nothing to validate, log, defer or recompute."""
    return (
        entry.table.takes_all
        and 0 < delta.size < adaptive_recompute.LEAST_ROWS
        and core.store is None
        and core.catalog.is_all_immediate()
        and not (core.preparations or core.families or core.has_lost)
        and core.runtime.reads_rows_only(entry.name)
    )


def commit_in_memory(core: Core, entry: TableEntry, delta: Delta) -> None:
    """Refresh the views and keep the rows; an error leaves everything as it was."""
    table, catalog, runtime = entry.table, core.catalog, core.runtime
    try:
        outputs = runtime.refresh_rows(entry.name, delta, catalog.immediate())
    except BaseException as why:
        roll_back(core, (), why)
        if isinstance(why, Overflow | EvaluationFailed):
            commit_batch(core, {entry.name: delta})  # which finds out whether a plan is at fault
            return
        raise
    now, core.version = core.now(), core.version + 1
    core.commits.count += 1
    arrivals = entry.arrivals or core.arrivals_of(entry)
    arrivals.note(delta.size, delta.deletes, table.rows, now)
    table.keep(delta, core.version)
    runtime.commit()
    for name, output in outputs.items():
        note_refresh(core, catalog.view(name), output, now, _NOBODY)
