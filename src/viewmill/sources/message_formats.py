"""What the messages of a topic say: JSON, Avro, and Debezium's envelopes of both.

takes  keys and values of messages as bytes, the columns and the key of a table
gives  images of rows

JSON goes through Arrow's parser; what that refuses is read again value by value, as the files of a
mill are, which takes more values ("7" is a BIGINT) and finds the message that is wrong.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from viewmill.errors import InvalidRow
from viewmill.sources.images import Images
from viewmill.sources.read_files import AS_WRITTEN, convert, text_table

Bytes = Sequence[bytes | None]
Row = Mapping[str, Any]

_UNAVAILABLE = "__debezium_unavailable_value"
_EPOCH = datetime.datetime(1970, 1, 1)
_UNITS = {
    "io.debezium.time.Timestamp": 1_000, "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1, "io.debezium.time.NanoTimestamp": -1_000,
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"


class Format(Protocol):
    """How messages are read."""

    def images(self, keys: Bytes, values: Bytes, schema: pa.Schema, key: Sequence[str]) -> Images:
        """The images of some messages; `InvalidRow` if one of them cannot be read."""


class Json:
    """Each value is an object, the row; without a value the row of the message's key goes."""

    def images(self, keys: Bytes, values: Bytes, schema: pa.Schema, key: Sequence[str]) -> Images:
        """One image for each message."""
        parsed = None if None in values else _parse(values, schema)
        if parsed is not None and _is_same(parsed, values):
            return Images(parsed, np.zeros(len(values), np.bool_))
        rows = [
            _of_key(each, _object, schema, key) if value is None else _object(value)
            for each, value in zip(keys, values, strict=True)
        ]
        gone = np.array([each is None for each in values], np.bool_)
        return Images(_texts(rows, schema), gone)


