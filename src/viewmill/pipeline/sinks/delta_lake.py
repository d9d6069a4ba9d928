"""Delta tables through the `deltalake` package: atomic versions, history, no JVM.

Every commit carries our version as Delta's application transaction, so that a repeated version is
detected and skipped.
"""

from __future__ import annotations

import json
import os
import pkgutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather

from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import MissingDependency, WrongFormat
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.view import View
from viewmill.pipeline.sinks.change_sink import ChangeSink, Delivery, write_feather
from viewmill.sinks.change_rows import CHANGE, VERSION, change_rows, net_rows

_WRITES = 100  # writes between two vacuums


class DeltaLake:
    """One Delta table that we write."""

    def __init__(
        self, path: str | os.PathLike[str], *, mode: str, keep_hours: int | None = None
    ) -> None:
        self._package = _deltalake()
        self._path, self._keep_hours = str(Path(path).absolute()), keep_hours
        self._mode = mode  # of writing: rows overwrite those before, changes append
        self.owner = ""  # the pipeline's id, known when the sink is opened
        self._writes = 0

    def write(self, rows: pa.Table, version: int) -> None:
        """Commit rows as our `version`, unless that version was committed before."""
        table = self.table()
        if table is not None and (table.transaction_version(self.owner) or -1) >= version:
            return
        schema_mode = "overwrite" if self._mode == "overwrite" else None
        self._package.write_deltalake(
            self._path, in_utc(rows), mode=self._mode, schema_mode=schema_mode,
            commit_properties=self._properties(version),
        )  # fmt: skip
        self._forget_history()

    def _properties(self, version: int) -> Any:
        package = self._package
        transaction = package.Transaction(self.owner, version)
        return package.CommitProperties(
            custom_metadata={"viewmill.version": str(version)}, app_transactions=[transaction]
        )

    @property
    def folder(self) -> Path:
        """Where the table is."""
        return Path(self._path)

    @property
    def can_exchange_files(self) -> bool:
        """Whether the package can take single files out of a table."""
        return hasattr(pkgutil.resolve_name("deltalake.transaction"), "RemoveAction")

    def exchange_files(
        self, gone: Iterable[str], come: Mapping[str, int], schema: pa.Schema, version: int
    ) -> None:
        """Take files out of the table and others in, given with their rows, in one commit."""
        actions = pkgutil.resolve_name("deltalake.transaction")
        now = int(time.time() * 1000)
        made = [actions.RemoveAction(name, True, now, None, {}) for name in gone]
        self._package.DeltaTable(self._path).create_write_transaction(
            [*made, *self._added(come)], "append", schema,
            commit_properties=self._properties(version),
        )  # fmt: skip
        self._forget_history()

    def replace_files(self, come: Mapping[str, int], schema: pa.Schema, version: int) -> None:
        """Make some files, given with their rows, a table of these columns."""
        added, properties = self._added(come), self._properties(version)
        table = self.table()
        if table is None:
            make = pkgutil.resolve_name("deltalake.transaction:create_table_with_add_actions")
            columns = self._package.Schema.from_arrow(schema)
            make(self._path, columns, added, commit_properties=properties)
        else:
            table.create_write_transaction(added, "overwrite", schema, commit_properties=properties)
        self._forget_history()

    def _added(self, come: Mapping[str, int]) -> list[Any]:
        add = pkgutil.resolve_name("deltalake.transaction:AddAction")
        now = int(time.time() * 1000)
        return [
            add(
                name, (self.folder / name).stat().st_size, {}, now, True,
                json.dumps({"numRecords": rows}),
            )
            for name, rows in come.items()
        ]  # fmt: skip

    def table(self) -> Any:
        """The table, None if there is none."""
        package = self._package
        if not package.DeltaTable.is_deltatable(self._path):
            return None
        return package.DeltaTable(self._path)

    def _forget_history(self) -> None:
        """Every so many writes, vacuum files that only versions before `keep_hours` need."""
        if self._keep_hours is not None and self._writes % _WRITES == 0:
            table = self.table()
            hours = self._keep_hours
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
            table.cleanup_metadata()
        self._writes += 1

    def sign(self, view: View, pipeline: str) -> None:
        """Set the owner: a view is the same one in any case of its name.

        Tables written by an earlier version are signed with the name as it was spelt.
        """
        owner, spelt = (
            f"viewmill {pipeline} {view.name.lower()}",
            f"viewmill {pipeline} {view.name}",
        )
        self.owner = owner
        table = None if Path(self._path).is_file() else self.table()
        if table is None or table.transaction_version(owner) is not None:
            return
        if table.transaction_version(spelt) is not None:
            self.owner = spelt

    def require_ours(self) -> None:
        """Raise if the table belongs to others or the directory has other files."""
        folder = Path(self._path)
        table = None if folder.is_file() else self.table()
        if table is not None and table.transaction_version(self.owner) is None:
            raise WrongFormat(
                f"{self._path} is a Delta table of another pipeline or view",
                hint="Give another path, or remove it.",
            )
        if table is not None and _holds_changes(table) != (self._mode == "append"):
            raise WrongFormat(
                f"{self._path} is a Delta table of the same view in another mode",
                detail="Rows and changes do not go into one table.",
                hint="Give another path, or remove it.",
            )
        if table is None and folder.exists() and (folder.is_file() or any(folder.iterdir())):
            raise WrongFormat(
                f"{self._path} holds files of others", hint="Give another path, or remove them."
            )

    @property
    def is_there(self) -> bool:
        """Whether there is a table."""
        return self.table() is not None

    def changes(self) -> list[pa.Table]:
        """All rows of the table."""
        table = self.table()
        return [] if table is None else [pa.table(table.to_pyarrow_table())]


class DeltaChanges(ChangeSink):
    """The changes appended to a Delta table."""

    def __init__(self, path: str | os.PathLike[str], outbox: Path) -> None:
        self._lake = DeltaLake(path, mode="append")
        place = str(Path(path).absolute())
        delivery = Delivery(
            write_feather,
            self._append,
            lambda schema: net_rows(place, self._lake.changes(), schema),
        )
        super().__init__(f"delta {place}", outbox, delivery)

    def open(self, view: View, pipeline: str) -> None:
        """Set the owner of the table to this pipeline and view, and check that it is ours."""
        super().open(view, pipeline)
        self._lake.sign(view, pipeline)
        self._lake.require_ours()

    def check(self, view: View, *, has_all: bool) -> None:
        """Check that the table is still ours; if it was removed, start with all rows."""
        self._lake.require_ours()
        super().check(view, has_all=has_all)
        self._owner.has_begun &= self._lake.is_there

    def _append(self, file: Path, version: int) -> None:
        self._lake.write(change_rows(feather.read_table(str(file)), version), version)
        reach("change appended")
        disk.remove(file)


def _holds_changes(table: Any) -> bool:
    return {CHANGE, VERSION} <= {each.name for each in table.schema().fields}


def _deltalake() -> Any:
    try:
        return pkgutil.resolve_name("deltalake")
    except ImportError as missing:
        raise MissingDependency(
            "deltalake is not installed", hint="pip install 'viewmill[spark]'"
        ) from missing
