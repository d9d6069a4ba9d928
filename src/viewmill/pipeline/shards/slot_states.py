"""What Spark runs for every slot, with the slot's part of its state store.

takes  the packed blobs of a batch, by slot
gives  GIVEN rows: what the slot's part of each view changed by, and what concerns the driver
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

from viewmill.deltas.arrow import decode_delta
from viewmill.deltas.blobs import write_table
from viewmill.errors import ViewmillError
from viewmill.pipeline.shards.layout import MULTIPLICITY, TO_DRIVER, Layout
from viewmill.pipeline.shards.slot import Blobs, Given, Head, take
from viewmill.runtime.spark.shard import Shard

Row = tuple[str, str, int, bytes]


class SlotStates(StatefulProcessor):  # type: ignore[misc]
    """Three states for each slot: the head, the log, the snapshot."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def init(self, handle: Any) -> None:
        """Spark gives the states of the slots of this partition."""
        head = "version BIGINT, token STRING, log_bytes BIGINT, log_entries INT"
        self._head = handle.getValueState("head", head)
        self._log = handle.getListState("log", "version BIGINT, token STRING, piece BINARY")
        self._snapshot = handle.getListState("snapshot", "piece BINARY")

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
            made, shard = take(self._layout, slot, _Store(self), blobs)
        except ViewmillError as why:
            # The driver raises it, so that the batch is not committed and nobody tries it again.
            said = {"message": why.message, "detail": why.detail, "hint": why.hint}
            return [("failure", type(why).__name__, slot, json.dumps(said).encode())]
        return _rows(slot, made, shard)

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
        self._states._head.update((head.version, head.token, head.log_bytes, head.log_entries))

    def log(self) -> Iterator[tuple[int, str, bytes]]:
        for version, token, piece in self._states._log.get():
            yield version, token, bytes(piece)

    def append(self, version: int, token: str, pieces: list[bytes]) -> None:
        for piece in pieces:
            self._states._log.appendValue((version, token, piece))

    def snapshot(self) -> list[bytes]:
        return [bytes(piece) for (piece,) in self._states._snapshot.get()]

    def replace(self, pieces: list[bytes]) -> None:
        self._states._log.clear()
        self._states._snapshot.put([(piece,) for piece in pieces])


def _passed(packed: Any) -> Row:
    return "rows", packed.stream.removesuffix(TO_DRIVER), packed.place, bytes(packed.rows)


def _rows(slot: int, made: Given, shard: Shard) -> list[Row]:
    rows: list[Row] = [
        ("figures", "", slot, json.dumps({**asdict(made.figures), "counts": made.counts}).encode())
    ]
    for view, delta in made.deltas.items():
        if delta.size:
            table = decode_delta(delta, shard.dictionary, multiplicity=MULTIPLICITY)
            rows.append(("delta", view, slot, write_table(table)))
    if made.refused:
        rows.append(("refused", "", slot, json.dumps(made.refused).encode()))
    return rows
