"""Open a mill for reading while another process may write it.

takes  the directory of a mill
gives  a Store over a copy of it at one version, which refuses every change

To see newer versions, open it again.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from viewmill.errors import DamagedFile, ReadOnlyMill, StorageFailed
from viewmill.mill.storage.copy import ChangedMeanwhile, copy_mill, require_mill
from viewmill.mill.store import Store

_S = TypeVar("_S", bound=Store)

_ATTEMPTS = 100  # of a copy between two checkpoints
_PAUSE_S = 0.01


class ReadOnlyStore(Store):
    """A store over a private copy, which is removed on closing."""

    origin: Path

    @property
    def shown_path(self) -> Path:
        """The directory that was copied."""
        return self.origin

    def append(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse a change."""
        raise refused(self.origin)

    def checkpoint(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse a checkpoint."""
        raise refused(self.origin)

    def close(self) -> None:
        """Close and remove the copy. In a forked child it stays: it is the parent's."""
        was_open, folder = self.is_open, self.path
        try:
            super().close()
        finally:
            if was_open:
                shutil.rmtree(folder, ignore_errors=True)


def refused(origin: Path) -> ReadOnlyMill:
    """The error for a change of a read-only mill."""
    return ReadOnlyMill(
        f'the mill "{origin}" was opened for reading',
        hint="Change it where it is open for writing: vm.connect(path) without read_only.",
    )


def open_read_only(path: Any) -> ReadOnlyStore:
    """Open the mill at `path` at its last committed version."""
    folder = Path(path).absolute()
    target = Path(tempfile.mkdtemp(prefix="viewmill-read-"))
    try:
        store = open_copy(folder, target, ReadOnlyStore, link=True)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    store.origin = folder
    return store


def open_copy(folder: Path, target: Path, kind: type[_S], *, link: bool) -> _S:
    """Copy the mill in `folder` into an empty directory, and open it there."""
    require_mill(folder)
    trouble: Exception = ChangedMeanwhile()
    for _ in range(_ATTEMPTS):
        try:
            return _open_copy(folder, target, kind, link)
        except (ChangedMeanwhile, DamagedFile) as why:
            trouble = why
            _empty(target)
            time.sleep(_PAUSE_S)
    if isinstance(trouble, DamagedFile):
        raise trouble
    raise StorageFailed(
        f'the mill "{folder}" has checkpoints too often to be copied in between',
        hint="Try again when less is written.",
    )


def _open_copy(folder: Path, target: Path, kind: type[_S], link: bool) -> _S:
    sequence = copy_mill(folder, target, link=link)
    store = kind.open(target)
    if store.sequence_reached() < sequence:
        Store.close(store)
        raise ChangedMeanwhile
    return store


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
