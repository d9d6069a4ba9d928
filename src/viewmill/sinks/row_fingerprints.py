"""A fingerprint for every row, by which a target that changes values (decimals) knows it again.

takes  an Arrow table with `_multiplicity`
gives  rows by fingerprint, each with its values and how often it comes or goes
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import pyarrow as pa

from viewmill.sinks.sink import MULTIPLICITY

Values = tuple[Any, ...]


class Row(NamedTuple):
    """The values of a row, and its multiplicity."""

    values: Values
    times: int


def rows_by_fingerprint(change: pa.Table) -> dict[str, Row]:
    """The rows of a change; those whose multiplicities cancel out are left out."""
    found: dict[str, Row] = {}
    times = change.column(MULTIPLICITY).to_pylist()
    columns = [_plain(change.column(name)) for name in change.column_names if name != MULTIPLICITY]
    rows = zip(*columns, strict=True) if columns else [()] * len(times)
    for values, each in zip(rows, times, strict=True):
        fingerprint = row_fingerprint(values)
        before = found.get(fingerprint)
        found[fingerprint] = Row(values, each if before is None else each + before.times)
    return {fingerprint: row for fingerprint, row in found.items() if row.times}


def row_fingerprint(values: Values) -> str:
    """32 characters that only this row has; the same ones in every process."""
    return hashlib.blake2b(repr(values).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):  # SQL's -0.0 and 0.0 are one value
        return [None if each is None else each + 0.0 for each in values]
    return values
