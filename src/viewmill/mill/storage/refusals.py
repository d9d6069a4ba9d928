"""Translate errors of the operating system and of SQLite into ours.

takes  OSError or sqlite3.Error, and the file it is about
gives  StorageFailed, DamagedFile or MillLocked, naming the file and the next thing to try
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viewmill.errors import DamagedFile, MillLocked, OutcomeUnknown, StorageFailed

RESTORE = "Restore the whole directory from a backup; nothing in it was changed."

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def reported(path: Path, doing: str) -> Iterator[None]:
    """Raise an OSError inside as a StorageFailed about `path`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise refusal(path, doing, error) from error


def refusal(path: Path, doing: str, error: OSError | sqlite3.Error) -> StorageFailed:
    """The error to raise when `doing` something with `path` failed."""
    if isinstance(error, sqlite3.Error):
        return _database_refusal(path, doing, error)
    return StorageFailed(
        f'cannot {doing} "{path}": {_reason(error)}', detail=str(error), hint=_hint(error.errno)
    )


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk is full, or SQLite could not grow its shared memory."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


def is_disk_failure(error: sqlite3.Error) -> bool:
    """Whether the disk failed in some way."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return not is_full(error) and code & 0xFF == sqlite3.SQLITE_IOERR


def is_failed_sync(error: sqlite3.Error) -> bool:
    """Whether a sync failed, so that the content of the disk is unknown."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


def outcome_unknown(path: Path, error: BaseException) -> OutcomeUnknown:
    """The error for a commit whose outcome is unknown."""
    return OutcomeUnknown(
        f'the outcome of this change is unknown: the disk failed while "{path}" was synced',
        detail=f"{error}. The mill takes no more changes.",
        hint="Check the disk, close the mill and open it again: it has all of the change, or none.",
    )


def damaged(path: Path, detail: str) -> DamagedFile:
    """The error for a damaged file."""
    return DamagedFile(f'"{path}" is damaged', detail=detail, hint=RESTORE)


def _reason(error: OSError) -> str:
    if error.errno in _FULL:
        return "the disk is full"
    if error.errno in _READ_ONLY:
        return "it may not be written"
    return os.strerror(error.errno) if error.errno else str(error)


def _hint(number: int | None) -> str:
    if number in _FULL:
        return "Nothing was changed. Free some space, then try again."
    if number in _READ_ONLY:
        return (
            "Nothing was changed. Check the owner and mode of the directory, and how it is mounted."
        )
    return "Nothing was changed. Check the disk, then try again."


def _database_refusal(path: Path, doing: str, error: sqlite3.Error) -> StorageFailed:
    # An error that the sqlite3 module raises by itself carries no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return damaged(path, f"SQLite: {error} (the file is too short)")
    match code & 0xFF:  # the low byte is the kind, the rest says more
        case sqlite3.SQLITE_FULL:
            number, reason = errno.ENOSPC, "the disk is full"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            number, reason = errno.EACCES, "it may not be written"
        case sqlite3.SQLITE_IOERR:
            number, reason = errno.EIO, "the disk failed"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return MillLocked(
                f'"{path}" is in use by another program',
                hint="Close the program that has the database open, then try again.",
            )
        case _:
            return damaged(path, f"SQLite: {error}")
    return StorageFailed(
        f'cannot {doing} "{path}": {reason}', detail=f"SQLite: {error}", hint=_hint(number)
    )
