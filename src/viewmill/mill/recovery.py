"""Recover a mill from its directory, and write checkpoints that bound the recovery time.

takes  the catalog, the snapshots of the tables, and the log after them
does   restores tables from snapshot and log; plans views again and fills them from their
       definitions, on the path that backfill, recovery and full refresh share
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import numpy as np

from viewmill.algebra.clock import CLOCK
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, Product, as_delta, joined
from viewmill.deltas.product_arrow import decode_product, is_product
from viewmill.deltas.rows import to_delta
from viewmill.errors import (
    DamagedFile,
    EvaluationFailed,
    Overflow,
    StorageFailed,
    ViewmillError,
)
from viewmill.mill.broken_views import ViewStatement, note_broken, statement_of
from viewmill.mill.catalog import PlainEntry, TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import add_table, install_view, names_in, prepare_view
from viewmill.mill.memory import release_states
from viewmill.mill.part_folders import note_checkpoint, write_all_parts
from viewmill.mill.part_snapshots import (
    drop_expired_parts,
    open_table_parts,
    open_temporal_view,
    part_notes,
)
from viewmill.mill.passing_time import restore_time
from viewmill.mill.pattern_snapshots import pattern_checkpoint, restore_pattern
from viewmill.mill.patterns import is_pattern
from viewmill.mill.refresh import MULTIPLICITY, encoded, piece_key, piece_names
from viewmill.mill.snapshot_tail import note_opened, take_tail
from viewmill.mill.stale_views import History, is_stale, open_stale_view, stale_checkpoint
from viewmill.mill.state_snapshots import (
    NoSnapshot,
    SavedStates,
    is_states_note,
    restore_dictionary,
    snapshot_states,
)
from viewmill.mill.storage.database import DATABASE
from viewmill.mill.storage.refusals import damaged
from viewmill.mill.store import Store
from viewmill.mill.table import Table
from viewmill.mill.window_families import leave_families, window_of
from viewmill.policies.arrivals import model_of
from viewmill.program.program import Timed
from viewmill.sql.catalog import PlainView
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import (
    CreateMaterializedView,
    CreateTable,
    CreateTemporalView,
    CreateView,
)

# A checkpoint costs what the tables cost, so the log may grow with them.
_LOG_BYTES = 64 << 20
_LOG_VERSIONS = 20_000
_ROWS_PER_VERSION = 50
# Replaying so much takes a few tenths of a second.
_CLOSING_VERSIONS = 2_000
_CLOSING_BYTES = 8 << 20

_LAZY_ROWS = 10_000  # so many rows of a table stay Arrow until somebody reads their words
_MANY_BYTES = 1 << 20  # of rows, from which on it pays to load compiled code to read them


def recover(core: Core, store: Store) -> None:
    """Restore the catalog, the tables and the views of a directory."""
    saved_catalog = dict(store.catalog())
    restore_time(core, saved_catalog.pop(CLOCK, None))
    objects = {name: _record(store, name, text) for name, text in saved_catalog.items()}
    if store.table_bytes() > _MANY_BYTES and core.tiers.mode != "off":
        core.tiers.speed_up(core.dictionary)
    no_snapshots = restore_dictionary(core, store)
    for name, saved in objects.items():
        if saved["kind"] == "table":
            with _damage_told(store, name):
                _open_table(core, store, name, saved)
    views = {n: saved for n, saved in objects.items() if saved["kind"] != "table"}
    changes = _replay(core, store, is_kept=bool(views))
    core.version = store.last_version()
    history = History(store, changes, lambda t, rows: joined(t.schema, [_piece(core, t, rows)]))
    _open_views(core, history, views, no_snapshots)
    release_states(core)
    drop_expired_parts(core)


def _record(store: Store, name: str, text: str) -> dict[str, Any]:
    """What the catalog says of a table or view; what says nothing is a view that cannot be opened,
    unless there are rows under its name, which nobody may lose."""
    try:
        saved = json.loads(text)
        if isinstance(saved["sql"], str) and isinstance(saved["kind"], str):
            return dict(saved)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    if _has_rows(store, name):
        raise damaged(store.shown_path / DATABASE, f'the record of table "{name}" says nothing')
    return {"sql": "", "kind": "view"}


def _has_rows(store: Store, name: str) -> bool:
    start = f"{name.lower()}@"
    keys = {*store.table_keys(), *(key for entry in store.replay() for key in entry.deltas)}
    notes = (note for note in store.notes() if not is_states_note(note))
    is_noted = any(f" {start}" in note for note in notes)  # parts are in files of their own
    return is_noted or any(key.startswith(start) for key in keys)


@contextmanager
def _damage_told(store: Store, name: str) -> Iterator[None]:
    """A table that does not open as it was recorded names the file that says so."""
    try:
        yield
    except (ViewmillError, MemoryError):
        raise
    except Exception as why:
        said = f'the record of table "{name}" cannot be read: {type(why).__name__}: {why}'
        raise damaged(store.shown_path / DATABASE, said) from why


def _open_table(core: Core, store: Store, name: str, saved: dict[str, Any]) -> None:
    (statement,) = parse(saved["sql"])
    assert isinstance(statement, CreateTable), "another statement"
    assert saved["key"].startswith(f"{name.lower()}@"), "another key"
    table = Table.from_statement(statement, core.dictionary)
    if table.parts is not None:
        table.parts.is_loading = True
    entry = TableEntry(name, saved["sql"], saved["key"], table)
    add_table(core, entry)
    if "tick" in saved:
        core.ticks[name] = _moment(saved["tick"])
    if "arrives" in saved:
        core.arrivals_of(entry).declare(model_of(saved["arrives"]))
    snapshot = store.load_table(saved["key"])
    if snapshot is not None and snapshot.num_rows:
        _take(core, table, [snapshot], 0)
    for piece in islice(piece_names(saved["key"]), 1, None):
        product = store.load_table(piece)
        if product is None:
            break
        _take(core, table, [product], 0)
    open_table_parts(core, store, entry)
    newest = store.notes().get(_newest_note(entry))
    if newest is not None:
        table.restore_newest(_moment(int(newest)))


def _moment(number: int) -> int:
    """A number of microseconds that rows can have."""
    return int(np.int64(operator.index(number)))


def _newest_note(entry: TableEntry) -> str:
    """The name of a table's largest time in a checkpoint; the row with it may be gone."""
    return f"newest of {entry.key}"


