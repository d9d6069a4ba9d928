"""The file `deltas.log`: one record for each version that changes rows only.

takes  the log rows of a version
gives  them back, up to the last record that follows its predecessor

record   link   bytes of the body   sequence   version   body
body     kind   bytes of the name   bytes of the payload   name   payload, for each row

A link is the digest of the record and of the previous link. The log ends where a link is wrong:
what follows is preallocated space, a record that a crash cut short, or one from before the
checkpoint. `HEAD` tells whether the log has everything that was committed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.files import DIGEST_BYTES, sync, sync_data
from viewmill.mill.storage.refusals import damaged, refusal, reported

LOG = "deltas.log"

_HEADER = struct.Struct("<IQQ")  # bytes of the body, sequence, version
_BODY = DIGEST_BYTES + _HEADER.size
_ROW = struct.Struct("<BII")  # kind, bytes of the name, bytes of the payload

_FIRST_ROOM, _MOST_ROOM = 1 << 16, 1 << 22
_READ_BYTES = 1 << 20

Row = tuple[int, str, Any]  # kind, name, payload


class LoggedVersion(NamedTuple):
    """One version in the log."""

    link: bytes
    sequence: int
    version: int
    content: bytes  # header and body

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return DIGEST_BYTES + len(self.content)

    def rows(self) -> Iterator[Row]:
        """The log rows of the version."""
        content, at = self.content, _HEADER.size
        while at < len(content):
            kind, name, payload = _ROW.unpack_from(content, at)
            at += _ROW.size
            yield kind, content[at : at + name].decode(), content[at + name : at + name + payload]
            at += name + payload


def make_record(before: bytes, sequence: int, version: int, rows: Iterable[Row]) -> LoggedVersion:
    """The record that follows the one whose link is `before`."""
    parts: list[Any] = [b""]
    for kind, name, payload in rows:
        raw = name.encode()
        parts += (_ROW.pack(kind, len(raw), len(payload)), raw, payload)
    parts[0] = _HEADER.pack(sum(map(len, parts)), sequence, version)
    content = b"".join(parts)
    return LoggedVersion(_link(before, content), sequence, version, content)


def read_record(content: Any, before: bytes, link: bytes) -> LoggedVersion | None:
    """The record in `content`, None unless it follows the one whose link is `before`."""
    if not isinstance(content, bytes) or len(content) < _HEADER.size:
        return None
    if _link(before, content) != link:
        return None
    _, sequence, version = _HEADER.unpack_from(content)
    return LoggedVersion(link, sequence, version, content)


def _link(before: bytes, content: bytes) -> bytes:
    return sha256(before + content).digest()[:DIGEST_BYTES]


class LogFile:
    """The file, open for writing. Its space is preallocated, so that a commit writes only the bytes
    of its record and no metadata of the file system."""

    def __init__(self, folder: Path, last: LoggedVersion | None, end: int) -> None:
        """Open the log, which ends at `end` with the record `last`."""
        self._path = folder / LOG
        with reported(self._path, "open"):
            self._descriptor = disk.open_file(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._restore_end(last, end)
        except BaseException:
            disk.close(self._descriptor)
            raise

    def _restore_end(self, last: LoggedVersion | None, end: int) -> None:
        """Write the last record again and cut off what follows, so that the disk has just the log.

        A killed process may have left a record that is not synced, or a refused one that is not
        durably cut off. After a failed sync the kernel may have marked lost pages as clean, so that
        another sync alone is not enough.
        """
        if last is not None:
            with reported(self._path, "write"):
                self._write(last.link + last.content, end - last.size)
        self.cut(end)

    def append(self, record: LoggedVersion, at: int) -> None:
        """Write and sync a record."""
        end = at + record.size
        if end > self._room:
            self._make_room(end)
        try:
            self._write(record.link + record.content, at)
            reach("record written")
            sync_data(self._descriptor)
            reach("record synced")
        except OSError as error:
            raise refusal(self._path, "write", error) from error

    def cut(self, at: int) -> None:
        """Truncate the log, durably, to remove a refused record that may have been written."""
        with reported(self._path, "cut"):
            disk.truncate(self._descriptor, at)  # works on a full disk, too
            self._room = at
            reach("log cut")
            sync(self._descriptor)

    def _write(self, content: bytes, at: int) -> None:
        written = disk.write_at(self._descriptor, content, at)
        while written < len(content):  # the system may take less than it is given
            written += disk.write_at(self._descriptor, content[written:], at + written)

    def _make_room(self, end: int) -> None:
        wanted = max(end, self._room + min(max(self._room, _FIRST_ROOM), _MOST_ROOM))
        # If the disk is too full to preallocate, this record may still fit.
        with suppress(OSError):
            if disk.reserve is not None:
                disk.reserve(self._descriptor, self._room, wanted - self._room)
                self._room = wanted

    def close(self) -> None:
        """Close the descriptor."""
        disk.close(self._descriptor)


def create_log(folder: Path) -> None:
    """Create an empty log; an existing file has nothing that was committed."""
    path = folder / LOG
    with reported(path, "create"):
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = disk.open_file(path, flags, 0o666)
        try:
            sync(descriptor)
        finally:
            disk.close(descriptor)
    reach("log created")


class LogReader:
    """Reads the records of the log. Mills of format 1 have no log file."""

    def __init__(self, folder: Path, *, is_new: bool = False) -> None:
        self._path = folder / LOG
        if not is_new and not self._path.exists():
            raise damaged(self._path, "it is missing")
        self._next: tuple[bytes, bytes] | None = None  # link and content
        self.last: LoggedVersion | None = None  # the last record taken
        self.end = 0  # the position after it
        self._chunk, self._at = b"", 0  # the last read, and how much of it was used
        with reported(self._path, "open"):
            flags = os.O_RDONLY | os.O_CLOEXEC
            self._descriptor = disk.open_file(os.devnull if is_new else self._path, flags)
            self._size = os.fstat(self._descriptor).st_size

    def take(self, before: bytes) -> LoggedVersion | None:
        """The next record if it follows the one whose link is `before`."""
        if self._next is None:
            self._next = self._read()
        link, content = self._next
        record = read_record(content, before, link)
        if record is not None:
            self.end += record.size
            self._next, self.last = None, record
        return record

    def _read(self) -> tuple[bytes, bytes]:
        """The link and content at the next position, without checking them."""
        start = self._bytes(_BODY)
        if len(start) < _BODY:
            return b"", b""
        (size, _, _) = _HEADER.unpack_from(start, DIGEST_BYTES)
        if size > self._size:
            return b"", b""
        return start[:DIGEST_BYTES], start[DIGEST_BYTES:] + self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        """The next bytes, fewer at the end of the file."""
        parts = [self._chunk[self._at : self._at + size]]
        self._at += len(parts[0])
        missing = size - len(parts[0])
        while missing:
            with reported(self._path, "read"):
                self._chunk = disk.read(self._descriptor, max(missing, _READ_BYTES))
            if not self._chunk:
                break
            self._at = min(missing, len(self._chunk))
            parts.append(self._chunk[: self._at])
            missing -= self._at
        return b"".join(parts)

    def close(self) -> None:
        """Close the descriptor."""
        disk.close(self._descriptor)
