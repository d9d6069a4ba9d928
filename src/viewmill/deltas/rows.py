"""Rows as people have them to a delta.

takes  pandas, polars, pyarrow, anything with __arrow_c_stream__, Spark DataFrames, lists of tuples
       or dicts; a column of multiplicities or of change words may ride along
gives  `Delta` over the table's schema
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    BIGINT,
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    String,
    Timestamp,
    Wide,
)
from viewmill.deltas.arrow import UNFIT, arrow_type, encode_array
from viewmill.deltas.delta import Delta, Mask, Words
from viewmill.deltas.dictionary import Dictionary, QuickGate, Reader
from viewmill.deltas.frames import PlainColumns, to_arrow
from viewmill.deltas.gate import check_column, check_columns, checked_columns, plain_table
from viewmill.deltas.lazy_columns import FilterTest, LazyColumns, Pair, PushedFilter
from viewmill.deltas.lossless_casts import converter, is_lossless, is_word
from viewmill.deltas.values import SingleRows, words_of
from viewmill.errors import InvalidArgument, InvalidRow, UnknownName, nearest

_MOST_TIMES = 1 << 40  # that a row comes or goes in one change: sums of such counts fit a word
# Up to this many rows Python's own loop is quicker than building Arrow arrays.
_MAX_PYTHON_ROWS = 64

CHANGES: dict[object, int] = {
    "insert": 1, "update_postimage": 1, "i": 1, "+1": 1, "1": 1, 1: 1,
    "delete": -1, "update_preimage": -1, "d": -1, "-1": -1, -1: -1,
}  # fmt: skip

Signs = npt.NDArray[np.int64]

# The types of values that Arrow converts as `words_of` does, by the type of the column.
_NOTHING = type(None)
_TAKEN: dict[type, frozenset[type]] = {
    Boolean: frozenset((bool, _NOTHING)),
    Integer: frozenset((int, _NOTHING)),
    Float: frozenset((float, int, _NOTHING)),
    Decimal: frozenset((decimal.Decimal, int, _NOTHING)),
    Wide: frozenset((decimal.Decimal, int, _NOTHING)),
    String: frozenset((str, _NOTHING)),
    Date: frozenset((datetime.date, _NOTHING)),
    Timestamp: frozenset((datetime.datetime, _NOTHING)),
}


def to_delta(
    rows: Any,
    schema: Schema,
    dictionary: Dictionary,
    *,
    multiplicity: str | None = None,
    change: str | None = None,
) -> Delta:
    """The delta that `rows` mean for a table of `schema`."""
    sign = None
    if multiplicity is not None or change is not None:
        sign = sign_column(schema, multiplicity=multiplicity, change=change)
    if isinstance(rows, pa.Table):
        known = None if sign else _READINGS.get(id(schema))
        if known is not None and known.takes_as_is(rows, dictionary):
            known.check(rows)
            return Delta.from_lazy(schema, LazyColumns(rows, known))
        delta, signs = _from_arrow(rows, schema, dictionary, sign)
    elif isinstance(rows, list | tuple):
        delta, signs = _from_list(rows, schema, dictionary, sign)
    else:
        delta, signs = _from_frame(rows, schema, dictionary, sign)
    if sign is not None:
        delta.multiplicity = _signs(signs, delta.size, sign, words=multiplicity is None)
    return delta


def sign_column(schema: Schema, **named: str | None) -> str:
    """The column that says what rows do; it cannot be one of the table's."""
    ((option, name),) = ((option, name) for option, name in named.items() if name is not None)
    if not isinstance(name, str) or not name:
        raise InvalidArgument(
            f"{option}={name!r} is not the name of a column",
            hint=f'It names the column that says what each row does: {option}="_{option}".',
        )
    if schema.find(name) is not None:
        raise InvalidArgument(
            f'{option}="{name}" names a column of the table',
            detail="Its values would be taken for what the rows do, and not be stored.",
            hint=f'Give it another name in the rows: {option}="_{option}".',
        )
    return name


# Lists of tuples and dicts.


