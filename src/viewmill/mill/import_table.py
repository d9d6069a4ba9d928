"""Create a table from a frame or from a table of Spark's catalog.

takes  rows, or the name of a table in Spark's catalog
gives  CREATE TABLE for their columns, and the rows as Arrow
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from viewmill.algebra.names import quoted
from viewmill.algebra.types import Null
from viewmill.deltas.arrow import from_arrow_type
from viewmill.deltas.frames import to_table
from viewmill.errors import InvalidArgument
from viewmill.mill.core import Core


def rows_of(core: Core, source: Any) -> pa.Table:
    """The rows as an Arrow table."""
    if isinstance(source, str):
        if core.spark is None:
            raise InvalidArgument(
                f'"{source}" would be a table of Spark\'s catalog, and this mill has no Spark',
                hint="Connect with vm.connect(spark=spark), or give the rows themselves.",
            )
        found: pa.Table = core.engine.catalog_table(source)
        return found
    rows = to_table(source)
    if rows is None:
        raise InvalidArgument(
            f"{type(source).__name__} does not say what its columns are",
            hint="Give a frame (Spark, pandas, polars, pyarrow), or CREATE TABLE and insert.",
        )
    return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows


def create_statement(name: str, rows: pa.Table, key: Sequence[str], options: str) -> str:
    """CREATE TABLE with the columns of the rows."""
    keys = {each.lower() for each in key}
    unknown = keys - {each.lower() for each in rows.column_names}
    if unknown:
        raise InvalidArgument(
            f'no column {", ".join(sorted(unknown))} for the key of "{name}"',
            hint=f"Columns: {', '.join(rows.column_names)}.",
        )
    columns = [_column(each, keys) for each in rows.schema]
    if key:
        columns.append(f"PRIMARY KEY ({', '.join(f'{quoted(each)}' for each in key)})")
    return f"CREATE TABLE {quoted(name)} ({', '.join(columns)}) {options}".rstrip()


def _column(field: pa.Field, keys: set[str]) -> str:
    type_ = from_arrow_type(field.type)
    word = "STRING" if isinstance(type_, Null) else str(type_)  # only NULLs, so any type is right
    return f"{quoted(field.name)} {word}{' NOT NULL' if field.name.lower() in keys else ''}"
