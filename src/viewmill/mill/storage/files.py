"""Files that are written once, synced, and verified by checksum whenever they are read.

takes  Arrow record batches
gives  Piece: the position of the bytes and their digest; and the table back, or DamagedFile
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from viewmill.errors import StorageFailed
from viewmill.mill.storage import disk
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.refusals import damaged, refusal, reported

DIGEST_BYTES = 16

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # on macOS fsync is not enough

_READ_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_CRC = b"crc1"  # begins such a checksum

# The alignment that Arrow recommends for buffers, in bytes.
_ALIGNMENT = 64
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_PLAIN = pa.ipc.IpcWriteOptions()  # reused, because making the default options is expensive


@dataclass(frozen=True, slots=True)
class Piece:
    """An Arrow stream inside a file; empty if there was not even a schema."""

    file: str
    offset: int
    size: int
    digest: bytes


def digest(*parts: Any) -> bytes:
    """The checksum of bytes-like `parts`, one after another."""
    content = hashlib.sha256(parts[0] if parts else b"")
    for part in parts[1:]:
        content.update(part)
    return content.digest()[:DIGEST_BYTES]


class Checksums:
    """The checksum of the many bytes of a piece: that of the CRCs of its chunks.

    SHA takes many times longer where the CPU has no instructions for it.
    """

    def __init__(self) -> None:
        self._crcs, self._crc, self._room = bytearray(), 0, _CHUNK_BYTES

    def update(self, data: Any) -> None:
        """Add bytes, in pieces of any size."""
        rest = memoryview(data).cast("B")
        while rest:
            part, rest = rest[: self._room], rest[self._room :]
            self._crc = zlib.crc32(part, self._crc)
            self._room -= len(part)
            if not self._room:
                self._end_chunk()

    def _end_chunk(self) -> None:
        self._crcs += self._crc.to_bytes(4, "little")
        self._crc, self._room = 0, _CHUNK_BYTES

    def digest(self) -> bytes:
        """The checksum of what was added; nothing can be added afterwards."""
        self._end_chunk()
        return (_CRC + hashlib.sha256(self._crcs).digest())[:DIGEST_BYTES]


def checksums_like(known: bytes) -> Any:
    """What computes a checksum of the kind of a known one: of earlier versions it was SHA."""
    return Checksums() if known.startswith(_CRC) else _Sha()


class _Sha:
    def __init__(self) -> None:
        self._content = hashlib.sha256()
        self.update = self._content.update

    def digest(self) -> bytes:
        return self._content.digest()[:DIGEST_BYTES]


class NewFile(io.RawIOBase):
    """A new file as a Python file object."""

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        super().__init__()
        how = os.O_EXCL if exclusive else os.O_TRUNC
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how
        self._descriptor = disk.open_file(path, flags, 0o666)

    def writable(self) -> bool:
        """Always True."""
        return True

    def write(self, data: Any) -> int:
        """Write all of the data; one system call may write less."""
        whole = memoryview(data).cast("B")
        rest = whole
        while rest:
            rest = rest[disk.write(self._descriptor, rest) :]
        return len(whole)

    def sync(self) -> None:
        """Wait until the content is on disk."""
        sync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor; closing twice is allowed."""
        if not self.closed:
            super().close()
            disk.close(self._descriptor)


def read_file(path: Path) -> bytes:
    """The content of a file."""
    descriptor = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = []
        while chunk := disk.read(descriptor, 1 << 20):
            found.append(chunk)
    finally:
        disk.close(descriptor)
    return b"".join(found)


def read_start(path: Path, size: int) -> bytes:
    """The first bytes of a file, fewer if the file is shorter."""
    content = bytearray(size)
    return bytes(content[: _read_into(path, 0, memoryview(content))])


