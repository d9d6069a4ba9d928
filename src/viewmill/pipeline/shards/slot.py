"""A slot: one shard's views in the memory of a worker, recoverable from Spark's state store.

takes  a store with a head, a log by version and a snapshot; the blobs of a batch
gives  the change of each view's part; the store then has everything to rebuild the slot

Memory is trusted only if its version and token equal those of the store: Spark may run a slot
anywhere and may repeat a batch. If memory is some batches behind, it catches up from the log;
otherwise the slot is rebuilt from snapshot and log. With a budget, views whose states do not fit
are released after a batch and rebuilt when rows arrive for them.
"""

from __future__ import annotations

import pkgutil
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from viewmill.deltas.blobs import read_table
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.errors import DamagedFile
from viewmill.mill.parted import Parted
from viewmill.pipeline.dead_letters import take_or_refuse
from viewmill.pipeline.shards.fills import read_fill
from viewmill.pipeline.shards.layout import Layout, PackedSource
from viewmill.pipeline.shards.patterns import ShardPattern, clock_of
from viewmill.pipeline.shards.slot_bytes import (
    Blobs,
    Entry,
    Head,
    read_snapshot,
    write_snapshot,
)
from viewmill.runtime.spark.programs import ShardProgram

Program = ShardProgram | ShardPattern

# By name: reading states needs no kernels.
_SHARD = "viewmill.runtime.spark.shard:Shard"
_PATTERN = "viewmill.pipeline.shards.pattern_shard:PatternShard"
_LOG_ENTRIES = 100  # a longer log takes too long to replay
_LOG_BYTES = 1 << 20  # up to this size the log may be larger than the states


# In the state store a slot is one map from versions to bytes; these two keys are not log versions.
STATE = "slot"
HEAD, SNAPSHOT = 0, -1


class SlotStore(Protocol):
    """The slot's part of the state store; writes take effect when Spark commits."""

    def head(self) -> Head: ...
    def set_head(self, head: Head) -> None: ...
    def entry(self, version: int) -> Entry: ...
    def append(self, version: int, entry: Entry) -> None: ...
    def snapshot(self) -> bytes: ...
    def replace(self, snapshot: bytes) -> None: ...


class Member(Protocol):
    """The part of one view in a slot."""

    def contents(self) -> dict[str, Delta]: ...
    def snapshot(self) -> bytes: ...
    def load(self, snapshot: bytes) -> None: ...
    @property
    def state_bytes(self) -> int: ...


@dataclass
class Kept:
    """The views of a slot in memory, all at one version; the others are released."""

    dictionary: Dictionary = field(default_factory=Dictionary)
    members: dict[str, Member] = field(default_factory=dict)  # by their keys
    version: int = 0
    token: str = ""

    @property
    def state_bytes(self) -> int:
        """The size of all their states."""
        return sum(each.state_bytes for each in self.members.values())


@dataclass
class Figures:
    """Metrics of one batch in a slot."""

    rows: int = 0
    kernel_ms: float = 0.0
    state_bytes: int = 0
    hits: int = 0  # memory was up to date
    caught_up: int = 0  # memory was behind and caught up from the log
    rebuilt: int = 0  # the slot was rebuilt from snapshot and log
    snapshots: int = 0
    released: int = 0  # views that are not in memory after the batch
    rebuilt_views: int = 0  # released views that were rebuilt for the batch


@dataclass
class Given:
    """The output of a batch."""

    deltas: dict[str, Delta] = field(default_factory=dict)
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # source, reason, row
    counts: Counter[str] = field(default_factory=Counter)  # rows by source, each once
    figures: Figures = field(default_factory=Figures)


_MEMORY: dict[tuple[str, int], Kept] = {}  # this worker's, by pipeline and slot


