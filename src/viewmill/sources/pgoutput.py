"""Read the messages of pgoutput, the logical decoding that every PostgreSQL has (protocol 1).

takes  the bytes of one message
gives  what it says: a transaction begins or ends, a table's columns, a row that came, changed, went

A value is its text, None, or UNCHANGED: a long value that an update did not touch is not sent.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from viewmill.errors import SourceBroken


class Unchanged(Enum):
    """A long value that stays as it was."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Value = str | None | Unchanged
Values = tuple[Value, ...]

_I16, _I32, _I64 = struct.Struct("!h"), struct.Struct("!I"), struct.Struct("!Q")


@dataclass(frozen=True)
class Begin:
    """A transaction begins."""


@dataclass(frozen=True)
class Commit:
    """It ends; everything before `end` is known."""

    end: int


@dataclass(frozen=True)
class Column:
    """A column of a table; `type` and `modifier` are PostgreSQL's numbers."""

    name: str
    is_key: bool
    type: int
    modifier: int


@dataclass(frozen=True)
class Relation:
    """What a table looks like for the messages that follow."""

    number: int
    identity: str  # d, n, f, i: what is sent of old rows
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Inserted:
    """A row came."""

    relation: int
    new: Values


@dataclass(frozen=True, slots=True)
class Updated:
    """A row changed; `old` is the whole row, or its key with None for the rest, or None."""

    relation: int
    old: Values | None
    is_whole: bool
    new: Values


@dataclass(frozen=True, slots=True)
class Deleted:
    """A row went; `old` as in `Updated`."""

    relation: int
    old: Values
    is_whole: bool


@dataclass(frozen=True)
class Truncated:
    """All rows of some tables went."""

    relations: tuple[int, ...]


@dataclass(frozen=True)
class Other:
    """A message that changes no row."""


Message = Begin | Commit | Relation | Inserted | Updated | Deleted | Truncated | Other


def read_message(data: bytes) -> Message:
    """One message."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as why:
        raise SourceBroken(
            "a message of PostgreSQL cannot be read", detail=f"{why}: {data[:40]!r}"
        ) from why


def _read(data: bytes) -> Message:
    match data[:1]:
        case b"I":
            return Inserted(_number(data, 1), _tuple(data, 6)[0])
        case b"U":
            return _updated(data)
        case b"D":
            return Deleted(_number(data, 1), _tuple(data, 6)[0], data[5:6] == b"O")
        case b"B":
            return Begin()
        case b"C":
            return Commit(_I64.unpack_from(data, 10)[0])
        case b"R":
            return _relation(data)
        case b"T":
            count = _number(data, 1)
            return Truncated(struct.unpack_from(f"!{count}I", data, 6))
        case b"Y" | b"O" | b"M":
            return Other()
    raise ValueError("an unknown kind of message")


def _updated(data: bytes) -> Updated:
    number, kind, old, at = _number(data, 1), data[5:6], None, 5
    if kind in (b"K", b"O"):
        old, at = _tuple(data, 6)
    return Updated(number, old, kind == b"O", _tuple(data, at + 1)[0])


def _relation(data: bytes) -> Relation:
    number, at = _number(data, 1), 5
    for _ in range(2):  # its schema and its name
        at = data.index(b"\0", at) + 1
    identity, columns = chr(data[at]), []
    count, at = _I16.unpack_from(data, at + 1)[0], at + 3
    for _ in range(count):
        end = data.index(b"\0", at + 1)
        type_, modifier = struct.unpack_from("!Ii", data, end + 1)
        columns.append(Column(data[at + 1 : end].decode(), bool(data[at] & 1), type_, modifier))
        at = end + 9
    return Relation(number, identity, tuple(columns))


def _number(data: bytes, at: int) -> int:
    found: int = _I32.unpack_from(data, at)[0]
    return found


def _tuple(data: bytes, at: int) -> tuple[Values, int]:
    """The values that begin somewhere, and where they end."""
    values: list[Value] = []
    (count,) = _I16.unpack_from(data, at)
    at += 2
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 116:  # t, text
            (size,) = _I32.unpack_from(data, at)
            at += 4
            if at + size > len(data):
                raise ValueError("a value that is cut off")
            values.append(data[at : at + size].decode())
            at += size
        elif kind == 110:  # n, NULL
            values.append(None)
        elif kind == 117:  # u
            values.append(UNCHANGED)
        else:
            raise ValueError(f"a value of kind {kind}")
    return tuple(values), at
