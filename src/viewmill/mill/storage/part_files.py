"""The time parts of a table or view as Parquet files that any engine reads.

parts/m/part_timestamp=2015-01-01T10-00-00/part.parquet

takes  the rows of a part and its catalog entry, which is written into the file
gives  the rows back, or DamagedFile

A file is written after the commit of the version that it has, and replaced as a whole. So at any
time it has one version of its part, and names it; later changes are in the log. A file that the
checkpoint refers to is replaced only by a synced file, and an expired part is set aside until the
next checkpoint.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from viewmill.algebra.names import folder_name
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import (
    NewFile,
    make_folders,
    read_file,
    remove_below,
    sync_file,
    sync_folder,
)
from viewmill.mill.storage.refusals import damaged, reported
from viewmill.program.parts import PartInfo

PARTS = "parts"
_EPOCH = datetime.datetime(1970, 1, 1)
_ABOUT = b"viewmill"  # the key of our metadata in a file
# Engines ignore file names that start with an underscore.
_FILE, _DRAFT, _ENDED = "part.parquet", "_draft", "_ended"
_MAX_SINGLE_SYNCS = 32  # above this number of files the whole disk is synced instead


class FiledPart(NamedTuple):
    """The content of a part file."""

    info: PartInfo
    rows: pa.Table
    negative_rows: str | None  # encoded rows with a negative multiplicity


def part_folder(subscript: int, length: int) -> str:
    """The name of the folder of a part.

    >>> part_folder(23667840, 60)
    'part_timestamp=2015-01-01T00-00-00'
    """
    try:
        start = _EPOCH + datetime.timedelta(seconds=subscript * length)
    except OverflowError:  # past the year 9999
        return f"part_timestamp={subscript * length}"
    return f"part_timestamp={start:%Y-%m-%dT%H-%M-%S}"


class PartFiles:
    """The files of one table or view. `key` distinguishes it from dropped namesakes."""

    def __init__(self, mill: Path, name: str, key: str, length: int) -> None:
        self.key = key
        self._parts = mill / PARTS
        self._folder = self._parts / folder_name(name)
        self._length = length
        self._counted: set[int] = set()  # parts that the checkpoint refers to
        self._written: dict[int, int] = {}  # the version in the file of each part
        self._unsynced: dict[int, Path] = {}
        self.reached: int | None = None  # the newest part when files were last written

    def path(self, subscript: int) -> Path:
        """The path of a part's file."""
        return self._folder / part_folder(subscript, self._length) / _FILE

    def current(self, info: PartInfo) -> Path | None:
        """The file of a part, if it is up to date."""
        is_current = self._written.get(info.subscript) == info.version
        return self.path(info.subscript) if is_current else None

    # Writing.

    def write(self, info: PartInfo, rows: pa.Table, negative_rows: str | None = None) -> None:
        """Replace the file of a part."""
        path = self.path(info.subscript)
        about = {"key": self.key, "info": info, "owed": negative_rows}
        metadata = {**(rows.schema.metadata or {}), _ABOUT: json.dumps(about).encode()}
        with reported(path, "write"):
            make_folders(path.parent)
            draft = path.with_name(_DRAFT)
            with NewFile(draft) as file:
                whole = rows.replace_schema_metadata(metadata)
                pq.write_table(whole, file, write_page_checksum=True)
                if info.subscript in self._counted:
                    file.sync()
            reach("part drafted")
            disk.replace(draft, path)
            reach("part in place")
        self._unsynced[info.subscript] = path
        self._written[info.subscript] = info.version

    def end(self, subscript: int) -> None:
        """Remove the file of an expired part, or set it aside if the checkpoint refers to it."""
        path = self.path(subscript)
        if self._written.pop(subscript, None) is None and subscript not in self._counted:
            return
        self._unsynced.pop(subscript, None)
        with reported(path, "remove"):
            if subscript not in self._counted:
                remove_below(self._folder, path.parent)
            elif path.exists():  # else it was set aside before the mill was opened
                disk.replace(path, path.with_name(_ENDED))
        reach("part ended")

    def sync(self) -> None:
        """Sync all written files."""
        with reported(self._folder, "sync"):
            if len(self._unsynced) > _MAX_SINGLE_SYNCS:
                disk.sync_all()  # faster, but it hides errors, so each file is synced as well
            for path in self._unsynced.values():
                sync_file(path)
                sync_folder(path.parent)
            if self._unsynced:
                for folder in (self._folder, self._folder.parent, self._folder.parent.parent):
                    sync_folder(folder)
        self._unsynced.clear()
        reach("parts synced")

    def give_up_unsynced(self) -> set[int]:
        """The parts to write again after a failed sync, which may have lost data; the next sync
        would not report that."""
        lost = set(self._unsynced)
        for subscript in lost:
            self._written.pop(subscript, None)
        self._unsynced.clear()
        return lost

    def count_on(self, subscripts: Iterable[int]) -> None:
        """The checkpoint refers to exactly these parts: remove the files of all others."""
        self._counted = set(subscripts)
        self._sweep({part_folder(each, self._length) for each in self._counted})

    # Opening.

    def open(self, subscripts: Iterable[int]) -> list[FiledPart]:
        """Read the parts that the checkpoint refers to and remove all other files."""
        self._counted = set(subscripts)
        found = [self._read(each) for each in sorted(self._counted)]
        self._sweep({part_folder(each, self._length) for each in self._counted})
        self._written = {each.info.subscript: each.info.version for each in found}
        return found

    def _read(self, subscript: int) -> FiledPart:
        path = self.path(subscript)
        if not path.exists() and path.with_name(_ENDED).exists():
            path = path.with_name(_ENDED)
        if not path.exists():
            raise damaged(path, "it is missing")
        with reported(path, "read"):
            content = pa.BufferReader(read_file(path))
        try:
            file = pq.ParquetFile(content, page_checksum_verification=True)
            rows = file.read()
            about = json.loads((rows.schema.metadata or {})[_ABOUT])
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise damaged(path, f"Parquet: {error}") from error
        info = PartInfo(*about["info"])
        if about["key"] != self.key or info.subscript != subscript:
            raise damaged(path, f"it is part {info.subscript} of {about['key']}")
        return FiledPart(info, rows, about["owed"])

    def _sweep(self, kept: set[str]) -> None:
        """Remove the folders of other parts, and drafts."""
        if not self._folder.exists():
            return
        with reported(self._folder, "read"):
            folders = list(self._folder.iterdir())
        for each in folders:
            if each.name not in kept:
                remove_below(self._folder, each)
            else:
                remove_below(self._folder, each / _DRAFT)

    def remove(self) -> None:
        """Remove all files: the table or view was dropped."""
        remove_below(self._parts, self._folder)


def remove_others(mill: Path, names: Iterable[str]) -> None:
    """Remove the folders of all other tables and views."""
    folder = mill / PARTS
    known = {folder_name(each) for each in names}
    for each in folder.iterdir() if folder.exists() else ():
        if each.name not in known:
            remove_below(folder, each)
