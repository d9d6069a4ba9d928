"""Recover a mill from its directory, and write checkpoints that bound the recovery time.

takes  the catalog, the snapshots of the tables, and the log after them
does   restores tables from snapshot and log; plans views again and fills them from their
       definitions, on the path that backfill, recovery and full refresh share
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, Product, as_delta, joined
from viewmill.deltas.product_arrow import decode_product, is_product
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
from viewmill.mill.pattern_snapshots import pattern_checkpoint, restore_pattern
from viewmill.mill.refresh import MULTIPLICITY, encoded, piece_key, piece_names
from viewmill.mill.stale_views import History, open_stale_view, stale_checkpoint
from viewmill.mill.storage.database import DATABASE
from viewmill.mill.storage.refusals import damaged
from viewmill.mill.store import Store
from viewmill.mill.table import Table
from viewmill.mill.window_families import leave_families, window_of
from viewmill.policies.arrivals import model_of
from viewmill.sql.catalog import PlainView
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateTable, CreateTemporalView, CreateView

# A checkpoint costs what the tables cost, so the log may grow with them.
_LOG_BYTES = 64 << 20
_LOG_VERSIONS = 20_000
_ROWS_PER_VERSION = 50


def recover(core: Core, store: Store) -> None:
    """Restore the catalog, the tables and the views of a directory."""
    objects = {name: _record(store, name, text) for name, text in store.catalog().items()}
    for name, saved in objects.items():
        if saved["kind"] == "table":
            with _damage_told(store, name):
                _open_table(core, store, name, saved)
    views = {n: saved for n, saved in objects.items() if saved["kind"] != "table"}
    changes = _replay(core, store, is_kept=any("stale" in saved for saved in views.values()))
    core.version = store.last_version()
    history = History(store, changes, lambda t, rows: joined(t.schema, [_piece(core, t, rows)]))
    _open_views(core, history, views)
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
    is_noted = any(f" {start}" in note for note in store.notes())  # parts are in files of their own
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
    width = len(table.schema)
    delta = encode_columns(table.schema, rows.select(range(width)), core.dictionary)
    multiplicity = rows.column(MULTIPLICITY).combine_chunks().to_numpy(zero_copy_only=False)
    if not (multiplicity == 1).all():
        delta.multiplicity = np.ascontiguousarray(multiplicity, np.int64)
    return delta


def _open_views(core: Core, history: History, objects: dict[str, dict[str, Any]]) -> None:
    """Open the views in dependency order, whatever the order of their creation.

    A view that cannot be opened is broken, and so are its readers; the others work.
    """
    waiting: dict[str, tuple[dict[str, Any], ViewStatement]] = {}
    for name, saved in objects.items():
        try:
            waiting[name] = saved, statement_of(name, saved)
        except Exception as why:  # noqa: BLE001 (whatever is wrong with it, the mill opens)
            note_broken(core, name, saved, frozenset(), why)
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
        entry = prepare_view(core, statement, sql)
        _require_answer(entry)
    except (Overflow, EvaluationFailed) as why:
        entry = open_stale_view(core, history, saved, statement, why)
    finally:
        core.restore_pattern = None
    entry.created, entry.stored_version = saved["created"], saved.get("stale")
    install_view(core, entry)


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
    states, notes = {**states, **stale}, {**notes, **versions}
    core.store.checkpoint(core.version, tables, states, {**part_notes(core), **newest, **notes})
    note_checkpoint(core)


def _batches(core: Core, delta: Delta) -> Iterator[Any]:
    yield from decode_delta(delta, core.dictionary, multiplicity=MULTIPLICITY).to_batches()