def _from_list(
    rows: Sequence[Any], schema: Schema, dictionary: Dictionary, sign: str | None
) -> tuple[Delta, Any]:
    if not rows:
        return Delta.empty(schema), []
    first = rows[0]
    if len(rows) == 1 and sign is None and isinstance(first, tuple | list):
        single = _SINGLE_ROWS.get(id(schema)) or _single_rows(schema)
        delta = single.delta(first, dictionary)
        if delta is not None:
            return delta, None
    if isinstance(first, tuple | list):
        columns, signs = _from_tuples(rows, schema, sign)
    elif isinstance(first, Mapping):
        columns, signs = _from_dicts(rows, schema, sign)
    else:
        raise InvalidRow(
            f"row 0 is a {type(first).__name__}, not a tuple or dict",
            hint="Give a list of rows: [(1, 'ann'), ...] or [{'id': 1, 'name': 'ann'}, ...].",
        )
    words: list[Words] = []
    nulls: list[Mask | None] = []
    for values, field in zip(columns, schema.fields, strict=True):
        column, mask = _column(values, field, dictionary)
        words.append(column)
        nulls.append(mask)
    return Delta(schema, tuple(words), tuple(nulls), None, len(rows)), signs


def _column(
    values: Sequence[Any], field: Field, dictionary: Dictionary
) -> tuple[Words, Mask | None]:
    if len(values) <= _MAX_PYTHON_ROWS:
        return words_of(values, field, dictionary)
    taken = _TAKEN.get(type(field.type))
    # Arrow makes days of numbers, and numbers of flags: it is given what it reads as it is meant.
    if taken is not None and taken.issuperset(map(type, values)):
        try:
            wide = pa.float64() if isinstance(field.type, Float) else arrow_type(field.type)
            array = pa.array(values, wide)
            check_column(array, field.name)
            return encode_array(array, field, dictionary)
        except (*UNFIT, InvalidRow, TypeError, ValueError):
            pass  # the slow path takes what Arrow does not, or names the row
    return words_of(values, field, dictionary)


def _from_tuples(
    rows: Sequence[Any], schema: Schema, sign: str | None
) -> tuple[list[Sequence[Any]], Any]:
    width = len(schema.fields) + (sign is not None)
    for row, values in enumerate(rows):
        if not isinstance(values, tuple | list) or len(values) != width:
            extra = f", then {sign}" if sign else ""
            got = len(values) if isinstance(values, tuple | list) else type(values).__name__
            raise InvalidRow(
                f"row {row} has {got} values, the table has {width} columns",
                hint=f"The columns are {', '.join(schema.names)}{extra}.",
            )
    columns = list(zip(*rows, strict=True))
    if sign is None:
        return columns, None  # type: ignore[return-value]
    return columns[:-1], columns[-1]  # type: ignore[return-value]


def _from_dicts(
    rows: Sequence[Mapping[str, Any]], schema: Schema, sign: str | None
) -> tuple[list[Sequence[Any]], Any]:
    wanted = {name.lower(): i for i, name in enumerate(schema.names)}
    if sign is not None:
        wanted[sign.lower()] = len(schema)
    columns: list[list[Any]] = [[None] * len(rows) for _ in range(len(schema) + 1)]
    for row, values in enumerate(rows):
        if not isinstance(values, Mapping):
            raise InvalidRow(f"row {row} is a {type(values).__name__}, row 0 was a dict")
        for name, value in values.items():
            at = wanted.get(name.lower()) if isinstance(name, str) else None
            if at is None:
                raise _unknown_column(str(name), schema, row)
            columns[at][row] = value
        if len(values) > 1:
            _require_different(values, row)
    return columns[:-1], columns[-1]  # type: ignore[return-value]


def _require_different(values: Mapping[str, Any], row: int) -> None:
    if len({name.lower() for name in values}) < len(values):
        names = ", ".join(values)
        raise InvalidRow(f"row {row} gives a column twice: {names}")


def _unknown_column(name: str, schema: Schema, row: int | None = None) -> UnknownName:
    where = "" if row is None else f" in row {row}"
    return UnknownName(f'no column "{name}" in the table{where}', hint=nearest(name, schema.names))


# Frames.


