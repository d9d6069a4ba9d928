"""A slot: one shard's programs in this worker's memory, as the state store knows them.

takes  a store of three things (head, log by version, snapshot), the blobs of a batch
gives  the change of each view's part; afterwards the store holds what makes the slot again

What is in memory is trusted only if version and token equal those of the store: Spark may run a
slot anywhere, and may run a batch again. If the memory is some batches behind, the log says what
it missed; else the slot is made again from snapshot and log.
"""

from __future__ import annotations

import pickle
import pkgutil
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from viewmill.deltas.blobs import read_table
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.rows import to_delta
from viewmill.pipeline.dead_letters import take_or_refuse
from viewmill.pipeline.shards.layout import Layout, PackedSource

if TYPE_CHECKING:
    from viewmill.runtime.spark.shard import Shard

Blobs = list[tuple[str, bool, bytes]]  # stream, whether refusals are reported here, rows

_SHARD = "viewmill.runtime.spark.shard:Shard"  # by name: who only asks for states needs no kernels
_LOG_ENTRIES = 100  # a log that is longer is read too slowly
_LOG_BYTES = 1 << 20  # and one that is larger than the states is no use


@dataclass(frozen=True)
class Head:
    """What the store says about the slot. The log has the batches since version `base`."""

    version: int = 0
    token: str = ""
    log_bytes: int = 0
    base: int = 0
    base_token: str = ""  # of the snapshot


class Entry(NamedTuple):
    """One batch in the log: the token of the version it made, the blobs."""

    token: str
    blobs: bytes


class SlotStore(Protocol):
    """The slot's part of the state store; what is written counts when Spark commits."""

    def head(self) -> Head: ...
    def set_head(self, head: Head) -> None: ...
    def entry(self, version: int) -> Entry: ...
    def append(self, version: int, entry: Entry) -> None: ...
    def snapshot(self) -> bytes: ...
    def replace(self, snapshot: bytes) -> None: ...


@dataclass
class Kept:
    """A shard in memory, and which state of the store it equals."""

    shard: Shard
    version: int = 0
    token: str = ""


@dataclass
class Figures:
    """What one batch cost a slot."""

    rows: int = 0
    kernel_ms: float = 0.0
    state_bytes: int = 0
    hits: int = 0  # the memory was up to date
    caught_up: int = 0  # it was behind, and the log had what it missed
    rebuilt: int = 0  # it was made from snapshot and log
    snapshots: int = 0


@dataclass
class Given:
    """What a batch brings about."""

    deltas: dict[str, Delta] = field(default_factory=dict)
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # source, reason, row
    counts: Counter[str] = field(default_factory=Counter)  # rows by source, each once
    figures: Figures = field(default_factory=Figures)


_MEMORY: dict[tuple[str, int], Kept] = {}  # this worker's, by pipeline and slot


def take(layout: Layout, slot: int, store: SlotStore, blobs: Blobs) -> tuple[Given, Shard]:
    """Apply a batch to a slot and write down what makes it again."""
    given = Given()
    head = store.head()
    kept = _current(layout, slot, store, head, given.figures)
    _MEMORY.pop((layout.id, slot), None)  # until all is done, it equals nothing
    deltas = _deltas(layout, kept.shard, blobs, given)
    start = time.thread_time_ns()
    given.deltas = kept.shard.take(deltas)
    given.figures.kernel_ms = (time.thread_time_ns() - start) / 1e6
    given.figures.state_bytes = kept.shard.state_bytes
    kept.version, kept.token = head.version + 1, uuid.uuid4().hex
    _write(store, head, kept, blobs, given.figures)
    _MEMORY[layout.id, slot] = kept
    return given, kept.shard


def _current(layout: Layout, slot: int, store: SlotStore, head: Head, figures: Figures) -> Kept:
    kept = _MEMORY.get((layout.id, slot))
    if kept is not None and (kept.version, kept.token) == (head.version, head.token):
        figures.hits += 1
        return kept
    if kept is None or not _is_past(kept, store, head):
        figures.rebuilt += head.version > 0
        return made_again(layout, store, head)
    figures.caught_up += 1
    return _caught_up(kept, layout, store, head)


def made_again(layout: Layout, store: SlotStore, head: Head) -> Kept:
    """A slot out of snapshot and log."""
    shard = pkgutil.resolve_name(_SHARD)(layout.programs, compiled=layout.compiled)
    if head.base:
        shard.load(store.snapshot())
    return _caught_up(Kept(shard, head.base, head.base_token), layout, store, head)


def _caught_up(kept: Kept, layout: Layout, store: SlotStore, head: Head) -> Kept:
    for version in range(kept.version + 1, head.version + 1):
        blobs = pickle.loads(store.entry(version).blobs)
        kept.shard.take(_deltas(layout, kept.shard, blobs, Given()))
    return kept


def _is_past(kept: Kept, store: SlotStore, head: Head) -> bool:
    """Whether what is in memory is a version from which the log goes on."""
    if not head.base <= kept.version < head.version:
        return False
    is_base = kept.version == head.base
    return kept.token == (head.base_token if is_base else store.entry(kept.version).token)


def _deltas(layout: Layout, shard: Shard, blobs: Blobs, given: Given) -> dict[str, Delta]:
    """The change of each stream; rows that no table can take are left out."""
    deltas: dict[str, list[Delta]] = {}
    for stream, first, blob in blobs:
        source, rows = layout.source_of(stream), read_table(blob)
        parts = deltas.setdefault(stream, [])
        take_part = partial(_take_part, shard, source, parts)
        refused = take_or_refuse(rows, take_part)
        if first:
            given.refused += [(source.name, why, row) for why, row in refused]
            given.counts[source.name] += rows.num_rows
        given.figures.rows += rows.num_rows
    return {stream: concat(parts[0].schema, parts) for stream, parts in deltas.items() if parts}


def _take_part(shard: Shard, source: PackedSource, parts: list[Delta], rows: pa.Table) -> None:
    parts.append(to_delta(rows, source.schema, shard.dictionary, **source.signs))


def _write(store: SlotStore, head: Head, kept: Kept, blobs: Blobs, figures: Figures) -> None:
    """Note the batch in the log, or put a snapshot in its place when that is cheaper."""
    size = head.log_bytes + sum(len(rows) for _, _, rows in blobs)
    long = head.version - head.base >= _LOG_ENTRIES
    if long or size > max(_LOG_BYTES, 2 * figures.state_bytes):
        store.replace(kept.shard.snapshot())
        figures.snapshots += 1
        store.set_head(Head(kept.version, kept.token, 0, kept.version, kept.token))
    else:
        store.append(kept.version, Entry(kept.token, pickle.dumps(blobs)))
        store.set_head(replace(head, version=kept.version, token=kept.token, log_bytes=size))
