"""Write expired parts into an archive of Parquet files before they are dropped.

folder/m/part_timestamp=2015-01-01T10-00-00/part.parquet holds the rows of a part, or of the parts
that were rolled up with it; any engine reads the folder as a table partitioned by time.
"""

from __future__ import annotations

import datetime
import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from viewmill.algebra.names import folder_name
from viewmill.deltas.delta import Delta
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.storage import disk
from viewmill.mill.storage.files import NewFile, make_folders, sync_folder

_LOG = logging.getLogger("viewmill")
_EPOCH = datetime.datetime(1970, 1, 1)


def attach_archive(core: Core, name: str, parts: Any, folder: str) -> None:
    """Archive the parts of a table or view when they expire."""

    def archive(first: int, count: int, rows: Delta) -> bool:
        start = _EPOCH + datetime.timedelta(seconds=first * parts.length)
        target = Path(folder) / folder_name(name) / f"part_timestamp={start:%Y-%m-%dT%H-%M-%S}"
        try:
            _write(target / "part.parquet", expanded(rows, core.dictionary))
        except OSError as why:
            _LOG.warning("part %s of %s stays: it cannot be archived: %s", first, name, why)
            return False
        return True

    parts.archive = archive


def _write(path: Path, table: Any) -> None:
    make_folders(path.parent)
    draft = path.with_suffix(".draft")
    with NewFile(draft) as file:
        pq.write_table(table, file)
        file.sync()
    disk.replace(draft, path)
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        sync_folder(folder)


def keep_old_parts(core: Core) -> None:
    """After a commit: drop, archive and roll up the parts of views as their tables specify."""
    for entry in core.catalog.in_order():
        maintainer = entry.kept_parts
        if maintainer is not None:
            options = _options_of(core, entry)
            archive = next((each.archive for each in options if each.archive), None)
            if archive is not None and maintainer.archive is None and maintainer.has_parts:
                attach_archive(core, entry.name, maintainer, archive)
            rolls = next((each.roll_up for each in options if each.roll_up), None)
            newest = maintainer.reach[1]
            if rolls is not None and newest is not None and not rolls.length % maintainer.length:
                before = rolls.oldest_single(newest - 1, maintainer.length)
                maintainer.roll_up(rolls.length // maintainer.length, before)
            maintainer.forget()
    for table in core.catalog.tables():
        if table.table.parts is not None and table.table.parts.holders:
            table.table.parts.forget()


def _options_of(core: Core, entry: ViewEntry) -> list[Any]:
    """The part options of the tables below a view."""
    found = []
    for name in sorted(core.catalog.reads_transitively(entry.name)):
        table = core.catalog.get(name)
        if isinstance(table, TableEntry) and table.table.parts is not None:
            found.append(table.table.parts.options)
    return found
