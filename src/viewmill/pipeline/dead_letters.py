"""Dead letters: rows that no table accepts are stored with the reason, and the stream goes on.

takes  rows of a source as an Arrow table, and a function that takes them
gives  the refused rows, each with its reason
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.errors import InvalidRow
from viewmill.pipeline.source import CORRUPT

TABLE = "_viewmill_dead_letters"
CREATE = (
    f"CREATE TABLE {TABLE} (source STRING NOT NULL, batch BIGINT NOT NULL, reason STRING NOT NULL,"
    " row STRING NOT NULL) APPEND ONLY"
)

Take = Callable[[pa.Table], None]


class Letter(NamedTuple):
    """A refused row as JSON (or as the text it came as), and why."""

    source: str
    batch: int
    reason: str
    row: str


def take_or_refuse(rows: pa.Table, take: Take) -> list[tuple[str, str]]:
    """Take all rows that can be taken; (reason, row) of the others."""
    rows, refused = _without_corrupt(rows)
    return refused + _halve(rows, take)


def _without_corrupt(rows: pa.Table) -> tuple[pa.Table, list[tuple[str, str]]]:
    """Split off rows that Spark could not parse; their text is in the corrupt-record column."""
    at = next((i for i, name in enumerate(rows.column_names) if name.lower() == CORRUPT), None)
    if at is None:
        return rows, []
    texts, rows = rows.column(at), rows.remove_column(at)
    if texts.null_count == len(texts):
        return rows, []
    bad = [text for text in texts.to_pylist() if text is not None]
    return rows.filter(pc.is_null(texts)), [("the row cannot be read", text) for text in bad]


def _halve(rows: pa.Table, take: Take) -> list[tuple[str, str]]:
    """Take all rows at once; if that fails, bisect to find the rows that are refused."""
    if not rows.num_rows:
        return []
    try:
        take(rows)
    except InvalidRow as why:
        if rows.num_rows == 1:
            return [(_reason(why), json.dumps(rows.to_pylist()[0], default=str))]
        middle = rows.num_rows // 2
        return _halve(rows.slice(0, middle), take) + _halve(rows.slice(middle), take)
    return []


def _reason(why: InvalidRow) -> str:
    """The message without the row number, which is always 0 for a single row."""
    return why.message.removeprefix("row 0: ").replace(" in row 0 of ", " in ", 1)
