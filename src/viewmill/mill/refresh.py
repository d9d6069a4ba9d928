"""Bring tables and views from one version to the next, atomically.

takes  the change of each table
does   stage tables → refresh blocks → append to the store (the commit point) → commit → notify
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import count
from typing import Any

from viewmill.algebra.clock import CLOCK, watched_tables
from viewmill.algebra.walk import scans
from viewmill.deltas.arrow import decode_delta, shown_row
from viewmill.deltas.consolidate import cancelled, consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, Pieces, Product, as_delta, parts_of
from viewmill.deltas.product_arrow import encode_product
from viewmill.errors import EvaluationFailed, Outgrown, OutOfMemory, Overflow, ViewmillError
from viewmill.mill.archive import keep_old_parts
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import restore_lost
from viewmill.mill.memory import refresh_blocks, release_states
from viewmill.mill.part_folders import write_parts
from viewmill.mill.snapshots import note_changes
from viewmill.mill.store import Store
from viewmill.mill.window_families import fill_new_windows
from viewmill.policies.policies import is_due
from viewmill.program.patterns import PatternQueries
from viewmill.program.threads import caller, is_twin

MULTIPLICITY = "_multiplicity"

_LOG = logging.getLogger("viewmill")
_NOBODY: set[str] = set()


def commit_batch(core: Core, changes: Mapping[str, Changed]) -> bool:
    """Apply the change of each table and refresh what is due; an error leaves all as it was.

    Gives whether there are deferred views.
    """
    _commit(core, changes)
    if not core.catalog.deferred():
        return False
    refresh_due(core, reading=None)
    return True


def _commit(core: Core, changes: Mapping[str, Changed]) -> None:
    table_of = core.catalog.table
    entries = [(table_of(name), each) for name, each in changes.items() if each.size]
    if not entries:
        return
    if core.has_lost:
        restore_lost(core)
        if core.has_lost:
            raise _out_of_memory()
    core.tick()
    version = core.version + 1
    staged: list[TableEntry] = []
    reached = {each.name: core.watermark(each) for each, _ in entries if not each.table.is_timeless}
    outputs: dict[str, Delta] = {}
    admitted: list[tuple[TableEntry, Changed]] = []
    by_source: dict[str, Changed] = {}
    if core.runtime.has_families:
        fill_new_windows(core, [entry.name for entry, _ in entries])
    try:
        for entry, whole in entries:
            staged.append(entry)
            table = entry.table
            whole = table.as_held(whole)
            if table.is_timeless:
                table.stage(whole)
                by_source[entry.name] = whole
                admitted.append((entry, whole))
                continue
            change = table.admit(whole)
            admitted.append((entry, change))
            table.stage(change)
            by_source[entry.name] = with_expired(core, entry, change)
        outputs = refresh_blocks(core, by_source, core.catalog.immediate())
        for prepare in core.preparations:
            prepare(version, outputs)
        if core.store is not None:
            append(core, core.store, version, admitted)
    except BaseException as why:
        if not is_appended(core, version):
            instead = undo(core, why, changes, staged)
            if instead is None:
                raise
            _commit(core, instead)
            return
        # An interrupt after the commit point: the change is durable, so it stays.
        _keep(core, version, staged, by_source, outputs, reached)
        raise
    _keep(core, version, staged, by_source, outputs, reached)


def undo(
    core: Core, why: BaseException, changes: Mapping[str, Changed], staged: Iterable[TableEntry]
) -> Mapping[str, Changed] | None:
    """Undo a change that failed; gives what to commit in its place, None if nothing helps."""
    failed = views_to_replan(core, why, changes)
    _name_failing_view(core, why, changes)
    roll_back(core, staged, why)
    if failed and all(map(core.plan_carefully, failed)):
        return changes
    # Rows that cancel out within the batch must not make it fail: only its net effect counts.
    if isinstance(why, Overflow | EvaluationFailed) and _has_cancelling_rows(changes):
        return {name: consolidate(as_delta(each)) for name, each in changes.items()}
    return None


def _has_cancelling_rows(changes: Mapping[str, Changed]) -> bool:
    """Whether inserts and deletes of the same row cancel out within the batch."""
    return any(consolidate(as_delta(each)).size < each.size for each in changes.values())


def views_to_replan(
    core: Core, why: BaseException, changes: Mapping[str, Changed]
) -> list[ViewEntry]:
    """The views whose plan, not their query, is the cause of an error.

    Either numbers outgrew the plan, or the plan evaluates speculatively and the query itself does
    not fail over the rows as they are now. No view is replanned twice.
    """
    if not isinstance(why, Overflow | EvaluationFailed):
        return []
    found = [core.catalog.view(name) for name in core.runtime.applied_last()]
    if any(each.careful for each in found):
        return []
    if isinstance(why, Outgrown):
        return found
    if not found or _has_cancelling_rows(changes) or not all(map(speculates, found)):
        return []
    try:
        for each in found:
            core.run(each.query, view=each)
    except ViewmillError:
        return []
    return found


def _name_failing_view(core: Core, why: BaseException, changes: Mapping[str, Changed]) -> None:
    """Add the view to an error of a refresh, and the row if the engine did not name it."""
    views = ", ".join(f'"{name}"' for name in sorted(core.runtime.applied_last()))
    if not isinstance(why, Overflow | EvaluationFailed) or not views:
        return
    if " row" not in f" {why.detail}" and sum(each.size for each in changes.values()) == 1:
        ((table, change),) = ((n, as_delta(each)) for n, each in changes.items() if each.size)
        said = f"the row of {table}: {shown_row(change, 0, core.dictionary)}"
        why.detail = "; ".join(each for each in (why.detail, said) if each)
    why.detail = f"view {views}" + (f", {why.detail}" if why.detail else "")
    if isinstance(why, Outgrown) and not why.hint:
        why.hint = "Leave STRATEGY out of the view's statement: another plan keeps such numbers."


def speculates(entry: ViewEntry) -> bool:
    """Whether a plan may evaluate expressions for rows that the query excludes."""
    read = scans(entry.query)
    return entry.plan.is_incremental and len(read) > 1 and not any(each.window for each in read)


def roll_back(core: Core, staged: Iterable[TableEntry], why: BaseException) -> None:
    """Undo a failed change; a MemoryError becomes OutOfMemory."""
    core.runtime.rollback()
    for entry in staged:
        entry.table.rollback()
    restore_lost(core)
    release_states(core)
    if isinstance(why, MemoryError):
        raise _out_of_memory() from why


def _out_of_memory() -> OutOfMemory:
    return OutOfMemory(
        "there is no memory for this batch",
        detail="Nothing was changed.",
        hint='Smaller batches need less at once; connect(memory="2 GB") keeps states in bounds.',
    )


def with_expired(core: Core, entry: TableEntry, change: Changed) -> Changed:
    """The staged change of a table as views see it: with deletes of the rows that expire.

    Views in parts keep the results of expired rows, so if only such views read the table, the
    deletes are left out.
    """
    expired = None if entry.table.parts is None else entry.table.expire()
    if expired is None or all(_keeps_parts(each) for each in core.catalog.readers(entry.name)):
        return change
    return concat(change.schema, [as_delta(change), expired])


def _keeps_parts(entry: object) -> bool:
    return isinstance(entry, ViewEntry) and entry.kept_parts is not None


def _keep(
    core: Core,
    version: int,
    staged: Iterable[TableEntry],
    changed: Mapping[str, Changed],
    outputs: Mapping[str, Delta],
    reached: Mapping[str, int | None],
) -> None:
    now = core.now()
    core.commits.count += 1
    has_parts = False
    for entry in staged:
        table, change = entry.table, changed[entry.name]
        core.arrivals_of(entry).note(change.size, change.deletes, table.rows, now)
        table.commit(version)
        has_parts = has_parts or table.parts is not None
        if table.options.idle_after is not None:
            entry.heard = now
    publish(core, version, changed, outputs, now, reached)
    for change in changed.values():
        if isinstance(change, Pieces):
            change.forget_rows()
    if has_parts:
        maintain_parts(core)


def maintain_parts(core: Core) -> None:
    """After a commit: drop expired parts and write new ones to files; errors are only logged."""
    with core.after_commit("keeping old parts"):
        keep_old_parts(core)
    with core.after_commit("writing parts"):
        write_parts(core)


def is_appended(core: Core, version: int) -> bool:
    """Whether the store has committed a version."""
    return core.store is not None and core.store.has_committed(version)


def append(
    core: Core, store: Store, version: int, changes: Iterable[tuple[TableEntry, Changed]]
) -> None:
    """Append the changes of tables to the log: the commit point."""
    tables: dict[str, Any] = {}
    for entry, change in changes:
        packed = entry.table.row_bytes.pack(change) if isinstance(change, Delta) else None
        if packed is not None:
            tables[entry.key] = packed
            continue
        names = piece_names(entry.key)
        tables |= {next(names): encoded(core, part) for part in parts_of(change)}
    objects: dict[str, str | None] = {}
    for starting in core.starting.values():
        objects |= starting()
    if core.catalog.deferred():
        objects |= core.stale_records(entry.name for entry, _ in changes)
    objects |= core.time_record(())
    store.append(version, tables, objects)


def encoded(core: Core, part: Delta | Product) -> Any:
    """A piece of a change as an Arrow table."""
    if isinstance(part, Product):
        return encode_product(part, core.dictionary)
    return decode_delta(part, core.dictionary, multiplicity=MULTIPLICITY)


def piece_names(key: str) -> Iterator[str]:
    """The names of the pieces of one table's change in the log: t@3, t@3#1, t@3#2, ..."""
    yield key
    yield from (f"{key}#{i}" for i in count(1))


