"""Views as files that other engines read: Parquet and Delta, as tables or as their changes.

A table has all rows of one version. Changes are rows with `_change_type` and `_commit_version`,
added for each version; together they are the view. A start writes what is lacking.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pkgutil
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import InvalidArgument, MissingDependency, WrongFormat
from viewmill.sinks.change_rows import change_rows, net_rows, repeated
from viewmill.sinks.sink import MULTIPLICITY, Change, Origin, OutOfStep, Sink

FORMATS, MODES = ("parquet", "delta"), ("table", "changes")
_NOTE = "_viewmill.json"  # readers of a directory skip names that begin with _ or .
_DELTA_LOG = "_delta_log"
_ATTEMPT = "viewmill.attempt"  # in the commits of Delta tables


def parquet(path: str | os.PathLike[str], *, mode: str = "table") -> Sink:
    """Parquet files in a directory: one with all rows, or one for the changes of each version."""
    return made(_ParquetFolder(path), mode)


def delta(path: str | os.PathLike[str], *, mode: str = "table") -> Sink:
    """A Delta table: a version of it for each version of the view, or the changes of each."""
    return made(_DeltaTable(path), mode)


def file_sink(format: str, path: str | os.PathLike[str], mode: str) -> Sink:
    """The sink of `mill.sink("v", format=..., path=...)`."""
    if format not in FORMATS:
        raise InvalidArgument(f"no sink with format {format!r}", hint=" or ".join(FORMATS))
    return parquet(path, mode=mode) if format == "parquet" else delta(path, mode=mode)


class Place(Protocol):
    """Where rows are written."""

    title: str

    def claim(self, origin: Origin, mode: str) -> None:
        """Take a place that is empty or has been this view's."""

    def write_table(self, rows: pa.Table, version: int) -> None:
        """Replace all rows."""

    def add_changes(self, rows: pa.Table, version: int) -> None:
        """Add the changes of a version."""

    def has_last_changes(self) -> bool:
        """Whether the changes that were written last, or were to be, are there."""

    def changes(self) -> list[pa.Table]:
        """All changes."""


def made(place: Place, mode: str) -> Sink:
    """The sink that writes to a place."""
    if mode not in MODES:
        raise InvalidArgument(f"no sink with mode {mode!r}", hint=" or ".join(MODES))
    return TableFiles(place) if mode == "table" else ChangeFiles(place)


class TableFiles:
    """All rows of a view, written anew for a change."""

    guarantee, takes_each_version, takes_whole = "exactly once", False, True

    def __init__(self, place: Place) -> None:
        self._place, self.title = place, place.title

    def open(self, origin: Origin) -> None:
        """Make the directory, or check that it is ours."""
        self._place.claim(origin, "table")

    def replace(self, rows: Change) -> None:
        """Write all rows as one version."""
        self._place.write_table(repeated(rows.to_arrow()), rows.version)

    def apply(self, change: Change) -> None:
        """It wants all rows."""
        raise OutOfStep(f"{self.title} is written whole")

    def has_taken(self, change: Change) -> bool:
        """Writing again changes nothing."""
        return False

    def close(self) -> None:
        """Nothing is held."""


class ChangeFiles:
    """The changes of a view, version after version."""

    guarantee, takes_each_version, takes_whole = "exactly once", True, False

    def __init__(self, place: Place) -> None:
        self._place, self.title = place, place.title
        self._tried: Change | None = None  # whose rows were written last, or not

    def open(self, origin: Origin) -> None:
        """Make the directory, or check that it is ours."""
        self._place.claim(origin, "changes")

    def replace(self, rows: Change) -> None:
        """Add what the changes so far lack, as the change of this version."""
        now = rows.to_arrow()
        before = net_rows(self.title, self._place.changes(), in_utc(now).schema)
        times = pa.array([-each for each in before[MULTIPLICITY].to_pylist()], pa.int64())
        at = before.schema.get_field_index(MULTIPLICITY)
        together = pa.concat_tables([in_utc(now), before.set_column(at, MULTIPLICITY, times)])
        self._write(_netted(together), rows.version)

    def apply(self, change: Change) -> None:
        """Add the change."""
        self._write(change.to_arrow(), change.version, change)

    def _write(self, rows: pa.Table, version: int, change: Change | None = None) -> None:
        if rows.num_rows:
            made = in_utc(change_rows(rows, version))
            self._tried = change
            self._place.add_changes(made, version)

    def has_taken(self, change: Change) -> bool:
        """Whether the file or the commit of an attempt that raised is there.

        One of this version may also be of a mill that was replaced by its backup since.
        """
        return change is self._tried and self._place.has_last_changes()

    def close(self) -> None:
        """Nothing is held."""


def _netted(rows: pa.Table) -> pa.Table:
    """Equal rows as one."""
    names = rows.column_names[:-1]
    try:
        summed = rows.group_by(names).aggregate([(MULTIPLICITY, "sum")])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as why:
        raise InvalidArgument(
            "columns of arrays, maps and structs cannot be written as changes",
            detail=str(why), hint='mode="table", or CAST them to STRING in the view.',
        ) from why  # fmt: skip
    summed = summed.rename_columns([*names, MULTIPLICITY])
    kept = summed.filter(pa.array(summed[MULTIPLICITY].to_numpy() != 0))
    return kept.select([*names, MULTIPLICITY])


