"""Fill a view from the archive: a batch job of Spark that makes its states, slot by slot.

takes  the files of the sources that a view reads, split where Spark's checkpoint ends
does   executors pack and exchange the rows as in a batch, run the view's program in each slot, and
       write the slot's state as of the checkpoint
gives  the rows of the view as of the last batch that the driver has committed

The driver may have committed one batch more than Spark has noted as done. Spark runs that batch
again, for the slots; so these begin without its rows, and the driver has them already.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewmill.deltas.blobs import read_table, write_table
from viewmill.errors import ViewmillError
from viewmill.pipeline.settings import settings
from viewmill.pipeline.shards.failures import heard, told
from viewmill.pipeline.shards.fills import end_fill, write_slot
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import PACKED, Layout, PackedSource
from viewmill.pipeline.shards.pack import Pack
from viewmill.pipeline.shards.slot import (
    Given,
    Kept,
    Program,
    apply,
    member_of,
    read_batch,
    reading,
)
from viewmill.pipeline.shards.slot_bytes import Blobs

FILLED = "slot INT, failure STRING, content BINARY"
LATER = 1 << 60  # added to the places of rows that slots are to take again
_BYTES_AT_ONCE = 64 << 20
_ROWS_PER_PIECE = 100_000
_SETTINGS = {
    # A row is a blob of up to 250,000 rows of a source.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.adaptive.enabled": "false",
}


@dataclass(frozen=True)
class Past:
    """The rows of a source: those that the slots have, and those that only the driver has."""

    packed: PackedSource
    columns: tuple[str, ...]
    kept: Any  # DataFrames with plain columns and coordinates, or None
    later: Any


Run = Callable[["FillSlots"], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Filled:
    """What a fill gives."""

    fill: str
    pieces: list[tuple[int, pa.Table]]  # slots with rows of the view for the driver


def fill_view(spark: Any, layout: Layout, program: Program, past: Sequence[Past]) -> Filled:
    """Run the job; the states are in `layout.fills` when this returns."""
    frames = [
        rows.mapInArrow(Pack(each.packed, layout.keys, each.columns), PACKED).selectExpr(
            "slot", f"place + {offset}L AS place", "stream", "first", "rows"
        )
        for each in past
        for rows, offset in ((each.kept, 0), (each.later, LATER))
        if rows is not None
    ]

    def run(slots: FillSlots) -> Iterator[pa.RecordBatch]:
        if frames:
            job = reduce(lambda one, other: one.union(other), frames)
            job = job.repartition("slot").sortWithinPartitions("slot", "place")
            yield from job.mapInArrow(slots, FILLED).toArrow().to_batches()

    with settings(spark, _SETTINGS):
        return fill_packed(layout, program, run)


def fill_packed(layout: Layout, program: Program, run: Run) -> Filled:
    """Fill the slots by a function that runs them over all packed rows."""
    fill = uuid.uuid4().hex
    layout = replace(layout, programs=(replace(program, fill=fill),))
    folder = str(Path(layout.fills) / fill)
    pieces: list[tuple[int, pa.Table]] = []
    for batch in run(FillSlots(layout, folder)):
        for row in batch.to_pylist():
            if row["failure"] is not None:
                raise heard(row["failure"])
            pieces.append((row["slot"], read_table(row["content"])))
    end_fill(folder, sorted({slot for slot, _ in pieces}))
    return Filled(fill, pieces)


class FillSlots:
    """A function for `mapInArrow` over packed rows, sorted by slot and place."""

    def __init__(self, layout: Layout, folder: str) -> None:
        self._layout, self._folder = layout, folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fill the slots of one partition, one after the other."""
        slot: _Filling | None = None
        try:
            for batch in batches:
                for row in batch.to_pylist():
                    number = self._layout.keys.index(row["slot"])
                    if slot is None or slot.number != number:
                        yield from () if slot is None else slot.end()
                        slot = _Filling(self._layout, self._folder, number)
                    slot.take(row)
            yield from () if slot is None else slot.end()
        except ViewmillError as why:
            yield _batch(0, told(why), b"")


class _Filling:
    """One slot of a view while its rows come."""

    def __init__(self, layout: Layout, folder: str, number: int) -> None:
        self.number = number
        self._layout, self._folder = layout, folder
        (self._program,) = layout.programs
        self._kept = Kept()
        self._member: Any = member_of(layout, self._program, self._kept)
        self._blobs: Blobs = []
        self._size = 0
        self._is_written = False

    def take(self, row: dict[str, Any]) -> None:
        """One blob; the first of the later ones ends the state that is written."""
        if row["place"] >= LATER and not self._is_written:
            self._write()
        self._blobs.append((row["stream"], False, row["rows"]))
        self._size += len(row["rows"])
        if self._size > _BYTES_AT_ONCE:
            self._apply()

    def end(self) -> Iterator[pa.RecordBatch]:
        """The rows of the view in this slot, for the driver."""
        if not self._is_written:
            self._write()
        self._apply()
        rows = gathered_rows(self._member.contents()[self._program.view], self._kept.dictionary)
        for start in range(0, max(rows.num_rows, 1), _ROWS_PER_PIECE):
            yield _batch(self.number, None, write_table(rows.slice(start, _ROWS_PER_PIECE)))

    def _apply(self) -> None:
        batch = read_batch(self._layout, self._kept.dictionary, self._blobs, Given())
        if reading(self._layout, batch):
            apply(self._member, self._program, batch)
        self._blobs, self._size = [], 0

    def _write(self) -> None:
        self._apply()
        write_slot(self._folder, self.number, self._program.key, self._member.snapshot())
        self._is_written = True


def _batch(slot: int, failure: str | None, content: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "slot": pa.array([slot], pa.int32()),
            "failure": pa.array([failure], pa.string()),
            "content": pa.array([content], pa.binary()),
        }
    )
