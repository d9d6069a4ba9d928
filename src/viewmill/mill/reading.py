"""Read tables and views by SELECT: what a query reads, and its rows at one version.

takes  a parsed SELECT
gives  its relation, and Arrow tables of its sources, which never change: an engine may run it
       without the lock
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlglot import exp

from viewmill.algebra.relations import Relation
from viewmill.algebra.walk import scans, sources
from viewmill.errors import UnsupportedQuery
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.create import describe
from viewmill.mill.histories import history_table, length_of
from viewmill.mill.lazy_rows import rows_for_limit
from viewmill.mill.refresh import refresh_due
from viewmill.mill.snapshots import LatestTables, Snapshot, too_old
from viewmill.mill.through_factorized import read_through
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.read_parts import History, read_parts


@dataclass(frozen=True)
class PlannedSelect:
    """A SELECT as algebra, and the parts of sources that it reads."""

    relation: Relation
    histories: tuple[History, ...]

    @property
    def names(self) -> set[str]:
        """The tables and views that it reads."""
        return {*sources(self.relation), *(each.source for each in self.histories)}


def utc_now(core: Core) -> dt.datetime:
    """The moment at which a query is answered."""
    moment = max(core.time.reached, core.time.read())
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=moment)


def plan_select(core: Core, query: exp.Query | exp.Values, sql: str) -> PlannedSelect:
    """Lower a SELECT over the tables and views that there are now."""
    lengths = partial(length_of, core)
    tree, catalog, histories = read_parts(query, sql, core.catalog, lengths)
    lowered = lower(tree, sql, catalog, describe(core), utc_now(core))  # type: ignore[arg-type]
    return PlannedSelect(rewrite(lowered), tuple(histories))


def refresh_sources(core: Core, planned: PlannedSelect) -> None:
    """Refresh the deferred views that are due when they are read."""
    with core.write_lock:
        refresh_due(core, reading=planned.names)


def history_tables(core: Core, planned: PlannedSelect) -> dict[str, Any]:
    """The parts that a query reads, by their names in lower case."""
    return {each.name.lower(): history_table(core, each) for each in planned.histories}


# One version across several queries.


def open_snapshot(core: Core) -> Snapshot:
    """Begin to read the version of now."""
    unlisted = {e.name.lower(): e.refreshes for e in core.catalog.views() if not _is_listed(e)}
    snapshot = Snapshot(core.version, core.catalog.generation, unlisted)
    core.noting.append(snapshot)
    return snapshot


def close_snapshot(core: Core, snapshot: Snapshot) -> None:
    """End reading a version."""
    with core.lock:
        if snapshot in core.noting:
            core.noting.remove(snapshot)


def reads_older_versions(core: Core) -> bool:
    """Whether somebody may read an older version, whose rows use strings that are gone now."""
    return any(isinstance(each, Snapshot) for each in core.noting)


def _is_listed(entry: ViewEntry) -> bool:
    """Whether every change of a view is listed row by row."""
    return entry.enumerator is None and entry.block.maintainer.family is None


def gather_now(
    core: Core, planned: PlannedSelect, latest: LatestTables
) -> tuple[Relation, dict[str, Any]]:
    """The relation and its sources as they are now."""
    limited = rows_for_limit(core, planned.relation)
    tables = history_tables(core, planned) | limited
    relation = planned.relation if limited else read_through(core, planned.relation)
    for name in sources(relation):
        entry = core.catalog.get(name)
        if isinstance(entry, ViewEntry) and _is_listed(entry) and name.lower() not in tables:
            tables[name.lower()] = _latest(core, entry, latest)
    return core.gather(relation, tables, {})


def _latest(core: Core, entry: ViewEntry, latest: LatestTables) -> Any:
    kept = latest.get(entry.name, entry)
    if kept is None:
        with core.write_lock:  # reading may put rows in order
            kept = core.arrow(entry.name)
        latest.keep(entry.name, entry, kept)
    return kept


def gather_then(
    core: Core, planned: PlannedSelect, snapshot: Snapshot
) -> tuple[Relation, dict[str, Any]]:
    """The relation and its sources as they were at a version."""
    snapshot.require_held(core.catalog.generation)
    is_past = core.version != snapshot.version or bool(snapshot.later)
    if is_past and (planned.histories or any(scan.window for scan in scans(planned.relation))):
        raise UnsupportedQuery(
            "parts and windows are only read at the newest version",
            hint="End the transaction, then read them.",
        )
    tables = history_tables(core, planned)
    for name in sources(planned.relation):
        if name.lower() not in tables:
            tables[name.lower()] = _rows_then(core, name, snapshot)
    return core.gather(planned.relation, tables, {})


def _rows_then(core: Core, name: str, snapshot: Snapshot) -> Any:
    key = name.lower()
    if key not in snapshot.tables:
        with core.write_lock:
            snapshot.tables[key] = _find_rows_then(core, name, snapshot)
    return snapshot.tables[key]


def _find_rows_then(core: Core, name: str, snapshot: Snapshot) -> Any:
    key, entry = name.lower(), core.catalog.get(name)
    if isinstance(entry, ViewEntry) and key in snapshot.unlisted:
        _require_unchanged(core, entry, snapshot)
    if not snapshot.later.get(key):
        return core.arrow(name)
    rows = snapshot.before(name, core.contents(name))
    if not isinstance(entry, TableEntry) and (rows.multiplicities() < 0).any():
        raise too_old(f'The rows of view "{name}" cannot be found again.')
    return expanded(rows, core.dictionary)


def _require_unchanged(core: Core, entry: ViewEntry, snapshot: Snapshot) -> None:
    """Raise if a view that does not list its changes may have changed."""
    refreshes = snapshot.unlisted[entry.name.lower()]
    if core.version != snapshot.version or refreshes != entry.refreshes:
        raise too_old(f'View "{entry.name}" changed since, and does not list its changes.')
