"""Tables and views in parts in a checkpoint, and how they are recovered.

A view in parts cannot always be recomputed: retention may have removed the rows of its old parts.
So its parts are restored from files, and the changes in the log are applied as if they had just
arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from viewmill.deltas.delta import concat
from viewmill.engines.parts import PartMaintainer
from viewmill.mill.archive import keep_old_parts
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.part_folders import Owner, open_parts, sync_part_files
from viewmill.mill.store import Store
from viewmill.mill.temporal import (
    install_temporal_view,
    part_source,
    prepare_temporal_view,
    temporal_maintainer,
)
from viewmill.program.parts import PartInfo
from viewmill.sql.statements import CreateTemporalView


def _temporal(core: Core) -> list[ViewEntry]:
    entries = core.catalog.in_order()
    return [each for each in entries if isinstance(each.block.maintainer, PartMaintainer)]


def _owner(entry: ViewEntry) -> Owner:
    return Owner(entry.name, _key(entry), entry.block.maintainer)


def _key(entry: ViewEntry) -> str:
    return f"{entry.name.lower()}@{entry.created}"


def part_notes(core: Core) -> dict[str, str]:
    """The catalogs of parts, and the range of parts of each view."""
    notes = {}
    for entry in _temporal(core):
        maintainer = temporal_maintainer(entry)
        saved = {"reach": maintainer.reach, "catalog": maintainer.catalog()}
        notes[f"parts of {_key(entry)}"] = json.dumps(saved)
    for table in core.catalog.tables():
        parts = table.table.parts
        if parts is not None:
            known = {"refused": parts.refused_count, "catalog": parts.catalog()}
            notes[f"parts of {table.key}"] = json.dumps(known)
    return notes


def open_table_parts(core: Core, store: Store, entry: TableEntry) -> None:
    """Restore a table from its part files and the checkpoint; the log is replayed afterwards.

    A file may be newer than the checkpoint and already contain changes of the log.
    """
    parts, note = entry.table.parts, store.notes().get(f"parts of {entry.key}")
    if parts is None:
        return
    if note is not None:
        saved = json.loads(note)
        infos = _infos(saved)
        filed = open_parts(core, Owner(entry.name, entry.key, parts), infos)
        if filed:
            entry.table.stage(concat(parts.schema, list(filed.values())))
            entry.table.commit(0)
        parts.note_catalog(infos, saved["refused"])
    parts.start_replay()
    if note is not None:
        parts.note_ahead(_ahead(infos, filed))


def _ahead(infos: Iterable[PartInfo], filed: Iterable[PartInfo]) -> list[PartInfo]:
    """The parts whose files were written after the checkpoint."""
    return sorted(set(filed) - set(infos))


def _infos(saved: Mapping[str, Any]) -> list[PartInfo]:
    return [PartInfo(*each) for each in saved["catalog"]]


def open_temporal_view(
    core: Core, store: Store, saved: Mapping[str, Any], statement: CreateTemporalView
) -> None:
    """Restore a view from the checkpoint and apply the changes of the log."""
    entry = prepare_temporal_view(core, statement, saved["sql"])
    entry.created = saved["created"]
    maintainer = temporal_maintainer(entry)
    note = store.notes().get(f"parts of {_key(entry)}")
    if note is not None:
        _restore(core, entry, json.loads(note))
        if _has_changed_whole(core, entry, store.checkpoint_version()):
            maintainer.make_all_due()
    elif saved["first"] is not None:
        maintainer.begin(saved["first"])
    maintainer.reopen()
    entry.rows = int(maintainer.contents().multiplicities().sum())
    entry.version, entry.refreshed = core.version, core.now()
    install_temporal_view(core, entry, stored_first=saved["first"])


def _has_changed_whole(core: Core, entry: ViewEntry, version: int) -> bool:
    """Whether the log changed a table that the view reads as a whole, directly or not."""
    whole = {name.lower() for name in entry.reads if part_source(core, name) is None}
    for name in list(whole):
        whole |= core.catalog.reads_transitively(name)
    tables = [each for each in core.catalog.tables() if each.name.lower() in whole]
    return any(each.table.version > version for each in tables)


def _restore(core: Core, entry: ViewEntry, note: Mapping[str, Any]) -> None:
    first, following = note["reach"]
    if first is None:
        return
    infos = _infos(note)
    filed = open_parts(core, _owner(entry), infos)
    parts = {info.subscript: rows for info, rows in filed.items()}
    ahead = [each.subscript for each in _ahead(infos, filed)]
    temporal_maintainer(entry).restore(first, following, parts, filed, ahead)


def drop_expired_parts(core: Core) -> None:
    """After recovery: drop the parts of tables and views whose retention has ended."""
    for table in core.catalog.tables():
        table.table.drop_expired_parts()
    for entry in _temporal(core):
        temporal_maintainer(entry).settle()
    keep_old_parts(core)
    sync_part_files(core)
