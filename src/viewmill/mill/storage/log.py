"""The log: the changes of each version, linked by digests so that missing rows are detected.

takes  what one version changed: deltas, catalog objects, statements
gives  LogRow, and Entry back from checked rows

A version that changes the catalog is rows of the table `log`, written with the catalog in one
transaction. All others are records of the file `deltas.log`, which cost one write. The links go
through both in the order of the versions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from viewmill.mill.storage.files import Piece, digest, from_bytes, read_piece
from viewmill.mill.storage.log_file import LOG, LoggedVersion, LogReader, read_record
from viewmill.mill.storage.refusals import damaged


class Kind:
    """The kind of a log row. The numbers are stored in files: never change one."""

    DELTA = 0
    DELTA_FILE = 1
    STATEMENT = 2
    PUT = 3
    REMOVE = 4
    EMPTY = 5  # a version without anything is a version
    ROWS = 6  # a small delta, in a form of our own (`viewmill.deltas.row_bytes`)
    RECORD = 7  # a whole record of the file, moved into the table


_ROW = struct.Struct("<QBI")  # version, kind, bytes of the name
_DELTA_FILE = struct.Struct("<Q16s")  # size, digest; the name of the file follows


@dataclass(frozen=True)
class Entry:
    """One committed version."""

    version: int
    statements: tuple[str, ...]
    # Table name -> rows with a `_multiplicity` column, or bytes of `viewmill.deltas.row_bytes`.
    deltas: Mapping[str, Any]
    catalog: Mapping[str, str | None]  # object name -> json text, None when removed


class LogRow(NamedTuple):
    """One row of the table `log`."""

    version: int
    kind: int
    name: str
    payload: Any  # bytes-like
    link: bytes  # digest of this row and of the link before it

    @property
    def piece(self) -> Piece:
        """The position of a large delta."""
        size, content = _DELTA_FILE.unpack_from(self.payload)
        return Piece(self.payload[_DELTA_FILE.size :].decode(), 0, size, content)

    @property
    def size(self) -> int:
        """The size of the row on disk, including its file."""
        outside = self.piece.size if self.kind == Kind.DELTA_FILE else 0
        return len(self.payload) + outside


def link_row(before: bytes, version: int, kind: int, name: str, payload: Any) -> LogRow:
    """A row that follows the one whose link is `before`."""
    raw_name = name.encode()
    link = digest(before, _ROW.pack(version, kind, len(raw_name)), raw_name, payload)
    return LogRow(version, kind, name, payload, link)


def pack_piece(piece: Piece) -> bytes:
    """The payload of a DELTA_FILE row."""
    return _DELTA_FILE.pack(piece.size, piece.digest) + piece.file.encode()


def check_links(
    stored: Iterable[tuple[int, int, str, bytes, bytes]],
    records: LogReader,
    anchor: bytes,
    tail: bytes,
    path: Path,
) -> Iterator[LogRow]:
    """What is `stored` in the table and the `records` of the file, in the order of their links.

    DamagedFile where a row was altered or is missing. `tail` is the link of the last row when the
    database was written last; records may follow it.
    """
    link, has_tail = anchor, anchor == tail
    rows = iter(stored)
    row = next(rows, None)
    while True:
        record = records.take(link)
        if record is not None:
            yield from _rows_of(record)
            link = record.link
        elif row is not None:
            yield from _checked(link, row, path)
            link, row = row[-1], next(rows, None)
        else:
            break
        has_tail = has_tail or link == tail
    if not has_tail:
        raise damaged(path, f'the end of the log is missing, here or in "{LOG}"')


def _rows_of(record: LoggedVersion) -> Iterator[LogRow]:
    for kind, name, payload in record.rows():
        yield LogRow(record.version, kind, name, payload, record.link)


def _checked(
    before: bytes, row: tuple[int, int, str, bytes, bytes], path: Path
) -> Iterator[LogRow]:
    """A row of the table, which may be a whole record."""
    version, kind, name, payload, link = row
    if kind == Kind.RECORD:
        record = read_record(payload, before, link)
        if record is not None and record.version == version:
            yield from _rows_of(record)
            return
    else:
        found = link_row(before, version, kind, name, payload)
        if found.link == link:
            yield found
            return
    raise damaged(path, f'the log is wrong at version {version}, here or in "{LOG}"')


def read_entries(rows: Iterable[LogRow], folder: Path) -> Iterator[Entry]:
    """Decode verified `rows` into versions."""
    for version, group in groupby(rows, key=lambda row: row.version):
        statements: list[str] = []
        deltas: dict[str, Any] = {}
        catalog: dict[str, str | None] = {}
        for row in group:
            match row.kind:
                case Kind.DELTA:
                    deltas[row.name] = from_bytes(row.payload)
                case Kind.ROWS:
                    deltas[row.name] = row.payload
                case Kind.DELTA_FILE:
                    deltas[row.name] = read_piece(folder, row.piece)
                case Kind.STATEMENT:
                    statements.append(row.payload.decode())
                case Kind.PUT:
                    catalog[row.name] = row.payload.decode()
                case Kind.REMOVE:
                    catalog[row.name] = None
        yield Entry(version, tuple(statements), deltas, catalog)
