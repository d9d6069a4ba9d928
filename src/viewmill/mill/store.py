"""The durable directory of a mill: survives kill -9 and power loss, and detects damage.

takes  deltas as Arrow tables, the catalog as texts, snapshots as record batches
gives  exactly these back after any crash, or DamagedFile

A version that changes rows only is committed by one record in `deltas.log` with one sync; one that
changes the catalog by one SQLite transaction. Large deltas and snapshots are files that are synced
before the log refers to them. Calls must not overlap; the mill ensures that.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import pyarrow as pa

from viewmill.errors import InvalidArgument, MillClosed, OutcomeUnknown, StorageFailed
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.creation import check_folder, create_if_absent
from viewmill.mill.storage.database import (
    DATABASE,
    REBUILDABLE,
    WRITE_AHEAD_LOG,
    Contents,
    check_database,
    digest_checkpoint,
    digest_texts,
    empty_log,
    may_hold,
    open_database,
    read_log,
    read_stored_head,
)
from viewmill.mill.storage.files import (
    ArrowFile,
    NewFile,
    Piece,
    check_sizes,
    is_arrow_file,
    map_piece,
    read_file,
    read_piece,
    remove_files,
    sync_folder,
    to_bytes,
)
from viewmill.mill.storage.head import FORMAT, HAS_LOG, HEAD, Head, HeadFile, read_head
from viewmill.mill.storage.lock import Lock
from viewmill.mill.storage.log import Entry, Kind, LogRow, link_row, pack_piece, read_entries
from viewmill.mill.storage.log_file import (
    LOG,
    LogFile,
    LoggedVersion,
    LogReader,
    Row,
    create_log,
    make_record,
)
from viewmill.mill.storage.refusals import (
    damaged,
    is_disk_failure,
    is_failed_sync,
    is_full,
    outcome_unknown,
    refusal,
    reported,
)
from viewmill.program.signals import Hearing

__all__ = ["Entry", "Store"]

_LOG = logging.getLogger("viewmill")

# Larger deltas become files, compressed: they are read once, and then not again.
LARGE_BYTES = 1 << 20

_PATIENCE_S = 60.0  # for so long automatic checkpoints wait for processes that copy the mill
_READERS_S = 0.5  # for so long any other checkpoint does

Batches = Iterable[pa.RecordBatch]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Store:
    """An open mill directory. `Store.open` gives one."""

    def __init__(
        self,
        folder: Path,
        lock: Lock,
        connection: sqlite3.Connection,
        log_file: LogFile,
        head_file: HeadFile,
        contents: Contents,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._connection: sqlite3.Connection | None = connection
        self._log_file = log_file
        self._head_file = head_file
        self._contents = contents
        self._doubtful: Contents | None = None  # a commit whose outcome is not known yet
        self._read_since: float | None = None  # a checkpoint waits for readers since then
        self._closed_by = ""  # why it was closed, unless by `close`
        _STORES.add(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open the mill at `path`; create it when the directory is absent or empty.

        A signal is handled afterwards; if its handler raises, the mill is closed again.
        """
        store: Self | None = None
        try:
            with Hearing():
                store = cls._open(Path(path).absolute())  # the program may change its directory
            return store  # noqa: RET504 (a handler may raise in between)
        except BaseException:
            if store is not None:
                store.close()
            raise

    @classmethod
    def _open(cls, folder: Path) -> Self:
        check_folder(folder)
        with ExitStack() as undo:
            lock = Lock(folder)
            undo.callback(lock.release)
            check_folder(folder)  # again: another process may have filled it before we locked it
            create_if_absent(folder)
            contents = _check(folder)
            connection = open_database(folder)
            undo.callback(connection.close)
            _upgrade(folder, connection, contents.head)
            log_file = LogFile(folder, contents.last_record, contents.log_end)
            undo.callback(log_file.close)
            head_file = HeadFile(folder)
            undo.callback(head_file.close)
            head_file.write(contents.head)
            head_file.sync()
            _remove_orphans(folder, contents)
            with reported(folder, "sync"):
                sync_folder(folder)
            store = cls(folder, lock, connection, log_file, head_file, contents)
            undo.pop_all()
        return store

    @property
    def is_open(self) -> bool:
        """Whether it is open; False after closing and in a forked child."""
        return self._connection is not None

    def require_open(self) -> None:
        """Raise if it was closed, with the reason."""
        if self._connection is not None:
            return
        if self._closed_by == _FORK:
            raise MillClosed(
                "the mill is written by the process that opened it",
                detail="This process was forked from it.",
                hint="Send the rows there, or open another mill here.",
            )
        if self._closed_by:
            raise MillClosed(
                f'the mill "{self._folder}" takes no more changes: {self._closed_by}',
                hint="Close it and open it again: mill.close(), then vm.connect(path).",
            )
        raise MillClosed(f'the mill "{self._folder}" is closed', hint="Open it again.")

    def has_committed(self, version: int) -> bool:
        """Whether a version is committed, after an `append` that did not return."""
        if self._doubtful is not None and self._connection is not None:
            self._resolve_commit(self._doubtful)
        return self._contents.head.version >= version

    @property
    def path(self) -> Path:
        """The directory."""
        return self._folder

    @property
    def shown_path(self) -> Path:
        """The directory as the user named it."""
        return self._folder

    def sequence_reached(self) -> int:
        """The number of commits so far, including checkpoints."""
        return self._ready().head.sequence

    def last_version(self) -> int:
        """The newest committed version, 0 before the first."""
        return self._ready().head.version

    def checkpoint_version(self) -> int:
        """The version of the checkpoint; `replay` starts after it."""
        return self._ready().head.checkpoint_version

    def is_checkpoint_welcome(self) -> bool:
        """Whether no other process is copying the mill; after a minute of that it must not matter.

        A checkpoint replaces files, so that the copy would have to begin again.
        """
        if not self._head_file.is_being_read():
            self._read_since = None
            return True
        if self._read_since is None:
            self._read_since = time.monotonic()
        return time.monotonic() > self._read_since + _PATIENCE_S

    def log_bytes(self) -> int:
        """Bytes in the log since the checkpoint."""
        return self._ready().log_bytes

    def log_size(self) -> tuple[int, int]:
        """Versions and bytes in the log since the checkpoint."""
        held = self._contents
        return held.head.version - held.head.checkpoint_version, held.log_bytes

    def catalog(self) -> dict[str, str]:
        """The catalog of the last version, in order of creation; changes keep the position."""
        return dict(self._ready().catalog)

    def notes(self) -> dict[str, str]:
        """The notes of the checkpoint."""
        return dict(self._ready().notes)

    def table_keys(self) -> list[str]:
        """Under which names the checkpoint has rows of tables."""
        return [name for kind, name in self._ready().pieces if kind == "table"]

    def table_bytes(self) -> int:
        """Bytes of the tables and of the log, as they are stored."""
        held = self._ready()
        kept = (piece.size for (kind, _), piece in held.pieces.items() if kind == "table")
        return sum(kept) + held.log_bytes

    def load_table(self, name: str) -> pa.Table | None:
        """The rows of a table as of the checkpoint, None if it is not in it."""
        return self._load("table", name)

    def load_state(self, name: str) -> pa.Table | None:
        """The snapshot of a state as of the checkpoint, None if it is not in it."""
        return self._load("state", name)

    def load_words(self, name: str) -> pa.Table | None:
        """What a checkpoint kept to open views at once, mapped; None if it is not in it."""
        piece = self._ready().pieces.get((REBUILDABLE, name))
        return None if piece is None else map_piece(self._folder, piece)

    def write_beside(self, name: str, content: bytes) -> None:
        """Replace a small file that nothing depends on; it is not synced."""
        path = self._folder / name
        draft = path.with_name(f"{name}.new")
        with reported(path, "write"):
            with NewFile(draft) as file:
                file.write(content)
            disk.replace(draft, path)

    def read_beside(self, name: str) -> bytes | None:
        """The content of such a file, None if it is not there."""
        with suppress(OSError):
            return read_file(self._folder / name)
        return None

    def replay(self) -> Iterator[Entry]:
        """The versions after the checkpoint, in order. Read all before changing the store."""
        return read_entries(self._read_log(self._ready().head), self._folder)

    def _read_log(self, head: Head) -> Iterator[LogRow]:
        with closing(LogReader(self._folder)) as records:
            yield from read_log(self._open_connection(), records, head, self._folder / DATABASE)

    def append(
        self,
        version: int,
        deltas: Mapping[str, pa.Table | bytes],
        catalog: Mapping[str, str | None] = _NOTHING,
        statements: Sequence[str] = (),
    ) -> None:
        """Commit a version: it is durable when this returns, and absent if this raises.

        Only OutcomeUnknown leaves that open, and closes the store. A delta is a table, or bytes
        that the caller understands. In `catalog`, None removes an object. After a
        KeyboardInterrupt, `has_committed` tells whether the version was committed.
        """
        before = self._ready()
        if version <= before.head.version:
            raise InvalidArgument(
                f"version {version} does not follow version {before.head.version}"
            )
        files: list[Piece] = []
        try:
            changed = self._row_contents(deltas, catalog, statements, files)
            if catalog:
                rows = _linked(before.head.tail, version, changed)
                size = sum(row.size for row in rows)
                after = _after_append(before, version, rows[-1].link, size, catalog, files)
                self._commit(after, lambda connection: _write_append(connection, rows, catalog))
            else:
                self._append_record(before, version, changed, files)
        except BaseException:
            self._forget_files(before, files)
            raise

    def checkpoint(
        self,
        version: int,
        tables: Mapping[str, Batches],
        states: Mapping[str, Batches],
        notes: Mapping[str, str] = _NOTHING,
        words: Mapping[str, Batches] = _NOTHING,
    ) -> None:
        """Replace the checkpoint by this one, and drop the log up to `version`.

        A value may be a pa.Table, a RecordBatchReader or any iterable of record batches. An
        iterable without any batch has no schema: it is loaded as a table without columns. `words`
        is what could be computed again; its file may be missing later.
        """
        before = self._ready()
        if not before.head.checkpoint_version <= version <= before.head.version:
            raise InvalidArgument(
                f"no checkpoint at version {version}: the log has versions "
                f"{before.head.checkpoint_version} to {before.head.version}"
            )
        pieces = self._write_snapshot(tables, states)
        try:
            pieces |= self._write_words(words)
            kept = list(self._records_after(before.head, version))
            after = self._after_checkpoint(before, version, pieces, dict(notes))
            with self._head_file.without_readers(_READERS_S):
                self._commit(after, lambda connection: _write_checkpoint(connection, after, kept))
                remove_files(self._folder, _files(before) - _files(after))
        except BaseException:
            self._forget_files(before, pieces.values())
            raise

    def close(self) -> None:
        """Close and unlock the directory; a signal waits until then. Closing twice is allowed."""
        with Hearing():
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        _STORES.discard(self)
        try:
            # Acknowledged versions are on disk already; the next opening completes what fails here.
            with _told_only(self._folder):
                connection.close()
                reach("database closed")
                self._head_file.sync()
        finally:
            self._head_file.close()
            self._log_file.close()
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A mill that is dropped without closing must not stay locked. There is nobody to tell.
        with suppress(StorageFailed, AttributeError):
            self.close()

    # Reading.

    def _ready(self) -> Contents:
        if self._doubtful is not None:
            self._resolve_commit(self._doubtful)
        if self._connection is None:
            self.require_open()
        return self._contents

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self.require_open()
        assert self._connection is not None
        return self._connection

    def _load(self, kind: str, name: str) -> pa.Table | None:
        piece = self._ready().pieces.get((kind, name))
        return None if piece is None else read_piece(self._folder, piece)

    # Writing.

    def _append_record(
        self, before: Contents, version: int, changed: list[Row], files: list[Piece]
    ) -> None:
        """Commit a version by a record of `deltas.log`."""
        record = make_record(before.head.tail, before.head.sequence + 1, version, changed)
        size = sum(piece.size for piece in files) if files else 0
        after = _after_append(before, version, record.link, size, _NOTHING, files, record.size)
        try:
            self._log_file.append(record, before.log_end)
            self._adopt(after)
        except BaseException:
            if self._contents is before:
                self._refuse_record(before)
            raise

    def _refuse_record(self, before: Contents) -> None:
        """Remove a record that may be complete in the file: recovery would replay it.

        If that fails as well, the outcome is unknown until the mill is opened again.
        """
        try:
            self._log_file.cut(before.log_end)
        except StorageFailed as why:
            raise self._give_up(why.__cause__ or why, LOG) from why

    def _row_contents(
        self,
        deltas: Mapping[str, pa.Table | bytes],
        catalog: Mapping[str, str | None],
        statements: Sequence[str],
        files: list[Piece],
    ) -> list[Row]:
        """The log rows of a version; large deltas are written to files, which `files` collects."""
        rows: list[Row] = [(Kind.STATEMENT, "", text.encode()) for text in statements]
        for name, body in catalog.items():
            row = (Kind.REMOVE, name, b"") if body is None else (Kind.PUT, name, body.encode())
            rows.append(row)
        for name, delta in deltas.items():
            if isinstance(delta, bytes):
                rows.append((Kind.ROWS, name, delta))
                continue
            payload = None if _is_surely_large(delta) else to_bytes(delta)
            if payload is None or payload.size > LARGE_BYTES:
                files.append(self._write_delta(delta))
                rows.append((Kind.DELTA_FILE, name, pack_piece(files[-1])))
            else:
                rows.append((Kind.DELTA, name, payload))
        return rows or [(Kind.EMPTY, "", b"")]

    def _write_delta(self, delta: pa.Table) -> Piece:
        with ArrowFile(self._folder, "delta") as file:
            piece = file.write(delta)
            reach("delta file written")
            file.finish()
        return piece

    def _write_snapshot(
        self, tables: Mapping[str, Batches], states: Mapping[str, Batches]
    ) -> dict[tuple[str, str], Piece]:
        """Write all snapshots into one file, because each file costs a sync."""
        named = [(("table", name), batches) for name, batches in tables.items()]
        named += [(("state", name), batches) for name, batches in states.items()]
        if not named:
            return {}
        pieces = {}
        with ArrowFile(self._folder, "snapshot") as file:
            for key, batches in named:
                pieces[key] = file.write(batches)
                reach("piece written")
            file.finish()
        return pieces

    def _write_words(self, words: Mapping[str, Batches]) -> dict[tuple[str, str], Piece]:
        """Write what can be computed again into a file of its own, as it will be mapped."""
        if not words:
            return {}
        pieces = {}
        with ArrowFile(self._folder, "states") as file:
            for name, batches in words.items():
                pieces[REBUILDABLE, name] = file.write(batches, compressed=False)
                reach("words written")
            file.finish()
        return pieces

    def _forget_files(self, before: Contents, pieces: Iterable[Piece]) -> None:
        """Remove the files of a commit that certainly did not happen."""
        if self._contents is before and self._doubtful is None:
            remove_files(self._folder, {piece.file for piece in pieces})

    def _after_checkpoint(
        self,
        before: Contents,
        version: int,
        pieces: dict[tuple[str, str], Piece],
        notes: dict[str, str],
    ) -> Contents:
        anchor, kept_bytes = self._cut_log(before.head, version)
        head = replace(
            before.head,
            sequence=before.head.sequence + 1,
            checkpoint_version=version,
            anchor=anchor,
            checkpoint=digest_checkpoint(pieces, notes),
        )
        kept = {piece: at for piece, at in before.deltas.items() if at > version}
        return Contents(head, before.catalog, pieces, notes, kept_bytes, 0, kept)

    def _cut_log(self, head: Head, version: int) -> tuple[bytes, int]:
        """The last link up to `version`, and the size of the log after it."""
        if version == head.version:
            return head.tail, 0
        anchor, kept_bytes = head.anchor, 0
        for row in self._read_log(head):
            if row.version <= version:
                anchor = row.link
            else:
                kept_bytes += row.size
        return anchor, kept_bytes

    def _records_after(self, head: Head, version: int) -> Iterator[LoggedVersion]:
        """The records of `deltas.log` after `version`, which a checkpoint keeps."""
        if version == head.version:
            return
        found: dict[bytes, None] = dict.fromkeys(row.link for row in self._read_log(head))
        with closing(LogReader(self._folder)) as records:
            for before in (head.anchor, *found):
                record = records.take(before)
                if record is not None and record.version > version:
                    yield record

    def _commit(self, after: Contents, write: Callable[[sqlite3.Connection], None]) -> None:
        """Run `write` and update the head in one transaction: the commit point."""
        connection = self._open_connection()
        self._doubtful, is_asked = after, False
        try:
            connection.execute("BEGIN IMMEDIATE")
            write(connection)
            connection.execute("UPDATE head SET body = ? WHERE id = 1", (after.head.encode(),))
            reach("transaction written")
            is_asked = True
            connection.execute("COMMIT")
            reach("transaction committed")
            self._adopt(after)
        except sqlite3.Error as error:
            if is_asked and is_failed_sync(error):
                raise self._give_up(error) from error
            if self._resolve_commit(after):
                return
            if is_full(error) or not is_asked:
                self._doubtful = None  # the end of the transaction has not been written
            elif is_disk_failure(error):
                if may_hold(self._folder, after.head):
                    raise self._give_up(error) from error
                self._doubtful = None
            raise refusal(self._folder / DATABASE, "write", error) from error
        except BaseException:
            self._resolve_commit(after)
            raise

    def _resolve_commit(self, after: Contents) -> bool:
        """Find out whether the interrupted commit of `after` reached the database."""
        connection = self._open_connection()
        path = self._folder / DATABASE
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            committed = read_stored_head(connection, path) == after.head
        except sqlite3.Error as error:
            raise self._give_up(error) from error
        if committed:
            self._adopt(after)
        elif empty_log(connection):
            self._doubtful = None
        return committed

    def _give_up(self, error: BaseException, file: str = DATABASE) -> OutcomeUnknown:
        """Close the store after a disk failure during a commit; the outcome is unknown."""
        self._closed_by = "the disk failed while a change was committed"
        self.close()
        return outcome_unknown(self._folder / file, error)

    def _adopt(self, after: Contents) -> None:
        self._contents = after
        self._doubtful = None
        self._head_file.write(after.head)
        reach("head written")


