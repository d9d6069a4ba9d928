"""Placements: where the views of a pipeline are maintained, and the placement in the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from viewmill.mill.mill import Mill
from viewmill.mill.verify import Difference
from viewmill.mill.view import View
from viewmill.pipeline.definitions import define_view
from viewmill.pipeline.settings import settings
from viewmill.pipeline.shards.archive import Piece
from viewmill.pipeline.source import Source
from viewmill.pipeline.union import split, union


@dataclass
class Arrived:
    """A batch as it reaches the driver's mill."""

    rows: dict[str, pa.Table] = field(default_factory=dict)  # of sources
    changes: dict[str, list[pa.Table]] = field(default_factory=dict)  # of other tables
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # source, reason, row
    counts: dict[str, int] = field(default_factory=dict)  # rows in, by source
    whole: frozenset[str] = frozenset()  # sources whose rows replace the whole table
    notes: dict[str, int] = field(default_factory=dict)  # for the ledger, besides the batch
    archived: list[Piece] = field(default_factory=list)  # files that workers wrote


class Placement(Protocol):
    """Where the views of a pipeline are maintained."""

    def define(self, mill: Mill, name: str, sql: str, clauses: str, sources: Sources) -> None:
        """Create or recreate a view, unless it exists with this definition."""

    def streaming(self, sources: Sequence[Source]) -> list[Source]:
        """The sources that are read as streams; the others are loaded at once."""

    def reads_as_stream(self, source: Source) -> bool:
        """Whether a source is read as a stream."""

    def check(self, mill: Mill, streams: Sequence[Source]) -> None:
        """Raise if the pipeline cannot start; writes nothing."""

    def prepare(self) -> None:
        """Prepare the start, after `check`."""

    def forget_others(self, mill: Mill) -> None:
        """Drop what belongs to views that are gone, after they were dropped."""

    def frame(self, streams: Sequence[Source]) -> Any:
        """The streaming DataFrame whose batches the pipeline takes."""

    def settings(self) -> AbstractContextManager[object]:
        """Spark's settings while the query is started."""

    def arrived(self, batch: pa.Table, streams: Sequence[Source]) -> Arrived:
        """Decode a batch."""

    def verify(self, mill: Mill, view: str) -> list[Difference]:
        """Differences in state outside the mill, which the mill cannot verify itself."""

    def distributed(self, view: View) -> Any:
        """A DataFrame of the rows that executors hold; None if the driver holds them."""

    def status(self, mill: Mill) -> dict[str, Any]:
        """Status besides that of the views."""


Sources = Mapping[str, Source]

# Rows are only read and handed over; adaptive planning would cost 8 ms per batch.
_SETTINGS = {"spark.sql.adaptive.enabled": "false"}
# Whole-stage code generation helps where rows are grouped and joined. Where they are only read it
# is not faster, and generating the code costs 12 ms per batch.
_READING_SETTINGS = {**_SETTINGS, "spark.sql.codegen.wholeStage": "false"}
_READING = frozenset(
    {
        "Project",
        "Filter",
        "SubqueryAlias",
        "Union",
        "StreamingRelation",
        "StreamingRelationV2",
        "StreamingDataSourceV2Relation",
    }
)


class InDriver:
    """All views are maintained by the mill in the driver; Spark only reads and parses."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._settings = _SETTINGS

    def define(self, mill: Mill, name: str, sql: str, clauses: str, sources: Sources) -> None:
        """Create or recreate a view, unless it exists with this definition."""
        define_view(mill, name, sql, clauses)

    def streaming(self, sources: Sequence[Source]) -> list[Source]:
        """The sources with a streaming DataFrame."""
        return [each for each in sources if each.is_streaming]

    def reads_as_stream(self, source: Source) -> bool:
        """Whether its DataFrame is streaming."""
        return source.is_streaming

    def prepare(self) -> None:
        """Nothing to do."""

    def forget_others(self, mill: Mill) -> None:
        """Nothing to do."""

    def check(self, mill: Mill, streams: Sequence[Source]) -> None:
        """Choose Spark's settings by what the sources do."""
        reading = all(_only_reads(each.frame) for each in streams)
        self._settings = _READING_SETTINGS if reading else _SETTINGS

    def frame(self, streams: Sequence[Source]) -> Any:
        """The rows of all sources in one DataFrame."""
        return union([each.selected() for each in streams])

    def settings(self) -> AbstractContextManager[object]:
        """The settings that keep planning a batch cheap."""
        return settings(self._spark, self._settings)

    def arrived(self, batch: pa.Table, streams: Sequence[Source]) -> Arrived:
        """The rows of each source."""
        rows = split(batch, [each.name for each in streams])
        return Arrived(rows, counts={name: each.num_rows for name, each in rows.items()})

    def verify(self, mill: Mill, view: str) -> list[Difference]:
        """Nothing: the mill has all tables."""
        return []

    def distributed(self, view: View) -> Any:
        """Nothing: the driver holds all rows."""

    def status(self, mill: Mill) -> dict[str, Any]:
        """Nothing more."""
        return {}


def _only_reads(frame: Any) -> bool:
    """Whether a frame only reads, filters and projects rows."""
    made = getattr(frame, "_jdf", None)  # a frame of Spark Connect has none
    if made is None:
        return False
    plans = [made.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        if plan.nodeName() not in _READING:
            return False
        below = plan.children()
        plans += [below.apply(i) for i in range(below.size())]
    return True
