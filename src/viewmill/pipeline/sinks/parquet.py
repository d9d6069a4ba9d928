"""Plain Parquet that any engine reads.

A table is one file in a directory, replaced by one rename: whoever lists the directory sees exactly
one version. Changes are files named by their version and never altered.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from viewmill.mill.readers import in_utc
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import NewFile
from viewmill.mill.view import View
from viewmill.pipeline.sinks.change_sink import ChangeSink, Delivery
from viewmill.pipeline.sinks.owner import Owner
from viewmill.pipeline.sinks.sink import TableSink, change_rows, net_rows
from viewmill.pipeline.storage import put_in_place

_FILE = "table.parquet"
_CHANGES = "changes-*.parquet"


class ParquetTable(TableSink):
    """The view as one Parquet file in the directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(self._replace)
        self._folder = Path(path).absolute()
        self._owner = Owner(self._folder, _FILE)

    def open(self, view: View, pipeline: str) -> None:
        """Make the directory; refuse one where a reader would find other rows, too."""
        self._owner.open(view.name, pipeline)
        for left in self._folder.glob(f".{_FILE}-*"):
            disk.remove(left)
        super().open(view, pipeline)

    def check(self, view: View, *, has_all: bool) -> None:
        """All rows can be had from the view; the directory must still be ours."""
        self._owner.check()

    def _replace(self, rows: pa.Table, version: int) -> None:
        self._owner.claim(begun=True)
        fresh = self._folder / f".{_FILE}-{version}"
        rows = in_utc(rows).replace_schema_metadata({"viewmill.version": str(version)})
        with NewFile(fresh) as file:
            pq.write_table(rows, file)
            file.sync()
        reach("table written")
        put_in_place(fresh, self._folder / _FILE)


def parquet_changes(path: str | os.PathLike[str]) -> ChangeSink:
    """The changes as files `changes-VERSION.parquet`."""
    folder = Path(path).absolute()
    delivery = Delivery(_write, _show, lambda schema: _net(folder, schema))
    return ChangeSink(f"parquet {folder}", folder, delivery, shown=_CHANGES)


def _write(rows: pa.Table, version: int, file: Path) -> None:
    with NewFile(file) as out:
        pq.write_table(in_utc(change_rows(rows, version)), out)


def _show(file: Path, version: int) -> None:
    put_in_place(file, file.with_name(f"changes-{version:012d}.parquet"))


def _net(folder: Path, schema: pa.Schema) -> pa.Table:
    """The rows that the files of the folder make up."""
    files = sorted(folder.glob(_CHANGES))
    return net_rows(str(folder), [pq.read_table(file) for file in files], schema)
