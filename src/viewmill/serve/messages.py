"""The messages of Postgres' protocol, version 3, as bytes.

takes  fields
gives  whole messages to send; `Cursor` reads the fields of one that came

Names follow the protocol's documentation. Numbers are big-endian, strings end in a zero byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
CANCEL_REQUEST = 80877102

_INT = struct.Struct("!i")
_SHORT = struct.Struct("!h")
_HEAD = struct.Struct("!ci")


class Malformed(Exception):
    """A message that is not what the protocol says. Its connection is closed."""


def message(kind: bytes, body: bytes = b"") -> bytes:
    """One message of the server."""
    return _HEAD.pack(kind, len(body) + 4) + body


def text(value: str) -> bytes:
    """A string; what would end it early is left out."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
AUTHENTICATION_OK = message(b"R", _INT.pack(0))


def authentication(code: int, body: bytes) -> bytes:
    """A step of SASL: 10 names the mechanisms, 11 goes on, 12 is the server's last word."""
    return message(b"R", _INT.pack(code) + body)


def parameter_status(name: str, value: str) -> bytes:
    """What a setting is now."""
    return message(b"S", text(name) + text(value))


def backend_key(process: int, secret: int) -> bytes:
    """What a client shows to cancel a query of this connection."""
    return message(b"K", struct.pack("!iI", process, secret))


def ready(state: bytes) -> bytes:
    """Ready for a query: I idle, T in a transaction, E in a failed one."""
    return message(b"Z", state)


def command_complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", text(tag))


def copy_out(columns: int, *, is_binary: bool) -> bytes:
    """Rows of a COPY follow, each in a message of its own."""
    formats = _SHORT.pack(is_binary) * columns
    return message(b"H", bytes([is_binary]) + _SHORT.pack(columns) + formats)


def copy_data(body: bytes) -> bytes:
    """A piece of what a COPY writes."""
    return message(b"d", body)


COPY_DONE = message(b"c")


@dataclass(frozen=True)
class Field:
    """A column as RowDescription names it."""

    name: str
    oid: int
    size: int
    modifier: int = -1


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """The columns of the rows that follow."""
    parts = [_SHORT.pack(len(fields))]
    for field, form in zip(fields, formats, strict=True):
        parts.append(text(field.name))
        parts.append(struct.pack("!ihihih", 0, 0, field.oid, field.size, field.modifier, form))
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def report(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """An error (E) or a notice (N) with its fields by their letters."""
    parts = [code.encode() + text(value) for code, value in fields.items()]
    return message(kind, b"".join(parts) + b"\0")


def data_rows(columns: Sequence[Iterable[bytes]], rows: int) -> bytes:
    """Rows as messages. Each column gives its values with their lengths in front."""
    count = _SHORT.pack(len(columns))
    if not columns:
        return message(b"D", count) * rows
    pack, found = _HEAD.pack, []
    for cells in zip(*columns, strict=True):
        body = b"".join(cells)
        found.append(pack(b"D", len(body) + 6) + count + body)
    return b"".join(found)


NULL_CELL = _INT.pack(-1)


def cell(value: bytes) -> bytes:
    """A value of a row."""
    return _INT.pack(len(value)) + value


class Cursor:
    """Reads the fields of a message from the left; a message too short is malformed."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def short(self) -> int:
        """A number of two bytes, with a sign."""
        return int(_SHORT.unpack(self.take(2))[0])

    def count(self) -> int:
        """How many fields follow; each has at least a byte or was never sent."""
        number = self.short() & 0xFFFF
        if number > len(self._body):
            raise Malformed("a message announces more than it holds")
        return number

    def number(self) -> int:
        """A number of four bytes, with a sign."""
        return int(_INT.unpack(self.take(4))[0])

    def take(self, count: int) -> bytes:
        """So many bytes."""
        end = self._at + count
        if count < 0 or end > len(self._body):
            raise Malformed("a message ends too early")
        found = self._body[self._at : end]
        self._at = end
        return found

    def byte(self) -> bytes:
        """One byte."""
        return self.take(1)

    def string(self) -> str:
        """Text up to its zero byte."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise Malformed("a string does not end")
        found = self._body[self._at : end]
        self._at = end + 1
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise Malformed("text is not UTF-8") from None

    def value(self) -> bytes | None:
        """Bytes with their length in front, None for NULL."""
        length = self.number()
        return None if length == -1 else self.take(length)

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._body) - self._at)
