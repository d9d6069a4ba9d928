"""What a slot keeps in Spark's state store, as bytes: data with a version and a checksum.

    VMSL | version of the format | checksum of all that follows | size of the header
    header, in JSON: what this is, and the size of each piece | the pieces

Whoever can write to the store decides what is read here, so nothing in it is ever run: no pickle.
Pieces are Arrow streams; see `deltas.blobs`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from viewmill.errors import DamagedFile, WrongFormat

Blobs = list[tuple[str, bool, bytes]]  # stream, whether refusals are reported here, rows

_MAGIC, _VERSION = b"VMSL", 1
_FRAME = struct.Struct("<4sI16sI")
_SUM_BYTES = 16
_OLD_HEAD = 5  # fields of a head before views could come later
_HINT = "Bring the checkpoint back from a copy, or give an empty storage directory."


@dataclass(frozen=True)
class Head:
    """What the store says about the slot. The log has the batches since version `base`."""

    version: int = 0
    token: str = ""
    log_bytes: int = 0
    base: int = 0
    base_token: str = ""  # of the snapshot
    joined: tuple[tuple[str, int], ...] = ()  # views that came later, each after which version


class Entry(NamedTuple):
    """One batch in the log: the token of the version it made, the blobs."""

    token: str
    blobs: Blobs


def write_head(head: Head) -> bytes:
    """The head as the store has it."""
    return _sealed({"head": astuple(head)}, ())


def read_head(content: bytes) -> Head:
    """The inverse of `write_head`."""
    header, _ = _opened(content, "head")
    fields = header["head"]
    joined = fields[_OLD_HEAD] if len(fields) > _OLD_HEAD else ()
    return replace(
        Head(*fields[:_OLD_HEAD]), joined=tuple((key, version) for key, version in joined)
    )


def write_entry(entry: Entry) -> bytes:
    """A batch of the log as the store has it."""
    streams = [[stream, first] for stream, first, _ in entry.blobs]
    rows = [rows for _, _, rows in entry.blobs]
    return _sealed({"batch": entry.token, "streams": streams}, rows)


def read_entry(content: bytes) -> Entry:
    """The inverse of `write_entry`."""
    header, pieces = _opened(content, "batch")
    streams = zip(header["streams"], pieces, strict=True)
    return Entry(header["batch"], [(stream, first, rows) for (stream, first), rows in streams])


def write_snapshot(views: Mapping[str, bytes]) -> bytes:
    """The states of views as the store has them."""
    return _sealed({"snapshot": list(views)}, list(views.values()))


def read_snapshot(content: bytes) -> dict[str, bytes]:
    """The inverse of `write_snapshot`."""
    header, pieces = _opened(content, "snapshot")
    return dict(zip(header["snapshot"], pieces, strict=True))


def _sealed(said: Mapping[str, Any], pieces: Sequence[bytes]) -> bytes:
    header = json.dumps({**said, "sizes": [len(each) for each in pieces]}).encode()
    body = b"".join([header, *pieces])
    return _FRAME.pack(_MAGIC, _VERSION, _checksum(len(header), body), len(header)) + body


def _opened(content: bytes, kind: str) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the pieces of what was written as `kind`; DamagedFile if it is not that."""
    if len(content) < _FRAME.size or content[:4] != _MAGIC:
        raise _damaged(kind, f"{len(content)} bytes that do not begin as what slots write")
    _, version, checksum, size = _FRAME.unpack_from(content)
    if version != _VERSION:
        raise WrongFormat(
            f"the state of a shard has the format {version}, this version reads {_VERSION}",
            hint="Use the version that wrote it, or another storage directory.",
        )
    body = memoryview(content)[_FRAME.size :]
    if _checksum(size, body) != checksum:
        raise _damaged(kind, "its checksum is another one")
    header: dict[str, Any] = json.loads(bytes(body[:size]))
    if kind not in header:
        raise _damaged(kind, "something else stands in its place")
    pieces, at = [], size
    for length in header["sizes"]:
        pieces.append(bytes(body[at : at + length]))
        at += length
    return header, pieces


def _checksum(size: int, body: bytes | memoryview) -> bytes:
    found = blake2b(size.to_bytes(4, "little"), digest_size=_SUM_BYTES)
    found.update(body)
    return found.digest()


def _damaged(kind: str, why: str) -> DamagedFile:
    return DamagedFile(f"the {kind} of a shard is not what was written", detail=why, hint=_HINT)