class Avro:
    """Each value is an Avro record; `read` decodes it."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        self._read = read

    def images(self, keys: Bytes, values: Bytes, schema: pa.Schema, key: Sequence[str]) -> Images:
        """One image for each message."""
        found = [
            _of_key(each, self._read, schema, key) if value is None else self._read(value)
            for each, value in zip(keys, values, strict=True)
        ]
        rows = _typed([_record(each) for each in found], schema)
        return Images(rows, np.array([each is None for each in values], np.bool_))


@dataclass(frozen=True)
class _Change:
    """What one envelope says."""

    row: Row
    is_gone: bool


class Debezium:
    """Each value is an envelope with the row before and after; `read` decodes it if it is Avro."""

    def __init__(self, read: Callable[[bytes], Any] | None = None) -> None:
        self._read = read

    def images(self, keys: Bytes, values: Bytes, schema: pa.Schema, key: Sequence[str]) -> Images:
        """By key the new row or the old key; without a key also each old row."""
        if self._read is None and key and None not in values:
            found = _parse_envelopes(values, schema, key)
            if found is not None:
                return found
        changes: list[_Change] = []
        replaces = False
        for each, value in zip(keys, values, strict=True):
            envelope = None if value is None else self._envelope(value)
            if envelope is not None and envelope.get("op") == "t":
                changes, replaces = [], True
                continue
            changes += self._changes(each, envelope, schema, key)
        gone = np.array([each.is_gone for each in changes], np.bool_)
        rows = [each.row for each in changes]
        made = _texts(rows, schema) if self._read is None else _typed(rows, schema)
        return Images(made, gone, replaces, _UNAVAILABLE)

    def _envelope(self, value: bytes) -> dict[str, Any] | None:
        found = _object(value) if self._read is None else _record(self._read(value))
        types: dict[str, Any] = {}
        if "payload" in found and "schema" in found:
            types, found = _field_types(found["schema"]), found["payload"]
        if found is None:
            return None
        if not isinstance(found, dict) or "op" not in found:
            raise InvalidRow("it is no envelope of Debezium: it lacks op", detail=str(found)[:200])
        row_types = types
        return {
            **found,
            **{
                side: {name: _plain(each, row_types.get(name)) for name, each in row.items()}
                for side in ("before", "after")
                if isinstance(row := found.get(side), dict)
            },
        }

    def _changes(
        self, message_key: bytes | None, envelope: Row | None, schema: pa.Schema, key: Sequence[str]
    ) -> list[_Change]:
        if envelope is None:  # a tombstone follows a delete, and says no more
            if not key:
                return []
            return [_Change(_of_key(message_key, self._read or _object, schema, key), True)]
        before, after, op = envelope.get("before"), envelope.get("after"), envelope.get("op")
        if op == "m":
            return []  # a message of the application
        if op not in ("c", "r", "u", "d"):
            raise InvalidRow(f"an envelope has the unknown op {op!r}")
        if op != "d" and not isinstance(after, dict):
            raise InvalidRow(f'an envelope with op "{op}" lacks the row after')
        come = [] if op == "d" else [_Change(_sent(after or {}, before or {}), False)]
        if key:
            if op == "d" and not before:
                before = _of_key(message_key, self._read or _object, schema, key)
            if op == "u" and before and not _is_key_kept(before, after or {}, key):
                return [_Change(before, True), *come]
            return come or [_Change(before or {}, True)]
        if op in ("u", "d") and not before:
            raise InvalidRow(
                f'an envelope with op "{op}" lacks the row before',
                hint="Give the table a PRIMARY KEY, or have the database send whole old rows.",
            )
        return [_Change(before or {}, True), *come] if op in ("u", "d") else come


def _sent(after: Row, before: Row) -> Row:
    """The row after, with values that were not sent as they were before."""
    if _UNAVAILABLE not in after.values():
        return after
    return {k: before.get(k, v) if v == _UNAVAILABLE else v for k, v in after.items()}


def _is_key_kept(before: Row, after: Row, key: Sequence[str]) -> bool:
    """Whether an update leaves the key alone, or does not tell of the old one."""
    old, new = ({name.lower(): v for name, v in row.items()} for row in (before, after))
    return all(old.get(each.lower()) in (None, new.get(each.lower())) for each in key)


# JSON, all messages at once.


def _parse(values: Bytes, schema: pa.Schema) -> pa.Table | None:
    """The rows of objects; None if Arrow's parser does not take all of them."""
    if not values or not _are_objects(values):
        return None
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    lines = b"\n".join(each for each in values if each is not None)
    read = pyarrow.json.ReadOptions(block_size=max(1 << 20, min(len(lines) + 1, 1 << 30)))
    if b"\r" in lines or lines.count(b"\n") != len(values) - 1:
        return None  # objects of several lines
    try:
        rows = pyarrow.json.read_json(io.BytesIO(lines), read, options).select(schema.names)
        rows.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    return rows if rows.num_rows == len(values) else None


def _is_same(rows: pa.Table, values: Bytes) -> bool:
    """Whether reading value by value would give the same."""
    if any(pa.types.is_binary(each.type) for each in rows.schema):
        return False  # which are written in Base64
    floats = [each for each in rows.columns if pa.types.is_floating(each.type)]
    if any(pc.any(pc.is_inf(each)).as_py() for each in floats):
        return False  # perhaps a number beyond the type
    return _is_spelled(values, _with_nulls(rows))


def _with_nulls(rows: pa.Table) -> list[str]:
    return [name for name in rows.column_names if rows[name].null_count]


def _is_spelled(values: Bytes, names: list[str]) -> bool:
    """Whether no message spells a column differently, as "ID", which Arrow's parser overlooks."""
    if not names:
        return True
    text = b"\n".join(each for each in values if each is not None).decode(errors="replace")
    lower = text.lower()
    return all(lower.count(f'"{each.lower()}"') == text.count(f'"{each}"') for each in names)


def _are_objects(values: Bytes) -> bool:
    """Whether each begins and ends as an object, so that two broken ones cannot make a whole."""
    found = pa.array(values, pa.binary())
    starts, ends = pc.starts_with(found, b"{"), pc.ends_with(found, b"}")
    return bool(pc.all(pc.and_(starts, ends)).as_py())