def _is_surely_large(delta: pa.Table) -> bool:
    """Whether a delta is too large for the log, by its size in memory; cheap for small deltas."""
    return bool(delta.num_rows > 1000 and delta.nbytes > LARGE_BYTES)


def _linked(link: bytes, version: int, changed: list[Row]) -> list[LogRow]:
    """The rows of the table `log` that follow the one with this link."""
    rows: list[LogRow] = []
    for kind, name, payload in changed:
        rows.append(link_row(link, version, kind, name, payload))
        link = rows[-1].link
    return rows


def _after_append(
    before: Contents,
    version: int,
    tail: bytes,
    size: int,
    changes: Mapping[str, str | None],
    files: list[Piece],
    record_size: int = 0,
) -> Contents:
    """The contents of the store after an append of `size` bytes and a log record."""
    head = before.head
    catalog, catalog_digest = before.catalog, head.catalog
    if changes:
        merged = {**catalog, **changes}
        catalog = {name: body for name, body in merged.items() if body is not None}
        catalog_digest = digest_texts(catalog)
    large = {**before.deltas, **dict.fromkeys(files, version)} if files else before.deltas
    return Contents(
        Head(
            head.sequence + 1,
            version,
            head.checkpoint_version,
            head.anchor,
            tail,
            catalog_digest,
            head.checkpoint,
        ),
        catalog,
        before.pieces,
        before.notes,
        before.log_bytes + size + record_size,
        before.log_end + record_size,
        large,
    )


