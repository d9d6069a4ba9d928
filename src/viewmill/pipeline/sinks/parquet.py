"""Plain Parquet that any engine reads.

A small table is one file in a directory, replaced by one rename. A larger one is several files,
its buckets: the next version is made in a directory beside it, of links to the files that stay and
of new ones, and the two directories exchange their names in one step. Whoever lists the directory
sees exactly one version in both cases. Changes are files named by their version and never altered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import SinkBroken
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import NewFile, make_folders, remove_below, sync_file, sync_folder
from viewmill.mill.view import View
from viewmill.pipeline.sinks.bucketed_table import BucketedTable
from viewmill.pipeline.sinks.buckets import read_buckets, write_bucket
from viewmill.pipeline.sinks.change_sink import ChangeSink, Delivery
from viewmill.pipeline.sinks.exchange import can_exchange, exchange
from viewmill.pipeline.sinks.owner import NOTE, Owner
from viewmill.pipeline.storage import put_in_place
from viewmill.sinks.change_rows import change_rows, net_rows

_FILE = "table.parquet"
_BUCKETS = "bucket-*.parquet"
_CHANGES = "changes-*.parquet"

Stamp = tuple[int, int, int]  # inode, size, time of the last change


class ParquetTable(BucketedTable):
    """The view as Parquet files in the directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = ParquetFolder(Path(path).absolute())
        super().__init__(self._folder)

    def open(self, view: View, pipeline: str) -> None:
        """Make the directory; refuse one where a reader would find other rows, too."""
        self._folder.open(view.name, pipeline)
        super().open(view, pipeline)

    def check(self, view: View, *, has_all: bool) -> None:
        """All rows can be had from the view; the directory must still be ours."""
        self._folder.check_owner()


class ParquetFolder:
    """The files of a table in one directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(os.path.realpath(folder)) if folder.is_symlink() else folder
        place = self._folder
        self._next = place.parent / f".{place.name}.viewmill-next"  # the version being made
        self._owner = Owner(self._folder, _FILE, _BUCKETS)
        self._stamps: dict[str, Stamp] | None = None  # of the files as we left them
        self._can_bucket: bool | None = None

    def open(self, view: str, pipeline: str) -> None:
        """Make the directory; remove what a crash left."""
        self._owner.open(view, pipeline)
        for left in self._folder.glob(f".{_FILE}-*"):
            disk.remove(left)
        self._discard_next()
        self._stamps = None

    def _discard_next(self) -> None:
        """Remove the directory beside the table: the version before, or an unfinished one."""
        remove_below(self._next.parent, self._next)

    def check_owner(self) -> None:
        """Raise if the directory is not ours, or has other files than we left."""
        self._stamps = None
        self._owner.check()
        there = self._stamped()
        for name, size in self._owner.files.items():
            if name not in there or there[name][1] != size:
                raise self._changed(name)
        if _FILE in there and not _is_ours(self._folder / _FILE):
            raise self._changed(_FILE)

    @property
    def can_bucket(self) -> bool:
        """Whether directories can exchange their names here."""
        if self._can_bucket is None:
            self._can_bucket = can_exchange(self._folder)
        return self._can_bucket

    def check(self) -> bool:
        """Always True; raises if others changed a file, or put one beside ours."""
        if self._stamps is None:
            return True
        if not self._folder.is_dir():
            raise SinkBroken(
                f"{self._folder} was removed while the pipeline ran",
                hint="Start the pipeline again: it writes all rows of the view.",
            )
        there = self._stamped()
        for name in sorted(there.keys() | self._stamps.keys()):
            if there.get(name) != self._stamps.get(name):
                raise self._changed(name)
        return True

    def _changed(self, name: str) -> SinkBroken:
        return SinkBroken(
            f"{self._folder} was changed by others: {name}",
            detail="The next version of the table would replace what they did.",
            hint="Move the directory away, or remove it; the next start writes all rows of the"
            " view.",
        )

    def _stamped(self) -> dict[str, Stamp]:
        return {each.name: _stamp(each.stat()) for each in _listed(self._folder)}

    def names(self) -> Sequence[str]:
        """The files that readers see."""
        return [each.name for each in _listed(self._folder)]

    def read(self, names: Iterable[str]) -> pa.Table:
        """The rows of some files."""
        return read_buckets([self._folder / name for name in names])

    def replace(self, rows: pa.Table, version: int) -> None:
        """Make one file the whole table."""
        self._owner.claim(begun=True)
        rows = in_utc(rows)
        if any(each != _FILE for each in self.names()):
            self.write(_FILE, rows, version)
            self.commit([_FILE], rows.schema, version, is_new=True)
            return
        fresh = self._folder / f".{_FILE}-{version}"
        _write_table(rows, version, fresh)
        sync_file(fresh)
        reach("table written")
        put_in_place(fresh, self._folder / _FILE)
        self._stamps = self._stamped()

    def write(self, name: str, rows: pa.Table, version: int) -> None:
        """Write a file of the next version."""
        make_folders(self._next)
        _write_table(rows, version, self._next / name)

    def commit(
        self, names: Sequence[str], schema: pa.Schema, version: int, *, is_new: bool
    ) -> None:
        """Put the next version in the place of this one."""
        make_folders(self._next)
        made = set(os.listdir(self._next))
        for name in names:
            if name in made:
                sync_file(self._next / name)
            else:
                os.link(self._folder / name, self._next / name)
        buckets = [name for name in names if name != _FILE]
        sizes = {name: (self._next / name).stat().st_size for name in buckets}
        with NewFile(self._next / NOTE) as file:
            file.write(self._owner.note(begun=True, version=version, files=sizes))
            file.sync()
        for left in made - {*names, NOTE}:  # of an attempt that failed
            disk.remove(self._next / left)
        sync_folder(self._next)
        reach("table written")
        exchange(self._next, self._folder)
        sync_folder(self._folder.parent)
        reach("table exchanged")
        self._stamps = self._stamped()
        self._keep_strangers()

    def _keep_strangers(self) -> None:
        """Remove the version before; files of others in it go on to this one."""
        for name in os.listdir(self._next):
            if name != NOTE and name != _FILE and not name.startswith("bucket-"):
                os.rename(self._next / name, self._folder / name)
        self._discard_next()


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    """The entries that readers of a directory see."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as found:
        return [each for each in found if each.name[0] not in "._"]


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_ours(file: Path) -> bool:
    try:
        return b"viewmill.version" in (pq.read_schema(file).metadata or {})
    except pa.ArrowInvalid:
        return False


def _write_table(rows: pa.Table, version: int, path: Path) -> None:
    rows = rows.replace_schema_metadata({"viewmill.version": str(version)})
    with NewFile(path) as file:
        write_bucket(rows, file)


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