def _replay(core: Core, store: Store, *, is_kept: bool) -> dict[str, list[tuple[int, Changed]]]:
    """Apply the log to the tables; gives the changes by table if `is_kept`."""
    kept: dict[str, list[tuple[int, Changed]]] = {}
    by_key = {entry.key: entry.table for entry in core.catalog.tables()}
    for entry in store.replay():
        pieces: dict[str, list[Any]] = {}
        for name, rows in entry.deltas.items():
            pieces.setdefault(piece_key(name), []).append(rows)
        for key, tables in pieces.items():
            if key in by_key:  # else the table was dropped later
                change = _take(core, by_key[key], tables, entry.version)
                if is_kept:
                    kept.setdefault(key, []).append((entry.version, change))
    for name, moment in core.ticks.items():
        table = core.catalog.table(name).table
        table.reach(moment)
        table.commit(table.version)
    return kept


def _take(core: Core, table: Table, pieces: list[Any], version: int) -> Changed:
    change = joined(table.schema, [_piece(core, table, rows) for rows in pieces])
    if table.parts is not None:
        change = table.parts.not_filed(as_delta(change), version)
    change = table.as_held(change)
    table.stage(change)
    table.commit(version)
    return change


def _piece(core: Core, table: Table, rows: Any) -> Delta | Product:
    if isinstance(rows, bytes):
        return table.row_bytes.unpack(rows)
    if is_product(rows):
        return decode_product(rows, table.schema, core.dictionary)
    values = rows.select(range(len(table.schema)))
    multiplicity = rows.column(MULTIPLICITY).combine_chunks().to_numpy(zero_copy_only=False)
    if (multiplicity == 1).all():
        if rows.num_rows > _LAZY_ROWS:
            return to_delta(values, table.schema, core.dictionary)  # words when they are read
        return encode_columns(table.schema, values, core.dictionary)
    delta = encode_columns(table.schema, values, core.dictionary)
    delta.multiplicity = np.ascontiguousarray(multiplicity, np.int64)
    return delta


