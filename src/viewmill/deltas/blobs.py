"""Arrow tables as bytes, for exchanges and stores that move bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def write_tables(tables: Sequence[Any]) -> bytes:
    """Tables, of which any may be None, as bytes."""
    sink = pa.BufferOutputStream()
    for table in tables:
        piece = b"" if table is None else write_table(table)
        sink.write(len(piece).to_bytes(8, "little"))
        sink.write(piece)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def read_tables(data: bytes) -> list[Any]:
    """The inverse of `write_tables`."""
    tables: list[Any] = []
    view, at = memoryview(data), 0
    while at < len(view):
        size = int.from_bytes(view[at : at + 8], "little")
        at += 8
        tables.append(read_table(view[at : at + size]) if size else None)
        at += size
    return tables


def write_table(table: pa.Table) -> bytes:
    """A table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def read_table(data: Any) -> pa.Table:
    """The inverse of `write_table`."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
