"""A copy of a durable mill at one version, while it is being written: itself a mill.

takes  the directory of a mill, and a path where nothing is
gives  a directory that `vm.connect` opens, whole or not there at all

The files are copied beside the target, opened once to verify them, synced, and then renamed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from viewmill.errors import InvalidArgument
from viewmill.mill.read_only_store import open_copy
from viewmill.mill.storage.files import sync_folder
from viewmill.mill.storage.lock import LOCK
from viewmill.mill.storage.refusals import reported
from viewmill.mill.store import Store


def back_up(folder: Path, target: str | os.PathLike[str]) -> int:
    """Copy the mill in `folder` to `target`; gives the version that the copy has."""
    whole = Path(target).absolute()
    _check_target(folder, whole)
    with reported(whole, "back up to"):
        whole.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=whole.parent, prefix=f".{whole.name}."))
        try:
            with open_copy(folder, draft, Store, link=False) as store:
                version = store.last_version()
            (draft / LOCK).unlink(missing_ok=True)
            sync_files(draft)
            draft.rename(whole)
            sync_folder(whole.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return version


def _check_target(folder: Path, whole: Path) -> None:
    if folder.resolve() in (whole.resolve(), *whole.resolve().parents):
        raise InvalidArgument(
            f'"{whole}" is inside of the mill', hint="A backup belongs somewhere else."
        )
    if whole.exists() and (not whole.is_dir() or any(whole.iterdir())):
        raise InvalidArgument(
            f'"{whole}" is there already', hint="Name a directory that is absent or empty."
        )


def sync_files(folder: Path) -> None:
    """Make everything in a directory durable."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