def _open_views(
    core: Core, history: History, objects: dict[str, dict[str, Any]], no_snapshots: str
) -> None:
    """Open the views in dependency order, whatever the order of their creation.

    Those that have a snapshot come first, because they take the changes in the log together. A view
    that cannot be opened is broken, and so are its readers; the others work.
    """
    waiting: dict[str, tuple[dict[str, Any], ViewStatement]] = {}
    for name, saved in objects.items():
        try:
            waiting[name] = saved, statement_of(name, saved)
        except Exception as why:  # noqa: BLE001 (whatever is wrong with it, the mill opens)
            note_broken(core, name, saved, frozenset(), why)
    reasons = {} if no_snapshots else _restore_views(core, history, waiting)
    lower_names = {name.lower() for name in waiting}
    while waiting:
        ready = [
            name
            for name, (_, statement) in waiting.items()
            if not (_names_in(core, statement) - {name.lower()}) & lower_names
        ]
        if not ready:
            _break_circle(core, waiting)
            lower_names = {name.lower() for name in waiting}
        for name in ready:
            saved, statement = waiting.pop(name)
            lower_names.discard(name.lower())
            reads = _names_in(core, statement)
            try:
                _open_view(core, history, name, saved, statement)
                note_opened(core, name, no_snapshots or reasons.get(name, ""))
            except StorageFailed:
                raise  # the file may be restored; opening without it would lose its content
            except Exception as why:  # noqa: BLE001 (whatever is wrong with it, the mill opens)
                note_broken(core, name, saved, reads, why)


def _break_circle(core: Core, waiting: dict[str, tuple[dict[str, Any], ViewStatement]]) -> None:
    """Take out the views that read each other, which nobody can have created; they are broken."""
    by_lower = {name.lower(): name for name in waiting}
    name, path = next(iter(waiting)), list[str]()
    while name not in path:
        path.append(name)
        below = sorted(_names_in(core, waiting[name][1]) - {name.lower()})
        name = next(by_lower[each] for each in below if each in by_lower)
    circle = path[path.index(name) :]
    why = DamagedFile(f"the views {', '.join(circle)} read each other")
    for each in circle:
        saved, _ = waiting.pop(each)
        note_broken(core, each, saved, frozenset(), why)


def _names_in(core: Core, statement: ViewStatement) -> frozenset[str]:
    if isinstance(statement, CreateTemporalView):
        queries = (statement.initialize.query, statement.update.query)
        return frozenset(name for query in queries for name in names_in(core, query))
    return names_in(core, statement.query)


def _open_view(
    core: Core, history: History, name: str, saved: dict[str, Any], statement: ViewStatement
) -> None:
    sql, store = saved["sql"], history.store
    if isinstance(statement, CreateTemporalView):
        open_temporal_view(core, store, saved, statement)
        return
    if isinstance(statement, CreateView):
        query = lower(statement.query, sql, core.catalog, None)
        view = PlainView(statement.query, sql)
        names = names_in(core, statement.query)
        core.catalog.add(PlainEntry(name, sql, view, query.schema, names))
        return
    key, since = f"{name.lower()}@{saved['created']}", saved.get("since")
    core.restore_pattern = restore_pattern(core, store, key, since)
    try:
        entry = _stale_as_before(core, history, saved, statement) or prepare_view(
            core, statement, sql
        )
        _require_answer(entry)
    except (Overflow, EvaluationFailed) as why:
        stale = open_stale_view(core, history, saved, statement, why.message)
        if stale is None:
            raise
        entry = stale
    finally:
        core.restore_pattern = None
    entry.created, entry.stored_version = saved["created"], saved.get("stale")
    install_view(core, entry)


def _stale_as_before(
    core: Core, history: History, saved: dict[str, Any], statement: CreateMaterializedView
) -> ViewEntry | None:
    """A deferred view that was stale, computed from the rows of its version; else None."""
    if is_stale(core, history.store, statement.name, saved):
        with suppress(ViewmillError):  # what fails is told by the way that others are opened
            entry = open_stale_view(core, history, saved, statement, None)
            # The time that a view over `now()` had reached is not known.
            if entry is not None and not any(
                isinstance(each.program.body, Timed) for each in entry.blocks
            ):
                return entry
    return None


