"""Files that are written once, synced, and checked whenever they are read.

takes  Arrow record batches
gives  Piece: where the bytes are, and their digest; and the table back, or DamagedFile
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from viewmill.errors import StorageFailed
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.storage.refusals import damaged, refusal, reported

DIGEST_BYTES = 16

# Arrow wants its buffers aligned; 64 bytes is what it asks for.
_ALIGNMENT = 64
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_PLAIN = pa.ipc.IpcWriteOptions()  # given, because Arrow's default costs more than the writing


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file, an Arrow stream; no bytes when there was not even a schema."""

    file: str
    offset: int
    size: int
    digest: bytes


def digest(*parts: Any) -> bytes:
    """The checksum of bytes-like `parts`, one after another."""
    content = hashlib.sha256()  # processors have instructions for it
    for part in parts:
        content.update(part)
    return content.digest()[:DIGEST_BYTES]


class ArrowFile:
    """A file under a new name, gone again unless `finish` was reached."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.name = f"{kind}-{os.urandom(8).hex()}.arrow"
        self._path = folder / self.name
        self._finished = False
        self._offset = 0
        with reported(self._path, "create"):
            self._file = self._path.open("xb", buffering=0)

    def __enter__(self) -> ArrowFile:
        return self

    def write(self, batches: Iterable[pa.RecordBatch] | pa.Table) -> Piece:
        """Add a stream of `batches`."""
        sink = _DigestingSink(self._file)
        try:
            _write_stream(sink, batches)
            piece = Piece(self.name, self._offset, sink.size, sink.digest())
            padding = -sink.size % _ALIGNMENT
            sink.write(bytes(padding))
        except OSError as error:
            # Reading the batches may fail too, and then the disk is not to blame.
            if sink.error is None:
                raise
            raise refusal(self._path, "write", error) from error
        self._offset += piece.size + padding
        return piece

    def finish(self) -> None:
        """Wait until the disk has the file and its name."""
        with reported(self._path, "sync"):
            sync(self._file.fileno())
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
                self._path.unlink()


class _DigestingSink:
    """What Arrow writes to: every byte goes to the file and into the digest."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file, self._content = file, hashlib.sha256()
        self.size = 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self._content.update(data)
        rest = memoryview(data).cast("B")
        self.size += len(rest)
        try:
            while rest:  # the kernel may take less than it is given
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.error = error
            raise
        return len(data)

    def digest(self) -> bytes:
        return self._content.digest()[:DIGEST_BYTES]

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The file stays open for the next stream."""


def _write_stream(sink: _DigestingSink, batches: Iterable[pa.RecordBatch] | pa.Table) -> None:
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
    with pa.ipc.new_stream(output, schema, options=_COMPRESSED) as stream:
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
    """The table whose stream `data` is. Check the digest first."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def read_piece(folder: Path, piece: Piece) -> pa.Table:
    """The table in `piece`, read into memory and checked before it is looked at."""
    if piece.size == 0:
        return pa.table({})
    path = folder / piece.file
    content = pa.allocate_buffer(piece.size)
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(piece.offset)
            found = _read_into(file, memoryview(content))
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        raise refusal(path, "read", error) from error
    if found != piece.size or digest(content) != piece.digest:
        raise damaged(path, f"bytes {piece.offset} to {piece.offset + piece.size} have changed")
    return from_bytes(content)


def _read_into(file: Any, rest: memoryview) -> int:
    found = 0
    while found < len(rest) and (count := file.readinto(rest[found:])):
        found += count
    return found


def check_sizes(folder: Path, pieces: Iterable[Piece]) -> None:
    """Raise DamagedFile unless all files are there in their size; the content is checked later."""
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
    """Whether an ArrowFile would have such a name."""
    return name.endswith(".arrow") and name.startswith(("delta-", "snapshot-"))


def remove_below(root: Path, path: Path) -> None:
    """Remove a file or folder, all of it, if it is there; refuse what is not inside `root`.

    What cannot be removed stays: whoever looks again, at the next opening, tries again.
    """
    whole, real = Path(os.path.realpath(root)), Path(os.path.realpath(path.parent))
    if path.name in ("", ".", "..") or whole not in (real / path.name).parents:
        raise StorageFailed(f"{path} is not removed: it is not inside {root}")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files nobody refers to. What cannot be removed now is removed at the next opening."""
    for name in names:
        remove_below(folder, folder / name)
        reach("file removed")


def replace_file(path: Path, content: bytes) -> None:
    """Give `path` this `content`, all or nothing, and wait for the disk."""
    draft = path.with_name(path.name + ".new")
    with reported(path, "write"):
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        reach(f"{draft.name} written")
        draft.rename(path)
        reach(f"{path.name} renamed")
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in `folder` are on disk."""
    _open_and_sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Wait until the content of `path` is on disk."""
    _open_and_sync(path, os.O_RDWR)


def _open_and_sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Wait until the content is on disk, past the disk's own cache."""
    # macOS answers fsync before the disk has it.
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full_sync)
