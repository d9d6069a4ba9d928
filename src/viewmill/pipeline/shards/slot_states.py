"""What Spark runs for every slot, with the slot's part of its state store.

takes  the packed blobs of a batch, by slot
gives  GIVEN rows: what the slot's part of each view changed by, and what concerns the driver
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from viewmill.deltas.blobs import write_table
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import ViewmillError
from viewmill.pipeline.shards.failures import told
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import TO_ARCHIVE, TO_DRIVER, Layout
from viewmill.pipeline.shards.slot import HEAD, SNAPSHOT, STATE, Given, take
from viewmill.pipeline.shards.slot_bytes import (
    Blobs,
    Entry,
    Head,
    read_entry,
    read_head,
    write_entry,
    write_head,
)
from viewmill.pipeline.shards.worker import freeze_garbage

Row = tuple[str, str, int, bytes]

# Types and not texts, which the JVM would parse again in every task.
_PLACE = StructType([StructField("version", LongType()), StructField("piece", IntegerType())])
_PIECE = StructType([StructField("pieces", IntegerType()), StructField("content", BinaryType())])
_PASSED = (TO_DRIVER, TO_ARCHIVE)  # streams that slots do not take
_PIECE_BYTES = 8 << 20  # a value in the state store stays below Spark's 16 MB
_GIVEN = SparkRow("kind", "name", "place", "content")


class SlotStates(StatefulProcessor):  # type: ignore[misc]
    """One state for each slot: a map of its head, its log by version, and its snapshot.

    Three states would each be announced to the JVM in every task, which took 10 ms for each.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def init(self, handle: Any) -> None:
        """Spark gives the states of the slots of this partition."""
        self.kept = handle.getMapState(STATE, _PLACE, _PIECE)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: Any, rows: Iterator[Any], timer_values: Any
    ) -> Iterator[Any]:
        """One batch of one slot."""
        found = sorted(rows, key=lambda each: each.place)  # as packed, whichever way they came
        given = [_passed(each) for each in found if each.stream.endswith(_PASSED)]
        blobs = [
            (each.stream, bool(each.first), bytes(each.rows))
            for each in found
            if not each.stream.endswith(_PASSED)
        ]
        if blobs:
            given += self._take(self._layout.keys.index(int(key[0])), blobs)
        return iter([_GIVEN(*each) for each in given])

    def _take(self, slot: int, blobs: Blobs) -> list[Row]:
        try:
            made, dictionary = take(self._layout, slot, _Store(self), blobs)
        except ViewmillError as why:
            # The driver raises it, so that the batch is not committed and nobody tries it again.
            return [("failure", "", slot, told(why).encode())]
        freeze_garbage(f"slot {slot} of {self._layout.id}")
        return _rows(slot, made, dictionary)

    def close(self) -> None:
        """The memory stays for the next batch."""


class _Store:
    """A slot's state under the names that `slot.take` uses."""

    def __init__(self, states: SlotStates) -> None:
        self._kept = states.kept

    def head(self) -> Head:
        content = self._read(HEAD)
        return Head() if content is None else read_head(content)

    def set_head(self, head: Head) -> None:
        self._write(HEAD, write_head(head))

    def entry(self, version: int) -> Entry:
        return read_entry(self._read(version) or b"")

    def append(self, version: int, entry: Entry) -> None:
        self._write(version, write_entry(entry))

    def snapshot(self) -> bytes:
        return self._read(SNAPSHOT) or b""

    def replace(self, snapshot: bytes) -> None:
        self._kept.clear()
        self._write(SNAPSHOT, snapshot)

    def _read(self, version: int) -> bytes | None:
        found = self._kept.getValue((version, 0))
        if found is None:
            return None
        count, first = found
        rest = [self._kept.getValue((version, i)) for i in range(1, count)]
        # A piece that is missing is found by the checksum.
        return b"".join([bytes(first), *(bytes(each[1]) for each in rest if each is not None)])

    def _write(self, version: int, content: bytes) -> None:
        starts = range(0, len(content), _PIECE_BYTES) or [0]
        for i, start in enumerate(starts):
            piece = content[start : start + _PIECE_BYTES]
            self._kept.updateValue((version, i), (len(starts), piece))


def _passed(packed: Any) -> Row:
    name, _, to = packed.stream.rpartition("@")
    kind = "rows" if f"@{to}" == TO_DRIVER else "archived"
    return kind, name, packed.place, bytes(packed.rows)


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
