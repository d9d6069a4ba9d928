"""What messages of Kafka say, without a broker."""

from __future__ import annotations

import base64
import http.server
import io
import json
import random
import threading
from collections import Counter
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.sources.avro import AvroReader
from viewmill.sources.message_formats import Avro, Debezium, Json

ROW = pa.schema([("id", pa.int64()), ("k", pa.string()), ("x", pa.float64())])


def dumped(*values):
    return [None if each is None else json.dumps(each).encode() for each in values]


def step(format, keys, values, schema=ROW, key=("id",)):
    return format.images(keys, values, schema, key).step(key, {})


def test_the_last_value_of_a_key_counts():
    rows = [{"id": i % 3, "k": str(i), "x": i, "more": {"a": [1]}} for i in range(10)]
    made = step(Json(), [None] * 10, dumped(*rows))
    assert Counter(made.upserted["k"].to_pylist()) == Counter(["7", "8", "9"])
    bag = step(Json(), [None] * 10, dumped(*rows), key=())
    assert bag.inserted.num_rows == 10


@pytest.mark.parametrize(
    "message_key", [b'{"id": 1}', b"1", b'"1"', b'{"schema": {}, "payload": {"id": 1}}']
)
def test_a_tombstone_removes_the_row_of_its_key(message_key):
    made = step(Json(), [None, message_key], dumped({"id": 2}, None))
    assert made.removed.to_pylist() == [{"id": 1}]
    assert made.upserted["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{", "not JSON"),
        (b"[1]", "no object"),
        (b'{"id": 1.5}', "id cannot be '1.5'"),
        (b'{"id": 1, "id": 2}', "there twice"),
        (b'{"id": [1]}', "not one value"),
        (b"\xff\xfe", "not JSON"),
        (None, "no value"),
    ],
)
def test_what_cannot_be_read_is_said(value, said):
    with pytest.raises(vm.ViewmillError, match=said):
        Json().images([None], [value], ROW, ())


def test_two_broken_messages_do_not_make_a_whole_one():
    for values in (
        [b'{"id": 1,', b'"k": "a"}'],
        [b'{"id": 1}{"id": 2}', b"{}"],
        [b'{"k": "}', b'{"}'],
    ):
        with pytest.raises(vm.ViewmillError):
            Json().images([None] * 2, values, ROW, ())


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_envelopes_of_debezium_give_what_the_database_has(wrapped, keyed):
    chance = random.Random(4)
    rows: dict[int, Any] = {}
    sent: list[Any] = []
    for i in range(300):
        id_, op = chance.randrange(20), "c"
        before = rows.get(id_)
        after: Any = {"id": id_, "k": chance.choice("abc"), "x": i / 2}
        if before is not None:
            op = chance.choice("ud")
        if op == "d":
            after = None
            del rows[id_]
        else:
            rows[id_] = after
        envelope = {"before": before, "after": after, "op": op, "source": {}, "transaction": None}
        sent.append({"schema": {}, "payload": envelope} if wrapped else envelope)
        if op == "d" and keyed:
            sent.append(None)
    keys = [json.dumps({"id": 0}).encode()] * len(sent)
    for i, each in enumerate(sent):
        if each is None:
            before = sent[i - 1]["payload"] if wrapped else sent[i - 1]
            keys[i] = json.dumps({"id": before["before"]["id"]}).encode()
    made = step(Debezium(), keys, dumped(*sent), key=("id",) if keyed else ())
    come = made.upserted if keyed else made.inserted
    found = Counter(tuple(each.values()) for each in come.to_pylist())
    if made.deleted is not None:
        found.subtract(tuple(each.values()) for each in made.deleted.to_pylist())
    assert +found == Counter(tuple(each.values()) for each in rows.values())
    if keyed:
        assert set(made.removed["id"].to_pylist()).isdisjoint(rows)


def test_values_that_debezium_did_not_send_stay():
    unsent = "__debezium_unavailable_value"
    changes = [
        {"before": None, "after": {"id": 1, "k": "long", "x": 1}, "op": "c"},
        {"before": None, "after": {"id": 1, "k": unsent, "x": 2}, "op": "u"},
        {"before": None, "after": {"id": 2, "k": unsent, "x": 3}, "op": "u"},
    ]
    made = step(Debezium(), [None] * 3, dumped(*changes))
    assert made.upserted.to_pylist() == [{"id": 1, "k": "long", "x": 2.0}]
    (patch,) = made.patches
    assert patch.rows.to_pylist() == [{"id": 2, "x": 3.0}]
    assert patch.keys.to_pylist() == [{"id": 2}]


