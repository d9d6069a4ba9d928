"""What Arrow columns must be before their rows are taken.

takes  an Arrow table that somebody wants to insert, delete or upsert
does   refuses the first value that could not be read again: text that is not UTF-8, a decimal of
       too many digits, a date or time outside the years 1 to 9999; names its row and column
gives  arrays of exotic layouts (run-end encoded, views, extensions) as plain ones
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.errors import InvalidRow

# The years 1 to 9999, in days and in microseconds since 1970.
DATE_RANGE = -719_162, 2_932_896
TIMESTAMP_RANGE = DATE_RANGE[0] * 86_400_000_000, (DATE_RANGE[1] + 1) * 86_400_000_000 - 1
_MAX_PYTHON_ROWS = 64  # up to here Python finds the least value sooner than NumPy
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def checked_columns(schema: Any) -> list[int]:
    """The columns whose Arrow type allows values that could not be read back."""
    kinds = pa.types
    holds = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_dictionary,
             kinds.is_nested, kinds.is_decimal, kinds.is_date, kinds.is_timestamp,
             kinds.is_run_end_encoded)  # fmt: skip
    return [i for i, type_ in enumerate(schema.types) if any(each(type_) for each in holds)]


def check_columns(table: Any, columns: Iterable[int]) -> None:
    """Refuse values that a later reader could not decode."""
    for i in columns:
        check_column(table.column(i), table.schema.names[i])


def check_column(column: Any, name: str) -> None:
    """Refuse the first value of a column that could not be read again."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        _check_times(column, name)
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as why:
        raise _invalid(column, name, why) from None


def _invalid(column: Any, name: str, why: Exception) -> InvalidRow:
    row = first_failure(_spread(column), lambda part: part.validate(full=True))
    is_text = any(each in str(column.type) for each in ("string", "utf8"))
    return InvalidRow(
        f'row {row} does not fit: column "{name}" holds no valid {column.type}',
        detail=ascii(str(why))[1:-1],
        hint="Strings are UTF-8." if is_text else "",
    )


def _spread(column: Any) -> Any:
    """A dictionary's values row by row, if its numbers are right."""
    if not pa.types.is_dictionary(column.type):
        return column
    try:
        return column.cast(column.type.value_type)
    except (pa.ArrowException, IndexError):
        return column


def _check_times(column: Any, name: str) -> None:
    low, high = time_bounds(column.type)
    words = _words(column)
    if words is None or not len(words):
        return
    few = words.tolist() if len(words) < _MAX_PYTHON_ROWS else None
    least, most = (min(few), max(few)) if few else (words.min(), words.max())
    if least >= low and most <= high:
        return
    wrong = (words < low) | (words > high)
    if column.null_count:
        wrong &= ~column.is_null().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidRow(
            f'row {row} does not fit: column "{name}" holds a {column.type} '
            "outside the years 1 to 9999",
            detail=f"{words[row]} since 1970",
            hint="Give NULL for a date that is not known.",
        )


def time_bounds(type_: Any) -> tuple[int, int]:
    """The first and the last value of the years 1 to 9999."""
    first, last = DATE_RANGE
    if pa.types.is_date32(type_):
        return first, last
    day = _PER_DAY["ms" if pa.types.is_date64(type_) else type_.unit]
    return first * day, (last + 1) * day - 1


def _words(column: Any) -> Any:
    """The numbers of a date or time column, 0 where it is NULL; None if it has no chunks."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 0:
            return None
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    stored = np.int32 if pa.types.is_date32(column.type) else np.int64
    if not column.null_count and len(column):
        words = np.frombuffer(column.buffers()[1], stored)
        return words[column.offset : column.offset + len(column)]
    plain = column.view(pa.from_numpy_dtype(stored))
    return (plain.fill_null(0) if plain.null_count else plain).to_numpy(zero_copy_only=False)


def first_failure(column: Any, check: Callable[[Any], object]) -> int:
    """The first row for which `check` raises, by halves; row 0 if it is no single row's fault."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            check(column.slice(low, middle - low))
        except (pa.ArrowException, ArithmeticError, ValueError):
            high = middle
        else:
            low = middle
    return low


def plain_table(table: Any) -> Any:
    """A table whose columns have layouts that the checks and the conversions know."""
    for i, field in enumerate(table.schema):
        if _is_exotic(field.type):
            column = table.column(i)
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            plain = [plain_layout(each) for each in chunks]
            array = pa.chunked_array(plain) if plain else pa.nulls(0)
            if isinstance(table, pa.RecordBatch):
                table = pa.Table.from_batches([table])
            table = table.set_column(i, pa.field(field.name, array.type), array)
    return table


def _is_exotic(type_: Any) -> bool:
    if pa.types.is_dictionary(type_):
        value = type_.value_type
        return not (pa.types.is_string(value) or pa.types.is_large_string(value))
    return pa.types.is_run_end_encoded(type_) or isinstance(type_, pa.BaseExtensionType)


def plain_layout(array: Any) -> Any:
    """An array whose layout the conversions know: no runs, views, extensions, odd dictionaries."""
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = _plain_dictionary(array)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array


def _plain_dictionary(array: Any) -> Any:
    values = plain_layout(array.dictionary)
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if is_text and not values.null_count:  # NULL may hide among the dictionary's own values
        same = values.type == array.dictionary.type
        return array if same else pa.DictionaryArray.from_arrays(array.indices, values)
    return values.take(array.indices)