def piece_key(name: str) -> str:
    """The key of the table that a piece belongs to."""
    table, at, rest = name.rpartition("@")
    return f"{table}{at}{rest.partition('#')[0]}"


def publish(
    core: Core,
    version: int,
    changed: Mapping[str, Changed],
    outputs: Mapping[str, Delta],
    now: int,
    reached: Mapping[str, int | None] | None = None,
) -> None:
    """Publish a version: commit blocks, queue changes for deferred views, notify listeners.

    `reached` has the watermarks of tables before the change.
    """
    core.version, catalog = version, core.catalog
    runtime = core.runtime
    rebuilt = runtime.rebuilt()
    again = set(rebuilt) if rebuilt else _NOBODY
    runtime.commit()
    if core.noting:
        note_changes(core.noting, changed)
    for name, output in outputs.items():
        note_refresh(core, catalog.view(name), output, now, again)
    if catalog.deferred():
        _leave_waiting(core, changed, outputs, now, reached or {})
    if catalog.budgeted_views():
        release_states(core)


def _leave_waiting(
    core: Core,
    changed: Mapping[str, Changed],
    outputs: Mapping[str, Delta],
    now: int,
    reached: Mapping[str, int | None],
) -> None:
    """Queue the change for deferred views; a tick only for views that depend on time."""
    moved: dict[str, Changed] = {
        **changed,
        **{n: delta for n, delta in outputs.items() if delta.size or _is_in_parts(core, n)},
    }
    for entry in core.catalog.deferred():
        for name, delta in moved.items():
            is_read = name.lower() in entry.reads
            if entry.name in outputs or not (
                is_read or name.lower() in core.catalog.watched_tables()
            ):
                continue
            if (delta.size and is_read) or name in outputs or hears_ticks(entry, name):
                if name in reached:
                    entry.reached.setdefault(name, reached[name])
                _wait(entry, name, delta if is_read else Delta.empty(delta.schema), now)


