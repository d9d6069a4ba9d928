"""Refuse a CSV file whose quotes do not match: a parser that forgives them swallows rows.

takes  a CSV file
does   reads it once more with Python's strict parser, if it has a quote at all
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viewmill.errors import InvalidRow

_CHUNK_BYTES = 1 << 20


def check_quotes(file: Path) -> None:
    """Raise for a quote that is never closed, or that is closed in the middle of a value."""
    if not _has_quotes(file):
        return
    opened = gzip.open if file.suffix == ".gz" else open
    row = 0
    with (
        opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as stream,
        _values_of_any_size(),
    ):
        try:
            for _ in csv.reader(stream, strict=True):
                row += 1
        except csv.Error as error:
            raise InvalidRow(
                f"{file}, row {row}: the quotes do not match",
                detail=f"{error}; the header is row 0",
                hint='A quoted value ends with a quote; a quote inside it is written twice: "".',
            ) from None


def _has_quotes(file: Path) -> bool:
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            if b'"' in chunk:
                return True
    return False


@contextmanager
def _values_of_any_size() -> Iterator[None]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)