def _from_frame(
    rows: Any, schema: Schema, dictionary: Dictionary, sign: str | None
) -> tuple[Delta, Any]:
    if isinstance(rows, Mapping):
        return _from_list([rows], schema, dictionary, sign)
    table = to_arrow(rows)
    if isinstance(table, PlainColumns):
        return _from_columns(table.columns, table.size, schema, dictionary, sign)
    if table is None:
        if isinstance(rows, Iterable):
            return _from_list(list(rows), schema, dictionary, sign)
        raise InvalidRow(
            f"cannot read rows from a {type(rows).__name__}",
            hint="pandas, polars, pyarrow, a Spark DataFrame, or a list of tuples or dicts.",
        )
    return _from_arrow(table, schema, dictionary, sign)


def _from_arrow(
    table: Any, schema: Schema, dictionary: Dictionary, sign: str | None
) -> tuple[Delta, Any]:
    table = plain_table(table)
    reading = _reading(table.schema, schema, dictionary)
    if reading is None:
        check_columns(table, checked_columns(table.schema))
    else:
        reading.check(table)
    if reading is not None:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        return Delta.from_lazy(schema, reading.columns(table)), None
    columns = list(zip(table.schema.names, table.columns, strict=True))
    return _from_columns(columns, table.num_rows, schema, dictionary, sign)


def _from_columns(
    given: Sequence[tuple[str, Any]],
    size: int,
    schema: Schema,
    dictionary: Dictionary,
    sign: str | None,
) -> tuple[Delta, Any]:
    """The rows of columns by name, each an Arrow array or a list of Python values."""
    columns, signs = _by_name(given, schema, sign)
    words: list[Words] = []
    nulls: list[Mask | None] = []
    for array, field in zip(columns, schema, strict=True):
        array = pa.nulls(size) if array is None else array
        encode = _column if isinstance(array, list) else encode_array
        column, mask = encode(array, field, dictionary)
        words.append(column)
        nulls.append(mask)
    return Delta(schema, tuple(words), tuple(nulls), None, size), signs


class _Reading:
    """How Arrow tables of one schema are read: which columns need a value check, and by what."""

    def __init__(self, given: Any, schema: Schema, dictionary: Dictionary) -> None:
        self.given, self.schema, self.dictionary = given, schema, dictionary
        pairs = list(zip(given.types, schema, strict=True))
        self._lossy = frozenset(i for i, (t, f) in enumerate(pairs) if not is_lossless(t, f.type))
        self._converters = [converter(type_, field, dictionary) for type_, field in pairs]
        self._words = frozenset(
            i for i, (t, _) in enumerate(pairs) if i not in self._lossy and is_word(t)
        )
        self._checked = checked_columns(given)
        self._quick: QuickGate | None = None
        self._required = [i for i, field in enumerate(schema) if not field.nullable]
        self._is_looked_at = bool(self._required or self._lossy)
        self._readers: dict[tuple[int, ...], Reader | None] = {}
        self._filters: dict[
            tuple[tuple[int, ...], tuple[FilterTest, ...]], PushedFilter | None
        ] = {}

    def takes_as_is(self, table: Any, dictionary: Dictionary) -> bool:
        """Whether a table has this schema and no column needs a value check."""
        is_mine = not self._is_looked_at and self.dictionary is dictionary
        return is_mine and bool(self.given.equals(table.schema))

    def check(self, table: Any) -> None:
        """Refuse values that could not be read again; plain ones need no closer look."""
        if not self._checked:
            return
        if self._quick is None:
            self._quick = self.dictionary.quick_gate(self.given)
        quick = self._quick
        if quick is not None and isinstance(table, pa.Table) and quick.is_plain(table):
            check_columns(table, quick.rest)
        else:
            check_columns(table, self._checked)

    def columns(self, table: Any) -> LazyColumns:
        """The columns, lazily; those that need a value check are converted now."""
        arrays = {i: table.column(i) for i in self._required}
        lazy = LazyColumns(table, self, self._lossy, None, arrays)
        for i, array in arrays.items():
            if array.null_count:
                lazy.pair(i)  # raises
        for i in self._lossy:
            lazy.pair(i)
        return lazy

    def one(self, array: Any, i: int) -> Pair:
        """One column as words."""
        return self._converters[i](array)

    def many(
        self, table: Any, columns: tuple[int, ...], arrays: Mapping[int, Any]
    ) -> list[Words] | None:
        """Some columns as words, None if one holds a NULL or there is no way but one by one.

        `arrays` are those that were asked for already.
        """
        if self._words.issuperset(columns):
            return _words_without_null(table, columns, arrays)
        try:
            reader = self._readers[columns]
        except KeyError:
            reader = self._readers[columns] = self._new_reader(columns)
        return None if reader is None else reader.read(table.select(columns))

    def pushed_filter(
        self, columns: tuple[int, ...], tests: tuple[FilterTest, ...]
    ) -> PushedFilter | None:
        """What reads these columns of the rows that pass, None if nothing does."""
        key = columns, tests
        if key not in self._filters:
            types = [self.given.types[i] for i in columns]
            all_lossless = self._lossy.isdisjoint(columns)
            self._filters[key] = (
                self.dictionary.pushed_filter(types, tests) if all_lossless else None
            )
        return self._filters[key]

    def _new_reader(self, columns: tuple[int, ...]) -> Reader | None:
        types = [self.given.types[i] for i in columns]
        return self.dictionary.reader(types) if self._lossy.isdisjoint(columns) else None


