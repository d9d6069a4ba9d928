"""Follow a Delta table through the `deltalake` package, without a JVM.

takes  the path or address of a Delta table
gives  first the rows of its newest version, then the changes from version to version

With a change data feed (delta.enableChangeDataFeed) the changes are read from it. Without one the
files that two versions do not share are compared: rows that stand in both cancel each other out.
"""

from __future__ import annotations

import json
import os
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    String,
    Timestamp,
    Wide,
)
from viewmill.deltas.arrow import from_arrow_type
from viewmill.errors import InvalidArgument, MissingDependency, SourceBroken, TypeMismatch
from viewmill.sources.delta_files import DeltaFiles
from viewmill.sources.source import Offsets, Step

_INSERTED, _DELETED = ["insert", "update_postimage"], ["delete", "update_preimage"]
_COLUMNS = (Boolean, Integer, Float, Decimal, Wide, String, Date, Timestamp)
_VERSIONS = 200  # of the feed, at most, in one step
_GONE = ("not found", "no such file", "no files in log segment", "invalid table version", "404")


def delta(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> DeltaTable:
    """A Delta table; `storage_options` are those of `deltalake` for object stores."""
    text = os.fspath(path)
    text = text if "://" in text else os.path.abspath(text)
    try:
        package = pkgutil.resolve_name("deltalake")
    except ImportError as why:
        raise MissingDependency(
            "deltalake is not installed", hint="pip install 'viewmill[delta]'"
        ) from why
    return DeltaTable(text, dict(storage_options or {}), package)


class DeltaTable:
    """A Delta table that is followed."""

    has_more_columns = True

    def __init__(self, path: str, storage_options: dict[str, str], package: Any) -> None:
        self._path, self._options, self._package = path, storage_options, package
        self.reads = "a snapshot"

    @property
    def title(self) -> str:
        """What it is called in errors and in the status."""
        return f"Delta table {self._path}"

    def schema(self) -> pa.Schema:
        """The columns of the newest version whose types a mill has."""
        fields = [pa.field(each.name, each.type) for each in _schema(self._newest())]
        return pa.schema([each for each in fields if _is_known(each.type)])

    def changes(
        self, offsets: Offsets, schema: pa.Schema, key: tuple[str, ...] = ()
    ) -> Iterator[Step]:
        """The table as it is now, or what changed since the version that was reached."""
        table = self._newest()
        if "table" not in offsets:
            columns = _shared(schema, table)
            self.reads = "a snapshot"
            rows = DeltaFiles(table, self._options).rows(columns)
            yield Step(_plain(rows), _offset(table, columns))
            return
        reached = json.loads(offsets["table"])
        self._check(reached, table)
        while reached["version"] < table.version():
            try:
                step = self._since(reached, table, _shared(schema, table))
            except (OSError, self._package.exceptions.DeltaError, pa.ArrowInvalid) as why:
                if not _is_gone(why):
                    raise
                raise _gone(self.title, reached["version"], why) from why
            yield step
            reached = json.loads(step.offsets["table"])

    def close(self) -> None:
        """Nothing stays open."""

    def _newest(self) -> Any:
        """The table, opened anew: one that is kept does not notice that it was created anew."""
        try:
            return self._at(None)
        except self._package.exceptions.TableNotFoundError as why:
            raise InvalidArgument(
                f"{self.title} does not exist", hint="A Delta table is a folder with a _delta_log."
            ) from why

    def _at(self, version: int | None) -> Any:
        return self._package.DeltaTable(self._path, version, storage_options=self._options)

    def _check(self, reached: dict[str, Any], table: Any) -> None:
        """Refuse a table that is not the one that was followed."""
        if table.metadata().id != reached["id"] or table.version() < reached["version"]:
            raise SourceBroken(
                f"{self.title} is not the table that was followed: it was created anew",
                detail=f"Version {reached['version']} was reached, it is at {table.version()}.",
                hint=_AGAIN,
            )
        known = {each.name.lower() for each in _schema(table)}
        lost = [name for name in reached["columns"] if name.lower() not in known]
        if lost:
            raise SourceBroken(
                f"{self.title} no longer has the column {', '.join(lost)}",
                detail="The table that follows it still does.",
                hint="mill.unfollow(table), then follow into a table without that column.",
            )

    def _since(self, reached: dict[str, Any], table: Any, columns: list[str]) -> Step:
        first = reached["version"] + 1
        last = min(reached["version"] + _VERSIONS, table.version())
        why = _why_no_feed(table, first, last)
        if not why:
            try:
                found = _feed(table, first, last, columns)
            except (OSError, self._package.exceptions.DeltaError, pa.ArrowInvalid) as error:
                why = _why_unreadable(error)
                if not why:
                    raise
            else:
                self.reads = "the change data feed"
                noted = _offset(table, columns, last)
                return Step(_of(found, _INSERTED), noted, _of(found, _DELETED))
        self.reads = f"the difference of files: {why}"
        old = DeltaFiles(self._at(reached["version"]), self._options)
        new = DeltaFiles(table, self._options)
        inserted = _plain(new.rows(columns, new.keys - old.keys))
        deleted = _plain(old.rows(columns, old.keys - new.keys))
        return Step(inserted, _offset(table, columns), deleted)


_AGAIN = "mill.unfollow(table), DELETE FROM the table, and follow again from a new snapshot."


def _is_gone(why: Exception) -> bool:
    """Whether an error says that history was removed: it does not come back."""
    return any(each in str(why).lower() for each in _GONE)


def _gone(title: str, version: int, why: Exception) -> SourceBroken:
    return SourceBroken(
        f"{title} no longer has the changes since version {version}",
        detail=f"They were vacuumed, or the log was cleaned up: {why}",
        hint=f"{_AGAIN} Keep history for as long as a mill may be away "
        "(delta.deletedFileRetentionDuration, delta.logRetentionDuration).",
    )


def _offset(table: Any, columns: list[str], version: int | None = None) -> Offsets:
    reached = table.version() if version is None else version
    noted = {"version": reached, "id": table.metadata().id, "columns": columns}
    return {"table": json.dumps(noted)}


def _schema(table: Any) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _shared(schema: pa.Schema, table: Any) -> list[str]:
    """The columns, as the Delta table spells them, that the mill's table has too."""
    wanted = {name.lower() for name in schema.names}
    return [each.name for each in _schema(table) if each.name.lower() in wanted]


def _is_known(type_: pa.DataType) -> bool:
    try:
        return isinstance(from_arrow_type(type_), _COLUMNS)
    except TypeMismatch:
        return False


def _why_no_feed(table: Any, first: int, last: int) -> str:
    """Why the feed of some versions is not read; empty if it is."""
    set_to = table.metadata().configuration.get("delta.enableChangeDataFeed") or "false"
    if set_to.lower() != "true":
        return "the table has no change data feed"
    if "deletionVectors" in (table.protocol().reader_features or ()):
        return "deltalake overlooks deletion vectors in the change data feed"
    commits = table.history(table.version() - first + 1)
    if any(_may_lack_rows(each) for each in commits if first <= each["version"] <= last):
        return "deltalake's UPDATE leaves rows out of the change data feed"
    return ""


def _why_unreadable(error: Exception) -> str:
    """Why the feed of some versions cannot be read, if the files of the table still may be."""
    if "not enabled" in str(error).lower():
        return "the change data feed was off when these versions were written"
    if "column mapping is not supported" in str(error).lower():
        return "deltalake does not read the change data feed of mapped columns"
    # deltalake does not find files of partitions such as "2024-01-01 00:00:00", either
    return "files of the change data feed are not found" if _is_gone(error) else ""


def _may_lack_rows(commit: dict[str, Any]) -> bool:
    """Whether deltalake wrote an UPDATE: of rows 1, 2 changed to 2, 2 its feed has no new 2."""
    writer = f"{commit.get('engineInfo')} {commit.get('clientVersion')}"
    return commit.get("operation") == "UPDATE" and "delta-rs" in writer


def _feed(table: Any, first: int, last: int, columns: list[str]) -> pa.Table:
    """What the feed has of some versions."""
    wanted = [_quoted(each) for each in (*columns, "_change_type")]
    reader = table.load_cdf(first, last, columns=wanted)
    rows = pa.table(reader)
    return rows.cast(pa.schema([(each.name, _filtered(each.type)) for each in rows.schema]))


def _quoted(name: str) -> str:
    """A name as deltalake wants it: it reads names as SQL, in which Id is id and a.b a field."""
    return '"' + name.replace('"', '""') + '"'


def _filtered(type_: pa.DataType) -> pa.DataType:
    """The type as one that Arrow can filter."""
    return pa.string() if type_ == pa.string_view() else type_


def _of(rows: pa.Table, words: list[str]) -> pa.Table:
    """The rows that a feed says were inserted, or deleted."""
    kept = rows.filter(pc.is_in(rows["_change_type"], pa.array(words)))
    return _plain(kept.drop_columns(["_change_type"]))


def _plain(rows: pa.Table) -> pa.Table:
    """Without the table's own notes, which Arrow would compare."""
    return rows.replace_schema_metadata(None)
