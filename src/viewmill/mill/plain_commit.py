"""Commit rows of one table where only memory is concerned: what comes most often, in few steps.

takes  the rows of a table that needs no check, of a mill without a store whose views all take every
       change as it comes
does   what `refresh.commit_batch` does
"""

from __future__ import annotations

from viewmill.deltas.delta import Delta
from viewmill.errors import EvaluationFailed, Overflow
from viewmill.mill import adapt
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.refresh import commit_batch, note_refresh, take_back

_NOBODY: set[str] = set()


def is_plain(core: Core, entry: TableEntry, delta: Delta) -> bool:
    """Whether there is nothing to do but to refresh and to keep."""
    return (
        entry.table.takes_all
        and 0 < delta.size < adapt.LEAST_ROWS
        and core.store is None
        and core.catalog.is_all_immediate()
        and not (core.preparations or core.families or core.has_lost)
        and core.runtime.reads_rows_only(entry.name)
    )


def commit_plainly(core: Core, entry: TableEntry, delta: Delta) -> None:
    """Apply rows that come, and refresh the views; an error leaves all as it was."""
    table, catalog, runtime = entry.table, core.catalog, core.runtime
    try:
        outputs = runtime.refresh_rows(entry.name, delta, catalog.immediate())
    except BaseException as why:
        take_back(core, (), why)
        if isinstance(why, Overflow | EvaluationFailed):
            commit_batch(core, {entry.name: delta})  # which finds out whether that is the view's
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
