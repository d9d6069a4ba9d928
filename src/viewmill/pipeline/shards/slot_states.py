"""What Spark runs for every slot, with the slot's part of its state store.

takes  the packed blobs of a batch, by slot
gives  GIVEN rows: what the slot's part of each view changed by, and what concerns the driver
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, astuple
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from viewmill.deltas.blobs import write_table
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import ViewmillError
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import TO_DRIVER, Layout
from viewmill.pipeline.shards.slot import Blobs, Entry, Given, Head, take
from viewmill.pipeline.shards.worker import settle

Row = tuple[str, str, int, bytes]

# Types and not texts, which the JVM would parse again in every task.
_HEAD = StructType(
    [
        StructField("version", LongType()),
        StructField("token", StringType()),
        StructField("log_bytes", LongType()),
        StructField("base", LongType()),
        StructField("base_token", StringType()),
    ]
)
_PLACE = StructType([StructField("version", LongType()), StructField("piece", IntegerType())])
_ENTRY = StructType(
    [
        StructField("token", StringType()),
        StructField("pieces", IntegerType()),
        StructField("content", BinaryType()),
    ]
)
_PIECE = StructType([StructField("content", BinaryType())])
_PIECE_BYTES = 8 << 20  # a value in the state store stays below Spark's 16 MB


class SlotStates(StatefulProcessor):  # type: ignore[misc]
    """Three states for each slot: the head, the log, the snapshot."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def init(self, handle: Any) -> None:
        """Spark gives the states of the slots of this partition."""
        self._head = handle.getValueState("head", _HEAD)
        self._log = handle.getMapState("log", _PLACE, _ENTRY)
        self._snapshot = handle.getListState("snapshot", _PIECE)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any
    ) -> Iterator[pd.DataFrame]:
        """One batch of one slot."""
        found = [each for frame in rows for each in frame.itertuples(index=False)]
        found.sort(key=lambda each: each.place)  # as packed, whichever way they came
        given = [_passed(each) for each in found if each.stream.endswith(TO_DRIVER)]
        blobs = [
            (each.stream, bool(each.first), bytes(each.rows))
            for each in found
            if not each.stream.endswith(TO_DRIVER)
        ]
        if blobs:
            given += self._take(self._layout.keys.index(int(key[0])), blobs)
        yield pd.DataFrame(given, columns=["kind", "name", "place", "content"])

    def _take(self, slot: int, blobs: Blobs) -> list[Row]:
        try:
            made, dictionary = take(self._layout, slot, _Store(self), blobs)
        except ViewmillError as why:
            # The driver raises it, so that the batch is not committed and nobody tries it again.
            said = {"message": why.message, "detail": why.detail, "hint": why.hint}
            return [("failure", type(why).__name__, slot, json.dumps(said).encode())]
        settle(f"slot {slot} of {self._layout.id}")
        return _rows(slot, made, dictionary)

    def close(self) -> None:
        """The memory stays for the next batch."""


class _Store:
    """A slot's states under the names that `slot.take` uses."""

    def __init__(self, states: SlotStates) -> None:
        self._states = states

    def head(self) -> Head:
        found = self._states._head.get()
        return Head() if found is None else Head(*found)

    def set_head(self, head: Head) -> None:
        self._states._head.update(astuple(head))

    def entry(self, version: int) -> Entry:
        token, count, first = self._states._log.getValue((version, 0))
        rest = [self._states._log.getValue((version, i))[2] for i in range(1, count)]
        return Entry(token, b"".join([bytes(first), *rest]))

    def append(self, version: int, entry: Entry) -> None:
        pieces = _pieces(entry.blobs)
        for i, piece in enumerate(pieces):
            self._states._log.updateValue((version, i), (entry.token, len(pieces), piece))

    def snapshot(self) -> bytes:
        return b"".join(bytes(piece) for (piece,) in self._states._snapshot.get())

    def replace(self, snapshot: bytes) -> None:
        self._states._log.clear()
        self._states._snapshot.put([(piece,) for piece in _pieces(snapshot)])


def _pieces(data: bytes) -> list[bytes]:
    return [data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES)] or [b""]


def _passed(packed: Any) -> Row:
    return "rows", packed.stream.removesuffix(TO_DRIVER), packed.place, bytes(packed.rows)


def _rows(slot: int, made: Given, dictionary: Dictionary) -> list[Row]:
    rows: list[Row] = [
        ("figures", "", slot, json.dumps({**asdict(made.figures), "counts": made.counts}).encode())
    ]
    for view, delta in made.deltas.items():
        if delta.size:
            table = gathered_rows(delta, dictionary)
            rows.append(("delta", view, slot, write_table(table)))
    if made.refused:
        rows.append(("refused", "", slot, json.dumps(made.refused).encode()))
    return rows
