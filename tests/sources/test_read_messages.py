"""Messages that are not what they should be are refused as rows, whatever they do to a parser."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.sources.avro import AvroReader
from viewmill.sources.message_formats import Debezium, Json
from viewmill.sources.read_messages import read_images

ROW = pa.schema([
    ("id", pa.int64()), ("at", pa.timestamp("us")), ("b", pa.binary()), ("s", pa.string()),
])  # fmt: skip


def envelope(fields, **after):
    schema = {"fields": [{"field": "after", "fields": fields}]}
    return {"schema": schema, "payload": {"op": "c", "after": after}}


@pytest.mark.parametrize(
    ("format", "key", "value"),
    [
        (Json(), None, {"id": 1, "at": "--5"}),
        (Json(), None, {"id": 1, "at": "²"}),
        (Json(), None, {"id": 1, "at": "9" * 5000}),
        (Json(), b"[" * 100_000, None),
        (Json(), b'{"a": 1, "a": 2}', None),
        (Debezium(), None, envelope(5, id=1)),
        (Debezium(), None, envelope([5], id=1)),
        (Debezium(), None, envelope([{"field": "id", "name": "n", "parameters": 5}], id=1)),
        (Debezium(), None, {"schema": {"fields": None}, "payload": {"op": "c", "after": {}}}),
    ],
)
def test_a_spoiled_message_is_an_invalid_row(format, key, value):
    """The errors of parsers came out as they were, and nobody knew of which message."""
    body = None if value is None else json.dumps(value).encode()
    with pytest.raises(vm.InvalidRow):
        read_images(format, [key], [body], ROW, ("id",))


def test_an_avro_type_whose_values_may_be_endless_is_refused():
    """A message of 200 kB overflowed the stack of the process."""
    inner = {"type": "record", "name": "e", "fields": []}
    for wrong in (["null", "l"], {"type": "array", "items": "null"}, {"type": "map", "values": "l"},
                  {"type": "array", "items": inner}):  # fmt: skip
        schema = {"type": "record", "name": "l", "fields": [{"name": "n", "type": wrong}]}
        with pytest.raises(vm.InvalidArgument):
            AvroReader(schema, None)
    value = {"type": "record", "name": "value", "fields": [{"name": "id", "type": "long"}]}
    both = [{"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "value"]}]  # fmt: skip
    reader = AvroReader({"type": "record", "name": "envelope", "fields": both}, None)
    assert reader(b"\x00\x02\x02") == {"before": None, "after": {"id": 1}}
