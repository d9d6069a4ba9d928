"""Data frames of all kinds to Arrow.

takes  pandas, polars, PySpark, anything with __arrow_c_stream__
gives  an Arrow table; or `PlainColumns`, lists of Python values, of a frame that Arrow refuses
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewmill.errors import InvalidRow

_REFUSED = (
    pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class PlainColumns:
    """Columns by name as lists of Python values, each as long as `size`."""

    columns: list[tuple[str, list[Any]]]
    size: int


def to_arrow(rows: Any) -> Any:
    """An Arrow table or batch of a frame, None if it is no frame. Never shares pandas' memory.

    A frame that Arrow refuses is given as `PlainColumns`, so that an error can name row and column.
    """
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows
    module = type(rows).__module__.split(".")[0]
    if module == "pandas":
        return _from_pandas(rows)
    if module == "pyspark":
        return rows.toArrow()
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):
        return _from_stream(rows)
    return None


def to_table(rows: Any) -> Any:
    """An Arrow table of a frame, None if it is no frame."""
    found = to_arrow(rows)
    if isinstance(found, pa.RecordBatch):
        return pa.Table.from_batches([found])
    return table_of(dict(found.columns)) if isinstance(found, PlainColumns) else found


def _from_stream(rows: Any) -> Any:
    try:
        return pa.table(rows)
    except _REFUSED as why:
        if type(rows).__module__.split(".")[0] == "polars" and hasattr(rows, "get_columns"):
            lists = [(each.name, each.to_list()) for each in rows.get_columns()]
            return PlainColumns(lists, rows.height)
        raise _no_rows(rows, str(why)) from None


def _from_pandas(frame: Any) -> Any:
    if not hasattr(frame, "columns"):
        raise _no_rows(frame, "It is one column, not rows.")
    names = [str(each) for each in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidRow(f'two columns are named "{twice}"')
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if not _lost_nanoseconds(frame, table):
            # pandas may change its arrays later: take a copy of what Arrow only borrowed
            return pa.ipc.open_stream(_ipc(table)).read_all()
    except _REFUSED:
        pass
    lists = [_plain_values(frame.iloc[:, i]) for i in range(len(names))]
    return PlainColumns(list(zip(names, lists, strict=True)), len(frame))


def _lost_nanoseconds(frame: Any, table: Any) -> bool:
    """Whether Arrow cut times short: it makes microseconds of a column of Python objects."""
    return any(
        _have_nanoseconds(frame.iloc[:, i])
        for i, type_ in enumerate(table.schema.types)
        if pa.types.is_timestamp(type_) and frame.dtypes.iloc[i].kind == "O"
    )


def _have_nanoseconds(values: Iterable[Any]) -> bool:
    return any(getattr(each, "nanosecond", 0) for each in values)


def _plain_values(series: Any) -> list[Any]:
    """The values of a column, None where pandas says that there is none."""
    missing = series.isna().tolist()
    return [None if no else value for value, no in zip(series.tolist(), missing, strict=True)]


def _no_rows(rows: Any, why: str) -> InvalidRow:
    return InvalidRow(
        f"cannot read rows from a {type(rows).__name__}",
        detail=why,
        hint="pandas, polars, pyarrow, a Spark DataFrame, or a list of tuples or dicts.",
    )


def table_of(columns: Mapping[str, Any]) -> Any:
    """An Arrow table of columns by name."""
    try:
        return pa.table({name: _array(values) for name, values in columns.items()})
    except (pa.ArrowException, OverflowError, TypeError) as why:
        raise InvalidRow(
            "the columns do not make rows",
            detail=str(why),
            hint="All are equally long, and each holds values of one type.",
        ) from why


def _array(values: Any) -> Any:
    array = pa.array(values)
    if pa.types.is_timestamp(array.type) and _have_nanoseconds(values):
        return pa.array(values, pa.timestamp("ns", array.type.tz))
    return array


def _ipc(table: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
