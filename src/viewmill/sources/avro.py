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
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as why:
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
        return fastavro.parse_schema(given)
    except (ValueError, fastavro.schema.SchemaParseException) as why:
        raise InvalidArgument("the Avro schema cannot be read", detail=str(why)) from why
