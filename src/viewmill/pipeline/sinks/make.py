"""Which sink is meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from viewmill.errors import InvalidArgument
from viewmill.mill.changes import Change
from viewmill.pipeline.sinks.delta_lake import DeltaChanges
from viewmill.pipeline.sinks.delta_table import DeltaTableSink
from viewmill.pipeline.sinks.function import function_sink
from viewmill.pipeline.sinks.memory import MemoryChanges, memory_table
from viewmill.pipeline.sinks.parquet import ParquetTable, parquet_changes
from viewmill.pipeline.sinks.remote import RemoteChanges, RemoteTable
from viewmill.pipeline.sinks.sink import Sink
from viewmill.pipeline.storage import is_remote

Format = Literal["parquet", "delta", "memory"]
Mode = Literal["table", "changes"]


def make_sink(
    spark: Any,
    view: str,
    target: Callable[[Change], object] | None,
    path: str | os.PathLike[str] | None,
    format: str,
    mode: str,
    keep_hours: int | None,
    outbox: Path,
) -> Sink:
    """The sink of `Pipeline.sink`'s arguments."""
    if format == "memory" and mode in ("table", "changes") and path is None and target is None:
        return memory_table(spark, view) if mode == "table" else MemoryChanges(spark, view)
    if format == "memory" and path is not None:
        raise InvalidArgument(
            f'the sink of "{view}" is in memory, so it has no path', hint="Leave out one of them."
        )
    if (target is None) == (path is None):
        raise InvalidArgument(
            f'the sink of "{view}" needs either a path or a function',
            hint=f'pipe.sink("{view}", path="out/{view}")',
        )
    if target is not None:
        return function_sink(view, target, outbox)
    assert path is not None
    match (format, mode):
        case ("parquet", "table") if is_remote(path):
            return RemoteTable(os.fspath(path))
        case ("parquet", "changes") if is_remote(path):
            return RemoteChanges(os.fspath(path), outbox)
        case ("parquet", "table"):
            return ParquetTable(path)
        case ("parquet", "changes"):
            return parquet_changes(path)
        case ("delta", "table"):
            return DeltaTableSink(path, keep_hours=keep_hours)
        case ("delta", "changes"):
            return DeltaChanges(path, outbox)
        case _:
            raise InvalidArgument(
                f"no sink with format {format!r} and mode {mode!r}",
                hint="format parquet, delta or memory, mode table or changes.",
            )
