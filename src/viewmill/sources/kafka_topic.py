"""Follow a topic of Kafka: all partitions from the first message that they keep.

takes  brokers, a topic, how its messages are read
gives  steps of many messages; the offset of a partition is that of its next message

A mill has the offsets, so no consumer group has any. What a transaction of a producer has not
committed is not read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from viewmill.errors import InvalidArgument, InvalidRow, SourceBroken
from viewmill.sources.message_formats import Format
from viewmill.sources.read_messages import read_images
from viewmill.sources.source import Offsets, Step

_ROWS = 100_000  # in one step
_ANSWER_S, _EMPTY_S, _SILENT_S = 10.0, 0.5, 60.0
_CLUSTER, _TOPIC = "cluster", "topic"  # parts of the offsets that are no partitions
_CHECK_S = 1.0  # how often the number of the topic is asked for
_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_CONFIG: dict[str, Any] = {
    "group.id": "viewmill",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 200_000,
    "log_level": 0,
}


class KafkaTopic:
    """A topic that is followed."""

    has_more_columns = True
    key: tuple[str, ...] = ()

    def __init__(
        self, servers: str, topic: str, format: Format, schema: pa.Schema | None,
        config: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.title, self.reads = f"Kafka topic {topic}", "messages"
        self._topic, self._format, self._schema = topic, format, schema
        self._config = {**_CONFIG, **config, "bootstrap.servers": servers}
        self._config["error_cb"] = self._note
        self._asks = {"log_level": 0, **config, "bootstrap.servers": servers}
        self._admin: AdminClient | None = None
        self._number, self._checked = "", 0.0
        self._said = ""  # the last error that librdkafka told of
        self._consumer: Consumer | None = None
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # where a partition was found to have no more
        self._waiting: list[Any] = []
        self._lock = threading.RLock()

    def _note(self, error: KafkaError) -> None:
        self._said = error.str()

    def schema(self) -> pa.Schema | None:
        """The columns that were given; the topic must be there."""
        with self._lock:
            self._partitions()
        return self._schema

    def begin(self, *, is_durable: bool) -> None:
        """Brokers keep nothing for who reads."""

    def forget(self, offsets: Offsets) -> None:
        """Brokers keep nothing for who reads."""

    def close(self) -> None:
        """End the connections."""
        with self._lock:
            consumer, self._consumer, self._waiting = self._consumer, None, []
            self._admin, self._checked = None, 0.0
            if consumer is not None:
                consumer.close()

    def wait(self, seconds: float) -> None:
        """Until a message comes."""
        with self._lock:
            if self._consumer is not None and self._positions:
                with suppress(KafkaException, RuntimeError):  # the next pass says what is wrong
                    self._waiting += self._consumer.consume(1, timeout=min(seconds, 0.05))
                return
        time.sleep(min(seconds, 0.05))

    def changes(
        self, offsets: Offsets, schema: pa.Schema, key: tuple[str, ...] = ()
    ) -> Iterator[Step]:
        """The messages after the offsets, up to those that are there now."""
        with self._lock:
            targets = self._assign(offsets)
        while True:
            with self._lock:
                step = self._next_step(targets, schema, key)
            if step is None:
                return
            yield step

    # Partitions.

    def _open(self) -> Consumer:
        if self._consumer is None:
            try:
                self._consumer = Consumer(self._config)
            except (KafkaException, ValueError, TypeError) as why:
                raise InvalidArgument(
                    f"{self.title}: the configuration cannot be used", detail=str(why)
                ) from why
            self._positions, self._ends = {}, {}
        return self._consumer

    def _partitions(self) -> tuple[str, list[int]]:
        """The cluster, and the numbers of the topic's partitions."""
        try:
            found = self._open().list_topics(self._topic, timeout=_ANSWER_S)
        except KafkaException as why:
            raise self._unreachable(why) from why
        topic = found.topics[self._topic]
        if topic.error is not None and topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise InvalidArgument(f"{self.title} does not exist")
        if topic.error is not None:
            raise SourceBroken(f"{self.title}: {topic.error.str()}")
        return str(found.cluster_id), sorted(topic.partitions)

    def _unreachable(self, why: KafkaException) -> SourceBroken:
        said = why.args[0].str() if why.args and isinstance(why.args[0], KafkaError) else str(why)
        detail = "; ".join(each for each in (said, self._said) if each)
        return SourceBroken(f"{self.title}: the brokers cannot be reached", detail=detail)

    def _assign(self, offsets: Offsets) -> dict[int, int]:
        """Read on from the offsets; where each partition ends now."""
        cluster, numbers = self._partitions()
        if offsets.get(_CLUSTER, cluster) != cluster:
            raise self._lost("it is in another cluster now")
        self._cluster = cluster
        self._check_number(offsets.get(_TOPIC, ""))
        marks = {each: self._marks(each) for each in numbers}
        wanted = {each: int(offsets.get(str(each), marks[each][0])) for each in numbers}
        gone = {int(each) for each in offsets if each not in (_CLUSTER, _TOPIC)} - set(numbers)
        if gone:
            raise self._lost(f"partition {min(gone)} is gone")
        for number, at in wanted.items():
            low, high = marks[number]
            if not low <= at <= high:
                raise self._lost(f"offset {at} of partition {number} is not in {low} to {high}")
        if wanted != self._positions:
            self._positions, self._ends, self._waiting = wanted, {}, []
            self._open().assign([TopicPartition(self._topic, p, at) for p, at in wanted.items()])
        return {number: high for number, (_, high) in marks.items()}

    def _check_number(self, noted: str) -> None:
        """Refuse a topic that was created anew: its offsets mean other messages."""
        if time.monotonic() > self._checked + _CHECK_S:
            self._number = self._ask_number() or self._number
            self._checked = time.monotonic()
        if noted and self._number and noted != self._number:
            raise self._lost("it is another topic of that name now")

    def _ask_number(self) -> str:
        """The number that brokers since 2.8 give a topic; empty if it cannot be had."""
        try:
            self._admin = self._admin or AdminClient(self._asks)
            asked = self._admin.describe_topics(
                TopicCollection([self._topic]), request_timeout=_ANSWER_S
            )
            return str(asked[self._topic].result().topic_id or "")
        except (KafkaException, ValueError, TypeError):
            return ""

    def _marks(self, number: int) -> tuple[int, int]:
        try:
            found = self._open().get_watermark_offsets(
                TopicPartition(self._topic, number), timeout=_ANSWER_S
            )
        except KafkaException as why:
            raise self._unreachable(why) from why
        if found is None:
            raise SourceBroken(f"{self.title}: the brokers do not answer", detail=self._said)
        return int(found[0]), int(found[1])

    def _lost(self, why: str) -> SourceBroken:
        return SourceBroken(
            f"{self.title}: messages since the last ones taken are lost: {why}",
            detail="They expired, or the topic was created anew.",
            hint="mill.unfollow(table), DELETE FROM the table, and follow again; keep messages for"
            " as long as a mill may be away (retention.ms).",
        )

    # Messages.

    def _next_step(
        self, targets: Mapping[int, int], schema: pa.Schema, key: tuple[str, ...]
    ) -> Step | None:
        heard = time.monotonic()
        while not self._is_done(targets):
            messages, self._waiting = self._waiting, []
            messages = messages or self._open().consume(_ROWS, timeout=0.05)
            before = dict(self._positions)
            rows = self._looked_through(messages)
            if rows:
                return self._step(rows, schema, key)
            if self._positions != before or messages:
                heard = time.monotonic()
            if time.monotonic() - heard > _EMPTY_S and self._are_at_ends(targets):
                return None  # what is left belongs to open transactions
            if time.monotonic() - heard > _SILENT_S:
                raise SourceBroken(f"{self.title}: the brokers do not answer", detail=self._said)
        return None

    def _is_done(self, targets: Mapping[int, int]) -> bool:
        return all(self._positions[number] >= end for number, end in targets.items())

    def _are_at_ends(self, targets: Mapping[int, int]) -> bool:
        """Whether each partition has nothing more that may be read."""
        return all(
            at >= targets[number] or self._ends.get(number) == at
            for number, at in self._positions.items()
        )

    def _looked_through(self, messages: list[Any]) -> list[Any]:
        """The messages with rows; positions move past all."""
        rows = [each for each in messages if each.error() is None]
        ends = zip([each.partition() for each in rows], [each.offset() for each in rows],
                   strict=True)  # fmt: skip
        self._positions |= {number: at + 1 for number, at in dict(ends).items()}
        for each in messages if len(rows) < len(messages) else []:
            if each.error() is not None:
                self._look_at(each, each.error())
        return rows

    def _look_at(self, message: Any, error: KafkaError) -> None:
        """Note the end of a partition; raise any other error."""
        if error.code() == KafkaError._PARTITION_EOF:
            number = message.partition()
            self._positions[number] = self._ends[number] = message.offset()
        elif error.code() in _LOST:
            raise self._lost(error.str())
        else:
            raise SourceBroken(f"{self.title}: {error.str()}")

    def _step(self, messages: list[Any], schema: pa.Schema, key: tuple[str, ...]) -> Step:
        offsets = {str(number): str(at) for number, at in self._positions.items()}
        offsets |= {_CLUSTER: self._cluster, _TOPIC: self._number}
        try:
            values = [each.value() for each in messages]
            images = read_images(self._format, _Keys(messages), values, schema, key)
            return images.step(key, offsets)
        except InvalidRow:
            self._find_bad(messages, schema, key)
            raise

    def _find_bad(self, messages: list[Any], schema: pa.Schema, key: tuple[str, ...]) -> None:
        """Raise for the first message that cannot be read."""
        for each in messages:
            try:
                images = read_images(self._format, [each.key()], [each.value()], schema, key)
                images.step(key, {})
            except InvalidRow as why:
                raise InvalidRow(
                    f"{self.title}, partition {each.partition()}, offset {each.offset()}:"
                    f" {why.message.removeprefix('the message, row 1: ')}",
                    detail=why.detail,
                    hint=why.hint,
                ) from None


class _Keys(Sequence[bytes | None]):
    """The keys of messages; few are ever asked for."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, at: Any) -> Any:
        return self._messages[at].key()
