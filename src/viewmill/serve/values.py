"""Values between Arrow, Python and Postgres.

takes  a column of Arrow, or the bytes of a parameter
gives  Postgres' type of a column and its values as text or binary; a parameter as a Python value
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.serve.failures import Refused
from viewmill.serve.messages import NULL_CELL, Field, cell

BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON = 16, 17, 20, 21, 23, 25, 114
FLOAT4, FLOAT8, UNKNOWN, VARCHAR = 700, 701, 705, 1043
DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC = 1082, 1114, 1184, 1700

SIZES = {
    BOOL: 1, INT2: 2, INT4: 4, INT8: 8, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIMESTAMP: 8,
}  # fmt: skip
_EPOCH_DAYS = dt.date(2000, 1, 1).toordinal()
_EPOCH = dt.datetime(2000, 1, 1)
_MAX_DIGITS = 400
_TO_QUOTE = re.compile(rb"[{}\x22,\\\s]")
_MICROSECOND = dt.timedelta(microseconds=1)

Encode = Callable[[Any], bytes]


def field_of(name: str, type_: Any) -> Field:
    """A column of Arrow as Postgres describes it."""
    oid = oid_of(type_)
    modifier = -1
    if pa.types.is_decimal(type_):
        modifier = ((type_.precision << 16) | type_.scale) + 4
    return Field(name, oid, SIZES.get(oid, -1), modifier)


def oid_of(type_: Any) -> int:
    """Postgres' number of the type that shows an Arrow type; deeply nested ones are JSON."""
    for fits, oid in _OIDS:
        if fits(type_):
            return oid
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _ARRAYS.get(oid_of(type_.value_type), JSON)
    return JSON


_OIDS: tuple[tuple[Callable[[Any], bool], int], ...] = (
    (pa.types.is_boolean, BOOL),
    (lambda t: pa.types.is_int8(t) or pa.types.is_int16(t), INT2),
    (pa.types.is_int32, INT4),
    (pa.types.is_integer, INT8),
    (pa.types.is_float32, FLOAT4),
    (pa.types.is_floating, FLOAT8),
    (pa.types.is_decimal, NUMERIC),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_null(t), TEXT),
    (pa.types.is_date, DATE),
    (pa.types.is_timestamp, TIMESTAMP),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), BYTEA),
)


def encoder(oid: int, form: int) -> Encode:
    """What turns a Python value into bytes; form 0 is text, 1 is binary."""
    if form not in (0, 1):
        raise Refused("08P01", f"there is no format {form}")
    if oid in ELEMENTS:
        element = ELEMENTS[oid]
        inner = encoder(element, form)
        return partial(_binary_list, element, inner) if form else partial(_text_list, inner)
    return (_BINARY if form else _TEXT).get(oid, _plain_text)


def cells(column: Any, encode: Encode) -> list[bytes]:
    """The values of an Arrow column with their lengths in front."""
    return [NULL_CELL if each is None else cell(encode(each)) for each in column.to_pylist()]


# Text.