def _words_without_null(
    table: Any, columns: tuple[int, ...], arrays: Mapping[int, Any]
) -> list[Words] | None:
    """Columns that are words already, without a copy; None if one holds a NULL."""
    found = []
    for i in columns:
        array = arrays.get(i) if arrays else None
        array = table.column(i) if array is None else array
        if array.null_count:
            return None
        found.append(array.to_numpy())
    return found


# The last one for each table's schema, which it keeps alive.
_READINGS: dict[int, _Reading] = {}
_SINGLE_ROWS: dict[int, SingleRows] = {}
_MOST_READINGS = 1000


def _single_rows(schema: Schema) -> SingleRows:
    if len(_SINGLE_ROWS) >= _MOST_READINGS:
        _SINGLE_ROWS.clear()
    made = _SINGLE_ROWS[id(schema)] = SingleRows(schema)
    return made


def _reading(given: Any, schema: Schema, dictionary: Dictionary) -> _Reading | None:
    """How to read, None if the columns do not stand one for one in the table's order."""
    found = _READINGS.get(id(schema))
    if found is not None and found.dictionary is dictionary and found.given.equals(given):
        return found
    if tuple(given.names) != schema.names:
        return None
    if len(_READINGS) >= _MOST_READINGS:
        _READINGS.clear()
    made = _READINGS[id(schema)] = _Reading(given, schema, dictionary)
    return made


def _by_name(
    given: Sequence[tuple[str, Any]], schema: Schema, sign: str | None
) -> tuple[list[Any], Any]:
    columns: list[Any] = [None] * len(schema)
    signs = None
    for name, column in given:
        if sign is not None and name.lower() == sign.lower():
            signs = column
            continue
        at = schema.find(name)
        if at is None:
            raise _unknown_column(name, schema)
        if columns[at] is not None:
            raise InvalidRow(f'two columns are named "{name}"')
        columns[at] = column
    return columns, signs


# Multiplicities.


def _signs(signs: Any, size: int, name: str, *, words: bool) -> Signs:
    if signs is None:
        raise UnknownName(f'the rows have no column "{name}"')
    values = signs.to_pylist() if hasattr(signs, "to_pylist") else signs
    if words:
        return np.array([_change(value, row) for row, value in enumerate(values)], np.int64)
    field = Field(name, BIGINT, nullable=False)
    encode = encode_array if hasattr(signs, "to_pylist") else words_of
    return _in_bounds(np.ascontiguousarray(encode(signs, field, Dictionary())[0], np.int64), name)


def _in_bounds(times: Signs, name: str) -> Signs:
    """Multiplicities whose rows an engine can still be given one by one."""
    wrong = (times > _MOST_TIMES) | (times < -_MOST_TIMES)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidRow(
            f'row {row} does not fit: column "{name}" says {times[row]} times',
            detail=f"In one change a row comes or goes at most {_MOST_TIMES} times.",
        )
    return times


def _change(value: Any, row: int) -> int:
    word = value.strip().lower() if isinstance(value, str) else value
    found = CHANGES.get(word) if isinstance(word, Hashable) else None
    if found is None:
        raise InvalidRow(
            f"row {row}: {value!r} is no change",
            hint="insert, delete, update_preimage, update_postimage; i, d; +1, -1.",
        )
    return found