def _are_keys_changed(envelopes: pa.Table, rows: pa.Table, key: Sequence[str]) -> bool:
    """Whether an update tells of an old key that is not the new one."""
    before = envelopes["before"].combine_chunks()
    if before.null_count == len(before):
        return False
    of_update = pc.equal(envelopes["op"].combine_chunks(), "u")
    differs = [
        pc.not_equal(pc.struct_field(before, rows.column_names.index(each)), rows[each])
        for each in key
    ]
    return any(pc.any(pc.and_(of_update, each)).as_py() for each in differs)


def _parse_envelopes(values: Bytes, schema: pa.Schema, key: Sequence[str]) -> Images | None:
    """Images by key, if all envelopes are plain ones."""
    first = values[0] if values else None
    if first is None or b'"payload"' in first:
        return None
    if any(pa.types.is_temporal(each.type) or pa.types.is_binary(each.type) for each in schema):
        return None  # written in units that depend on the connector
    row = pa.struct(list(schema))
    wanted = pa.schema([("before", row), ("after", row), ("op", pa.string()),
                        ("payload", pa.string())])  # fmt: skip
    found = _parse(values, wanted)
    if found is None or found["payload"].null_count < len(found):
        return None
    op = found["op"].combine_chunks()
    known = pc.is_in(op, pa.array(["c", "r", "u", "d"]))
    gone = pc.equal(op, "d")
    chosen = pc.if_else(gone, found["before"].combine_chunks(), found["after"].combine_chunks())
    if not pc.all(known, skip_nulls=False).as_py() or chosen.null_count:
        return None
    arrays = [pc.struct_field(chosen, i) for i in range(len(schema))]
    rows = pa.table(arrays, names=schema.names)
    if _are_keys_changed(found, rows, key) or not _is_spelled(values, _with_nulls(rows)):
        return None
    return Images(rows, gone.to_numpy(zero_copy_only=False), unchanged=_UNAVAILABLE)


# Message by message.


def _object(value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value, **_DECODED)
    except (ValueError, RecursionError) as why:
        raise InvalidRow("it is not JSON", detail=f"{why}: {value[:100]!r}") from why
    except Exception as why:  # a key that is there twice
        raise InvalidRow(f"{why} is there twice in an object") from why
    return _record(found)


