"""The view as a Delta table; each version that changes the view is a version of the table.

takes  the rows of a view, or the buckets that its change touches
does   one commit for each: an overwrite, or files that go and files that come

Commits of others are read from the table's log: those that leave the rows as they are (OPTIMIZE,
VACUUM) are taken, with others the sink stops.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewmill.errors import SinkBroken
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import NewFile, make_folders, sync_folder
from viewmill.mill.view import View
from viewmill.pipeline.sinks.bucketed_table import BucketedTable
from viewmill.pipeline.sinks.buckets import Bucket, read_buckets, write_bucket
from viewmill.pipeline.sinks.delta_lake import DeltaLake


class DeltaTableSink(BucketedTable):
    """The view as a Delta table."""

    def __init__(self, path: str | os.PathLike[str], *, keep_hours: int | None = None) -> None:
        self._lake = DeltaLake(path, mode="overwrite", keep_hours=keep_hours)
        self._table = DeltaFiles(self._lake)
        super().__init__(self._table)

    def open(self, view: View, pipeline: str) -> None:
        """Set the owner of the table to this pipeline and view, and check that it is ours."""
        self._lake.sign(view, pipeline)
        self._lake.require_ours()
        super().open(view, pipeline)

    def check(self, view: View, *, has_all: bool) -> None:
        """Check that the table is still ours; all rows can be read from the view."""
        self._lake.require_ours()
        self._table.find_ours()


class DeltaFiles:
    """The files of a table in its log."""

    def __init__(self, lake: DeltaLake) -> None:
        self._lake = lake
        self._last: int | None = None  # the version of the table as we left it
        self._is_moved = False  # whether others put its rows into other files

    @property
    def can_bucket(self) -> bool:
        """Whether the package can take single files out of a table."""
        return self._lake.can_exchange_files

    def find_ours(self) -> None:
        """Find our last commit in the log; raise if others changed rows since."""
        table = self._lake.table()
        self._last = None if table is None else table.version()
        for version in range(-1 if self._last is None else self._last, -1, -1):
            actions = self._actions(version)
            if not actions or any(
                each.get("txn", {}).get("appId") == self._lake.owner for each in actions
            ):
                return
            self._require_kept_rows(version, actions)

    def check(self) -> bool:
        """Whether the files are those that we left; raises if others changed rows."""
        while self._last is not None and (actions := self._actions(self._last + 1)):
            self._require_kept_rows(self._last + 1, actions)
            self._last += 1
            self._is_moved |= any({"add", "remove"} & each.keys() for each in actions)
        return not self._is_moved

    def _actions(self, version: int) -> list[dict[str, Any]]:
        """What a commit did; nothing if there is no such commit, or no more."""
        file = self._lake.folder / "_delta_log" / f"{version:020d}.json"
        try:
            return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
        except FileNotFoundError:
            return []

    def _require_kept_rows(self, version: int, actions: list[dict[str, Any]]) -> None:
        moved = (each.get(kind) for each in actions for kind in ("add", "remove"))
        changes = any(each and each.get("dataChange", True) for each in moved)
        if changes or any("metaData" in each for each in actions):
            raise SinkBroken(
                f"{self._lake.folder} was changed by others in its version {version}",
                detail="The next version of the view would replace what they did.",
                hint=f"Restore version {version - 1}, or give the sink another path.",
            )

    def names(self) -> Sequence[str]:
        """The files of the table's last version."""
        table = self._lake.table()
        return [] if table is None else [*_paths(table)]

    def read(self, names: Iterable[str]) -> pa.Table:
        """The rows of some files."""
        return read_buckets([self._lake.folder / name for name in names])

    def replace(self, rows: pa.Table, version: int) -> None:
        """Overwrite the table."""
        self._lake.write(rows, version)
        reach("table written")
        self._note_last()

    def write(self, name: str, rows: pa.Table, version: int) -> None:
        """Write a file, of which the table's log does not know yet."""
        make_folders(self._lake.folder)
        with NewFile(self._lake.folder / name) as file:
            write_bucket(rows, file)
            file.sync()

    def commit(
        self, names: Sequence[str], schema: pa.Schema, version: int, *, is_new: bool
    ) -> None:
        """Make these files the table."""
        sync_folder(self._lake.folder)
        there, wanted = set() if is_new else set(self.names()), set(names)
        buckets = [Bucket.named(name) for name in wanted - there]
        come = {each.name: each.rows for each in buckets if each is not None}
        reach("table written")
        if is_new:
            self._lake.replace_files(come, schema, version)
        else:
            self._lake.exchange_files(there - wanted, come, schema, version)
        self._note_last()

    def _note_last(self) -> None:
        table = self._lake.table()
        self._last = None if table is None else table.version()
        self._is_moved = False


def _paths(table: Any) -> Iterator[str]:
    for uri in table.file_uris():
        yield Path(uri).name
