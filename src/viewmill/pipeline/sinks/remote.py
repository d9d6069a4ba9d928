"""Parquet on file systems that fsspec reaches: s3, abfs, gcs, hdfs, memory.

takes  a URL whose scheme fsspec knows; credentials come from where its driver looks for them
does   a table is one object, put in one step; changes are objects named by their version

Object stores cannot exchange several objects at once, so a table is one object of any size. An
object that is put is seen whole or not at all, and to put it again changes nothing.
"""

from __future__ import annotations

import json
import pkgutil
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import MissingDependency, SinkBroken, WrongFormat
from viewmill.mill.changes import Change
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.view import View
from viewmill.pipeline.sinks.change_sink import ChangeSink, Delivery, write_feather
from viewmill.pipeline.sinks.owner import NOTE
from viewmill.pipeline.sinks.sink import TableSink
from viewmill.sinks.change_rows import change_rows, net_rows

_FILE = "table.parquet"


class RemoteFolder:
    """A folder at a URL that belongs to one view of one pipeline."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        with _reached(self.url):
            self._files, self._root = _fsspec().core.url_to_fs(self.url)

    def open(self, view: str, pipeline: str) -> None:
        """Check that the folder is ours or empty, and mark it."""
        note = {"pipeline": pipeline, "view": view.lower()}
        saved = self.get(NOTE)
        if saved is not None and _as_note(saved) != note:
            raise WrongFormat(
                f"{self.url} belongs to another pipeline or view",
                hint="Give another URL, or remove what is there.",
            )
        others = [] if saved is not None else self.names()
        if others:
            raise WrongFormat(
                f"{self.url} holds files of others: {', '.join(others[:3])}",
                detail="A reader would take them for rows of the view, or they would be replaced.",
                hint="Give another URL, or remove them.",
            )
        if saved is None:
            self.put(NOTE, json.dumps(note).encode())

    def names(self) -> list[str]:
        """The files that readers see."""
        with _reached(self.url):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._root, detail=False)
            except FileNotFoundError:
                return []
        names = [posixpath.basename(str(each).rstrip("/")) for each in found]
        return sorted(name for name in names if name and name[0] not in "._")

    def get(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        with _reached(self.url):
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except FileNotFoundError:
                return None

    def put(self, name: str, content: bytes) -> None:
        """Put a file in place, whole."""
        with _reached(self.url):
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(f"{self._root}/{name}", content)

    def stamp(self, name: str) -> tuple[Any, ...] | None:
        """What tells whether a file is still the one that was put."""
        with _reached(self.url):
            self._files.invalidate_cache()
            try:
                found = self._files.info(f"{self._root}/{name}")
            except FileNotFoundError:
                return None
        known = ("ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "created")
        return (found.get("size"), *(str(found.get(each)) for each in known))


class RemoteTable(TableSink):
    """The view as one Parquet object."""

    def __init__(self, url: str) -> None:
        super().__init__(self._replace)
        self._folder = RemoteFolder(url)
        self._stamp: tuple[Any, ...] | None = None  # of the object as we left it

    def open(self, view: View, pipeline: str) -> None:
        """Check that the folder is ours."""
        self._folder.open(view.name, pipeline)
        super().open(view, pipeline)

    def check(self, view: View, *, has_all: bool) -> None:
        """All rows can be read from the view; nobody else may have changed what is there."""
        self._require_ours()

    def prepare(self, version: int, change: Change | None) -> None:
        """Refuse the version if the object is not as we left it."""
        if change is not None:
            self._require_ours()

    def _replace(self, rows: pa.Table, version: int) -> None:
        self._require_ours()
        rows = in_utc(rows).replace_schema_metadata({"viewmill.version": str(version)})
        self._folder.put(_FILE, _parquet(rows))
        reach("table written")
        self._stamp = self._folder.stamp(_FILE)

    def _require_ours(self) -> None:
        others = [name for name in self._folder.names() if name != _FILE]
        if others or (self._stamp is not None and self._folder.stamp(_FILE) != self._stamp):
            raise SinkBroken(
                f"{self._folder.url} was changed by others: {', '.join(others[:3]) or _FILE}",
                detail="The next version of the table would replace what they did.",
                hint="Move it away; the next start writes all rows of the view.",
            )


class RemoteChanges(ChangeSink):
    """The changes as objects `changes-VERSION.parquet`; they wait in the storage until then."""

    def __init__(self, url: str, outbox: Path) -> None:
        self._remote = RemoteFolder(url)
        delivery = Delivery(write_feather, self._put, self._net)
        super().__init__(f"parquet {self._remote.url}", outbox, delivery)

    def open(self, view: View, pipeline: str) -> None:
        """Check that both folders are ours."""
        super().open(view, pipeline)
        self._remote.open(view.name, pipeline)

    def _put(self, file: Path, version: int) -> None:
        rows = change_rows(feather.read_table(str(file)), version)
        self._remote.put(f"changes-{version:012d}.parquet", _parquet(in_utc(rows)))
        reach("change appended")
        disk.remove(file)

    def _net(self, schema: pa.Schema) -> pa.Table:
        contents = [self._remote.get(name) for name in self._remote.names()]
        tables = [pq.read_table(pa.BufferReader(each)) for each in contents if each is not None]
        return net_rows(self._remote.url, tables, schema)


def _parquet(rows: pa.Table) -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer)
    return bytes(buffer.getvalue())


def _as_note(saved: bytes) -> dict[str, str]:
    try:
        note = json.loads(saved)
    except ValueError:
        return {}
    return {"pipeline": str(note.get("pipeline")), "view": str(note.get("view")).lower()}


@contextmanager
def _reached(url: str) -> Iterator[None]:
    """Errors of the file system as ours."""
    try:
        yield
    except ImportError as missing:
        raise MissingDependency(
            f"a driver for {url} is not installed",
            detail=str(missing).splitlines()[0],
            hint="pip install fsspec, and the driver of the scheme: s3fs for s3, adlfs for abfs.",
        ) from missing
    except Exception as why:  # every driver has errors of its own
        raise SinkBroken(
            f"{url} cannot be reached",
            detail=(str(why).splitlines() or [type(why).__name__])[0],
            hint="Check the URL, the credentials and the network; start() goes on from storage.",
        ) from why


def _fsspec() -> Any:
    return pkgutil.resolve_name("fsspec")
