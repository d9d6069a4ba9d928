"""The SQLite file: created whole, checked before it is touched, then open for one process.

takes  the directory of a mill
gives  Contents, everything small in it, checked against the head; and a connection for writing

Checking is done on a connection that cannot write: SQLite repairs and tidies whatever it opens, and
a damaged mill must stay as it was found, for whoever wants to rescue what is left.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import struct
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from viewmill.errors import StorageFailed
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import (
    Piece,
    digest,
    read_file,
    read_start,
    rewrite_file,
    sync_file,
    sync_folder,
)
from viewmill.mill.storage.head import HAS_LOG, Head, decode_head
from viewmill.mill.storage.log import Kind, LogRow, check_links
from viewmill.mill.storage.log_file import LoggedVersion, LogReader
from viewmill.mill.storage.refusals import damaged, is_full, refusal, reported

DATABASE = "mill.db"
DRAFT = "mill.db.new"
WRITE_AHEAD_LOG = "mill.db-wal"
SHARED_MEMORY = "mill.db-shm"

# ("table" or "state", name) -> piece. Those of kind "view" can be computed again.
Pieces = Mapping[tuple[str, str], Piece]
REBUILDABLE = "view"

_SCHEMA = """
CREATE TABLE head (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE catalog (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE log (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, kind INTEGER NOT NULL,
  name TEXT NOT NULL, payload BLOB NOT NULL, link BLOB NOT NULL);
CREATE TABLE pieces (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,
  file TEXT NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL, digest BLOB NOT NULL);
CREATE TABLE notes (id INTEGER PRIMARY KEY, name TEXT NOT NULL, body TEXT NOT NULL);
"""

_SQLITE = b"SQLite format 3\0"
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes, as SQLite documents its log

# A damaged page can put any type and any bytes into any column.
_UNREADABLE = (TypeError, ValueError, AttributeError, OverflowError, MemoryError, struct.error)


@dataclass(slots=True)  # not frozen, as Head is not
class Contents:
    """The metadata that a store holds in memory, without the rows. Nobody changes one."""

    head: Head
    catalog: Mapping[str, str]
    pieces: Pieces
    notes: Mapping[str, str]
    log_bytes: int
    log_end: int  # where the next record goes in `deltas.log`
    deltas: Mapping[Piece, int]  # the large ones -> their version
    last_record: LoggedVersion | None = None  # of `deltas.log` when it was opened

    def all_pieces(self) -> list[Piece]:
        """Every piece of a file that the store refers to."""
        return [*self.pieces.values(), *self.deltas]

    def needed_pieces(self) -> list[Piece]:
        """The pieces without which the mill cannot be opened."""
        kept = [piece for (kind, _), piece in self.pieces.items() if kind != REBUILDABLE]
        return [*kept, *self.deltas]


def digest_texts(texts: Mapping[str, str]) -> bytes:
    """The checksum of names and texts, in their order."""
    return digest(*(_framed(text) for item in texts.items() for text in item))


def digest_checkpoint(pieces: Pieces, notes: Mapping[str, str]) -> bytes:
    """The checksum of the positions of the snapshots and of the notes."""
    places = {
        f"{kind} {name}": f"{piece.file} {piece.offset} {piece.size} {piece.digest.hex()}"
        for (kind, name), piece in pieces.items()
    }
    return digest(digest_texts(places), digest_texts(notes))


def _framed(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(8, "little") + raw


def first_contents() -> Contents:
    """The contents of a new store."""
    anchor = os.urandom(16)  # so that the logs of two mills are never taken for each other
    head = Head(0, 0, 0, anchor, anchor, digest_texts({}), digest_checkpoint({}, {}))
    return Contents(head, {}, {}, {}, 0, 0, {})


def create_database(folder: Path, head: Head) -> None:
    """Write the file under another name, sync it, then rename it."""
    draft = folder / DRAFT
    with reported(draft, "write"):
        for leftover in folder.glob(DRAFT + "*"):
            disk.remove(leftover)
        with closing(
            sqlite3.connect(draft, isolation_level=None, factory=Connection)
        ) as connection:
            # Not by way of a WAL: moved into the file on closing, and errors are not told then.
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.executescript(f"BEGIN; {_SCHEMA}")
            connection.execute("INSERT INTO head VALUES (1, ?)", (head.encode(),))
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL").fetchall()  # from the next opening on
            reach("draft committed")
        sync_file(draft)
        reach("draft synced")
        disk.replace(draft, folder / DATABASE)
        reach("draft renamed")
        sync_folder(folder)


def check_database(folder: Path) -> Contents:
    """The contents of the database, after verifying all of it."""
    path = folder / DATABASE
    if not path.exists():
        raise damaged(path, "it is missing")
    with reported(path, "read"):
        start = read_start(path, len(_SQLITE))
    if start != _SQLITE:  # SQLite takes an empty file for a new one, and removes its log
        raise damaged(path, "it is not a SQLite database")
    # Left by a process that was killed while checking.
    with reported(folder / SHARED_MEMORY, "remove"), suppress(FileNotFoundError):
        disk.remove(folder / SHARED_MEMORY)
    try:
        return _check_untouched(folder)
    except sqlite3.Error as error:
        raise refusal(path, "read", error) from error
    except _UNREADABLE as error:
        raise damaged(path, f"a row cannot be read: {error}") from error


def _check_untouched(folder: Path) -> Contents:
    path = folder / DATABASE
    try:
        with closing(_connect(path, "ro")) as connection:
            return _read_contents(connection, path)
    except sqlite3.OperationalError as error:
        if not is_full(error):
            raise
    finally:
        with suppress(OSError):
            disk.remove(folder / SHARED_MEMORY)
    # A reader wants 32 kB of shared memory on disk. A mill must open without them, so that
    # something can be dropped from it; a writer that is alone can do without.
    with closing(_connect(path, "rw")) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return _read_contents(connection, path)


class Connection(sqlite3.Connection):
    """A connection that `close` really closes.

    While a query is not read to its end, SQLite only promises to close, and keeps its locks until
    the cursor is gone; a traceback may hold that for long.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        super().__init__(*arguments, **options)

    def cursor(self, *arguments: Any) -> Any:
        """A cursor that is closed with the connection."""
        made = super().cursor(*arguments)
        self._cursors.add(made)
        return made

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement; Python's own would not ask for our cursor."""
        cursor: sqlite3.Cursor = self.cursor().execute(*arguments)
        return cursor

    def close(self) -> None:
        """Close it with its cursors."""
        for each in list(self._cursors):
            each.close()
        super().close()


def open_database(folder: Path) -> sqlite3.Connection:
    """A connection for writing, with durable commits."""
    path = folder / DATABASE
    with reported(path, "open"):
        # A killed process may have left a commit that is written but not synced. We are about to
        # show it, so it has to be on disk first. Before SQLite has its locks: closing any
        # descriptor of the file would drop them.
        with suppress(FileNotFoundError):
            rewrite_file(folder / WRITE_AHEAD_LOG)
        sync_file(folder / DATABASE)
        connection = _connect(path, "rw")
    try:
        with reported(path, "open"):
            # Exclusive before WAL: the index of the WAL then lives in memory, not in a shared file.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA checkpoint_fullfsync = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute("PRAGMA journal_size_limit = 16777216")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # `mode` keeps SQLite from creating a file that is missing.
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )


def _read_contents(connection: sqlite3.Connection, path: Path) -> Contents:
    found = [text for (text,) in connection.execute("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise _failed_check(path, found[0] if found else "no answer")
    head = read_stored_head(connection, path)
    catalog = dict(connection.execute("SELECT name, body FROM catalog ORDER BY id"))
    if digest_texts(catalog) != head.catalog:
        raise damaged(path, "the catalog has changed")
    pieces = {
        (kind, name): Piece(*place)
        for kind, name, *place in connection.execute(
            "SELECT kind, name, file, start, size, digest FROM pieces ORDER BY id"
        )
    }
    notes = dict(connection.execute("SELECT name, body FROM notes ORDER BY id"))
    if digest_checkpoint(pieces, notes) != head.checkpoint:
        raise damaged(path, "the list of snapshots has changed")
    log_bytes, deltas = 0, {}
    with closing(_records(head, path.parent)) as records:
        for row in read_log(connection, records, head, path):
            log_bytes += row.size
            if row.kind == Kind.DELTA_FILE:
                deltas[row.piece] = row.version
        return Contents(
            _moved_on(head, records.last),
            catalog,
            pieces,
            notes,
            log_bytes,
            records.end,
            deltas,
            records.last,
        )


def _records(head: Head, folder: Path) -> LogReader:
    return LogReader(folder, is_new=head.format < HAS_LOG)


def _moved_on(head: Head, last: LoggedVersion | None) -> Head:
    """The head after the last record of `deltas.log`, if that is newer."""
    if last is None or last.sequence <= head.sequence:
        return head
    return replace(head, sequence=last.sequence, version=last.version, tail=last.link)


def _failed_check(path: Path, said: str) -> StorageFailed:
    """The error for a failed page check: damage, unless pages could not be read at all."""
    code = re.search(r"error code=(\d+)", said)
    if code is not None and int(code[1]) & 0xFF == sqlite3.SQLITE_IOERR:
        return refusal(path, "read", OSError(errno.EIO, f"SQLite: {said}"))
    return damaged(path, f"SQLite: {said}")


def empty_log(connection: sqlite3.Connection) -> bool:
    """Truncate SQLite's WAL, so that a refused commit cannot reappear; False if that failed.

    If only the sync failed, the frames of the commit are complete in the WAL. SQLite would
    overwrite them at the next commit, but a crash before that would recover them.
    """
    with suppress(sqlite3.Error):
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    return False


def may_hold(folder: Path, head: Head) -> bool:
    """Whether SQLite's WAL may contain the commit of `head`, after writing to the WAL failed.

    It may if the page with the head is there, and a commit frame at or after it. Without them the
    commit certainly did not happen.
    """
    try:
        log = read_file(folder / WRITE_AHEAD_LOG)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    found = log.rfind(head.encode())
    if found < 0:
        return False
    page = int.from_bytes(log[8:12], "big")
    first = (found - _LOG_HEADER) // (_FRAME_HEADER + page)
    for at in range(_LOG_HEADER + first * (_FRAME_HEADER + page), len(log), _FRAME_HEADER + page):
        pages_after, salts = log[at + 4 : at + 8], log[at + 8 : at + 16]
        if pages_after != bytes(4) and salts == log[16:24]:
            return True
    return False


def read_stored_head(connection: sqlite3.Connection, path: Path) -> Head:
    """The head that is stored in the database."""
    rows = connection.execute("SELECT body FROM head WHERE id = 1").fetchall()
    head = decode_head(bytes(rows[0][0]), path) if rows else None
    if head is None:
        raise damaged(path, "the checksum of its head is wrong")
    return head


def read_log(
    connection: sqlite3.Connection, records: LogReader, head: Head, path: Path
) -> Iterator[LogRow]:
    """All rows of the log, verified."""
    try:
        rows = connection.execute(
            "SELECT version, kind, name, payload, link FROM log ORDER BY version, id"
        )
        yield from check_links(rows, records, head.anchor, head.tail, path)
    except sqlite3.Error as error:
        raise refusal(path, "read", error) from error
    except _UNREADABLE as error:
        raise damaged(path, f"a row of the log cannot be read: {error}") from error