class _ParquetFolder:
    """A directory with Parquet files that we write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Path(path).absolute()
        self.title = f"Parquet files in {self._folder}"
        self._last: Path | None = None  # where the last changes are, or were to be

    def claim(self, origin: Origin, mode: str) -> None:
        """Take the directory if it is empty or has been this view's."""
        _claim(self._folder, origin, {"format": "parquet", "mode": mode}, "*.parquet")

    def write_table(self, rows: pa.Table, version: int) -> None:
        """Replace the one file by one rename."""
        metadata = {"viewmill.version": str(version)}
        rows = in_utc(rows).replace_schema_metadata(metadata)
        _put(self._folder / "table.parquet", lambda file: pq.write_table(rows, file))

    def add_changes(self, rows: pa.Table, version: int) -> None:
        """Add a file."""
        self._last = None
        self._last = self._new_file(version)
        _put(self._last, lambda file: pq.write_table(rows, file))

    def has_last_changes(self) -> bool:
        """Whether the file that was written last is there."""
        return self._last is not None and self._last.exists()

    def changes(self) -> list[pa.Table]:
        """The rows of all files."""
        return [pq.read_table(each) for each in sorted(self._folder.glob("changes-*.parquet"))]

    def _new_file(self, version: int) -> Path:
        """A file that is not there: a mill from a backup has versions that were written before."""
        name = f"changes-{version:012d}"
        names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
        files = (self._folder / f"{each}.parquet" for each in names)
        return next(each for each in files if not each.exists())


class _DeltaTable:
    """A Delta table that we write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Path(path).absolute()
        self.title = f"Delta table {self._folder}"
        try:
            self._package: Any = pkgutil.resolve_name("deltalake")
        except ImportError as why:
            raise MissingDependency(
                "deltalake is not installed", hint="pip install 'viewmill[delta]'"
            ) from why
        self._attempt = ""  # names the last commit, made or not

    def claim(self, origin: Origin, mode: str) -> None:
        """Take the directory if it is empty or has been this view's."""
        allowed = "*" if (self._folder / _NOTE).exists() else ""
        _claim(self._folder, origin, {"format": "delta", "mode": mode}, allowed)

    def write_table(self, rows: pa.Table, version: int) -> None:
        """One commit with all rows."""
        self._write(in_utc(rows), version, mode="overwrite", schema_mode="overwrite")

    def add_changes(self, rows: pa.Table, version: int) -> None:
        """One commit with more rows."""
        self._write(rows, version, mode="append")

    def _write(self, rows: pa.Table, version: int, **how: str) -> None:
        self._attempt = secrets.token_hex(8)
        properties = self._package.CommitProperties(
            custom_metadata={"viewmill.version": str(version), _ATTEMPT: self._attempt}
        )
        self._package.write_deltalake(str(self._folder), rows, commit_properties=properties, **how)

    def has_last_changes(self) -> bool:
        """Whether the last commit is the one that was tried last."""
        table = self._table()
        last = [] if table is None else table.history(1)
        return bool(last) and last[0].get(_ATTEMPT) == self._attempt

    def changes(self) -> list[pa.Table]:
        """All rows."""
        table = self._table()
        return [] if table is None else [_large_as_plain(pa.table(table.to_pyarrow_table()))]

    def _table(self) -> Any:
        there = self._package.DeltaTable.is_deltatable(str(self._folder))
        return self._package.DeltaTable(str(self._folder)) if there else None


def _large_as_plain(rows: pa.Table) -> pa.Table:
    """Views and large texts as plain ones."""
    plain = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
    return rows.cast(pa.schema([(f.name, plain.get(f.type, f.type)) for f in rows.schema]))


def _claim(folder: Path, origin: Origin, what: dict[str, str], allowed: str) -> None:
    """Note whose a directory is; refuse one with files of others."""
    note = {"view": origin.view.lower(), **what}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as why:
        raise WrongFormat(f"{folder} is a file", hint="Give another path.") from why
    file = folder / _NOTE
    try:
        found = json.loads(file.read_text()) if file.exists() else None
    except ValueError:
        found = {}
    if found is not None and found != note:
        raise WrongFormat(
            f"{folder} belongs to another view, format or mode",
            detail=str(found), hint="Give another path, or remove it.",
        )  # fmt: skip
    ours = {each.name for each in folder.glob(allowed)} if found is not None and allowed else set()
    others = [each.name for each in folder.iterdir() if each.name not in ours]
    others = [each for each in others if each[0] not in "._" or each == _DELTA_LOG]
    if others:
        raise WrongFormat(
            f"{folder} holds files of others: {', '.join(sorted(others)[:3])}",
            hint="Give another path, or remove them.",
        )
    if found is None:
        _put(file, lambda fresh: fresh.write_text(json.dumps(note)))


def _put(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file aside, sync it, and put it in place by one rename."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        write(fresh)
        with fresh.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(fresh, file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
