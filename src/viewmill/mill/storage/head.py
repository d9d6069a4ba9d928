"""The head: the state of the store after the newest commit, in a few bytes with a checksum.

takes  the bytes of the head, from the database and from the file HEAD
gives  Head, or DamagedFile, or WrongFormat

The database is the truth. But when the tail of its log is cut off or altered, SQLite silently falls
back to an older commit; the file HEAD remembers that there was a newer one. It is written after
each commit and not synced, so after a power loss it may be behind, never ahead.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from viewmill.errors import WrongFormat
from viewmill.mill.storage import disk
from viewmill.mill.storage.files import (
    DIGEST_BYTES,
    digest,
    read_file,
    read_start,
    replace_file,
    sync,
)
from viewmill.mill.storage.refusals import damaged, reported

FORMAT = 3  # 1 had no file deltas.log, 2 had other checksums of pieces
HAS_LOG = 2
HEAD = "HEAD"

_MAGIC = b"viewmill"
# All formats share this prefix, so that another format is not mistaken for damage.
_PREFIX = struct.Struct("<8sII")  # magic, format, bytes in all
_FIELDS = struct.Struct("<QQQ16s16s16s16s")
_BYTES = _PREFIX.size + _FIELDS.size + DIGEST_BYTES
_PREFIX_AND_FIELDS = struct.Struct("<8sIIQQQ16s16s16s16s")

# Commits alternate between two slots, so a torn write leaves the other one. A slot is a sector.
_SLOT_BYTES = 512

_MAX_WAIT_S = 1.0  # of readers for a checkpoint that is being written
_LOOK_S = 0.001


@dataclass(slots=True)  # not frozen: each commit makes one, which takes three times as long then
class Head:
    """The newest commit of a store, with checksums of everything the store holds."""

    sequence: int  # commits so far, checkpoints included
    version: int  # the last version
    checkpoint_version: int  # the log starts after it
    anchor: bytes  # the link before the first row of the log
    tail: bytes  # the link of the last row of the log
    catalog: bytes  # digest of the catalog
    checkpoint: bytes  # digest of the checkpoint's pieces and notes
    format: int = field(default=FORMAT, compare=False)  # that it was read in

    def encode(self) -> bytes:
        """The bytes, with format and checksum."""
        body = _PREFIX_AND_FIELDS.pack(
            _MAGIC,
            FORMAT,
            _BYTES,
            self.sequence,
            self.version,
            self.checkpoint_version,
            self.anchor,
            self.tail,
            self.catalog,
            self.checkpoint,
        )
        return body + digest(body)


def decode_head(body: bytes, path: Path) -> Head | None:
    """Decode a head, None if its checksum is wrong. `path` is for the error."""
    if len(body) < _PREFIX.size:
        return None
    magic, format_number, size = _PREFIX.unpack_from(body)
    content = body[: size - DIGEST_BYTES]
    whole = _PREFIX.size + DIGEST_BYTES <= size <= len(body)
    if magic != _MAGIC or not whole or body[len(content) : size] != digest(content):
        return None
    if not 1 <= format_number <= FORMAT:
        raise WrongFormat(
            f'the mill "{path.parent}" has format {format_number}, '
            f"this Viewmill reads format {FORMAT}",
            detail=f'as written in "{path}"',
            hint="Open it with the Viewmill that wrote it.",
        )
    return replace(Head(*_FIELDS.unpack_from(content, _PREFIX.size)), format=format_number)


class HeadFile:
    """The file HEAD, open for writing."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / HEAD
        self._is_in_pieces = False  # whether a slot was written by more than one call
        with reported(self._path, "open"):
            self._descriptor = disk.open_file(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._slot = _newest_slot(_read_slots(self._path))
        except BaseException:
            self.close()
            raise

    def write(self, head: Head) -> None:
        """Write `head` without syncing it."""
        # The commit is done and cannot be taken back; a HEAD that stays behind is allowed. What
        # fails may have left half of a slot: the next one is written there again.
        other = 1 - self._slot
        body, place = head.encode(), other * _SLOT_BYTES
        try:
            while body:
                count = disk.write_at(self._descriptor, body, place)
                body, place = body[count:], place + count
                self._is_in_pieces |= bool(body)
            if self._is_in_pieces:  # of which some may be lost: then the other slot must stay
                sync(self._descriptor)
        except OSError:
            self._is_in_pieces = True
            return
        self._slot, self._is_in_pieces = other, False

    def is_being_read(self) -> bool:
        """Whether another process is just copying the mill, see `reading`."""
        with self.without_readers(0) as is_alone:
            return not is_alone

    @contextmanager
    def without_readers(self, seconds: float) -> Iterator[bool]:
        """Let nobody begin to copy the mill; wait for those who do, but no longer than said.

        Gives whether nobody does.
        """
        is_alone = _lock(self._descriptor, fcntl.LOCK_EX, seconds)
        try:
            yield is_alone
        finally:
            if is_alone and self._descriptor >= 0:  # closing it unlocks it, too
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def sync(self) -> None:
        """Sync the file."""
        with reported(self._path, "sync"):
            sync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        disk.close(descriptor)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Ask the writer of a mill not to replace files meanwhile; a hint, which it may ignore."""
    path = folder / HEAD
    with reported(path, "open"):
        descriptor = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(descriptor, fcntl.LOCK_SH, _MAX_WAIT_S)
        yield
    finally:
        disk.close(descriptor)


def _lock(descriptor: int, kind: int, seconds: float) -> bool:
    """Lock the file within so many seconds; gives whether it could be."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_LOOK_S)
        except OSError:  # a file system without locks
            return False


def create_head(folder: Path, head: Head) -> None:
    """Create HEAD atomically and durably."""
    body = head.encode().ljust(_SLOT_BYTES, b"\0")
    replace_file(folder / HEAD, body * 2)


def is_head(path: Path) -> bool:
    """Whether the file at `path` looks like a HEAD of ours."""
    with reported(path, "read"):
        return read_start(path, len(_MAGIC)) == _MAGIC


def read_head(folder: Path) -> Head:
    """The newest commit that HEAD has."""
    path = folder / HEAD
    slots = _read_slots(path)
    head = slots[_newest_slot(slots)]
    if head is None:
        raise damaged(path, "no checksum in it is right")
    return head


def _read_slots(path: Path) -> list[Head | None]:
    with reported(path, "read"):
        body = read_file(path)
    parts = (body[:_SLOT_BYTES], body[_SLOT_BYTES : 2 * _SLOT_BYTES])
    return [decode_head(each, path) for each in parts]


def _newest_slot(slots: list[Head | None]) -> int:
    sequences = [-1 if each is None else each.sequence for each in slots]
    return sequences.index(max(sequences))
