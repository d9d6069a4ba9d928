"""Follow an Iceberg table: the difference between the files of two snapshots.

takes  a catalog and a table of it
gives  first the rows of the newest snapshot, then those of the files in which two snapshots differ

A file counts together with the deletes that apply to it. Columns are known by their ids, so that
one that is renamed stays what it is in the mill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

from viewmill.deltas.arrow import from_arrow_type
from viewmill.errors import InvalidArgument, SourceBroken, TypeMismatch
from viewmill.sources.source import Offsets, Step

_PART = "table"
_AGAIN = "mill.unfollow(table), DELETE FROM the table, and follow again from a new snapshot."
Tasks = Mapping[tuple[str, frozenset[str]], FileScanTask]


class IcebergTable:
    """An Iceberg table that is followed."""

    has_more_columns = True
    reads = "the difference of files"

    def __init__(self, catalog: Any, table: str, branch: str) -> None:
        self.title = f"Iceberg table {table}" + (f" at {branch}" if branch != "main" else "")
        self._given, self._name, self._branch = catalog, table, branch
        self._catalog: Catalog | None = catalog if isinstance(catalog, Catalog) else None

    def schema(self) -> pa.Schema:
        """The columns of the newest snapshot whose types a mill has."""
        fields = pa.schema(self._load().schema().as_arrow())
        return pa.schema([pa.field(each.name, each.type) for each in fields if _is_known(each)])

    def close(self) -> None:
        """Nothing stays open."""

    def changes(
        self, offsets: Offsets, schema: pa.Schema, key: tuple[str, ...] = ()
    ) -> Iterator[Step]:
        """The rows as they are now, or what changed since the snapshot that was reached."""
        table = self._load()
        reached = json.loads(offsets[_PART]) if _PART in offsets else None
        if reached is not None:
            self._check(reached, table)
        now = self._snapshot(table)
        if reached is not None and reached["snapshot"] == now:
            return
        ids = self._ids(table, schema, {} if reached is None else reached["columns"])
        new = self._tasks(table, now)
        old = {} if reached is None else self._tasks(table, reached["snapshot"])
        noted = {"snapshot": now, "id": str(table.metadata.table_uuid), "columns": ids}
        try:
            inserted = _read(table, ids, [new[each] for each in new.keys() - old.keys()])
            deleted = _read(table, ids, [old[each] for each in old.keys() - new.keys()])
        except FileNotFoundError as why:
            raise self._gone(str(why)) from why
        yield Step(inserted, {_PART: json.dumps(noted)}, deleted)

    def _load(self) -> Table:
        try:
            if self._catalog is None:
                given = self._given
                self._catalog = (
                    load_catalog(given) if isinstance(given, str)
                    else load_catalog("viewmill", **given)
                )  # fmt: skip
            return self._catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError) as why:
            raise InvalidArgument(f"{self.title} does not exist") from why
        except Exception as why:
            said = str(why).split("\n")[0]
            raise SourceBroken(f"{self.title}: the catalog cannot be read: {said}") from why

    def _snapshot(self, table: Table) -> int | None:
        found = table.snapshot_by_name(self._branch)
        if found is None and self._branch != "main":
            raise SourceBroken(f"{self.title}: there is no such branch or tag")
        return None if found is None else found.snapshot_id

    def _check(self, reached: Mapping[str, Any], table: Table) -> None:
        """Refuse a table that is not the one that was followed."""
        if str(table.metadata.table_uuid) != reached["id"]:
            raise SourceBroken(f"{self.title} was created anew", hint=_AGAIN)
        known = {each.field_id for each in table.schema().fields}
        lost = [name for name, number in reached["columns"].items() if number not in known]
        if lost:
            raise SourceBroken(
                f"{self.title} no longer has the column {', '.join(lost)}",
                detail="The table that follows it still does.",
                hint="mill.unfollow(table), then follow into a table without that column.",
            )

    def _ids(self, table: Table, schema: pa.Schema, noted: Mapping[str, int]) -> dict[str, int]:
        """The ids of the mill's columns: as noted, those that came since by their names."""
        by_name = {each.name.lower(): each.field_id for each in table.schema().fields}
        found = {name: noted.get(name, by_name.get(name.lower())) for name in schema.names}
        return {name: number for name, number in found.items() if number is not None}

    def _tasks(self, table: Table, snapshot: int | None) -> Tasks:
        """The files of a snapshot, each with the deletes that apply to it."""
        if snapshot is None:
            return {}
        if table.snapshot_by_id(snapshot) is None:
            raise self._gone(f"snapshot {snapshot} expired")
        try:
            tasks = [*table.scan(snapshot_id=snapshot).plan_files()]
        except FileNotFoundError as why:
            raise self._gone(str(why)) from why
        return {
            (each.file.file_path, frozenset(d.file_path for d in each.delete_files)): each
            for each in tasks
        }

    def _gone(self, why: str) -> SourceBroken:
        return SourceBroken(
            f"{self.title} no longer has the changes since the last ones taken",
            detail=why,
            hint=f"{_AGAIN} Keep snapshots for as long as a mill may be away.",
        )


def _read(table: Table, ids: Mapping[str, int], tasks: list[FileScanTask]) -> pa.Table | None:
    """The rows of files with the mill's names of columns."""
    if not tasks:
        return None
    schema = table.schema()
    names = {name: str(schema.find_column_name(number)) for name, number in ids.items()}
    scan = ArrowScan(table.metadata, table.io, schema.select(*names.values()), AlwaysTrue())
    rows = scan.to_table(tasks)
    picked = [rows[each] for each in names.values()]
    return pa.table(picked, names=[*names])


def _is_known(field: pa.Field) -> bool:
    try:
        from_arrow_type(field.type)
    except TypeMismatch:
        return False
    return True