def _restore_views(
    core: Core, history: History, waiting: dict[str, tuple[dict[str, Any], ViewStatement]]
) -> dict[str, str]:
    """Open the views that have snapshots, and take them out of `waiting`; gives why others not.

    A plain view is opened when all it reads is there.
    """
    reasons: dict[str, str] = {}
    opened: dict[str, tuple[dict[str, Any], ViewStatement]] = {}
    todo = dict(waiting)
    while todo:
        left = {name.lower() for name in waiting}
        ready = [n for n, (_, s) in todo.items() if not (_names_in(core, s) - {n.lower()}) & left]
        if not ready:
            break
        for name in ready:
            saved, statement = todo.pop(name)
            try:
                if isinstance(statement, CreateView) and not is_pattern(statement.query):
                    _open_view(core, history, name, saved, statement)
                else:
                    _restore_view(core, history, saved, statement)
            except NoSnapshot as why:
                reasons[name] = str(why)
            except Exception as why:  # noqa: BLE001 (it is opened without its snapshot then)
                reasons[name] = f"its snapshot could not be used: {why}"
            else:
                opened[name] = waiting.pop(name)
    entries = [each for each in core.catalog.in_order() if each.name in opened]
    try:
        take_tail(core, history, entries)
    except Exception as why:  # noqa: BLE001 (whatever it is, computing them tells it or works)
        core.runtime.rollback()
        for name in opened:
            core.catalog.remove(name)
            core.runtime.remove(name)
            reasons[name] = f"the changes since its snapshot could not be taken: {why}"
        waiting |= opened
    return reasons


def _restore_view(
    core: Core, history: History, saved: dict[str, Any], statement: ViewStatement
) -> None:
    """Open a view with the states of the checkpoint, without the changes since."""
    if not isinstance(statement, CreateMaterializedView) or is_pattern(statement.query):
        raise NoSnapshot("parts and patterns are kept in files of their own")
    key = f"{statement.name.lower()}@{saved['created']}"
    states = SavedStates.of(history.store, key)
    entry = prepare_view(core, statement, saved["sql"], careful=states.careful, saved=states)
    entry.created, entry.stored_version = saved["created"], saved.get("stale")
    entry.opened = "snapshot"
    install_view(core, entry)
    entry.version = states.version


def _require_answer(entry: ViewEntry) -> None:
    """Read a deferred window, which is filled only on reading, to see whether it fails."""
    if not entry.is_immediate and window_of(entry) is not None:
        try:
            entry.block.maintainer.contents()
        except (Overflow, EvaluationFailed):
            leave_families(entry)
            raise


# Checkpoints.


def is_checkpoint_due(core: Core) -> bool:
    """Whether the log has grown long compared to the tables."""
    store = core.store
    if store is None:
        return False
    versions, log_bytes = store.log_size()
    if versions < _LOG_VERSIONS and log_bytes < _LOG_BYTES:
        return False
    rows = sum(entry.table.rows for entry in core.catalog.tables())
    nbytes = sum(entry.table.nbytes for entry in core.catalog.tables())
    is_long = versions > rows // _ROWS_PER_VERSION or log_bytes > nbytes
    return is_long and store.is_checkpoint_welcome()


def checkpoint_on_closing(core: Core) -> None:
    """Write a checkpoint if the log has become so long that the next opening would wait for it."""
    store = core.store
    if store is None or core.read_only or core.closed or not store.is_open:
        return
    versions, log_bytes = store.log_size()
    is_long = versions > _CLOSING_VERSIONS or log_bytes > _CLOSING_BYTES
    if is_long and store.is_checkpoint_welcome():
        with core.after_commit("the checkpoint on closing"):
            checkpoint(core)


def checkpoint(core: Core) -> None:
    """Write a snapshot of every table, so that the log before it is no longer needed.

    Of tables and views in parts, only parts changed since the last checkpoint are written.
    """
    if core.store is None:
        return
    core.require_writable()
    write_all_parts(core)
    tables: dict[str, Any] = {}
    for entry in core.catalog.tables():
        if entry.table.parts is not None:
            continue
        names = piece_names(entry.key)
        tables[next(names)] = _batches(core, entry.table.kept())
        tables |= {
            name: encoded(core, p) for name, p in zip(names, entry.table.products, strict=False)
        }
    times = {_newest_note(each): each.table.newest for each in core.catalog.tables()}
    newest = {name: str(moment) for name, moment in times.items() if moment is not None}
    states, notes = pattern_checkpoint(core)
    stale, versions = stale_checkpoint(core)
    words, places = snapshot_states(core)
    states, notes = {**states, **stale}, {**notes, **versions, **places}
    notes = {**part_notes(core), **newest, **notes}
    core.store.checkpoint(core.version, tables, states, notes, words)
    note_checkpoint(core)


def _batches(core: Core, delta: Delta) -> Iterator[Any]:
    yield from decode_delta(delta, core.dictionary, multiplicity=MULTIPLICITY).to_batches()
