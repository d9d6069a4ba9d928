"""A copy of a mill's directory, as it was at one version, while another process may write it.

takes  the directory of a mill
gives  a directory of our own with the same files, consistent or refused when it is opened

Nothing is locked and nothing is written there, so the writer does not notice. Files that change
are copied in the order in which they depend on each other: what is copied later is at least as new
as what it must go with. A checkpoint in between replaces files; then the copy is made again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from viewmill.errors import InvalidArgument, StorageFailed
from viewmill.mill.storage.database import DATABASE, DRAFT, SHARED_MEMORY, WRITE_AHEAD_LOG
from viewmill.mill.storage.files import is_arrow_file, read_start
from viewmill.mill.storage.head import HEAD, is_head, read_head
from viewmill.mill.storage.lock import LOCK
from viewmill.mill.storage.part_files import PARTS

_LEFT_OUT = {LOCK, SHARED_MEMORY, DRAFT, f"{HEAD}.new"}
_WAL_HEADER_BYTES = 32


class ChangedMeanwhile(Exception):
    """A checkpoint came in between: the files of the copy do not go together."""


def require_mill(folder: Path) -> None:
    """Raise unless there is a mill."""
    head = folder / HEAD
    if not head.is_file() or not is_head(head):
        raise InvalidArgument(
            f'there is no mill at "{folder}" to be read',
            hint="vm.connect(path) without read_only creates one.",
        )


def copy_mill(folder: Path, target: Path) -> int:
    """Copy a mill; gives the sequence that the copy must at least have reached."""
    before = read_head(folder)
    # A part says which version it shows, and the log tells what came later: parts come first.
    if (folder / PARTS).is_dir():
        shutil.copytree(folder / PARTS, target / PARTS, ignore=shutil.ignore_patterns("_draft*"))
    _copy(folder, target, HEAD)
    salts = _salts(folder)
    _copy(folder, target, DATABASE)
    _copy(folder, target, WRITE_AHEAD_LOG)
    if _salts(folder) != salts:  # the log was written into the database, and begun again
        raise ChangedMeanwhile
    for name in _others(folder):
        _copy(folder, target, name)
    if read_head(folder).checkpoint_version != before.checkpoint_version:
        raise ChangedMeanwhile
    return before.sequence


def _others(folder: Path) -> list[str]:
    """The files that stand beside the database; those that never change come last."""
    known = {HEAD, DATABASE, WRITE_AHEAD_LOG, *_LEFT_OUT}
    found = [each.name for each in os.scandir(folder) if each.is_file()]
    return sorted((name for name in found if name not in known), key=is_arrow_file)


def _salts(folder: Path) -> bytes:
    """What tells one SQLite log from the next one."""
    try:
        return read_start(folder / WRITE_AHEAD_LOG, _WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _copy(folder: Path, target: Path, name: str) -> None:
    """Copy a file, or link one that never changes; one that is gone is missed at the opening."""
    try:
        if is_arrow_file(name):
            try:
                os.link(folder / name, target / name)
                return
            except FileNotFoundError:
                raise
            except OSError:  # another file system, or not allowed
                pass
        shutil.copyfile(folder / name, target / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f'cannot copy "{folder / name}": {error.strerror}') from error
