"""Read parts: the history of a table or view, and the catalog of its parts."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.errors import InvalidArgument, UnknownName, nearest
from viewmill.mill.arrow_rows import expanded
from viewmill.mill.core import Core
from viewmill.mill.storage.part_files import PartFiles
from viewmill.mill.temporal import part_source
from viewmill.program.parts import PART_TIMESTAMP, SECOND, PartInfo
from viewmill.sql.read_parts import History

EPOCH = datetime.datetime(1970, 1, 1)


def length_of(core: Core, name: str) -> int | None:
    """The length of a source's parts in seconds, None if it has none."""
    source = part_source(core, name)
    return None if source is None else source.length


def history_table(core: Core, history: History) -> Any:
    """The rows of the parts as Arrow, each with the start of its part."""
    source = part_source(core, history.source)
    assert source is not None
    oldest, newest = source.oldest_shown(), source.newest_part()
    low = source.first_part() if history.low is None else history.low
    if low is not None and oldest is not None:
        low = max(low, oldest)
    high = newest if history.high is None else history.high
    subscripts = [] if low is None or high is None else source.parts_within(low, high)
    tables = [_stamped(core, source.part(each), each, source.length) for each in subscripts]
    if not tables:
        tables = [_stamped(core, source.part(0 if low is None else low - 1), 0, source.length)[:0]]
    return pa.concat_tables(tables)


def _stamped(core: Core, rows: Any, subscript: int, length: int) -> Any:
    table = expanded(rows, core.dictionary)
    stamps = np.full(table.num_rows, subscript * length * SECOND, np.int64)
    column = pa.array(stamps.view("datetime64[us]"), pa.timestamp("us"))
    return table.append_column(PART_TIMESTAMP, column)


def parts_of(
    core: Core, name: str, changed_since: int | datetime.datetime | None
) -> list[dict[str, Any]]:
    """The catalog of parts; with `changed_since` those updated after a version or a time."""
    source: Any = part_source(core, name)
    entry = core.catalog.get(name)
    if source is None or entry is None:
        if entry is None:
            hint = nearest(name, core.catalog.names())
            raise UnknownName(f'no table or view "{name}"', hint=hint)
        raise InvalidArgument(
            f'"{name}" has no parts', hint="Tables with PARTITION LENGTH and temporal views do."
        )
    oldest = source.oldest_shown()
    shown = [each for each in source.catalog() if oldest is None or each.subscript >= oldest]
    listed = _rolled_up(source, shown)
    files = core.part_files.get(entry.name)
    return [
        _described(info, source.length, count, files)
        for info, count in listed
        if _is_after(info, changed_since)
    ]


def _rolled_up(source: Any, infos: list[PartInfo]) -> list[tuple[PartInfo, int]]:
    """The parts, each rolled-up block as one, with the number of small parts in it."""
    found: list[tuple[PartInfo, int]] = []
    for info in infos:
        block = source.block_of(info.subscript)
        first, count = block or (info.subscript, 1)
        if found and block is not None and found[-1][0].subscript == first:
            old = found.pop()[0]
            info = PartInfo(
                first, old.rows + info.rows, min(old.loaded, info.loaded),
                max(old.updated, info.updated), max(old.version, info.version),
            )  # fmt: skip
        found.append((info._replace(subscript=first), count))
    return found


def _is_after(info: PartInfo, since: int | datetime.datetime | None) -> bool:
    if since is None:
        return True
    if isinstance(since, datetime.datetime):
        passed = since.replace(tzinfo=None) - EPOCH
        return info.updated > passed // datetime.timedelta(microseconds=1)
    return info.version > since


def _described(info: PartInfo, length: int, count: int, files: PartFiles | None) -> dict[str, Any]:
    file = None if files is None or count > 1 else files.current(info)
    return {
        "subscript": info.subscript,
        "length": length * count,
        "part_timestamp": EPOCH + datetime.timedelta(seconds=info.subscript * length),
        "rows": info.rows,
        "loaded": EPOCH + datetime.timedelta(microseconds=info.loaded),
        "updated": EPOCH + datetime.timedelta(microseconds=info.updated),
        "version": info.version,
        "file": None if file is None else str(file),
    }


def refused_rows(core: Core, name: str) -> list[dict[str, Any]]:
    """The refused late rows of a table; only the most recent ones are kept."""
    parts = core.catalog.table(name).table.parts
    found = [] if parts is None else parts.refused
    return [
        {"version": each.version, "multiplicity": each.multiplicity, **each.row} for each in found
    ]