def _record(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InvalidRow("it is no object with columns", detail=repr(found)[:200])
    return found


def _of_key(
    message_key: bytes | None, read: Callable[[bytes], Any], schema: pa.Schema, key: Sequence[str]
) -> dict[str, Any]:
    """The columns of the primary key, from the key of a message."""
    if not key:
        raise InvalidRow(
            "it has no value, which says that a row goes, and the table has no key",
            hint="Give the table a PRIMARY KEY.",
        )
    found: Any = None
    if message_key is not None:
        try:
            found = read(message_key)
        except InvalidRow:
            found = _scalar(message_key)
    if isinstance(found, dict) and "payload" in found and "schema" in found:
        found = found["payload"]
    if len(key) == 1 and not isinstance(found, dict) and found is not None:
        return {key[0]: found}
    known = {name.lower(): each for name, each in found.items()} if isinstance(found, dict) else {}
    lacking = [name for name in key if known.get(name.lower()) is None]
    if lacking:
        raise InvalidRow(
            f"it has no value, and its key lacks {', '.join(lacking)}", detail=repr(message_key)
        )
    return {name: known[name.lower()] for name in key}


def _scalar(value: bytes) -> str:
    """A key that is no object: a JSON text or number, or plain text."""
    try:
        found = json.loads(value, **AS_WRITTEN)
    except ValueError:
        found = None
    if isinstance(found, str):
        return found
    try:
        return value.decode()
    except UnicodeDecodeError as why:
        raise InvalidRow("its key is no text", detail=repr(value[:100])) from why


def _texts(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows of texts as columns of types."""
    known = {each.name.lower(): each for each in schema}
    ours = [
        {known[name.lower()].name: each for name, each in row.items() if name.lower() in known}
        for row in rows
    ]
    for field in schema:
        if pa.types.is_temporal(field.type) or pa.types.is_binary(field.type):
            for row in ours:
                row[field.name] = _as_text(row.get(field.name), field.type)
        elif pa.types.is_string(field.type):
            for row in ours:
                if isinstance(row.get(field.name), dict | list):
                    row[field.name] = _written(row[field.name])
    texts = text_table("the message", ours, schema, 0)
    binary = {each.name for each in schema if pa.types.is_binary(each.type)}
    done = {
        name: pa.array([_from_base64(v, name) for v in texts[name].to_pylist()], pa.binary())
        if name in binary
        else convert(texts.select([name]), schema, "the message", first_row=1)[name]
        for name in schema.names
    }
    return pa.table(done)


def _from_base64(text: str | None, name: str) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except ValueError as why:
        raise InvalidRow(f"{name} is no Base64", detail=repr(text)) from why


class _Number(str):
    """A number as it was written."""


_DECODED = {**AS_WRITTEN, "parse_float": _Number, "parse_int": _Number}


def _written(value: Any) -> str:
    """An object or an array as JSON, numbers as they came."""
    match value:
        case dict():
            pairs = (f"{_written(name)}:{_written(each)}" for name, each in value.items())
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case _Number():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


def _as_text(value: Any, type_: pa.DataType) -> Any:
    """A moment that is a number: days, or microseconds since 1970."""
    if not isinstance(value, str) or not value.lstrip("-").isdigit():
        return value
    unit = "days" if pa.types.is_date(type_) else "microseconds"
    try:
        moment = _EPOCH + datetime.timedelta(**{unit: int(value)})
    except OverflowError as why:
        raise InvalidRow(f"{value} {unit} since 1970 are beyond the calendar") from why
    return str(moment.date() if unit == "days" else moment)


def _typed(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows of Python values as columns of types."""
    known = [{name.lower(): each for name, each in row.items()} for row in rows]
    columns = []
    for field in schema:
        values = [row.get(field.name.lower()) for row in known]
        try:
            columns.append(pa.array(values).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as why:
            raise InvalidRow(f'column "{field.name}" is {field.type}', detail=str(why)) from why
    return pa.table(columns, names=schema.names)


# What Kafka Connect's schema says of values.


def _field_types(schema: Any) -> dict[str, tuple[str, int]]:
    """The logical type of each column, and the scale of a decimal."""
    found: dict[str, tuple[str, int]] = {}
    for side in schema.get("fields", []) if isinstance(schema, dict) else []:
        for each in side.get("fields", []) if side.get("field") in ("before", "after") else []:
            if each.get("name"):
                scale = int((each.get("parameters") or {}).get("scale", 0))
                found[each["field"]] = (each["name"], scale)
    return found


def _plain(value: Any, type_: tuple[str, int] | None) -> Any:
    """A value of a logical type: moments in microseconds, decimals as text."""
    if type_ is None or value is None:
        return value
    name, scale = type_
    if name == _VARIABLE and isinstance(value, dict):
        value, scale = value.get("value", ""), int(value.get("scale", 0))
    if name in (_DECIMAL, _VARIABLE):
        return _decimal(value, scale)
    unit = _UNITS.get(name)
    if unit is None:
        return value
    return str(int(value) * unit if unit > 0 else int(value) // -unit)


def _decimal(value: Any, scale: int) -> str:
    """The digits of a decimal that came as Base64, or, in Avro, as bytes."""
    data = value if isinstance(value, bytes) else _from_base64(value, "a decimal") or b""
    unscaled = int.from_bytes(data, "big", signed=True)
    with decimal.localcontext(prec=100):
        return format(decimal.Decimal(unscaled).scaleb(-scale), "f")