def hears_ticks(entry: ViewEntry, table: str) -> bool:
    """Whether a view may change when the watermark of a table moves, without any row."""
    if entry.kept_parts is not None:
        return table.lower() in entry.reads
    if table.lower() in watched_tables(entry.query):
        return True
    return any(
        scan.window is not None and scan.window.unit == "time" and scan.source == table
        for scan in scans(entry.query)
    )


def leave_waiting_for_time(core: Core, entry: ViewEntry, before: int, nothing: Delta) -> None:
    """Note that the rows of a deferred view change by time alone, since a moment."""
    entry.reached.setdefault(CLOCK, before)
    if CLOCK not in entry.waiting:
        _wait(entry, CLOCK, nothing, core.now())


def _is_in_parts(core: Core, view: str) -> bool:
    """Whether a refreshed view may have new parts although its rows did not change."""
    return core.catalog.view(view).kept_parts is not None


def _wait(entry: ViewEntry, source: str, change: Changed, now: int) -> None:
    if entry.waiting_rows == 0:
        entry.waiting_since = now
    entry.waiting.setdefault(source, []).append(change)
    entry.waiting_rows += max(change.size, 1)  # an empty change may still stand for changed parts
    entry.failure = None


def note_refresh(core: Core, entry: ViewEntry, output: Delta, now: int, again: set[str]) -> None:
    """Record the refresh of a view and notify its listeners; `again` are recomputed views."""
    entry.version, entry.refreshed = core.version, now
    entry.refreshes += 1
    entry.refresh_kind = "full" if again and entry.name in again else _kind_of(entry)
    if output.size:
        if core.noting:
            note_changes(core.noting, {entry.name: output})
        entry.rows_changed += output.size
        entry.kept_rows += output.net_rows
        if entry.listeners:
            notify(core, entry, output)


def _kind_of(entry: ViewEntry) -> str:
    budgeted = entry.budgeted
    if not entry.plan.is_incremental or (budgeted is not None and budgeted.mode == "full"):
        return "full"
    if entry.plan.asks_engine:
        return "parts"
    return "rebuilt" if budgeted is not None and budgeted.rebuilt else "incremental"


