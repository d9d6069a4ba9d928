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
from typing import Any, NoReturn

from viewmill.errors import DamagedFile, ReadOnlyMill, StorageFailed
from viewmill.mill.storage.copy import ChangedMeanwhile, copy_mill, require_mill
from viewmill.mill.store import Store

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
    require_mill(folder)
    trouble: Exception = ChangedMeanwhile()
    for _ in range(_ATTEMPTS):
        try:
            return _open_copy(folder)
        except (ChangedMeanwhile, DamagedFile) as why:
            trouble = why
            time.sleep(_PAUSE_S)
    if isinstance(trouble, DamagedFile):
        raise trouble
    raise StorageFailed(
        f'the mill "{folder}" has checkpoints too often to be copied in between',
        hint="Try again when less is written.",
    )


def _open_copy(folder: Path) -> ReadOnlyStore:
    target = Path(tempfile.mkdtemp(prefix="viewmill-read-"))
    try:
        sequence = copy_mill(folder, target)
        store = ReadOnlyStore.open(target)
        assert isinstance(store, ReadOnlyStore)
        store.origin = folder
        if store.sequence_reached() < sequence:
            store.close()
            raise ChangedMeanwhile
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return store
