"""A topic of Kafka, read in this process.

Read on in `kafka_topic.py`, which needs confluent-kafka, and in `message_formats.py`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from viewmill.errors import InvalidArgument, MissingDependency
from viewmill.sources.message_formats import Avro, Debezium, Format, Json
from viewmill.sources.source import Stream

FORMATS = ("json", "avro", "debezium", "debezium-avro")
_TOPIC, _AVRO = "viewmill.sources.kafka_topic:KafkaTopic", "viewmill.sources.avro:AvroReader"


def kafka(
    servers: str,
    topic: str,
    *,
    format: str = "json",
    schema: pa.Schema | None = None,
    avro_schema: str | Mapping[str, Any] | None = None,
    registry: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Stream:
    """Follow `topic` of the brokers `servers` ("host:9092,...").

    Rows of a table with a PRIMARY KEY replace those of their key, and messages without a value
    remove them; other tables are appended to. `config` is that of librdkafka.
    """
    if format not in FORMATS:
        raise InvalidArgument(f"the format {format!r} is not known", hint=", ".join(FORMATS))
    reader = None
    try:
        if format.endswith("avro"):
            reader = pkgutil.resolve_name(_AVRO)(avro_schema, registry)
        made: Format = Json()
        if format.startswith("debezium"):
            made = Debezium(reader)
        elif reader is not None:
            made = Avro(reader)
        found: Stream = pkgutil.resolve_name(_TOPIC)(servers, topic, made, schema, config or {})
    except ImportError as why:
        raise MissingDependency(
            "confluent-kafka or fastavro is not installed", detail=str(why),
            hint="pip install 'viewmill[kafka]'",
        ) from why  # fmt: skip
    return found
