"""One process at a time: an flock on the file LOCK, which holds the process id.

takes  the directory of a mill
gives  Lock, or MillLocked naming the directory and the process that has it
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from viewmill.errors import MillLocked
from viewmill.mill.storage import disk
from viewmill.mill.storage.refusals import reported

LOCK = "LOCK"


class Lock:
    """Held until `release` or the end of the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = -1
        path = folder / LOCK
        with reported(path, "open"):
            descriptor = disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with reported(path, "lock"):
                _take(folder, descriptor)
        except BaseException:
            disk.close(descriptor)
            raise
        self._descriptor = descriptor

    def __del__(self) -> None:
        # Who was interrupted while opening a mill has nothing to close.
        self.release()

    def release(self) -> None:
        """Release the lock. In a forked child only forget it: it stays the parent's."""
        if self._descriptor >= 0:
            disk.close(self._descriptor)
            self._descriptor = -1


def _take(folder: Path, descriptor: int) -> None:
    try:
        # Unlike a POSIX record lock, flock also refuses the process that has it already.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MillLocked(
            f'the mill "{folder}" is open {_holder(descriptor)}',
            hint="Close it there first. One process at a time has a mill open.",
        ) from None
    os.ftruncate(descriptor, 0)
    disk.write_at(descriptor, f"{os.getpid()}\n".encode(), 0)


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 20, 0).strip()
    if not text.isdigit():
        return "in another process"
    if int(text) == os.getpid():
        return "in this process already"
    return f"in another process, {int(text)}"
