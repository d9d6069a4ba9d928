"""Pack rows into a few Arrow blobs per slot before they are exchanged.

takes  batches of one source's rows, with the coordinates that Spark computed
gives  PACKED rows; a row that goes to several slots is in several blobs

Exchanging single rows costs ten times as much as exchanging blobs.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.deltas.blobs import write_table
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.mill.parted import Parted, PartOptions
from viewmill.pipeline.dead_letters import take_or_refuse
from viewmill.pipeline.shards.archive import write_piece
from viewmill.pipeline.shards.layout import TO_ARCHIVE, TO_DRIVER, PackedSource
from viewmill.pipeline.shards.patterns import clock_of
from viewmill.pipeline.shards.worker import freeze_garbage
from viewmill.program.exchange import Route

_ROWS_PER_BLOB = 250_000

Packed = tuple[int, int, str, bool, bytes]


class Pack:
    """A function for `mapInArrow`. It is sent with every task, so it holds only what it needs."""

    def __init__(
        self, source: PackedSource, keys: tuple[int, ...], columns: Sequence[str] = ()
    ) -> None:
        self._source, self._keys, self._columns = source, keys, tuple(columns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one partition."""
        task = pkgutil.resolve_name("pyspark:TaskContext").get()
        place = (task.partitionId() if task is not None else 0) << 32
        for table in _gathered(batches):
            if self._source.archive is not None:
                yield _as_batch((self._keys[0], place, *self._archived(table)))
                place += 1
            for packed in self.packed(self._named(table)):
                yield _as_batch((packed[0], place, *packed[2:]))
                place += 1
        freeze_garbage("pack")

    def _archived(self, rows: pa.Table) -> tuple[str, bool, bytes]:
        """Write the source's columns down, and say where."""
        assert self._source.archive is not None
        name = self._source.name
        own = rows.select(range(len(self._columns)))
        piece = write_piece(name, self._source.archive, own)
        return f"{name}{TO_ARCHIVE}", False, json.dumps(piece).encode()

    def _named(self, rows: pa.Table) -> pa.Table:
        """Restore the source's column names, which `plain_column` replaced."""
        return rows.rename_columns([*self._columns, *rows.column_names[len(self._columns) :]])

    def packed(self, rows: pa.Table) -> Iterator[Packed]:
        """The blobs of some rows."""
        source, keys = self._source, self._keys
        coordinates = source.coordinates()
        own = rows.num_columns - len(coordinates)  # by place: a user's column may have any name
        cells = {each: rows.column(own + i).to_numpy() for i, each in enumerate(coordinates)}
        rows = rows.select(range(own))
        if source.clock is not None:
            yield from self._told(rows, source.clock)
        if source.to_driver:
            yield keys[0], 0, f"{source.name}{TO_DRIVER}", True, write_table(rows)
        first = not source.to_driver
        for route in source.routes:
            for slots, blob in _cut(rows, route, cells):
                for i, slot in enumerate(slots):
                    # A row that is refused is reported by the first of its copies only.
                    yield keys[slot], 0, route.stream, first and i == 0, blob
            first = False

    def _told(self, rows: pa.Table, clock: PartOptions) -> Iterator[Packed]:
        """A message to every slot with the newest part of these rows."""
        source = self._source
        parts = Parted(source.name, source.schema, clock)
        newest: list[int] = []

        def look(some: pa.Table) -> None:
            delta = to_delta(some, source.schema, Dictionary(), **source.signs)
            if delta.size:
                newest.append(parts.span(delta)[1])

        take_or_refuse(rows, look)
        if newest:
            told = max(newest).to_bytes(8, "little", signed=True)
            for key in self._keys:
                yield key, 0, clock_of(source.name), False, told


def _cut(rows: pa.Table, route: Route, cells: Any) -> Iterator[tuple[list[int], bytes]]:
    """Blobs of a source's rows along one route, each with the slots it goes to."""
    at: npt.NDArray[np.int64] = np.zeros(rows.num_rows, np.int64)
    free: list[range] = []
    stride = 1
    for columns, share in zip(route.columns, route.shares, strict=True):
        if columns is None:
            free.append(range(0, share * stride, stride))
        else:
            at += cells[columns, share].astype(np.int64) * stride
        stride *= share
    offsets = [sum(each) for each in product(*free)]
    order = np.argsort(at, kind="stable")
    bounds = [*np.flatnonzero(np.diff(at[order], prepend=-1)), len(order)]
    for start, stop in pairwise(bounds):
        cell = int(at[order[start]])
        whole = stop - start == rows.num_rows
        chosen = rows if whole else rows.take(order[start:stop])
        yield [cell + each for each in offsets], write_table(chosen)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Spark's batches are small; together they make fewer blobs."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _ROWS_PER_BLOB:
            yield pa.Table.from_batches(held)
            held = []
    if held and any(each.num_rows for each in held):
        yield pa.Table.from_batches(held)


def _as_batch(packed: Packed) -> pa.RecordBatch:
    slot, place, stream, first, rows = packed
    return pa.RecordBatch.from_pydict(
        {
            "slot": pa.array([slot], pa.int32()),
            "place": pa.array([place], pa.int64()),
            "stream": [stream],
            "first": [first],
            "rows": pa.array([rows], pa.binary()),
        }
    )
