"""A pipeline in shards without Spark: the same placement, slots over stores in memory.

Only what Spark itself does is played: the union, the hash of coordinates, the exchange by slot.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.algebra.names import quoted
from viewmill.deltas.blobs import write_table
from viewmill.pipeline.placement import Arrived
from viewmill.pipeline.shards import slot as slots
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import TO_DRIVER, PackedSource, coordinate
from viewmill.pipeline.shards.pack import Pack
from viewmill.pipeline.shards.slot_bytes import (
    Entry,
    Head,
    read_entry,
    read_head,
    write_entry,
    write_head,
)
from viewmill.pipeline.shards.views import gathering_table, reshape
from viewmill.pipeline.source import Source
from viewmill.pipeline.storage import Storage

_SHARDS = "viewmill.pipeline.shards.placement:InShards"  # which knows kernels


class MemoryStore:
    """The state store of one slot; a copy of it is a checkpoint."""

    def __init__(self) -> None:
        self._head, self._log, self._snapshot = b"", dict[int, bytes](), b""

    def copy(self) -> MemoryStore:
        made = MemoryStore()
        made._head, made._log, made._snapshot = self._head, {**self._log}, self._snapshot
        return made

    def head(self) -> Head:
        return read_head(self._head) if self._head else Head()

    def set_head(self, head: Head) -> None:
        self._head = write_head(head)

    def entry(self, version: int) -> Entry:
        return read_entry(self._log[version])

    def append(self, version: int, entry: Entry) -> None:
        self._log[version] = write_entry(entry)

    def snapshot(self) -> bytes:
        return self._snapshot

    def replace(self, snapshot: bytes) -> None:
        self._log, self._snapshot = {}, snapshot


class Frame:
    """What a source asks of a DataFrame."""

    isStreaming = True  # noqa: N815 (Spark's name)

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns, self.schema = list(columns), None

    def select(self, *names: str) -> Frame:
        """Of the same columns, in another order."""
        return Frame([name.strip("`") for name in names])


class LocalShards:
    """Tables by their CREATE columns, views by their SQL; `take` is one batch of all sources."""

    def __init__(
        self,
        folder: Path,
        tables: Mapping[str, str],
        views: Mapping[str, str],
        options: str | Mapping[str, str] = "UNCHECKED",
        memory: int | None = None,
        multiplicity: str = "m",
    ) -> None:
        self._folder, self._memory = folder, memory
        self.placement = self._placement()
        self.mill = vm.Mill(reshape=reshape)
        self.sources: dict[str, Source] = {}
        for name, columns in tables.items():
            own = options if isinstance(options, str) else options[name]
            self.mill.sql(f"CREATE TABLE {quoted(name)} ({columns}) {own}")
            names = self.mill.core.catalog.table(name).table.schema.names
            frame = Frame([*names, multiplicity])
            self.sources[name] = Source(name, frame, multiplicity=multiplicity, schema=columns)
        self._multiplicity = multiplicity
        self._elsewhere: dict[tuple[str, int], slots.Kept] = {}  # the memory of another worker
        self._define(views)
        self.stores = {key: MemoryStore() for key in self.layout.keys}

    def _placement(self) -> Any:
        storage = Storage.open(self._folder, "shards")
        return pkgutil.resolve_name(_SHARDS)(None, storage, 2, self._memory)

    def _define(self, views: Mapping[str, str]) -> None:
        for name, sql in views.items():
            self.placement.define(self.mill, name, sql, "", self.sources)
        self.placement.check(self.mill, list(self.sources.values()))
        self.placement.prepare()
        self.layout: Any = self.placement._layout

    def take(self, rows: Mapping[str, pa.Table]) -> Arrived:
        """One batch: rows with their multiplicity in a column."""
        given = self.give(rows)
        arrived: Arrived = self.placement.arrived(given, list(self.sources.values()))
        self.commit(arrived)
        return arrived

    def commit(self, arrived: Arrived) -> None:
        with self.mill.batch():
            for table, parts in arrived.changes.items():
                for part in parts:
                    self.mill.apply(table, part, multiplicity="_multiplicity")
            for name, part in arrived.rows.items():
                self.mill.apply(name, part, multiplicity=self._multiplicity)

    def give(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        """The output of all slots for a batch."""
        by_slot: dict[int, list[tuple[str, bool, bytes]]] = {}
        given: list[dict[str, Any]] = []
        for source in self.layout.sources:
            if source.name in rows:
                table = with_coordinates(rows[source.name], source)
                for key, place, stream, first, blob in Pack(source, self.layout.keys).packed(table):
                    if stream.endswith(TO_DRIVER):
                        name = stream.removesuffix(TO_DRIVER)
                        given.append(_given("rows", name, place, blob))
                    else:
                        by_slot.setdefault(key, []).append((stream, first, blob))
        for key, blobs in by_slot.items():
            number = self.layout.keys.index(key)
            made, dictionary = slots.take(self.layout, number, self.stores[key], blobs)
            for view, delta in made.deltas.items():
                table = gathered_rows(delta, dictionary)
                given.append(_given("delta", view, number, write_table(table)))
            if made.refused:
                given.append(_given("refused", "", number, json.dumps(made.refused).encode()))
            figures = {**asdict(made.figures), "counts": made.counts}
            given.append(_given("figures", "", number, json.dumps(figures).encode()))
        return pa.Table.from_pylist(given)

    def move(self) -> None:
        """Another worker takes the slots from here on; it remembers when it last had them."""
        slots._MEMORY, self._elsewhere = self._elsewhere, slots._MEMORY

    def partial(self, view: str) -> list[Any]:
        """The gathered output of the shards for a view."""
        return list(self.mill.sql(f"SELECT * FROM {quoted(gathering_table(view))}").rows())


def _given(kind: str, name: str, place: int, content: bytes) -> dict[str, Any]:
    return {"kind": kind, "name": name, "place": place, "content": content}


def with_coordinates(rows: pa.Table, source: PackedSource) -> pa.Table:
    """Coordinates by some hash: which one does not matter, if equal values agree."""
    own = rows
    for i, (columns, share) in enumerate(source.coordinates()):
        texts = zip(*(own.column(name).to_pylist() for name in columns), strict=True)
        cells = np.array([crc32(repr(each).encode()) % share for each in texts], np.int32)
        rows = rows.append_column(coordinate(i), pa.array(cells))
    return rows