def _write_append(
    connection: sqlite3.Connection, rows: list[LogRow], catalog: Mapping[str, str | None]
) -> None:
    for row in rows:
        connection.execute(
            "INSERT INTO log (version, kind, name, payload, link) VALUES (?, ?, ?, ?, ?)", row
        )
    for name, body in catalog.items():
        if body is None:
            connection.execute("DELETE FROM catalog WHERE name = ?", (name,))
        else:
            connection.execute(
                "INSERT INTO catalog (name, body) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                (name, body),
            )


def _write_checkpoint(
    connection: sqlite3.Connection, after: Contents, kept: list[LoggedVersion]
) -> None:
    """Write the checkpoint; the kept records of `deltas.log` move into the table, because the file
    starts anew."""
    connection.execute("DELETE FROM log WHERE version <= ?", (after.head.checkpoint_version,))
    connection.executemany(
        "INSERT INTO log (version, kind, name, payload, link) VALUES (?, ?, '', ?, ?)",
        [(each.version, Kind.RECORD, each.content, each.link) for each in kept],
    )
    connection.execute("DELETE FROM pieces")
    connection.executemany(
        "INSERT INTO pieces (kind, name, file, start, size, digest) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (kind, name, piece.file, piece.offset, piece.size, piece.digest)
            for (kind, name), piece in after.pieces.items()
        ],
    )
    connection.execute("DELETE FROM notes")
    connection.executemany("INSERT INTO notes (name, body) VALUES (?, ?)", after.notes.items())