def _plain_text(value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def _float_text(value: Any) -> bytes:
    """The shortest text that reads as the same number."""
    if math.isfinite(value):
        return str(value).removesuffix(".0").encode()
    return b"NaN" if math.isnan(value) else (b"Infinity" if value > 0 else b"-Infinity")


def _timestamp_text(value: dt.datetime) -> bytes:
    return value.replace(tzinfo=None).isoformat(" ").encode()


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _json_text(value: Any) -> bytes:
    return json.dumps(value, default=_json_value).encode()


_TEXT: dict[int, Encode] = {
    BOOL: lambda value: b"t" if value else b"f",
    BYTEA: lambda value: b"\\x" + value.hex().encode(),
    FLOAT4: lambda value: _float_text(np.float32(value)),
    FLOAT8: _float_text,
    NUMERIC: lambda value: format(value, "f").encode(),
    DATE: lambda value: value.isoformat().encode(),
    TIMESTAMP: _timestamp_text,
    JSON: _json_text,
}


# Binary.


def _packer(form: str) -> Encode:
    pack = struct.Struct(form).pack
    return lambda value: pack(value)


def _timestamp_binary(value: dt.datetime) -> bytes:
    return struct.pack("!q", (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)


def _numeric_binary(value: decimal.Decimal) -> bytes:
    """Groups of four digits, base 10,000, with the power of the first one and the sign."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole = whole.rjust(scale + 1, "0")
    before, after = whole[: len(whole) - scale], whole[len(whole) - scale :]
    before = before.rjust(-(-len(before) // 4) * 4, "0")
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    groups = [int((before + after)[i : i + 4]) for i in range(0, len(before + after), 4)]
    weight = len(before) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups = groups[:-1]
    head = (len(groups), weight if groups else 0, 0x4000 if sign else 0, scale)
    return struct.pack(f"!hhHH{len(groups)}h", *head, *groups)


_BINARY: dict[int, Encode] = {
    BOOL: lambda value: b"\1" if value else b"\0",
    BYTEA: bytes,
    INT2: _packer("!h"),
    INT4: _packer("!i"),
    INT8: _packer("!q"),
    FLOAT4: _packer("!f"),
    FLOAT8: _packer("!d"),
    NUMERIC: _numeric_binary,
    DATE: lambda value: struct.pack("!i", value.toordinal() - _EPOCH_DAYS),
    TIMESTAMP: _timestamp_binary,
    JSON: _json_text,
}


# Lists of plain values, of one dimension.


def _text_list(inner: Encode, value: list[Any]) -> bytes:
    return b"{" + b",".join(map(partial(_text_member, inner), value)) + b"}"


def _text_member(inner: Encode, value: Any) -> bytes:
    if value is None:
        return b"NULL"
    text = inner(value)
    if text and text.upper() != b"NULL" and not _TO_QUOTE.search(text):
        return text
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _binary_list(element: int, inner: Encode, value: list[Any]) -> bytes:
    if not value:
        return struct.pack("!iiI", 0, 0, element)
    head = struct.pack("!iiIii", 1, None in value, element, len(value), 1)
    return head + b"".join(NULL_CELL if each is None else cell(inner(each)) for each in value)


# Parameters.


def parameter(body: bytes, form: int, oid: int) -> Any:
    """A parameter as a Python value: what its type says, text for a type that is not known."""
    if oid in ELEMENTS:
        return _array(body, form, ELEMENTS[oid])
    read = (_FROM_BINARY if form else _FROM_TEXT).get(oid)
    if form not in (0, 1) or (form and read is None):
        raise Refused("0A000", f"a parameter of type {oid} cannot be read in format {form}")
    try:
        return read(body) if read is not None else body.decode()
    except (ValueError, struct.error, ArithmeticError, IndexError):
        raise Refused("22P02", f"a parameter is no value of the type {oid}") from None


ELEMENTS = {
    1000: BOOL, 1005: INT2, 1007: INT4, 1016: INT8, 1009: TEXT, 1015: VARCHAR, 1021: FLOAT4,
    1022: FLOAT8, 1231: NUMERIC, 1182: DATE, 1115: TIMESTAMP, 1028: 26, 1001: BYTEA,
}  # fmt: skip
_ARRAYS = {element: oid for oid, element in ELEMENTS.items()}


def _array(body: bytes, form: int, oid: int) -> list[Any]:
    """A list of one dimension."""
    try:
        pieces = list(_binary_pieces(body) if form else _text_pieces(body.decode()))
    except (ValueError, struct.error):
        raise Refused("22P02", "a parameter is no list of one dimension") from None
    return [None if each is None else parameter(each, form, oid) for each in pieces]


def _binary_pieces(body: bytes) -> Iterator[bytes | None]:
    dimensions, _, _ = struct.unpack("!iiI", body[:12])
    if dimensions not in (0, 1):
        raise ValueError(dimensions)
    at = 20
    for _ in range(struct.unpack("!i", body[12:16])[0] if dimensions else 0):
        (length,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        if length == -1:
            yield None
            continue
        piece = body[at : at + length]
        if length < 0 or len(piece) != length:
            raise ValueError(length)
        yield piece
        at += length


_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}\\]+)', re.DOTALL)


def _text_pieces(text: str) -> Iterator[bytes | None]:
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError(text)
    at, end = 1, len(text) - 1
    while at < end:
        found = _PIECE.match(text, at, end)
        if found is None:
            raise ValueError(text)
        quoted, plain = found.groups()
        is_null = quoted is None and plain.strip().upper() == "NULL"
        piece = plain.strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
        yield None if is_null else piece.encode()
        at = found.end()
        if at < end and text[at] != ",":
            raise ValueError(text)
        at += 1


def _from_bool(body: bytes) -> bool:
    word = body.decode().strip().lower()
    if word in ("t", "true", "yes", "on", "1"):
        return True
    if word in ("f", "false", "no", "off", "0"):
        return False
    raise ValueError(word)


def _unpacker(form: str) -> Callable[[bytes], Any]:
    return lambda body: struct.unpack(form, body)[0]


def _finite(value: decimal.Decimal) -> decimal.Decimal:
    """A number that can be written out: 1e999999999 cannot."""
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
        raise ValueError(value)
    return value


def _from_numeric(body: bytes) -> decimal.Decimal:
    count, weight, sign, scale = struct.unpack("!hhHH", body[:8])
    if sign not in (0, 0x4000):
        raise ValueError(sign)
    groups = struct.unpack(f"!{count}h", body[8:])
    with decimal.localcontext(prec=1000):
        value = sum(
            (decimal.Decimal(each).scaleb(4 * (weight - i)) for i, each in enumerate(groups)),
            decimal.Decimal(0),
        )
        value = value.quantize(decimal.Decimal(1).scaleb(-scale))
    return _finite(-value if sign else value)


def _from_date(body: bytes) -> dt.date:
    return dt.date.fromordinal(struct.unpack("!i", body)[0] + _EPOCH_DAYS)


def _from_timestamp(body: bytes) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(microseconds=struct.unpack("!q", body)[0])
    except OverflowError:
        raise ValueError("a moment beyond the calendar") from None


def _moment(body: bytes) -> dt.datetime:
    found = dt.datetime.fromisoformat(body.decode())
    return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)


def _hex(body: bytes) -> bytes:
    if not body.startswith(b"\\x"):
        raise ValueError(body)
    return bytes.fromhex(body[2:].decode())


def _as_text(body: bytes) -> str:
    return body.decode()


_FROM_BINARY: dict[int, Callable[[bytes], Any]] = {
    BOOL: lambda body: struct.unpack("!b", body)[0] != 0,
    BYTEA: bytes,
    INT2: _unpacker("!h"),
    INT4: _unpacker("!i"),
    INT8: _unpacker("!q"),
    26: _unpacker("!I"),  # oid
    FLOAT4: _unpacker("!f"),
    FLOAT8: _unpacker("!d"),
    NUMERIC: _from_numeric,
    DATE: _from_date,
    TIMESTAMP: _from_timestamp,
    TIMESTAMPTZ: _from_timestamp,
    TEXT: _as_text, VARCHAR: _as_text, UNKNOWN: _as_text, 0: _as_text, JSON: _as_text,
    19: _as_text, 1042: _as_text,
}  # fmt: skip
_FROM_TEXT: dict[int, Callable[[bytes], Any]] = {
    BOOL: _from_bool,
    BYTEA: _hex,
    INT2: lambda body: int(body.decode()),
    INT4: lambda body: int(body.decode()),
    INT8: lambda body: int(body.decode()),
    26: lambda body: int(body.decode()),
    FLOAT4: lambda body: float(body.decode()),
    FLOAT8: lambda body: float(body.decode()),
    NUMERIC: lambda body: _finite(decimal.Decimal(body.decode())),
    DATE: lambda body: dt.date.fromisoformat(body.decode()),
    TIMESTAMP: _moment,
    TIMESTAMPTZ: _moment,
}
