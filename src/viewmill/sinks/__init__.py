"""Where views go: `mill.sink("v", vm.sinks.sqlalchemy(url, "v", key="id"))`. One file per sink."""

from viewmill.sinks.files import delta, parquet
from viewmill.sinks.function import function
from viewmill.sinks.iceberg import iceberg
from viewmill.sinks.kafka import kafka
from viewmill.sinks.sqlalchemy import sqlalchemy

__all__ = ["delta", "function", "iceberg", "kafka", "parquet", "sqlalchemy"]