# Opening.


def _check(folder: Path) -> Contents:
    """The contents of the directory, after checking that database, HEAD and files agree."""
    remembered = read_head(folder)
    contents = check_database(folder)
    head = contents.head
    if remembered.sequence > head.sequence or (
        remembered.sequence == head.sequence and remembered != head
    ):
        raise damaged(
            folder / DATABASE,
            f'it ends at version {head.version}, commit {head.sequence}, but "{HEAD}" remembers '
            f"version {remembered.version}, commit {remembered.sequence}: it, or "
            f'"{WRITE_AHEAD_LOG}" or "{LOG}" beside it, was cut short, altered or replaced',
        )
    check_sizes(folder, contents.needed_pieces())
    return contents


def _upgrade(folder: Path, connection: sqlite3.Connection, head: Head) -> None:
    """Upgrade a mill of an earlier format, so that an earlier Viewmill refuses it by its number."""
    if head.format >= FORMAT:
        return
    if head.format < HAS_LOG:
        create_log(folder)
    with reported(folder / DATABASE, "write"):
        sync_folder(folder)
        connection.execute("UPDATE head SET body = ? WHERE id = 1", (head.encode(),))
    reach("format upgraded")


def _files(contents: Contents) -> set[str]:
    return {piece.file for piece in contents.all_pieces()}


def _remove_orphans(folder: Path, contents: Contents) -> None:
    """Remove files of a killed process that no commit refers to."""
    with reported(folder, "read"):
        names = {path.name for path in folder.iterdir() if is_arrow_file(path.name)}
    remove_files(folder, names - _files(contents))


@contextmanager
def _told_only(folder: Path) -> Iterator[None]:
    """Log errors on closing instead of raising them."""
    try:
        yield
    except (StorageFailed, sqlite3.Error, OSError) as why:
        _LOG.warning("%s could not be closed in order, which loses nothing: %s", folder, why)


# Forking.

_FORK = "fork"
_STORES: weakref.WeakSet[Store] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked child: close nothing, because SQLite would remove the parent's log."""
    for store in list(_STORES):
        if store._connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._connection))  # never freed here
            store._connection, store._closed_by = None, _FORK
            store._lock.release()
    _STORES.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
