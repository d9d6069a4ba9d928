"""The rows of the log: each version as rows of the table `log`, linked so that none can go missing.

takes  what one version changed: deltas, catalog objects, statements
gives  LogRow, and Entry back from checked rows
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from viewmill.mill.storage.files import Piece, digest, from_bytes, read_piece
from viewmill.mill.storage.refusals import damaged


class Kind:
    """What a row of the log is. The numbers are in the files: never change one."""

    DELTA = 0
    DELTA_FILE = 1
    STATEMENT = 2
    PUT = 3
    REMOVE = 4
    EMPTY = 5  # a version without anything is a version


_ROW = struct.Struct("<QBI")  # version, kind, bytes of the name
_DELTA_FILE = struct.Struct("<Q16s")  # size, digest; the name of the file follows


@dataclass(frozen=True)
class Entry:
    """One committed version."""

    version: int
    statements: tuple[str, ...]
    deltas: Mapping[str, pa.Table]  # table name -> rows with a `_multiplicity` column
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
        """Where a large delta is."""
        size, content = _DELTA_FILE.unpack_from(self.payload)
        return Piece(self.payload[_DELTA_FILE.size :].decode(), 0, size, content)

    @property
    def size(self) -> int:
        """Bytes that the row keeps on disk."""
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
    rows: Iterable[tuple[int, int, str, bytes, bytes]], anchor: bytes, tail: bytes, path: Path
) -> Iterator[LogRow]:
    """The `rows` one by one, DamagedFile at the first that was altered, or where one is missing."""
    link = anchor
    for version, kind, name, payload, written in rows:
        row = link_row(link, version, kind, name, payload)
        link = row.link
        if link != written:
            raise damaged(path, f"the log is wrong at version {version}")
        yield row
    if link != tail:
        raise damaged(path, "the end of the log is missing")


def read_entries(rows: Iterable[LogRow], folder: Path) -> Iterator[Entry]:
    """The versions that checked `rows` tell of."""
    for version, group in groupby(rows, key=lambda row: row.version):
        statements: list[str] = []
        deltas: dict[str, pa.Table] = {}
        catalog: dict[str, str | None] = {}
        for row in group:
            match row.kind:
                case Kind.DELTA:
                    deltas[row.name] = from_bytes(row.payload)
                case Kind.DELTA_FILE:
                    deltas[row.name] = read_piece(folder, row.piece)
                case Kind.STATEMENT:
                    statements.append(row.payload.decode())
                case Kind.PUT:
                    catalog[row.name] = row.payload.decode()
                case Kind.REMOVE:
                    catalog[row.name] = None
        yield Entry(version, tuple(statements), deltas, catalog)
