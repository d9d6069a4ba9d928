"""Take the rows of new files into the mill, each exactly once.

takes  the sources of a spec
gives  committed batches; what was taken of a file is noted in the same batch as its rows, so a kill
       at any moment neither loses nor doubles any
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from viewmill.algebra.names import quoted
from viewmill.cli.project import FILES, select
from viewmill.cli.spec import Source, Spec
from viewmill.errors import ForbiddenChange, InvalidArgument, ViewmillError
from viewmill.sources.read_files import digest_file, read_file

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

Report = Callable[["Taken"], None]


@dataclass(frozen=True)
class Note:
    """How much of a file was taken."""

    size: int
    modified: int
    digest: str
    taken: int
    complete: bool


@dataclass(frozen=True)
class NewFile:
    """A file with rows still to take."""

    source: Source
    file: Path
    path: str  # as noted: relative to the spec's folder where possible
    size: int
    modified: int
    digest: str
    skip: int


@dataclass(frozen=True)
class Taken:
    """Progress: a batch of `rows` of `file` was committed."""

    file: NewFile
    rows: int
    complete: bool


def new_files(spec: Spec, notes: dict[tuple[str, str], Note]) -> list[NewFile]:
    """The files not yet taken, in the order of the sources, then of the names."""
    return [found for source in spec.sources for found in _new_files(spec, source, notes)]


def read_notes(mill: Mill) -> dict[tuple[str, str], Note]:
    """What the mill says about the files it took."""
    columns = "source, path, size, modified, digest, taken, complete"
    rows = select(mill, f"SELECT {columns} FROM {FILES}").rows()
    return {(source, path): Note(*rest) for source, path, *rest in rows}


def _new_files(spec: Spec, source: Source, notes: dict[tuple[str, str], Note]) -> Iterator[NewFile]:
    files = [file for pattern in source.paths for file in spec.files(pattern)]
    for file in dict.fromkeys(files):
        path = str(file.relative_to(spec.folder) if file.is_relative_to(spec.folder) else file)
        facts = file.stat()
        note = notes.get((source.name.lower(), path))
        if note and (note.size, note.modified) != (facts.st_size, facts.st_mtime_ns):
            _check_unchanged(source, file, note)
        if note is None or not note.complete:
            digest = note.digest if note else digest_file(file)
            skip = note.taken if note else 0
            yield NewFile(source, file, path, facts.st_size, facts.st_mtime_ns, digest, skip)


def _check_unchanged(source: Source, file: Path, note: Note) -> None:
    if digest_file(file) != note.digest:
        raise ForbiddenChange(
            f"{file} has changed since its rows were taken",
            detail="New rows belong in a new file: which rows of this one are new, nobody can say.",
            hint=f"--full-refresh {source.name} forgets its rows and takes all its files again.",
        )


def file_schema(mill: Mill, source: Source) -> pa.Schema:
    """The columns that the files of a source may have."""
    schema: pa.Schema = (
        select(mill, f"SELECT * FROM {quoted(source.name)} LIMIT 0").to_arrow().schema
    )
    if source.change:
        return schema.append(pa.field(source.change, pa.string()))
    if source.multiplicity:
        return schema.append(pa.field(source.multiplicity, pa.int64()))
    return schema


def take_files(mill: Mill, files: Iterable[NewFile], *, batch_rows: int, report: Report) -> int:
    """Put the rows of the files into their tables; how many there were."""
    total = 0
    for file in files:
        schema = file_schema(mill, file.source)
        for taken in _take_file(mill, file, schema, batch_rows):
            total += taken.rows
            report(taken)
    return total


def _take_file(mill: Mill, file: NewFile, schema: pa.Schema, batch_rows: int) -> Iterator[Taken]:
    tables = read_file(file.file, file.source.format, schema, skip=file.skip, batch_rows=batch_rows)
    position = file.skip
    # One table is read ahead, so that the last batch can say that the file is complete.
    table = next(tables, None)
    while True:
        following = next(tables, None) if table is not None else None
        position += table.num_rows if table is not None else 0
        _commit(mill, file, table, position, complete=following is None)
        yield Taken(file, table.num_rows if table is not None else 0, following is None)
        if following is None:
            return
        table = following


def _commit(
    mill: Mill, file: NewFile, table: pa.Table | None, position: int, *, complete: bool
) -> None:
    source = file.source
    try:
        with mill.batch():
            if table is not None:
                _change(mill, source, table)
            note = (file.size, file.modified, file.digest, position, complete)
            mill.upsert(FILES, [(source.name.lower(), file.path, *note)])
    except ViewmillError as error:
        rows = table.num_rows if table is not None else 0
        place = f"{file.file}, rows {position - rows + 1} to {position}"
        raise type(error)(
            f"{place}: {error.message}", detail=error.detail, hint=error.hint, span=error.span
        ) from error


def _change(mill: Mill, source: Source, table: pa.Table) -> None:
    wanted: dict[str, Any] = {}
    if source.change:
        wanted["change"] = source.change
    elif source.multiplicity:
        wanted["multiplicity"] = source.multiplicity
    else:
        mill.insert(source.name, table)
        return
    column = next(iter(wanted.values()))
    if column not in table.column_names:
        raise InvalidArgument(f"the file has no column {column!r}, which says what changed")
    mill.apply(source.name, table, **wanted)
