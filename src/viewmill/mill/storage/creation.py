"""A new mill in an absent or empty directory, or in one whose creation was cut short.

takes  a path
gives  a directory with deltas.log, mill.db and HEAD; or WrongFormat, DamagedFile when it holds
       something else

An empty deltas.log comes first, then mill.db, then HEAD, each whole or not at all. So HEAD means
that the mill is complete, and a mill.db without HEAD is either an unfinished creation, and then
nothing was ever committed, or a mill whose HEAD somebody removed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from viewmill.errors import WrongFormat
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.database import (
    DATABASE,
    DRAFT,
    SHARED_MEMORY,
    WRITE_AHEAD_LOG,
    check_database,
    create_database,
    first_contents,
)
from viewmill.mill.storage.files import is_arrow_file, sync_folder
from viewmill.mill.storage.head import HEAD, create_head, is_head
from viewmill.mill.storage.lock import LOCK
from viewmill.mill.storage.log_file import LOG, create_log
from viewmill.mill.storage.refusals import damaged, reported

_UNFINISHED = {LOCK, LOG, DRAFT, f"{DRAFT}-wal", f"{DRAFT}-shm", f"{DRAFT}-journal", f"{HEAD}.new"}
_PRIVATE = 0o700  # a new mill belongs to its user, whatever the umask is
_OURS = {DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY}  # HEAD is not ours alone: git has one


def check_folder(folder: Path) -> None:
    """Make the directory if it is absent; raise if it holds anything other than a mill."""
    if folder.exists() and not folder.is_dir():
        raise WrongFormat(
            f'"{folder}" is a file, and a mill is a directory', hint="Choose another path."
        )
    with reported(folder, "create"):
        _make_folder(folder, _PRIVATE)
    with reported(folder, "read"):
        names = {path.name for path in folder.iterdir()}
    if names & _OURS or names <= _UNFINISHED or (HEAD in names and is_head(folder / HEAD)):
        return
    if any(is_arrow_file(name) for name in names):
        raise damaged(folder / DATABASE, f"it is missing, and {HEAD} too")
    raise WrongFormat(
        f'"{folder}" is not a mill, and not empty',
        detail=f'it holds "{min(names - _UNFINISHED)}"',
        hint="Choose a new or an empty directory.",
    )


def create_if_absent(folder: Path) -> None:
    """Write the files of a new mill. Call with the lock held."""
    if (folder / HEAD).exists():
        return
    if (folder / DATABASE).exists():
        head = check_database(folder).head
        if head.sequence > 0:
            raise damaged(folder / HEAD, "it is missing")
    elif (folder / WRITE_AHEAD_LOG).exists():
        raise damaged(folder / DATABASE, f"it is missing, and {HEAD} too")
    else:
        create_log(folder)
        head = first_contents().head
        create_database(folder, head)
        reach("database created")
    create_head(folder, head)
    reach("head created")


def _make_folder(folder: Path, mode: int = 0o777) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.absolute().parent)
    with suppress(FileExistsError):
        disk.make_folder(folder, mode)
    reach("folder made")
    # Not every directory that holds ours may be opened; a mill in it works all the same.
    with suppress(PermissionError):
        sync_folder(folder.absolute().parent)
