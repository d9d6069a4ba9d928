"""Queries of clients over the tables and views of a mill.

takes  a parsed SELECT and its parameters
gives  an Arrow table, of one version of the mill; the lock is held only to find the rows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from sqlglot import exp

from viewmill.algebra.packed import shown_schema
from viewmill.algebra.schema import Schema
from viewmill.deltas.arrow import arrow_schema, shown
from viewmill.engines.duckdb import DuckdbEngine, QueryLimits
from viewmill.mill.change_stream import ChangeStream
from viewmill.mill.core import Core
from viewmill.mill.reading import (
    PlannedSelect,
    close_snapshot,
    gather_now,
    gather_then,
    open_snapshot,
    plan_select,
    refresh_sources,
)
from viewmill.mill.refresh import refresh_due
from viewmill.mill.snapshots import LatestTables, Snapshot
from viewmill.serve.client_sql import ClientQuery
from viewmill.serve.failures import Refused
from viewmill.serve.grants import Access
from viewmill.serve.guarded_queries import guarded, require_all
from viewmill.serve.parameters import parameter_types, with_unknown, with_values
from viewmill.serve.point_reads import PointReads
from viewmill.serve.running import Running
from viewmill.serve.values import oid_of

_TREE = TypeVar("_TREE", bound=exp.Expr)
_KEPT_BYTES = 256 << 20
_ENGINE = ("SET memory_limit = '2GB'",)


class MillReader:
    """Reads a mill for all connections of a server, with an engine of its own."""

    def __init__(self, core: Core, max_rows: int, max_bytes: int) -> None:
        self.core, self._max_rows, self._max_bytes = core, max_rows, max_bytes
        self._engine = DuckdbEngine(_ENGINE, is_safe=True)
        self._latest = LatestTables(_KEPT_BYTES)
        with core.lock:
            core.noting.append(self._latest)
        self._points = PointReads(core, lambda query: self.describe(query, (), None)[1])

    def close(self) -> None:
        """Close the engine; what runs is interrupted."""
        self._points.close()
        with self.core.lock:
            if self._latest in self.core.noting:
                self.core.noting.remove(self._latest)
        self._engine.close()

    def run(
        self,
        query: ClientQuery,
        given: Sequence[Any],
        snapshot: Snapshot | None,
        running: Running,
        access: Access | None,
    ) -> Any:
        """The rows of a query, at a snapshot or now."""
        found = self._point(query, given, snapshot, access)
        if found is not None:
            return found
        tree = self._guarded(with_values(query.tree, given), access)
        with self.core.lock:
            self.core.require_open()
            planned = plan_select(self.core, tree, query.sql)
            if snapshot is None:
                refresh_sources(self.core, planned)
                relation, tables = gather_now(self.core, planned, self._latest)
            else:
                relation, tables = gather_then(self.core, planned, snapshot)
        limits = QueryLimits(self._max_rows, self._max_bytes, running.watch)
        table = self._engine.run_limited(relation, tables, limits)
        if table.num_rows > self._max_rows:
            raise too_many_rows(self._max_rows)
        return shown(table, planned.relation.schema, self.core.dictionary)

    def _reads_by_key(self, query: ClientQuery, access: Access | None) -> str:
        """What a query reads by key, "" if it does not or may not read all of its rows."""
        name = self._points.reads(query) if query.parameters else ""
        if access is None or not name:
            return name
        is_whole = name in access.rows and access.filter(name) is None
        return name if is_whole else ""

    def _point(
        self,
        query: ClientQuery,
        given: Sequence[Any],
        snapshot: Snapshot | None,
        access: Access | None,
    ) -> Any:
        """The rows of a key, if the query asks for them and they are kept by it."""
        with self.core.lock:
            self.core.require_open()
            name = self._reads_by_key(query, access)
            if not name:
                return None
            if snapshot is None:
                with self.core.write_lock:
                    refresh_due(self.core, reading={name})
            elif not snapshot.is_newest(self.core.version, self.core.catalog.generation):
                return None
            found = self._points.find(query, given)
        return None if found is None or found.num_rows > self._max_rows else found

    def _guarded(self, tree: _TREE, access: Access | None) -> _TREE:
        return guarded(tree, access, lambda name: self.core.catalog.get(name) is not None)

    def subscribe(self, name: str, access: Access | None, *, with_rows: bool) -> ChangeStream:
        """The changes of a table or view from now on."""
        require_all(name, access)
        return ChangeStream(self.core, name, with_rows=with_rows)

    def begin(self, query: ClientQuery, given: Sequence[Any], access: Access | None) -> Snapshot:
        """The version that a transaction reads from its first query on."""
        with self.core.lock:
            self.core.require_open()
            name = self._reads_by_key(query, access)
            if name:
                with self.core.write_lock:
                    refresh_due(self.core, reading={name})
            else:
                tree = self._guarded(with_values(query.tree, given), access)
                refresh_sources(self.core, plan_select(self.core, tree, query.sql))
            return open_snapshot(self.core)

    def end(self, snapshot: Snapshot) -> None:
        """A transaction is over."""
        close_snapshot(self.core, snapshot)

    def describe(
        self, query: ClientQuery, said: Sequence[int], access: Access | None
    ) -> tuple[list[int], Any]:
        """The types of the parameters, and the columns as an Arrow schema."""
        self._guarded(query.tree, access)  # before anything is told of it
        types = parameter_types(query.tree, query.parameters, said, self._column_type(query))
        tree = self._guarded(with_unknown(query.tree, types), access)
        with self.core.lock:
            self.core.require_open()
            planned: PlannedSelect = plan_select(self.core, tree, query.sql)
        return types, arrow_schema(shown_schema(planned.relation.schema))

    def _column_type(self, query: ClientQuery) -> Any:
        """A function from a column to Postgres' number of its type."""
        with self.core.lock:
            found = [self.core.catalog.find(t.name) for t in query.tree.find_all(exp.Table)]
        schemas = [each for each in found if isinstance(each, Schema)]

        def type_of(column: exp.Column) -> int | None:
            for schema in schemas:
                at = schema.find(column.name)
                if at is not None:
                    return oid_of(arrow_schema(shown_schema(Schema((schema[at],)))).field(0).type)
            return None

        return type_of


def too_many_rows(rows: int) -> Refused:
    """The error for a result that is too large."""
    return Refused(
        "54000",
        f"the result has more than {rows:,} rows",
        hint="Add a LIMIT, or start the server with a higher one (--max-rows).",
    )