def take(layout: Layout, slot: int, store: SlotStore, blobs: Blobs) -> tuple[Given, Dictionary]:
    """Apply a batch to a slot and store what is needed to rebuild the slot."""
    given = Given()
    head = store.head()
    kept = _current(layout, slot, store, head, given.figures)
    wanted = {each.key for each in layout.programs}
    kept.members = {key: each for key, each in kept.members.items() if key in wanted}
    _MEMORY.pop((layout.id, slot), None)  # invalid until the batch is complete
    batch = read_batch(layout, kept.dictionary, blobs, given)
    touched = reading(layout, batch)
    absent = [each for each in touched if each.key not in kept.members]
    given.figures.rebuilt_views = len(absent) if head.version and kept.members else 0
    _add_members(kept, layout, slot, absent, store, head)
    start = time.thread_time_ns()
    for each in touched:
        given.deltas |= apply(kept.members[each.key], each, batch)
    given.figures.kernel_ms = (time.thread_time_ns() - start) / 1e6
    given.refused += _late(kept, touched)
    given.figures.state_bytes = kept.state_bytes
    kept.version, kept.token = head.version + 1, uuid.uuid4().hex
    _write(layout, slot, store, head, kept, blobs, given.figures)
    if layout.share is not None:
        _release(kept, {each.key for each in touched}, layout.share)
        given.figures.state_bytes = kept.state_bytes
        given.figures.released = len(layout.programs) - len(kept.members)
    _MEMORY[layout.id, slot] = kept
    return given, kept.dictionary


def _current(layout: Layout, slot: int, store: SlotStore, head: Head, figures: Figures) -> Kept:
    kept = _MEMORY.get((layout.id, slot))
    if kept is not None and (kept.version, kept.token) == (head.version, head.token):
        figures.hits += 1
        return kept
    if kept is None or not _is_past(kept, store, head):
        figures.rebuilt += head.version > 0
        # With a budget, views are rebuilt when rows arrive for them.
        views = () if layout.share is not None else layout.programs
        return made_again(layout, slot, store, head, views)
    figures.caught_up += 1
    _catch_up(kept, layout, store, kept.version, head.version)
    return kept


def made_again(
    layout: Layout, slot: int, store: SlotStore, head: Head, views: Sequence[Program]
) -> Kept:
    """Rebuild views of a slot from snapshot and log."""
    kept = Kept(version=head.version, token=head.token)
    _add_members(kept, layout, slot, views, store, head)
    return kept


def _add_members(
    kept: Kept, layout: Layout, slot: int, views: Sequence[Program], store: SlotStore, head: Head
) -> None:
    """Rebuild more views at the head's version."""
    if not views:
        return
    made = Kept(kept.dictionary, {each.key: member_of(layout, each, kept) for each in views})
    snapshots = read_snapshot(store.snapshot()) if head.base else {}
    since = {}
    for each in views:
        content, since[each.key] = _last_state(layout, slot, each, head, snapshots)
        if content is not None:
            made.members[each.key].load(content)
    _catch_up(made, layout, store, head.base, head.version, since)
    kept.members |= made.members


def _last_state(
    layout: Layout, slot: int, program: Program, head: Head, snapshots: Mapping[str, bytes]
) -> tuple[bytes | None, int]:
    """The state of a view that was written last, and of which version of the slot it is."""
    if program.key in snapshots:
        return snapshots[program.key], head.base
    if program.fill:  # before the first batch with the view, the slot is as the fill found it
        after = dict(head.joined).get(program.key, head.version)
        return read_fill(layout.fills, program.fill, slot, program.key), after
    if head.base:
        raise DamagedFile(
            f'the snapshot of a shard has no state of the view "{program.view}"',
            hint="Bring the checkpoint back from a copy, or give an empty storage directory.",
        )
    return None, 0


def member_of(layout: Layout, program: Program, kept: Kept) -> Member:
    if isinstance(program, ShardPattern):
        made: Member = pkgutil.resolve_name(_PATTERN)(program, kept.dictionary)
        return made
    shard: Member = pkgutil.resolve_name(_SHARD)(
        [program], dictionary=kept.dictionary, compiled=layout.compiled
    )
    return shard


