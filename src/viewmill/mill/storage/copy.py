"""Copy the directory of a mill at one version, while another process may write it.

takes  the directory of a mill
gives  a private directory with the same files; opening it verifies that they are consistent

Nothing is written in the original. Files that change are copied in such an order that each is at
least as new as the files before it require, so commits do no harm. A checkpoint replaces files; the
writer puts it off for a while, and if one comes in between all the same, the copy is repeated.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from viewmill.errors import InvalidArgument, StorageFailed
from viewmill.mill.storage.database import DATABASE, DRAFT, SHARED_MEMORY, WRITE_AHEAD_LOG
from viewmill.mill.storage.files import is_arrow_file, read_start
from viewmill.mill.storage.head import HEAD, is_head, read_head, reading
from viewmill.mill.storage.lock import LOCK
from viewmill.mill.storage.part_files import PARTS

_LEFT_OUT = {LOCK, SHARED_MEMORY, DRAFT, f"{HEAD}.new"}
_WAL_HEADER_BYTES = 32


class ChangedMeanwhile(Exception):
    """A checkpoint replaced files during the copy, so they are inconsistent."""


def require_mill(folder: Path) -> None:
    """Raise if the directory has no mill."""
    head = folder / HEAD
    if not head.is_file() or not is_head(head):
        raise InvalidArgument(
            f'there is no mill at "{folder}" to be read',
            hint="vm.connect(path) without read_only creates one.",
        )


def copy_mill(folder: Path, target: Path, *, link: bool) -> int:
    """Copy a mill; gives the commit number that the copy must have reached at least.

    With `link`, files that never change are linked where the file system allows it.
    """
    with reading(folder):
        return _copy_all(folder, target, link)


def _copy_all(folder: Path, target: Path, link: bool) -> int:
    before = read_head(folder)
    # Parts come first: a part names its version, and the log has the later changes.
    for part in (folder / PARTS).glob("*/*/"):
        _copy_part(folder, target, part.relative_to(folder), link)
    _copy(folder, target, HEAD, link)
    salts = _salts(folder)
    _copy(folder, target, DATABASE, link)
    _copy(folder, target, WRITE_AHEAD_LOG, link)
    if _salts(folder) != salts:  # the log was written into the database, and begun again
        raise ChangedMeanwhile
    for name in _others(folder):
        _copy(folder, target, name, link)
    if read_head(folder).checkpoint_version != before.checkpoint_version:
        raise ChangedMeanwhile
    return before.sequence


def _copy_part(folder: Path, target: Path, part: Path, link: bool) -> None:
    """Copy the file of a part, which may be set aside or removed just now."""
    (target / part).mkdir(parents=True)
    for _ in range(2):  # what was set aside while the folder was read is there the second time
        for name in _names(folder / part):
            if not name.startswith("_draft") and not (target / part / name).exists():
                _copy(folder, target, str(part / name), link)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _others(folder: Path) -> list[str]:
    """The other files beside the database; those that never change come last."""
    known = {HEAD, DATABASE, WRITE_AHEAD_LOG, *_LEFT_OUT}
    found = [each.name for each in os.scandir(folder) if each.is_file()]
    return sorted((name for name in found if name not in known), key=is_arrow_file)


def _salts(folder: Path) -> bytes:
    """The salts of SQLite's WAL, which change whenever the WAL is restarted."""
    try:
        return read_start(folder / WRITE_AHEAD_LOG, _WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _copy(folder: Path, target: Path, name: str, link: bool) -> None:
    """Copy a file, or link one that never changes; opening the copy detects a missing file."""
    try:
        if link and (is_arrow_file(name) or name.startswith(PARTS)):
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
