"""Streams that Spark reads by a connector: Kafka, Delta, tables with a change feed, rate.

takes  the name of the connector and its options
gives  a streaming DataFrame; a package that is missing is named, with the setting that brings it
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

from viewmill.errors import InvalidArgument, MissingDependency
from viewmill.pipeline.files import read_json

# They come from Maven, for one version of Spark each.
_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "delta": "io.delta:delta-spark_2.13:VERSION, the version made for Spark {spark}",
}
_NOT_FOUND = (
    "KAFKA_DATA_SOURCE_NOT_ENABLED",
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find data source",  # before Spark 4.3
)


def read_stream(
    spark: Any,
    format: str,
    schema: str | None = None,
    *,
    table: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """The rows of a connector as they come, with these columns; messages of Kafka are JSON."""
    if format == "kafka" and schema is None:
        raise InvalidArgument(
            "a stream of Kafka needs a schema",
            detail="Its messages are bytes; each is read as one JSON object.",
            hint='Say schema="id BIGINT, ...".',
        )
    reader = spark.readStream.format(format).options(**(options or {}))
    try:
        frame = reader.load() if table is None else reader.table(table)
    except Exception as why:
        if any(each in str(why) for each in _NOT_FOUND):
            raise _missing(format, spark.version) from why
        raise
    if schema is None:
        return frame
    if format == "kafka":
        return read_json(frame, schema)
    struct = pkgutil.resolve_name("pyspark.sql.types:StructType")
    return frame.to(struct.fromDDL(schema))


def _missing(format: str, version: str) -> MissingDependency:
    package = _PACKAGES.get(format, "").format(spark=version)
    conf = f'{{"spark.jars.packages": "{package or "group:name:version"}"}}'
    return MissingDependency(
        f"Spark has no connector {format!r}",
        detail="Connectors are packages from Maven that a session loads when it starts.",
        hint=f"vm.spark.session(conf={conf}), or spark: {{conf: ...}} in the spec file.",
    )
