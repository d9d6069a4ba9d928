"""Read Avro values: with one schema, or with the one whose number a value begins with.

takes  a schema, or the address of a schema registry; the bytes of a value
gives  its record
"""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import fastavro

from viewmill.errors import InvalidArgument, InvalidRow, SourceBroken

_HEAD = 5  # a zero and the number of the schema
_TIMEOUT_S = 10
_UNREADABLE = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError,
)  # fmt: skip


class AvroReader:
    """Decodes values."""

    def __init__(self, schema: str | Mapping[str, Any] | None, registry: str | None) -> None:
        if (schema is None) == (registry is None):
            raise InvalidArgument("Avro needs either avro_schema= or registry=")
        self._registry = None if registry is None else registry.rstrip("/")
        self._schema = None if schema is None else _parsed(schema)
        self._known: dict[int, Any] = {}

    def __call__(self, value: bytes) -> Any:
        """The record of a value."""
        schema, data = self._schema, value
        if self._registry is not None:
            if len(value) < _HEAD or value[0]:
                raise InvalidRow("it does not begin with the number of a schema")
            schema, data = self._of(int.from_bytes(value[1:_HEAD], "big")), value[_HEAD:]
        try:
            stream = io.BytesIO(data)
            found = fastavro.schemaless_reader(stream, schema, None)
        except _UNREADABLE as why:
            raise InvalidRow("it is no Avro of that schema", detail=repr(why)) from why
        if stream.tell() != len(data):
            raise InvalidRow("it is no Avro of that schema: it is too long")
        return found

    def _of(self, number: int) -> Any:
        """The schema of a number, which never changes."""
        if number not in self._known:
            address = f"{self._registry}/schemas/ids/{number}"
            try:
                with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:
                    self._known[number] = _parsed(json.load(answer)["schema"])
            except (urllib.error.URLError, OSError, ValueError, KeyError) as why:
                raise SourceBroken(
                    f"schema {number} cannot be had from the registry", detail=str(why)
                ) from why
        return self._known[number]


def _parsed(schema: str | Mapping[str, Any]) -> Any:
    try:
        given = json.loads(schema) if isinstance(schema, str) else dict(schema)
        parsed = fastavro.parse_schema(given)
        _least_bytes(parsed, {})
    except (ValueError, RecursionError, fastavro.schema.SchemaParseException) as why:
        raise InvalidArgument("the Avro schema cannot be read", detail=str(why)) from why
    return parsed


def _least_bytes(schema: Any, known: dict[str, int | None]) -> int:
    """The fewest bytes that a value has; None is known of types that are being looked at.

    A few bytes could otherwise say a value so deep that the reader overflows the stack, or so many
    values of no bytes that they fill the memory.
    """
    match schema:
        case str() if schema not in known:
            return int(schema != "null")
        case str():
            found = known[schema]
            if found is None:
                raise InvalidArgument(
                    f'the Avro type "{schema}" contains itself', hint="No column can hold it."
                )
            return found
        case list():
            return 1 + min((_least_bytes(each, known) for each in schema), default=0)
        case {"type": "record" | "error", "name": name, "fields": fields}:
            known[name] = None
            known[name] = found = sum(_least_bytes(each["type"], known) for each in fields)
            return found
        case {"type": "fixed", "name": name, "size": int(size)}:
            known[name] = size
            return size
        case {"type": "array", "items": items}:
            if not _least_bytes(items, known):
                raise InvalidArgument("the Avro schema has lists of values that have no bytes")
            return 1
        case {"type": "map", "values": values}:
            _least_bytes(values, known)
            return 1
        case {"type": "enum", "name": name}:
            known[name] = 1
            return 1
        case {"type": inner}:
            return _least_bytes(inner, known)
    return 1
