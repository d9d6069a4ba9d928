"""The operating system's files. Everything that storage does to a disk goes through these names.

takes  paths and descriptors
does   what the functions of `os` do; tests put others in their place, which fail on purpose

Call them as `disk.write(...)`: who imports a name keeps the real function. SQLite has its own way
to the disk, which tests replace too (see `viewmill.testing.faults`).
"""

from __future__ import annotations

import os
import shutil


def open_file(path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
    """Open a file or folder. A link in the place of a file is refused: in a mill from elsewhere it
    may lead to a file that is none of the mill's. Nor is a pipe there waited for."""
    only_files = 0 if flags & os.O_DIRECTORY else os.O_NOFOLLOW | os.O_NONBLOCK
    return os.open(path, flags | only_files, mode)


close = os.close
read = os.read
readinto = os.readv
write = os.write
write_at = os.pwrite
sync = os.fsync
sync_data = getattr(os, "fdatasync", os.fsync)  # the time of the last change need not be on disk
reserve = getattr(os, "posix_fallocate", None)
sync_all = os.sync
truncate = os.ftruncate
replace = os.replace
remove = os.unlink
remove_tree = shutil.rmtree
make_folder = os.mkdir

REPLACEABLE = (
    "open_file", "close", "read", "readinto", "write", "write_at", "sync", "sync_data",
    "sync_all", "reserve", "truncate", "replace", "remove", "remove_tree", "make_folder",
)  # fmt: skip
