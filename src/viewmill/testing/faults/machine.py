"""What a disk holds, and what of it is left when the power goes.

takes  each change of a file or of a folder, and each sync
gives  the files as they may be found after a power loss

Until a sync a change is only in memory: each write may be on the disk, or not, or a part of it; and
each name may be there or not. A sync that fails loses what it was to write, for good: the system
takes it for written afterwards, and no later sync writes it again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_SECTOR = 512


@dataclass
class File:
    """The content of a file on disk, and what has been written since the last sync."""

    on_disk: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: cut off here

    def write(self, offset: int, data: bytes) -> None:
        """Bytes in memory."""
        self.pending.append((offset, data))

    def truncate(self, size: int) -> None:
        """A new end, in memory."""
        self.pending.append((size, None))

    def sync(self) -> None:
        """All of it is on disk."""
        for each in self.pending:
            self._apply(*each)
        self.pending.clear()

    def lose(self, chance: random.Random) -> None:
        """Some of what was not synced is on disk, whole or torn."""
        for offset, data in self.pending:
            if chance.random() < 0.5:
                self._apply(offset, data if data is None else torn(data, chance))
        self.pending.clear()

    def _apply(self, offset: int, data: bytes | None) -> None:
        if data is None:
            del self.on_disk[offset:]
        if len(self.on_disk) < offset:
            self.on_disk += bytes(offset - len(self.on_disk))
        if data is not None:
            self.on_disk[offset : offset + len(data)] = data


def torn(data: bytes, chance: random.Random) -> bytes:
    """The whole of it, or the sectors up to some place."""
    if chance.random() < 0.6:
        return data
    return data[: chance.randrange(len(data) // _SECTOR + 1) * _SECTOR]


@dataclass
class Folder:
    """The names in a folder on disk, and what has happened to them since the last sync."""

    on_disk: dict[str, File | Folder] = field(default_factory=dict)
    now: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[tuple[str, str | None, File | Folder | None]] = field(default_factory=list)

    def put(self, name: str, what: File | Folder) -> None:
        """A new name."""
        self.now[name] = what
        self.pending.append((name, None, what))

    def remove(self, name: str) -> None:
        """A name less."""
        self.now.pop(name, None)
        self.pending.append((name, None, None))

    def move(self, old: str, new: str) -> None:
        """Another name, in the place of what had it."""
        what = self.now[new] = self.now.pop(old)
        self.pending.append((new, old, what))

    def sync(self) -> None:
        """The names are on disk."""
        for each in self.pending:
            self._apply(*each)
        self.pending.clear()

    def lose(self, chance: random.Random) -> None:
        """Some of what was not synced is on disk: mostly the first part of it, sometimes any."""
        if chance.random() < 0.6:
            kept = self.pending[: chance.randrange(len(self.pending) + 1)]
        else:
            kept = [each for each in self.pending if chance.random() < 0.5]
        for each in kept:
            self._apply(*each)
        self.pending.clear()

    def _apply(self, name: str, old: str | None, what: File | Folder | None) -> None:
        if old is not None:
            self.on_disk.pop(old, None)
        if what is None:
            self.on_disk.pop(name, None)
        else:
            self.on_disk[name] = what


class Machine:
    """A folder with everything below it. Paths outside of it are not looked at."""

    def __init__(self, root: Path) -> None:
        self.root, self._top = root, _loaded(root)

    def covers(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path is below the folder."""
        return Path(path).is_relative_to(self.root)

    def folder(self, path: Path) -> Folder:
        """A folder."""
        found = self._top
        for name in path.relative_to(self.root).parts:
            below = found.now[name]
            assert isinstance(below, Folder)
            found = below
        return found

    def file(self, path: Path) -> File:
        """A file, new if need be."""
        above = self.folder(path.parent)
        if path.name not in above.now:
            above.put(path.name, File())
        found = above.now[path.name]
        assert isinstance(found, File)
        return found

    def make(self, path: Path) -> None:
        """A new folder."""
        if path == self.root:
            return
        self.folder(path.parent).put(path.name, Folder())

    def lose_writes(self, chance: random.Random) -> None:
        """A sync of everything failed."""
        for each in list(_below(self._top)):
            if isinstance(each, File):
                each.lose(chance)

    def sync_all(self) -> None:
        """Everything is on disk."""
        for each in _below(self._top):
            each.sync()

    def lose_power(self, chance: random.Random, to: Path) -> None:
        """Write what is left into another folder."""
        for each in list(_below(self._top)):
            each.lose(chance)
        _write(self._top, to)


def _below(folder: Folder) -> Iterator[File | Folder]:
    yield folder
    for each in {id(x): x for x in (*folder.now.values(), *folder.on_disk.values())}.values():
        if isinstance(each, Folder):
            yield from _below(each)
        else:
            yield each


def _loaded(folder: Path) -> Folder:
    """What is there already is on disk."""
    found = Folder()
    for path in folder.iterdir():
        each = _loaded(path) if path.is_dir() else File(bytearray(path.read_bytes()))
        found.on_disk[path.name] = found.now[path.name] = each
    return found


def _write(folder: Folder, to: Path) -> None:
    to.mkdir()
    for name, each in folder.on_disk.items():
        if isinstance(each, Folder):
            _write(each, to / name)
        else:
            (to / name).write_bytes(each.on_disk)