def make_folders(folder: Path) -> None:
    """Make a folder, and those above it that are missing."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    try:
        disk.make_folder(folder)
    except FileExistsError:
        if not folder.is_dir():
            raise


class ArrowFile:
    """A new file with a unique name, which is removed unless `finish` is reached."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.name = f"{kind}-{os.urandom(8).hex()}.arrow"
        self._path = folder / self.name
        self._finished = False
        self._offset = 0
        with reported(self._path, "create"):
            self._file = NewFile(self._path, exclusive=True)

    def __enter__(self) -> ArrowFile:
        return self

    def write(
        self, batches: Iterable[pa.RecordBatch] | pa.Table, *, compressed: bool = True
    ) -> Piece:
        """Append a stream of `batches`; only one that is not compressed can be mapped."""
        sink = _DigestingSink(self._file)
        try:
            _write_stream(sink, batches, _COMPRESSED if compressed else _PLAIN)
            piece = Piece(self.name, self._offset, sink.size, sink.digest())
            padding = -sink.size % _ALIGNMENT
            sink.write(bytes(padding))
        except OSError as error:
            # Producing the batches may have failed, which is not an error of the disk.
            if sink.error is None:
                raise
            raise refusal(self._path, "write", error) from error
        self._offset += piece.size + padding
        return piece

    def finish(self) -> None:
        """Sync the file and its directory entry."""
        with reported(self._path, "sync"):
            self._file.sync()
            reach("file synced")
            sync_folder(self._path.parent)
            reach("file in place")
        self._finished = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if not self._finished:
            with suppress(OSError):
                disk.remove(self._path)


class _DigestingSink:
    """A sink for Arrow that writes to the file and updates the digest."""

    closed = False

    def __init__(self, file: NewFile) -> None:
        self._file, self._content = file, Checksums()
        self.size = 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self._content.update(data)
        try:
            self.size += self._file.write(data)
        except OSError as error:
            self.error = error
            raise
        return len(data)

    def digest(self) -> bytes:
        return self._content.digest()

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nothing to do: nothing is buffered."""

    def close(self) -> None:
        """The file stays open for the next stream."""


def _write_stream(
    sink: _DigestingSink, batches: Iterable[pa.RecordBatch] | pa.Table, options: Any
) -> None:
    schema = getattr(batches, "schema", None)
    rest: Iterator[pa.RecordBatch] = iter(
        batches.to_batches() if isinstance(batches, pa.Table) else batches
    )
    first = next(rest, None)
    if schema is None:
        if first is None:
            return
        schema = first.schema
    output = pa.PythonFile(sink, mode="w")
    with pa.ipc.new_stream(output, schema, options=options) as stream:
        if first is not None:
            stream.write_batch(first)
        for batch in rest:
            stream.write_batch(batch)


def to_bytes(table: pa.Table) -> pa.Buffer:
    """The Arrow stream of a small `table`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_PLAIN) as stream:
        stream.write_table(table)
    return sink.getvalue()


