"""Follow files: those that match a pattern, each taken once, in the order of their names.

takes  a pattern of paths; CSV, JSON or Parquet by their suffix, or as `format` says
gives  their rows as inserts; the offset of a file says how much of it was taken

A file is known by its path and contents: one that changed after it was taken is an error.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet

from viewmill.errors import InvalidArgument, InvalidRow, SourceBroken
from viewmill.sources.read_files import digest_file, read_file
from viewmill.sources.source import Offsets, Step

FORMATS = ("csv", "json", "parquet")
_SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}


def files(
    pattern: str | os.PathLike[str], *, format: str | None = None, batch_rows: int = 100_000
) -> Files:
    """Files whose paths match a glob pattern; `**` matches folders at any depth."""
    text = os.path.abspath(os.fspath(pattern))
    suffixes = [each for each in Path(text).suffixes if each in _SUFFIXES]
    found = format or (_SUFFIXES[suffixes[-1]] if suffixes else None)
    if found not in FORMATS:
        raise InvalidArgument(
            f"the format of {text} is not known", hint='format="csv", "json" or "parquet".'
        )
    if batch_rows < 1:
        raise InvalidArgument(f"batch_rows={batch_rows} takes no rows")
    return Files(text, found, batch_rows)


@dataclass(frozen=True)
class Files:
    """Files that match a pattern."""

    has_more_columns: ClassVar[bool] = False
    reads: ClassVar[str] = "whole files"

    pattern: str
    format: str
    batch_rows: int

    @property
    def title(self) -> str:
        """What it is called in errors and in the status."""
        return f"files {self.pattern}"

    def schema(self) -> pa.Schema | None:
        """The columns of the first Parquet file; text does not say its types."""
        found = self._paths() if self.format == "parquet" else []
        if not found:
            return None
        try:
            return pyarrow.parquet.read_schema(found[0])
        except pa.ArrowInvalid as why:
            raise InvalidRow(f"{found[0]} is not a Parquet file", detail=str(why)) from why

    def changes(
        self, offsets: Offsets, schema: pa.Schema, key: tuple[str, ...] = ()
    ) -> Iterator[Step]:
        """The rows of the files that were not taken completely."""
        for path in self._paths():
            yield from self._rest(path, offsets.get(path), schema)

    def close(self) -> None:
        """Nothing stays open."""

    def _paths(self) -> list[str]:
        return sorted(each for each in glob.glob(self.pattern, recursive=True) if _is_file(each))

    def _rest(self, path: str, offset: str | None, schema: pa.Schema) -> Iterator[Step]:
        facts = os.stat(path)
        known = {"size": facts.st_size, "modified": facts.st_mtime_ns}
        note = json.loads(offset) if offset else {}
        is_same = all(note.get(name) == value for name, value in known.items())
        if is_same and note["complete"]:
            return
        digest = note["digest"] if is_same else digest_file(Path(path))
        if note and digest != note["digest"]:
            raise _changed(path)
        if note.get("complete"):
            return
        taken = note.get("taken", 0)
        tables = read_file(Path(path), self.format, schema, skip=taken, batch_rows=self.batch_rows)
        table = next(tables, None)
        while True:  # one table is read ahead, so that the last step says that it is the last
            following = next(tables, None) if table is not None else None
            taken += table.num_rows if table is not None else 0
            noted = {**known, "digest": digest, "taken": taken, "complete": following is None}
            yield Step(table, {path: json.dumps(noted)})
            if following is None:
                return
            table = following


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.basename(path).startswith(("_", "."))


def _changed(path: str) -> SourceBroken:
    return SourceBroken(
        f"{path} has changed since its rows were taken",
        detail="New rows belong in a new file: which rows of this one are new, nobody can say.",
        hint="Put the file back as it was, and new rows into another one.",
    )
