"""Write the parts of temporal views into checkpoints, and open them again.

A view cannot always be computed anew: retention may have taken what its old parts were made from.
So its parts are written, and what the log changed since is taken in as if it had just arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.refresh import Policy
from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta
from viewmill.deltas.part_rows import split_parts
from viewmill.engines.parts import PartMaintainer
from viewmill.mill.archive import keep_old_parts
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.store import Store
from viewmill.mill.temporal import (
    install_temporal_view,
    part_source,
    prepare_temporal_view,
    temporal_maintainer,
)
from viewmill.program.parts import PartInfo
from viewmill.sql.statements import CreateTemporalView

_PART, _TIMES = "_part", "_multiplicity"


def _temporal(core: Core) -> list[ViewEntry]:
    entries = core.catalog.in_order()
    return [each for each in entries if isinstance(each.block.maintainer, PartMaintainer)]


def part_states(core: Core) -> dict[str, Iterator[Any]]:
    """The parts of every temporal view, for a checkpoint."""
    return {_key(entry): _batches(core, entry) for entry in _temporal(core)}


def _key(entry: ViewEntry) -> str:
    return f"parts of {entry.name.lower()}@{entry.created}"


def _batches(core: Core, entry: ViewEntry) -> Iterator[Any]:
    for subscript, rows in temporal_maintainer(entry).committed_parts().items():
        table = decode_delta(rows, core.dictionary, multiplicity=_TIMES)
        column = pa.array(np.full(rows.size, subscript, np.int64))
        yield from table.append_column(_PART, column).to_batches()


def part_notes(core: Core) -> dict[str, str]:
    """The catalogs of parts, and how far each view has come."""
    notes = {}
    for entry in _temporal(core):
        maintainer = temporal_maintainer(entry)
        saved = {"reach": maintainer.reach, "catalog": maintainer.catalog()}
        notes[_key(entry)] = json.dumps(saved)
    for table in core.catalog.tables():
        parts = table.table.parts
        if parts is not None:
            known = {"refused": parts.refused_count, "catalog": parts.catalog()}
            notes[f"parts of {table.key}"] = json.dumps(known)
    return notes


def restore_catalogs(core: Core, store: Store) -> None:
    """Tables know again when their parts were loaded; what follows is the log."""
    notes = store.notes()
    for entry in core.catalog.tables():
        if entry.table.parts is not None:
            saved = json.loads(notes.get(f"parts of {entry.key}", '{"refused": 0, "catalog": []}'))
            entry.table.parts.note_catalog(_infos(saved), saved["refused"])
            entry.table.parts.start_replay()


def _infos(saved: Mapping[str, Any]) -> list[PartInfo]:
    return [PartInfo(*each) for each in saved["catalog"]]


def open_temporal_view(
    core: Core,
    store: Store,
    saved: Mapping[str, Any],
    statement: CreateTemporalView,
    policies: tuple[Policy, ...],
) -> None:
    """A view as the checkpoint has it, brought up to date with the log."""
    statement = replace(statement, policies=policies)
    entry = prepare_temporal_view(core, statement, saved["sql"])
    entry.created = saved["created"]
    maintainer = temporal_maintainer(entry)
    note = store.notes().get(_key(entry))
    if note is not None:
        _restore(core, maintainer, json.loads(note), store.load_state(_key(entry)))
        if _has_changed_whole(core, entry, store.checkpoint_version()):
            maintainer.make_all_due()
    elif saved["first"] is not None:
        maintainer.begin(saved["first"])
    maintainer.reopen()
    entry.rows = int(maintainer.contents().multiplicities().sum())
    entry.version, entry.refreshed = core.version, core.now()
    install_temporal_view(core, entry)


def _has_changed_whole(core: Core, entry: ViewEntry, version: int) -> bool:
    """Whether the log changed anything below a table or view that is read whole."""
    whole = {name.lower() for name in entry.reads if part_source(core, name) is None}
    for name in list(whole):
        whole |= core.catalog.reads_transitively(name)
    tables = [each for each in core.catalog.tables() if each.name.lower() in whole]
    return any(each.table.version > version for each in tables)


def _restore(core: Core, maintainer: PartMaintainer, note: Mapping[str, Any], rows: Any) -> None:
    first, following = note["reach"]
    if first is None:
        return
    parts: dict[int, Delta] = {}
    if rows is not None and rows.num_rows:
        schema = maintainer.schema
        delta = encode_columns(schema, rows.select(range(len(schema))), core.dictionary)
        times = rows.column(_TIMES).combine_chunks().to_numpy(zero_copy_only=False)
        delta.multiplicity = np.ascontiguousarray(times, np.int64)
        subscripts = rows.column(_PART).combine_chunks().to_numpy(zero_copy_only=False)
        parts = dict(split_parts(delta, subscripts))
    maintainer.restore(first, following, parts, _infos(note))


def settle(core: Core) -> None:
    """The mill is open: tables and views drop what retention ended."""
    for table in core.catalog.tables():
        table.table.settle()
    for entry in _temporal(core):
        temporal_maintainer(entry).settle()
    keep_old_parts(core)
