"""Two directories exchange their names in one step, where the system can do that.

Linux can (`renameat2` with RENAME_EXCHANGE), on ext4, XFS, Btrfs, tmpfs and overlays; network file
systems and other systems cannot.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path
from typing import Any

_HERE = -100  # AT_FDCWD: paths are relative to the working directory
_EXCHANGE = 2  # RENAME_EXCHANGE


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories on one file system; raises OSError if impossible."""
    rename: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError("the system cannot exchange names")
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def can_exchange(folder: Path) -> bool:
    """Whether a directory can exchange its name with one beside it."""
    if os.path.ismount(folder):
        return False
    try:
        with tempfile.TemporaryDirectory(prefix=".viewmill-", dir=folder.parent) as scratch:
            one, other = Path(scratch, "one"), Path(scratch, "other")
            one.mkdir()
            other.mkdir()
            exchange(one, other)
    except OSError:
        return False
    return True
