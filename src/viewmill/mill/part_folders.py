"""Store the time parts of a durable mill as Parquet files, below parts/ in its directory.

takes  tables and views in parts, which track the parts whose files are outdated
does   writes a part, with late changes, once a newer part exists; the newest part, which is still
       changing, is written by a checkpoint and on closing
gives  the parts back when the mill is opened

A checkpoint refers to the files and copies nothing, so each part is written only once.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from viewmill.deltas.arrow import decode_delta, encode_columns
from viewmill.deltas.delta import Delta, concat
from viewmill.errors import ViewmillError
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.core import Core
from viewmill.mill.storage.files import from_bytes, to_bytes
from viewmill.mill.storage.part_files import FiledPart, PartFiles, remove_others
from viewmill.program.parts import PartInfo, Unwritten

_LOG = logging.getLogger("viewmill")
_TIMES = "_multiplicity"


class Owner(NamedTuple):
    """A table or view in parts."""

    name: str
    key: str
    parts: Any


def part_owners(core: Core) -> Iterator[Owner]:
    """All tables and views of a mill that have parts."""
    for table in core.catalog.tables():
        if table.table.parts is not None:
            yield Owner(table.name, table.key, table.table.parts)
    for entry in core.catalog.in_order():
        kept = entry.kept_parts
        if kept is not None and kept.has_parts:
            yield Owner(entry.name, f"{entry.name.lower()}@{entry.created}", kept)


def part_files(core: Core, owner: Owner) -> PartFiles:
    """The files of a table or view; the files of a dropped namesake are removed."""
    assert core.store is not None
    found = core.part_files.get(owner.name)
    if found is None or found.key != owner.key:
        if found is not None:
            found.remove()
        found = PartFiles(core.store.path, owner.name, owner.key, owner.parts.length)
        core.part_files[owner.name] = found
    if owner.parts.unwritten is None:
        infos = owner.parts.catalog()
        owner.parts.unwritten = Unwritten(i.subscript for i in infos if found.current(i) is None)
    return found


# Writing.


def write_parts(core: Core, *, is_closing: bool = False) -> None:
    """After a commit: write the parts before the newest one; a failure is retried later."""
    if core.store is None or core.read_only:
        return
    owners = list(part_owners(core))
    _remove_dropped(core, owners)
    for owner in owners:
        files, newest = part_files(core, owner), owner.parts.newest_part()
        if newest != files.reached or is_closing:
            try:
                _write(core, owner, files, None if is_closing else newest)
            except ViewmillError as why:
                _LOG.warning("parts of %s are in the log only: %s", owner.name, why)


def write_all_parts(core: Core) -> None:
    """Write and sync all parts, so that the log is no longer needed for them."""
    for owner in part_owners(core):
        files = part_files(core, owner)
        _write(core, owner, files, None)
        try:
            files.sync()
        except BaseException:
            owner.parts.unwritten.change(files.give_up_unsynced())
            raise


def _remove_dropped(core: Core, owners: Iterable[Owner]) -> None:
    for name in core.part_files.keys() - {each.name for each in owners}:
        core.part_files.pop(name).remove()


def _write(core: Core, owner: Owner, files: PartFiles, newest: int | None) -> None:
    """Write the files of all changed parts except `newest`."""
    unwritten: Unwritten = owner.parts.unwritten
    for subscript in sorted(unwritten.changed - {newest}):
        rows = owner.parts.part(subscript)
        files.write(
            owner.parts.info(subscript), expanded(rows, core.dictionary), _negative_rows(core, rows)
        )
        unwritten.changed.discard(subscript)
    for subscript in sorted(unwritten.ended):
        files.end(subscript)
        unwritten.ended.discard(subscript)
    files.reached = owner.parts.newest_part()


def _negative_rows(core: Core, rows: Delta) -> str | None:
    """The rows with a negative multiplicity, encoded for the file's metadata; None if none."""
    times = rows.multiplicity
    if times is None or not (times < 0).any():
        return None
    negative_rows = decode_delta(rows.take(times < 0), core.dictionary, multiplicity=_TIMES)
    return base64.b64encode(to_bytes(negative_rows)).decode()


def note_checkpoint(core: Core) -> None:
    """A checkpoint that refers to the present files was committed."""
    for owner in part_owners(core):
        part_files(core, owner).count_on(each.subscript for each in owner.parts.catalog())


# Opening.


def open_parts(core: Core, owner: Owner, infos: Iterable[PartInfo]) -> dict[PartInfo, Delta]:
    """Read the parts that the checkpoint refers to from their files."""
    filed = part_files(core, owner).open(each.subscript for each in infos)
    return {each.info: _rows(core, owner.parts, each) for each in filed}


def _rows(core: Core, parts: Any, filed: FiledPart) -> Delta:
    schema = parts.schema
    rows = encode_columns(schema, filed.rows, core.dictionary)
    if filed.negative_rows is None:
        return rows
    table = from_bytes(base64.b64decode(filed.negative_rows))
    negative_rows = encode_columns(schema, table.select(range(len(schema))), core.dictionary)
    negative_rows.multiplicity = np.ascontiguousarray(table.column(_TIMES).to_numpy(), np.int64)
    return concat(schema, [rows, negative_rows])


def sync_part_files(core: Core) -> None:
    """After recovery: remove orphaned files and write outdated ones."""
    if core.store is None:
        return
    owners = list(part_owners(core))
    broken = [each.name for each in core.catalog.broken()]
    remove_others(core.store.path, [*(each.name for each in owners), *broken])
    for owner in owners:
        if owner.name not in core.part_files:
            part_files(core, owner).open(())
    write_parts(core)
