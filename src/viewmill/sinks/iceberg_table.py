"""An Iceberg table that we write: each version of a view is one commit of the catalog.

takes  all rows, or the changes of a version
does   replaces the rows, or adds to them, and notes the version in the snapshot
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import WrongFormat
from viewmill.sinks.change_rows import CHANGE, VERSION
from viewmill.sinks.sink import Origin

_VIEW, _MODE, _VERSION = "viewmill.view", "viewmill.mode", "viewmill.version"
_ATTEMPT = "viewmill.attempt"  # names a commit, made or not


class IcebergTable:
    """One table of a catalog."""

    def __init__(self, catalog: Any, table: str) -> None:
        self.title = f"Iceberg table {table}"
        self._given, self._name = catalog, table
        self._catalog: Catalog | None = catalog if isinstance(catalog, Catalog) else None
        self._attempt = ""

    def claim(self, origin: Origin, mode: str) -> None:
        """Create the table, or take it if it has been this view's."""
        columns = in_utc(origin.schema.empty_table()).schema
        if mode == "changes":
            columns = columns.append(pa.field(CHANGE, pa.string()))
            columns = columns.append(pa.field(VERSION, pa.int64()))
        note = {_VIEW: origin.view.lower(), _MODE: mode}
        try:
            table = self._table()
        except NoSuchTableError:
            self._create(columns, note)
            return
        if {name: table.properties.get(name) for name in note} != note:
            raise WrongFormat(
                f"{self.title} belongs to others, or to another view or mode",
                hint="Give another name, or drop it.",
            )
        if mode == "table":
            _fit(table, columns)

    def write_table(self, rows: pa.Table, version: int) -> None:
        """One commit that replaces all rows."""
        table, noted = self._table(), {_VERSION: str(version)}
        with table.transaction() as writing:
            if _count(table):
                writing.delete(AlwaysTrue(), snapshot_properties=noted)
            writing.append(in_utc(rows), snapshot_properties=noted)

    def add_changes(self, rows: pa.Table, version: int) -> None:
        """One commit with more rows."""
        self._attempt = secrets.token_hex(8)
        noted = {_VERSION: str(version), _ATTEMPT: self._attempt}
        self._table().append(rows, snapshot_properties=noted)

    def has_last_changes(self) -> bool:
        """Whether the last commit is the one that was tried last."""
        snapshot = self._table().current_snapshot()
        if snapshot is None or snapshot.summary is None:
            return False
        return bool(snapshot.summary.get(_ATTEMPT) == self._attempt)

    def changes(self) -> list[pa.Table]:
        """All rows."""
        found = self._table().scan().to_arrow()
        plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
        return [found.cast(pa.schema([(f.name, plain.get(f.type, f.type)) for f in found.schema]))]

    def _create(self, columns: pa.Schema, note: dict[str, str]) -> None:
        catalog, namespace = self._open(), self._name.rpartition(".")[0]
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
        catalog.create_table(self._name, columns, properties=note)

    def _table(self) -> Table:
        return self._open().load_table(self._name)

    def _open(self) -> Catalog:
        if self._catalog is None:
            given = self._given
            self._catalog = (
                load_catalog(given) if isinstance(given, str) else load_catalog("viewmill", **given)
            )
        return self._catalog


def _count(table: Table) -> int:
    """How many rows it has."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary.get("total-records") or 0)


def _fit(table: Table, columns: pa.Schema) -> None:
    """Give a table the columns that its view has now; those that differ are made anew."""
    now = {each.name: each.type for each in table.schema().as_arrow()}
    wanted = {each.name: _large(each.type) for each in columns}
    if {name: _large(each) for name, each in now.items()} == wanted:
        return
    with table.update_schema(allow_incompatible_changes=True) as changing:
        for name, type_ in now.items():
            if wanted.get(name) != _large(type_):
                changing.delete_column(name)
    with table.update_schema() as changing:
        changing.union_by_name(columns)


def _large(type_: pa.DataType) -> pa.DataType:
    known = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return known.get(type_, type_)
