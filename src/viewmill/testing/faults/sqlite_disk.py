"""SQLite's way to the disk, by the same schedule: a VFS around the one that SQLite has.

takes  what SQLite asks of a file below the folder of a `FaultyDisk`
does   what the own VFS does, and tells the machine; or says that it failed

It is made once in a process; files that it opened pass through it to their end.
"""

from __future__ import annotations

import _sqlite3  # the library that the module sqlite3 is linked with
import ctypes
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

from viewmill.testing.faults.disk import FaultyDisk
from viewmill.testing.faults.machine import File
from viewmill.testing.faults.schedule import PowerLoss

_OK, _FULL, _CANTOPEN = 0, 13, 14
_IOERR = {"read": 266, "write": 778, "sync": 1034, "truncate": 1546, "remove": 2570}
_CREATE, _JOURNALS = 0x4, 0x800 | 0x4000 | 0x80000

_Transfer = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Close = CFUNCTYPE(c_int, c_void_p)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
# Names are pointers: SQLite reads on behind their end, and keeps them.
_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)


class _Methods(Structure):
    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    ]


class _Vfs(Structure):
    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("others", c_void_p * 14),
    ]


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value


def _path(name: int) -> Path:
    return Path(ctypes.string_at(name).decode())


class _SqliteDisk:
    """The VFS. What SQLite holds pointers to lives as long as the process."""

    def __init__(self) -> None:
        self.disk: FaultyDisk | None = None
        self._files: dict[int, tuple[Path, bool]] = {}  # open ones: new journals sync their name
        self._tables: dict[int, _Methods] = {}  # ours, by the address of the own ones
        self._library = ctypes.CDLL(_sqlite3.__file__)
        self._library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._own: Any = self._library.sqlite3_vfs_find(None)
        self._vfs = _Vfs.from_buffer_copy(self._own.contents)
        self._vfs.next, self._vfs.name = None, b"viewmill-faults"
        self._kept: list[Any] = []
        self._own_open = _Open(self._own.contents.open)
        self._own_delete = _Delete(self._own.contents.delete)
        self._vfs.open = self._keep(_Open(self._open))
        self._vfs.delete = self._keep(_Delete(self._delete))

    def use(self, disk: FaultyDisk | None) -> None:
        """Be what SQLite opens files with, or leave it to the own VFS."""
        self.disk = disk
        vfs = self._own if disk is None else ctypes.byref(self._vfs)
        self._library.sqlite3_vfs_register(vfs, 1)

    def _keep(self, function: Any) -> int | None:
        self._kept.append(function)
        return _address(function)

    def _strike(self, path: Path | None, operation: str) -> int:
        """The error of SQLite's that an operation ends with."""
        if self.disk is None or path is None or not self.disk.machine.covers(path):
            return _OK
        kind = "write" if operation == "truncate" else operation
        try:
            error = self.disk.schedule.strike(kind)
        except PowerLoss:
            return _IOERR[operation]
        if not error:
            return _OK
        return _FULL if error == errno.ENOSPC and kind == "write" else _IOERR[operation]

    def _model(self, path: Path) -> File | None:
        if self.disk is None or not self.disk.machine.covers(path):
            return None
        return self.disk.machine.file(path)

    # What SQLite calls.

    def _open(self, vfs: int, name: int | None, file: int, flags: int, given: Any) -> int:
        path = None if name is None else _path(name)
        if self.disk is not None and self.disk.schedule.is_off:
            return _CANTOPEN
        if path is not None and self._strike(path, "read"):
            return _CANTOPEN
        is_new = path is not None and bool(flags & _CREATE) and not path.exists()
        code = self._own_open(ctypes.addressof(self._own.contents), name, file, flags, given)
        methods = c_void_p.from_address(file)
        if code == _OK and path is not None and methods.value:
            self._files[file] = path, is_new and bool(flags & _JOURNALS)
            self._model(path)
            methods.value = ctypes.addressof(self._table(methods.value))
        return int(code)

    def _delete(self, vfs: int, name: int, is_synced: int) -> int:
        path = _path(name)
        code = self._strike(path, "remove") if path.exists() else _OK
        if code:
            return code
        folder = None
        if path.exists() and self._model(path) is not None:
            assert self.disk is not None
            folder = self.disk.machine.folder(path.parent)
            folder.remove(path.name)
        code = self._own_delete(ctypes.addressof(self._own.contents), name, 0)
        if folder is not None and is_synced:
            folder.sync()
        return int(code)

    def _table(self, own: int) -> _Methods:
        """The methods of a file: its own ones, with ours around five of them."""
        if own not in self._tables:
            found = _Methods.from_address(own)
            made = self._tables[own] = _Methods.from_buffer_copy(found)
            made.close = self._keep(_Close(self._closing(_Close(found.close))))
            made.read = self._keep(_Transfer(self._reading(_Transfer(found.read))))
            made.write = self._keep(_Transfer(self._writing(_Transfer(found.write))))
            made.truncate = self._keep(_Truncate(self._truncating(_Truncate(found.truncate))))
            made.sync = self._keep(_Sync(self._syncing))
        return self._tables[own]

    def _closing(self, own: Any) -> Callable[[int], int]:
        def close(file: int) -> int:
            self._files.pop(file, None)
            return int(own(file))

        return close

    def _reading(self, own: Any) -> Callable[[int, int, int, int], int]:
        def read(file: int, data: int, size: int, offset: int) -> int:
            return self._strike(self._files[file][0], "read") or int(own(file, data, size, offset))

        return read

    def _writing(self, own: Any) -> Callable[[int, int, int, int], int]:
        def write(file: int, data: int, size: int, offset: int) -> int:
            path = self._files[file][0]
            code = self._strike(path, "write")
            if code and self.disk is not None:
                if self.disk.schedule.is_off:
                    return code
                size = self.disk.schedule.chance.randrange(size + (code != _FULL))
            done = int(own(file, data, size, offset)) if size else _OK
            model = self._model(path)
            if model is not None and size:
                model.write(offset, ctypes.string_at(data, size))
            return code or done

        return write

    def _truncating(self, own: Any) -> Callable[[int, int], int]:
        def truncate(file: int, size: int) -> int:
            path = self._files[file][0]
            code = self._strike(path, "truncate") or int(own(file, size))
            model = self._model(path)
            if model is not None and code == _OK:
                model.truncate(size)
            return code

        return truncate

    def _syncing(self, file: int, flags: int) -> int:
        """The real disk need not be waited for."""
        path, is_new = self._files[file]
        code, model = self._strike(path, "sync"), self._model(path)
        if model is None or self.disk is None or self.disk.schedule.is_off:
            return code
        if code:
            model.lose(self.disk.schedule.chance)
            return code
        model.sync()
        if is_new:
            self.disk.machine.folder(path.parent).sync()
            self._files[file] = path, False
        return _OK


_registered: list[_SqliteDisk] = []  # one for the process: files that are open need it


@contextmanager
def sqlite_on(disk: FaultyDisk) -> Iterator[None]:
    """SQLite uses the disk inside."""
    if not _registered:
        _registered.append(_SqliteDisk())
    _registered[0].use(disk)
    try:
        yield
    finally:
        _registered[0].use(None)