def test_the_schema_of_an_envelope_says_what_numbers_mean():
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("d", pa.date32()),
                        ("n", pa.decimal128(10, 2))])  # fmt: skip
    fields = [
        {"field": "id"},
        {"field": "at", "name": "io.debezium.time.Timestamp"},
        {"field": "d", "name": "io.debezium.time.Date"},
        {
            "field": "n",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
    ]
    number = base64.b64encode((-12345).to_bytes(3, "big", signed=True)).decode()
    row = {"id": 1, "at": 1_700_000_000_123, "d": 19_000, "n": number}
    envelope = {"schema": {"fields": [{"field": "after", "fields": fields}]},
                "payload": {"before": None, "after": row, "op": "r"}}  # fmt: skip
    (found,) = step(Debezium(), [None], dumped(envelope), schema).upserted.to_pylist()
    assert str(found["at"]) == "2023-11-14 22:13:20.123000"
    assert str(found["d"]) == "2022-01-08"
    assert found["n"] == Decimal("-123.45")


def test_truncate_leaves_what_comes_after_it():
    changes = [
        {"before": None, "after": {"id": 1}, "op": "c"},
        {"before": None, "after": None, "op": "t"},
        {"before": None, "after": {"id": 2}, "op": "c"},
    ]
    made = step(Debezium(), [None] * 3, dumped(*changes))
    assert made.replaces
    assert made.upserted["id"].to_pylist() == [2]


AVRO = {"type": "record", "name": "r", "fields": [
    {"name": "id", "type": "long"}, {"name": "k", "type": ["null", "string"]},
    {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
]}  # fmt: skip
AVRO_ROW = pa.schema([("id", pa.int64()), ("k", pa.string()), ("n", pa.decimal128(9, 2))])


def encoded(row):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, row)
    return stream.getvalue()


def test_avro_with_a_schema_and_with_a_registry():
    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/schemas/ids/7" else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(AVRO)}).encode())

        def log_message(self, *_):
            """Nothing."""

    row = {"id": 1, "k": None, "n": Decimal("1.25")}
    plain = step(Avro(AvroReader(AVRO, None)), [None], [encoded(row)], AVRO_ROW)
    assert plain.upserted.to_pylist() == [row]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        reader = AvroReader(None, f"http://127.0.0.1:{server.server_port}/")
        found = step(Avro(reader), [None], [b"\0\0\0\0\x07" + encoded(row)], AVRO_ROW)
        assert found.upserted.to_pylist() == [row]
        for bad in (b"", b"\1\0\0\0\x07", b"\0\0\0\0\x07", b"\0\0\0\0\x08" + encoded(row)):
            with pytest.raises(vm.ViewmillError):
                Avro(reader).images([None], [bad], AVRO_ROW, ())
        server.shutdown()


def test_brokers_that_cannot_be_reached_are_named(uncompiled, monkeypatch):
    monkeypatch.setattr("viewmill.sources.kafka_topic._ANSWER_S", 0.5)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT) UNCHECKED")
        source = vm.sources.kafka("127.0.0.1:1", "orders")
        with pytest.raises(vm.ViewmillError, match="Kafka topic orders: the brokers cannot be"):
            mill.follow("t", source, background=False)


def test_wrong_arguments_are_named():
    for given in ({"format": "xml"}, {"format": "avro"}, {"config": {"no.such": 1}}):
        with pytest.raises(vm.ViewmillError):
            vm.sources.kafka("127.0.0.1:1", "orders", **given).schema()


def test_columns_that_are_spelled_differently_are_read_however_messages_come_together():
    mixed = dumped({"ID": 1, "K": "a", "x": 1.0}, {"id": 2, "k": "b"})
    alone = Json().images([None, None], mixed, ROW, ("id",))
    assert alone.rows["id"].to_pylist() == [1, 2]
    assert alone.rows["k"].to_pylist() == ["a", "b"]
    envelopes = dumped({"op": "c", "after": {"ID": 1, "K": "a", "X": 1.0}})
    assert step(Debezium(), [None], envelopes).upserted["k"].to_pylist() == ["a"]


def test_binary_is_base64_alone_and_beside_a_tombstone():
    schema = pa.schema([("b", pa.binary())])
    for values in (dumped({"b": "aGk="}), dumped({"b": "aGk="}, {"b": None})):
        made = Json().images([None] * len(values), values, schema, ())
        assert made.rows["b"].to_pylist()[0] == b"hi"
    with pytest.raises(vm.ViewmillError, match="b is no Base64"):
        Json().images([None], dumped({"b": "!!"}), schema, ())


def test_an_object_in_a_column_of_text_keeps_its_numbers():
    made = Json().images([None], [b'{"id": 1, "k": {"a": 1.50, "b": [true, "\xc3\xa9"]}}'], ROW, ())
    assert made.rows["k"].to_pylist() == ['{"a":1.50,"b":[true,"\u00e9"]}']


def test_a_number_beyond_its_type_is_refused():
    with pytest.raises(vm.ViewmillError, match=r"3\.5e38"):
        Json().images([None], [b'{"f": 3.5e38}'], pa.schema([("f", pa.float32())]), ())


def test_a_key_that_is_null_is_a_message_that_cannot_be_read():
    with pytest.raises(vm.ViewmillError, match='key column "id" is NULL'):
        step(Json(), [None], dumped({"k": "a"}))


def test_an_update_with_another_key_before_moves_the_row():
    moved = {"op": "u", "before": {"id": 1, "k": "a"}, "after": {"id": 2, "k": "a"}}
    made = step(Debezium(), [None], dumped(moved))
    assert made.removed.to_pylist() == [{"id": 1}]
    assert made.upserted["id"].to_pylist() == [2]


def test_a_value_that_was_not_sent_is_taken_from_the_row_before():
    unsent = {"id": 1, "k": "__debezium_unavailable_value"}
    change = {"op": "u", "before": {"id": 1, "k": "long"}, "after": unsent}
    assert step(Debezium(), [None], dumped(change), key=()).inserted["k"].to_pylist() == ["long"]


def test_an_unknown_op_is_an_error():
    with pytest.raises(vm.ViewmillError, match="unknown op 'x'"):
        step(Debezium(), [None], dumped({"op": "x", "after": {"id": 1}}))


def test_decimals_may_have_a_scale_of_their_own():
    field = {"field": "x", "name": "io.debezium.data.VariableScaleDecimal"}
    schema = {"fields": [{"field": "after", "fields": [field]}]}
    row = {"id": 1, "x": {"scale": 3, "value": base64.b64encode(b"\x30\x39").decode()}}
    envelope = {"schema": schema, "payload": {"op": "c", "after": row}}
    assert step(Debezium(), [None], dumped(envelope)).upserted["x"].to_pylist() == [12.345]
