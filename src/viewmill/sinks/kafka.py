"""A view as messages of a Kafka topic: the row of each key, or its changes. JSON.

takes  all rows, then changes
does   sends a row by its key, and a message without a value for a key that is gone; a start reads
       what the topic has, and sends the difference
"""

from __future__ import annotations

import base64
import datetime
import json
import pkgutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from viewmill.errors import (
    DuplicateKey,
    InvalidArgument,
    MissingDependency,
    UnknownName,
    ViewmillError,
)
from viewmill.sinks.change_rows import change_rows
from viewmill.sinks.sink import MULTIPLICITY, Change, Origin

MODES = ("upserts", "changes")
_ANSWER_S = 10.0
_QUIET = {"log_level": 0}


def kafka(
    servers: str, topic: str, *, key: str | Sequence[str] = (), mode: str = "upserts",
    config: Mapping[str, Any] | None = None,
) -> KafkaTopicSink:  # fmt: skip
    """Keep `topic` equal to a view, by `key`; with mode="changes" send every change instead."""
    keys = (key,) if isinstance(key, str) else tuple(key)
    if mode not in MODES or (mode == "upserts") != bool(keys):
        raise InvalidArgument(
            "a topic of rows needs a key, one of changes has none",
            hint='vm.sinks.kafka(servers, topic, key="id"), or mode="changes".',
        )
    try:
        package = pkgutil.resolve_name("confluent_kafka")
    except ImportError as why:
        raise MissingDependency(
            "confluent-kafka is not installed", hint="pip install 'viewmill[kafka]'"
        ) from why
    return KafkaTopicSink(servers, topic, keys, dict(config or {}), package)


class KafkaTopicSink:
    """A topic that we write."""

    guarantee, takes_whole = "at least once", False

    def __init__(
        self, servers: str, topic: str, key: tuple[str, ...], config: dict[str, Any], package: Any
    ) -> None:
        self.title, self._topic, self._key = f"Kafka topic {topic}", topic, key
        self.takes_each_version = not key
        self._config = {**_QUIET, **config, "bootstrap.servers": servers}
        self._package = package
        self._producer: Any = None
        self._origin: Origin | None = None

    def open(self, origin: Origin) -> None:
        """Connect; the topic must be there."""
        known = {each.lower(): each for each in origin.schema.names}
        for each in self._key:
            if each.lower() not in known:
                raise UnknownName(f'view "{origin.view}" has no column "{each}" for the key')
        self._key, self._origin = tuple(known[each.lower()] for each in self._key), origin
        settings = {**self._config, "enable.idempotence": True, "linger.ms": 5}
        self._producer = self._package.Producer(settings)
        try:
            found = self._producer.list_topics(self._topic, timeout=_ANSWER_S)
        except self._package.KafkaException as why:
            raise OSError(f"{self.title}: the brokers cannot be reached: {why}") from why
        if found.topics[self._topic].error is not None:
            raise InvalidArgument(f"{self.title}: {found.topics[self._topic].error.str()}")

    def replace(self, rows: Change) -> None:
        """Send what the topic lacks; all rows where it has changes."""
        table = rows.to_arrow()
        if not self._key:
            self._send_changes(table, rows.version)
            return
        wanted = self._by_key(table, times=1)
        there = self._read()
        put = {key: value for key, value in wanted.items() if there.get(key) != value}
        self._send({**put, **dict.fromkeys(there.keys() - wanted.keys())})

    def apply(self, change: Change) -> None:
        """Send rows by key, and keys that are gone."""
        table = change.to_arrow()
        if not self._key:
            self._send_changes(table, change.version)
            return
        come = self._by_key(table, times=1)
        gone = self._by_key(table, times=-1)
        self._send({**dict.fromkeys(gone.keys() - come.keys()), **come})

    def has_taken(self, change: Change) -> bool:
        """A change that raised is sent again."""
        return False

    def close(self) -> None:
        """End the connections."""
        self._producer = None

    def _by_key(self, table: pa.Table, times: int) -> dict[bytes, bytes]:
        """The rows that came, or went, by their keys."""
        found: dict[bytes, bytes] = {}
        for row in table.to_pylist():
            count = row.pop(MULTIPLICITY) * times
            if count <= 0:
                continue
            key = _encoded({name: row[name] for name in self._key})
            if key in found or count > 1:
                raise DuplicateKey(
                    f"{self.title}: two rows of the view have the key {key.decode()}",
                    hint="Give key= the columns that make a row unique.",
                )
            found[key] = _encoded(row)
        return found

    def _send_changes(self, table: pa.Table, version: int) -> None:
        rows = change_rows(table, version).to_pylist()
        self._produce([(None, _encoded(row)) for row in rows])

    def _send(self, messages: Mapping[bytes, bytes | None]) -> None:
        self._produce([*messages.items()])

    def _produce(self, messages: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        failed: list[str] = []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error.str())

        for key, value in messages:
            while True:
                try:
                    self._producer.produce(self._topic, value, key, on_delivery=told)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        if self._producer.flush(60) or failed:
            raise OSError(f"{self.title}: {failed[0] if failed else 'the brokers do not answer'}")

    def _read(self) -> dict[bytes, bytes]:
        """The last value of each key that the topic has."""
        consumer = self._package.Consumer({
            **self._config, "group.id": "viewmill", "enable.auto.commit": False,
        })  # fmt: skip
        try:
            return self._read_by(consumer)
        finally:
            consumer.close()

    def _read_by(self, consumer: Any) -> dict[bytes, bytes]:
        part = self._package.TopicPartition
        numbers = consumer.list_topics(self._topic, timeout=_ANSWER_S).topics[self._topic]
        left: dict[int, int] = {}
        starts = []
        for number in numbers.partitions:
            low, high = consumer.get_watermark_offsets(part(self._topic, number), timeout=_ANSWER_S)
            starts.append(part(self._topic, number, low))
            left |= {number: high} if high > low else {}
        consumer.assign(starts)
        found: dict[bytes, bytes] = {}
        until = time.monotonic() + 60
        while left:
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error() is not None:
                    raise OSError(f"{self.title}: {message.error().str()}")
                until = time.monotonic() + 60
                if message.value() is None:
                    found.pop(message.key(), None)
                elif message.key() is not None:
                    found[message.key()] = message.value()
            for at in consumer.position([part(self._topic, number) for number in left]):
                if at.offset >= left[at.partition]:
                    del left[at.partition]
            if time.monotonic() > until:
                raise ViewmillError(f"{self.title}: the brokers do not answer")
        return found


def _encoded(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=_as_json, allow_nan=True, ensure_ascii=False).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    return str(value)
