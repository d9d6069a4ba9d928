"""The functions of `mill.storage.disk`, over a machine that fails by a schedule.

takes  the calls of storage
does   what they say to real files, which a later opening finds, and tells the machine; or fails
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viewmill.mill.storage import disk
from viewmill.testing.faults.machine import File, Machine
from viewmill.testing.faults.schedule import Schedule


class FaultyDisk:
    """Real files below one folder; what is elsewhere is left alone."""

    def __init__(self, root: Path, schedule: Schedule) -> None:
        self.machine, self.schedule = Machine(root), schedule
        self._paths: dict[int, Path] = {}  # of the descriptors
        self._really = {name: getattr(disk, name) for name in disk.REPLACEABLE}

    @contextmanager
    def installed(self) -> Iterator[FaultyDisk]:
        """Storage uses it inside."""
        for name in disk.REPLACEABLE:
            setattr(disk, name, getattr(self, name))
        try:
            yield self
        finally:
            for name, function in self._really.items():
                setattr(disk, name, function)

    def _strike(self, operation: str) -> None:
        error = self.schedule.strike(operation)
        if error:
            raise OSError(error, os.strerror(error))

    # Files.

    def open_file(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """As os.open."""
        if not self.machine.covers(path):
            return os.open(path, flags, mode)
        self._strike("open")
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = Path(path)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            file = self.machine.file(Path(path))
            if flags & os.O_TRUNC:
                file.truncate(0)
        return descriptor

    def close(self, descriptor: int) -> None:
        """As os.close; it works without power, so that the program can be cleared away."""
        self._paths.pop(descriptor, None)
        os.close(descriptor)

    def read(self, descriptor: int, size: int) -> bytes:
        """As os.read."""
        self._strike_at("read", descriptor)
        return os.read(descriptor, size)

    def readinto(self, descriptor: int, buffers: Sequence[Any]) -> int:
        """As os.readv."""
        self._strike_at("read", descriptor)
        return os.readv(descriptor, buffers)

    def _strike_at(self, operation: str, descriptor: int) -> None:
        if descriptor in self._paths:
            self._strike(operation)

    def write(self, descriptor: int, data: Any) -> int:
        """As os.write; what fails may have written a part."""
        return self._written(descriptor, bytes(data), os.lseek(descriptor, 0, os.SEEK_CUR), True)

    def write_at(self, descriptor: int, data: Any, offset: int) -> int:
        """As os.pwrite."""
        return self._written(descriptor, bytes(data), offset, False)

    def _written(self, descriptor: int, data: bytes, offset: int, moves: bool) -> int:
        path = self._paths.get(descriptor)
        error = None if path is None else self.schedule.strike("write")
        if error is not None:
            data = data[: self.schedule.chance.randrange(1 if error == 0 else 0, len(data) + 1)]
        count = os.pwrite(descriptor, data, offset) if data else 0
        if moves:
            os.lseek(descriptor, offset + count, os.SEEK_SET)
        if path is not None and count:
            self.machine.file(path).write(offset, data[:count])
        if error:
            raise OSError(error, os.strerror(error))
        return count

    def sync(self, descriptor: int) -> None:
        """As os.fsync; the real disk need not be waited for."""
        path = self._paths.get(descriptor)
        if path is None:
            os.fsync(descriptor)
            return
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        what = self.machine.folder(path) if is_folder else self.machine.file(path)
        error = self.schedule.strike("sync")
        if error:
            if isinstance(what, File):  # names are in a journal
                what.lose(self.schedule.chance)
            raise OSError(error, os.strerror(error))
        what.sync()

    def sync_data(self, descriptor: int) -> None:
        """As os.fdatasync."""
        self.sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """As os.ftruncate."""
        path = self._paths.get(descriptor)
        if path is not None:
            self._strike("write")
            self.machine.file(path).truncate(size)
        os.ftruncate(descriptor, size)

    def reserve(self, descriptor: int, offset: int, size: int) -> None:
        """As os.posix_fallocate: zeros behind the end."""
        path = self._paths.get(descriptor)
        if path is not None:
            self._strike("write")
            self.machine.file(path).truncate(offset + size)
        os.posix_fallocate(descriptor, offset, size)

    def sync_all(self) -> None:
        """As os.sync, which says nothing of what it could not write."""
        if self.schedule.strike("sync") is None:
            self.machine.sync_all()
        else:
            self.machine.lose_writes(self.schedule.chance)

    # Names.

    def replace(self, old: Any, new: Any) -> None:
        """As os.replace, in one folder."""
        old, new = Path(old), Path(new)
        if self.machine.covers(old):
            self._strike("replace")
            self.machine.folder(old.parent).move(old.name, new.name)
        os.replace(old, new)

    def remove(self, path: Any) -> None:
        """As os.unlink."""
        path = Path(path)
        if self.machine.covers(path):
            if not path.exists():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._strike("remove")
            self.machine.folder(path.parent).remove(path.name)
        os.unlink(path)

    def remove_tree(self, path: Any, ignore_errors: bool = False) -> None:
        """As shutil.rmtree."""
        try:
            if self.machine.covers(path):
                self._strike("remove")
                self.machine.folder(Path(path).parent).remove(Path(path).name)
        except OSError:
            if not ignore_errors:
                raise
            return
        shutil.rmtree(path, ignore_errors=ignore_errors)

    def make_folder(self, path: Any, mode: int = 0o777) -> None:
        """As os.mkdir."""
        path = Path(path)
        if self.machine.covers(path):
            self._strike("make")
        os.mkdir(path, mode)
        if self.machine.covers(path):
            self.machine.make(path)