def from_bytes(data: Any) -> pa.Table:
    """Decode a table from its Arrow stream. Check the digest first."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def read_piece(folder: Path, piece: Piece) -> pa.Table:
    """Read the table in `piece`, verifying its digest before decoding it."""
    if piece.size == 0:
        return pa.table({})
    path = folder / piece.file
    content = pa.allocate_buffer(piece.size)
    try:
        found = _read_into(path, piece.offset, memoryview(content))
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        raise refusal(path, "read", error) from error
    checksums = checksums_like(piece.digest)
    checksums.update(memoryview(content))
    if found != piece.size or checksums.digest() != piece.digest:
        raise damaged(path, f"bytes {piece.offset} to {piece.offset + piece.size} have changed")
    return from_bytes(content)


def map_piece(folder: Path, piece: Piece) -> pa.Table:
    """The table in `piece`, which was not compressed, over mapped memory: nothing is copied.

    It is read once to verify its digest, so that what the disk cannot read is an error here and
    not a signal later.
    """
    if piece.size == 0:
        return pa.table({})
    path = folder / piece.file
    try:
        if _digest_of(path, piece) != piece.digest:
            raise damaged(path, f"bytes {piece.offset} to {piece.offset + piece.size} have changed")
        with pa.memory_map(str(path)) as whole:
            whole.seek(piece.offset)
            content = whole.read_buffer(piece.size)
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        raise refusal(path, "read", error) from error
    return from_bytes(content)


def _digest_of(path: Path, piece: Piece) -> bytes:
    """The checksum of the bytes of a piece as they are on disk now."""
    content, rest = checksums_like(piece.digest), piece.size
    chunk = memoryview(bytearray(min(rest, _READ_BYTES)))
    descriptor = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.lseek(descriptor, piece.offset, os.SEEK_SET)
        while rest and (count := disk.readinto(descriptor, [chunk[:rest]])):
            content.update(chunk[:count])
            rest -= count
    finally:
        disk.close(descriptor)
    found: bytes = content.digest()
    return found


def _read_into(path: Path, offset: int, rest: memoryview) -> int:
    descriptor, found = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC), 0
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        while found < len(rest) and (count := disk.readinto(descriptor, [rest[found:]])):
            found += count
    finally:
        disk.close(descriptor)
    return found


def check_sizes(folder: Path, pieces: Iterable[Piece]) -> None:
    """Raise DamagedFile unless all files have the right size; digests are checked on reading."""
    sizes: dict[str, int] = {}
    for piece in pieces:
        end = piece.offset + piece.size
        sizes[piece.file] = max(sizes.get(piece.file, 0), end + -end % _ALIGNMENT)
    for name, size in sizes.items():
        found = _file_size(folder / name)
        if found != size:
            raise damaged(folder / name, f"it has {found} bytes instead of {size}")


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        raise refusal(path, "read", error) from error


def is_arrow_file(name: str) -> bool:
    """Whether a name is one that ArrowFile makes."""
    return name.endswith(".arrow") and name.startswith(("delta-", "snapshot-", "states-"))


def remove_below(root: Path, path: Path) -> None:
    """Remove a file or a whole folder if it exists; raise if it is not inside `root`.

    What cannot be removed stays, and the next opening tries again.
    """
    whole, real = Path(os.path.realpath(root)), Path(os.path.realpath(path.parent))
    if path.name in ("", ".", "..") or whole not in (real / path.name).parents:
        raise StorageFailed(f"{path} is not removed: it is not inside {root}")
    if path.is_dir() and not path.is_symlink():
        disk.remove_tree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            disk.remove(path)


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove unreferenced files. The next opening retries what could not be removed."""
    for name in names:
        remove_below(folder, folder / name)
        reach("file removed")


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically and durably."""
    draft = path.with_name(path.name + ".new")
    with reported(path, "write"):
        with NewFile(draft) as file:
            file.write(content)
            file.sync()
        reach(f"{draft.name} written")
        disk.replace(draft, path)
        reach(f"{path.name} renamed")
        sync_folder(path.parent)


def rewrite_file(path: Path) -> None:
    """Rewrite every byte of a file and sync it.

    After a failed sync the kernel may have dropped dirty pages and marked them clean; another sync
    alone would not write them.
    """
    descriptor = disk.open_file(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        place = 0
        while chunk := disk.read(descriptor, 1 << 20):
            written = 0
            while written < len(chunk):
                written += disk.write_at(descriptor, chunk[written:], place + written)
            place += written
        sync(descriptor)
    finally:
        disk.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the directory entries of `folder`."""
    _open_and_sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Sync the content of `path`."""
    _open_and_sync(path, os.O_RDWR)


def _open_and_sync(path: Path, flags: int) -> None:
    descriptor = disk.open_file(path, flags | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        disk.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Sync the content, without the modification time (fdatasync)."""
    if _FULL_SYNC is None:
        disk.sync_data(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)


def sync(descriptor: int) -> None:
    """Sync the content, past the cache of the disk itself."""
    if _FULL_SYNC is None:
        disk.sync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)