def notify(core: Core, entry: ViewEntry, change: Delta) -> None:
    """Queue a notice for every listener of a view that changed."""
    if change.size:
        for listener in entry.listeners:
            core.notices.append((caller(), _notice(listener, core.version, change)))


def _notice(
    listener: Callable[[int, Delta], None], version: int, delta: Delta
) -> Callable[[], None]:
    return lambda: listener(version, delta)


# Deferred views.


def refresh_due(core: Core, *, reading: Iterable[str] | None) -> None:
    """Refresh the deferred views whose policies ask for it; `reading` names views being read.

    Reading a view also counts as reading the views below it.
    """
    core.tick()
    deferred = core.catalog.deferred()
    if not deferred:
        return
    read = {name.lower() for name in reading or ()}
    for name in list(read):
        read |= core.catalog.reads_transitively(name)
    for entry in deferred:
        if not entry.waiting_rows:
            continue
        if is_due(entry.policies, entry.waits(), core.now(), reading=False):
            if entry.failure is None:
                _refresh_unasked(core, entry)
        elif entry.name.lower() in read and is_due(
            entry.policies, entry.waits(), core.now(), reading=True
        ):
            refresh_view(core, entry)


def _refresh_unasked(core: Core, entry: ViewEntry) -> None:
    """Refresh a view that is due; no caller waits for it, so a failure is logged, not raised."""
    try:
        refresh_view(core, entry)
    except Exception as why:  # noqa: BLE001 (the change before it is committed, whatever this is)
        entry.failure = getattr(why, "message", "") or f"{type(why).__name__}: {why}"
        _LOG.warning("view %s could not be refreshed and stays as it was: %s", entry.name, why)


def refresh_view(core: Core, entry: ViewEntry) -> None:
    """Apply the waiting changes to a deferred view, then refresh the views that read it."""
    if not entry.waiting_rows:
        entry.refreshed = core.now()
        return
    with nullcontext() if core.watched is None else core.watched():
        _refresh_view(core, entry)


def _refresh_view(core: Core, entry: ViewEntry) -> None:
    try:
        outputs = refresh_blocks(core, netted(entry), {entry.name})
        followers = core.catalog.immediate() - {entry.name}
        output = outputs.get(entry.name)
        if output is None:
            outputs[entry.name] = Delta.empty(entry.schema)  # refreshed without a change
        elif output.size or entry.block.maintainer.has_moved():
            outputs |= refresh_blocks(core, {entry.name: output}, followers)
    except BaseException as why:
        failed = views_to_replan(core, why, {})
        _name_failing_view(core, why, {})
        roll_back(core, (), why)
        if failed and all(map(core.plan_carefully, failed)):
            refresh_view(core, entry)
            return
        raise
    entry.has_taken_all()
    publish(core, core.version, {}, outputs, core.now())
    core.note_refreshed(entry)


def netted(entry: ViewEntry) -> dict[str, Delta]:
    """The net change of each source since the view's version."""
    # A pattern reads its rows from the parts; it uses the delta only to find the changed groups,
    # so rows that were inserted and expired since must not cancel out.
    is_pattern = isinstance(entry.plan.program.body, PatternQueries)
    return {s: _netted(changes, as_is=is_pattern) for s, changes in entry.waiting.items()}


def _netted(changes: list[Changed], *, as_is: bool) -> Delta:
    """The changes as one delta; cancelling rows are removed unless `as_is`."""
    whole = concat(changes[0].schema, [as_delta(each) for each in changes])
    return whole if as_is else cancelled(whole)


def deliver_notices(core: Core) -> None:
    """Call the listeners in version order; an error in one is reported and undoes nothing.

    Notices are delivered in the thread that made the change (not its twin) before its call returns;
    the clock and readers leave them to that thread. A thread that holds the lock delivers after
    releasing it: a listener may wait for another thread that reads.
    """
    if not core.notices or is_twin() or core.is_locked_here() or not _is_our_turn(core):
        return
    # A listener that writes finds `is_delivering` set, so its notices are queued after the others.
    while core.notices and not core.is_delivering:
        core.is_delivering = True
        try:
            _deliver_all(core)
        finally:
            core.is_delivering = False


def _is_our_turn(core: Core) -> bool:
    """Whether this thread made a change that is not delivered, or one that did has ended."""
    makers = {maker for maker, _ in core.notices.copy()}
    if threading.get_ident() in makers:
        return True
    return not makers <= {each.ident for each in threading.enumerate()}


def _deliver_all(core: Core) -> None:
    while core.notices:
        _, notice = core.notices.popleft()
        try:
            notice()
        except Exception:  # noqa: BLE001 (it is the user's function)
            _LOG.exception("a subscriber failed; the change itself is committed")