def _catch_up(
    kept: Kept,
    layout: Layout,
    store: SlotStore,
    since: int,
    to: int,
    later: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Apply the batches of the log after version `since`, up to `to`; to some after a later one."""
    for version in range(since + 1, to + 1):
        blobs = store.entry(version).blobs
        batch = read_batch(layout, kept.dictionary, blobs, Given())
        for each in reading(layout, batch):
            if each.key in kept.members and later.get(each.key, 0) < version:
                apply(kept.members[each.key], each, batch)
                _late(kept, [each])  # already reported when the batch was taken
    kept.version = to


def _release(kept: Kept, touched: set[str], share: int) -> None:
    """Release views until the others fit: unchanged ones first, the largest first."""
    sizes = {view: each.state_bytes for view, each in kept.members.items()}
    order = sorted(sizes, key=lambda view: (view in touched, -sizes[view]))
    while sum(sizes.values()) > share:
        view = order.pop(0)
        del kept.members[view], sizes[view]


def _is_past(kept: Kept, store: SlotStore, head: Head) -> bool:
    """Whether memory has an older version from which the log continues."""
    if not head.base <= kept.version < head.version:
        return False
    is_base = kept.version == head.base
    return kept.token == (head.base_token if is_base else store.entry(kept.version).token)


# A batch.


@dataclass
class Batch:
    """The content of a batch: the delta of each stream, and the newest part of sources."""

    deltas: dict[str, Delta] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)  # by stream of time


def reading(layout: Layout, batch: Batch) -> list[Program]:
    """The views that read some of the batch."""
    came = batch.deltas.keys() | batch.reached.keys()
    return [each for each in layout.programs if not each.streams.isdisjoint(came)]


def apply(member: Any, program: Program, batch: Batch) -> dict[str, Delta]:
    """Give a view's part what it reads of a batch."""
    deltas = {name: delta for name, delta in batch.deltas.items() if name in program.streams}
    if isinstance(program, ShardPattern):
        (reached,) = (batch.reached.get(each) for each in program.streams - {program.stream})
        found: dict[str, Delta] = member.take(deltas, reached)
    else:
        found = member.take(deltas)
    return found


def _late(kept: Kept, programs: Sequence[Program]) -> list[tuple[str, str, str]]:
    """The late rows that patterns refused, each once even if several patterns read it."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for each in programs:
        if isinstance(each, ShardPattern):
            member: Any = kept.members[each.key]
            source = each.program.inputs[0].source
            found[source] = [(source, why, row) for why, row in member.late_rows()]
    return [row for rows in found.values() for row in rows]


def read_batch(layout: Layout, dictionary: Dictionary, blobs: Blobs, given: Given) -> Batch:
    """Decode a batch; rows that no table accepts are left out."""
    batch = Batch()
    deltas: dict[str, list[Delta]] = {}
    clocks = {clock_of(each.name) for each in layout.sources}
    for stream, first, blob in blobs:
        if stream in clocks:
            told = int.from_bytes(blob, "little", signed=True)
            batch.reached[stream] = max(told, batch.reached.get(stream, told))
            continue
        source, rows = layout.source_of(stream), read_table(blob)
        parts = deltas.setdefault(stream, [])
        take_part = partial(_take_part, dictionary, source, parts)
        refused = take_or_refuse(rows, take_part)
        if first:
            given.refused += [(source.name, why, row) for why, row in refused]
            given.counts[source.name] += rows.num_rows
        given.figures.rows += rows.num_rows
    batch.deltas = {name: concat(parts[0].schema, parts) for name, parts in deltas.items() if parts}
    return batch


def _take_part(
    dictionary: Dictionary, source: PackedSource, parts: list[Delta], rows: pa.Table
) -> None:
    made = to_delta(rows, source.schema, dictionary, **source.signs)
    if source.parts is not None and made.size:
        Parted(source.name, source.schema, source.parts).span(made)  # no time, no part
    parts.append(made)


def _write(
    layout: Layout,
    slot: int,
    store: SlotStore,
    head: Head,
    kept: Kept,
    blobs: Blobs,
    figures: Figures,
) -> None:
    """Append the batch to the log, or write a snapshot if that is cheaper."""
    size = head.log_bytes + sum(len(rows) for _, _, rows in blobs)
    long = head.version - head.base >= _LOG_ENTRIES
    if long or size > max(_LOG_BYTES, 2 * figures.state_bytes):
        # Released views did not change in this batch, so the old head still describes them.
        absent = [each for each in layout.programs if each.key not in kept.members]
        _add_members(kept, layout, slot, absent, store, head)
        snapshots = {key: each.snapshot() for key, each in kept.members.items()}
        store.replace(write_snapshot(snapshots))
        figures.snapshots += 1
        store.set_head(Head(kept.version, kept.token, 0, kept.version, kept.token))
    else:
        store.append(kept.version, Entry(kept.token, blobs))
        joined = {each.key: head.version for each in layout.programs if each.fill}
        joined |= dict(head.joined)
        store.set_head(
            replace(
                head,
                version=kept.version,
                token=kept.token,
                log_bytes=size,
                joined=tuple(joined.items()),
            )
        )
