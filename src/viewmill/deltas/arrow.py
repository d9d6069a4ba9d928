"""Arrow to words and back.

takes  Arrow arrays of any layout that casts without loss: views, large, dictionaries, other units
gives  `Delta`, and Arrow tables of exactly the schema's types
"""

from __future__ import annotations

import decimal
import re
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.packed import Packed, Unpacked
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    BIGINT,
    FLOAT,
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Nested,
    Null,
    String,
    Timestamp,
    Type,
    Wide,
)
from viewmill.deltas.arrow_types import (
    MICROSECONDS,
    arrow_schema,
    arrow_type,
    engine_schema,
    from_arrow_type,
    nested_arrow_type,
    nested_name,
)
from viewmill.deltas.delta import Delta, Mask, Words, float_keys, word_dtype
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.gate import DATE_RANGE, TIMESTAMP_RANGE, first_failure, plain_layout
from viewmill.deltas.nested_values import has_map, nested_value
from viewmill.deltas.packed import decode_packed, encode_packed
from viewmill.deltas.values import plain_arrow_value
from viewmill.deltas.variant_text import of_python as variant_text
from viewmill.errors import InvalidRow, NullViolation

_COMPUTED = re.compile(r"#.*\.\d+_\d+$")  # as blocks name what they compute row by row

# What Arrow raises for values that do not fit.
UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError)


# Arrow → words.


def encode_columns(schema: Schema, table: Any, dictionary: Dictionary) -> Delta:
    """The rows of an Arrow table or record batch with the columns of `schema`, by position."""
    columns: list[Words] = []
    nulls: list[Mask | None] = []
    for i, field in enumerate(schema):
        words, mask = encode_array(table.column(i), field, dictionary)
        columns.append(words)
        nulls.append(mask)
    return Delta(schema, tuple(columns), tuple(nulls), None, table.num_rows)


def encode_array(array: Any, field: Field, dictionary: Dictionary) -> tuple[Words, Mask | None]:
    """One column as words and a mask (None when nothing is NULL)."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    array = plain_layout(array)
    mask: Mask | None = None
    if array.null_count:
        mask = array.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
        if not field.nullable:
            row = int(np.argmax(mask))
            raise NullViolation(
                f'NULL in row {row} of column "{field.name}", which is NOT NULL',
                hint="Give the value, or declare the column without NOT NULL.",
            )
    if array.null_count == len(array) and not isinstance(field.type, Packed):
        # Of whatever type: pandas has a column of floats where no value is.
        return np.zeros(len(array), word_dtype(field.type)), mask
    try:
        words = _WORDS[type(field.type)](array, field, dictionary)
    except UNFIT as why:
        raise wrong_value(array, field, str(why)) from None
    if mask is not None and words.ndim == 1:  # packed values are 0 where they are NULL
        words = np.where(mask, words.dtype.type(0), words)
    return words, mask


def wrong_value(array: Any, field: Field, why: str) -> InvalidRow:
    """The error for the first value that does not fit its column."""
    convert = _WORDS[type(field.type)]

    def check(part: Any) -> None:
        if part.null_count < len(part):
            convert(part, field, Dictionary())

    row = first_failure(array, check)
    return InvalidRow(
        f'row {row} does not fit: column "{field.name}" is {field.type}, '
        f"got {_shown_value(array, row)}",
        detail=why,
        hint=f"Column {field}.",
    )


def _shown_value(array: Any, row: int) -> str:
    """A value for an error, with its type; some have no Python value."""
    try:
        value = array[row].as_py()
    except (ArithmeticError, LookupError, ValueError, pa.ArrowException):  # or no such time zone
        return f"a {array.type}"
    shown = type(value).__name__ if value is not None else array.type
    return f"{reprlib.repr(value)} ({shown})"


def _require(array: Any, field: Field, *, allowed: bool) -> None:
    if not allowed and not pa.types.is_null(array.type):
        raise pa.ArrowInvalid(f"got {array.type}")


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _to_numpy(array: Any) -> npt.NDArray[Any]:
    # A column without NULL is handed over as it lies in memory.
    if array.null_count:
        array = array.fill_null(0)
    words: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return words


def _boolean_words(array: Any, field: Field, _: Dictionary) -> Words:
    array = _plain(array)
    _require(array, field, allowed=pa.types.is_boolean(array.type))
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    words: Words = array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    return words


def _integer_words(array: Any, field: Field, _: Dictionary) -> Words:
    array, type_ = _plain(array), field.type
    assert isinstance(type_, Integer)
    if array.type != pa.int64():
        number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
        _require(array, field, allowed=number or pa.types.is_decimal(array.type))
        narrow = pa.types.is_integer(array.type) and array.type.bit_width <= type_.bits
        array = array.cast(pa.int64())
        if narrow:
            return _to_numpy(array)
    words = _to_numpy(array)
    if (
        type_.bits < 64
        and len(words)
        and not (type_.low <= words.min() and words.max() <= type_.high)
    ):
        raise OverflowError(f"a value is outside {type_}")
    return words


def _float_words(array: Any, field: Field, _: Dictionary) -> Words:
    array = _plain(array)
    if array.type != pa.float64():
        kind = array.type
        number = (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        )
        _require(array, field, allowed=number)
        # A whole number beyond 53 bits becomes the nearest float, as in a list of rows.
        array = array.cast(pa.float64(), safe=not pa.types.is_integer(kind))
    if array.null_count:
        array = array.fill_null(0.0)
    words: Words = array.to_numpy(zero_copy_only=False)
    if field.type == FLOAT:
        with np.errstate(over="ignore"):
            short = words.astype(np.float32).astype(np.float64)
        if (np.isinf(short) & np.isfinite(words)).any():
            raise OverflowError("a value is beyond FLOAT")
        words = short
    return words


def _decimal_words(array: Any, field: Field, _: Dictionary) -> Words:
    return decimal_words(_as_decimals(array, field))


def _wide_words(array: Any, field: Field, dictionary: Dictionary) -> Words:
    array = _as_decimals(array, field)
    if array.null_count:  # of which the halves are anything
        array = array.fill_null(decimal.Decimal(0))
    return dictionary.wide.encode(*_halves(array))


def _as_decimals(array: Any, field: Field) -> Any:
    array, type_ = _plain(array), field.type
    assert isinstance(type_, Decimal | Wide)
    kind = array.type
    if pa.types.is_floating(kind):
        array = _exact_decimals(array, type_)
    elif pa.types.is_integer(kind):
        array = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
    else:
        _require(array, field, allowed=pa.types.is_decimal(kind))
    if array.type != pa.decimal128(type_.precision, type_.scale):
        array = array.cast(pa.decimal128(type_.precision, type_.scale))
    return array


def _exact_decimals(array: Any, type_: Decimal | Wide) -> Any:
    # 10.1 is meant as 10.10; 10.123 has no DECIMAL(12,2) and is refused.
    rounded = array.cast(pa.float64()).cast(pa.decimal128(38, type_.scale))
    same = pc.all(pc.equal(rounded.cast(pa.float64()), array.cast(pa.float64()))).as_py()
    if same is False:
        raise pa.ArrowInvalid("a float has more digits than the column")
    return rounded


def decimal_words(array: Any) -> npt.NDArray[np.int64]:
    """The scaled int64 of an Arrow decimal128 array; what is wider is an honest error."""
    low, high = _halves(array)
    bad = high != (low >> 63)
    if array.null_count:
        bad &= ~array.is_null().to_numpy(zero_copy_only=False)
    if bad.any():
        raise OverflowError("a decimal is wider than 64 bits")
    return np.ascontiguousarray(low)


def _halves(array: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The low and the high half of each value of an Arrow decimal128 array."""
    halves = np.frombuffer(array.buffers()[1], np.int64)
    halves = halves[2 * array.offset : 2 * (array.offset + len(array))]
    return halves[0::2], halves[1::2]


def _string_words(array: Any, field: Field, dictionary: Dictionary) -> Words:
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    _require(array, field, allowed=text or pa.types.is_string_view(kind))
    if pa.types.is_string_view(kind):
        array = _plain(array).cast(pa.string())
    return dictionary.encode(array)


def _date_words(array: Any, field: Field, _: Dictionary) -> Words:
    array = _plain(array)
    kind = array.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    _require(array, field, allowed=pa.types.is_date(kind) or pa.types.is_timestamp(kind) or text)
    days = array.cast(pa.date32())
    if pa.types.is_timestamp(kind):
        _require_midnight(array, days)
    return _in_range(_to_numpy(days.cast(pa.int32())).astype(np.int64), DATE_RANGE, text)


def _require_midnight(array: Any, days: Any) -> None:
    local = array if array.type.tz is None else pc.local_timestamp(array)
    if pc.all(pc.equal(days.cast(local.type), local)).as_py() is False:
        raise pa.ArrowInvalid("a time of day in a DATE")


def _timestamp_words(array: Any, field: Field, _: Dictionary) -> Words:
    array = _plain(array)
    kind = array.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    _require(array, field, allowed=pa.types.is_timestamp(kind) or pa.types.is_date(kind) or text)
    if kind != MICROSECONDS:
        zone = getattr(kind, "tz", None)
        array = array.cast(pa.timestamp("us", zone)).cast(pa.int64())
    else:
        array = array.view(pa.int64())
    return _in_range(_to_numpy(array), TIMESTAMP_RANGE, text)


def _in_range(words: Words, bounds: tuple[int, int], text: bool) -> Words:
    """The words; dates read from text must lie in the years 1 to 9999."""
    if text and len(words) and not (bounds[0] <= words.min() and words.max() <= bounds[1]):
        raise pa.ArrowInvalid("a time outside the years 1 to 9999")
    return words


def _packed_words(array: Any, field: Field, _: Dictionary) -> Words:
    assert isinstance(field.type, Packed)
    return encode_packed(array, field.type)


def _nested_words(array: Any, field: Field, dictionary: Dictionary) -> Words:
    if str(field.type) == "VARIANT":
        return dictionary.encode_nested(_variants(array))
    return dictionary.encode_nested(_as_nested(array, arrow_type(field.type)))


def _variants(array: Any) -> list[Any]:
    try:
        return [None if each is None else variant_text(each) for each in array.to_pylist()]
    except ValueError as why:
        raise pa.ArrowInvalid(str(why)) from None


def _as_nested(array: Any, type_: Any) -> list[Any]:
    """The values of an Arrow array as Python has them, each of exactly this type."""
    try:
        values: list[Any] = array.to_pylist()
        if array.type == type_ and not has_map(type_):
            return values
        return [nested_value(each, type_, plain_arrow_value) for each in values]
    except ValueError as why:  # also a time outside the years 1 to 9999
        raise pa.ArrowInvalid(str(why)) from None


def _null_words(array: Any, field: Field, _: Dictionary) -> Words:
    return np.zeros(len(array), np.int64)


_WORDS: dict[type, Callable[[Any, Field, Dictionary], Words]] = {
    Boolean: _boolean_words,
    Integer: _integer_words,
    Float: _float_words,
    Decimal: _decimal_words,
    Wide: _wide_words,
    String: _string_words,
    Date: _date_words,
    Timestamp: _timestamp_words,
    Nested: _nested_words,
    Unpacked: _nested_words,
    MixedMoments: _nested_words,
    Packed: _packed_words,
    Null: _null_words,
}


# Words → Arrow.


def decode_delta(delta: Delta, dictionary: Dictionary, *, multiplicity: str | None = None) -> Any:
    """An Arrow table of the rows; with `multiplicity`, a last column of that name."""
    schema = arrow_schema(delta.schema)
    arrays = [_decoded(delta, i, schema.field(i).type, dictionary) for i in range(len(schema))]
    if multiplicity is not None:
        arrays.append(fixed_width(delta.multiplicities(), delta.size, None, pa.int64()))
        schema = schema.append(pa.field(multiplicity, pa.int64()))
    if not arrays:
        return pa.table({}).select([]) if delta.size == 0 else _rows_without_columns(delta.size)
    return pa.Table.from_arrays(arrays, schema=schema)


def _decoded(delta: Delta, i: int, type_: Any, dictionary: Dictionary) -> Any:
    lazy = delta.lazy
    array = None if lazy is None else lazy.array(i)
    if array is not None:  # as it came
        return array if array.type == type_ else array.cast(type_)
    return decode_column(delta.columns[i], delta.nulls[i], delta.schema[i], dictionary)


def _rows_without_columns(size: int) -> Any:
    return pa.table({"x": pa.nulls(size)}).select([])


def decode_column(words: Words, mask: Mask | None, field: Field, dictionary: Dictionary) -> Any:
    """One column as an Arrow array of the field's type."""
    type_ = field.type
    if isinstance(type_, String):
        return dictionary.decode(words, mask)
    if isinstance(type_, Packed):
        return decode_packed(words, mask, type_, arrow_type(type_))
    if isinstance(type_, Nested):
        return dictionary.decode_nested(words, mask, arrow_type(type_))
    if isinstance(type_, Null):
        return pa.nulls(len(words))
    if isinstance(type_, Wide):
        return fixed_width(_wide_halves(words, dictionary), len(words), mask, arrow_type(type_))
    return fixed_width(_as_stored(words, type_), len(words), mask, arrow_type(type_))


def shown(table: Any, schema: Schema, dictionary: Dictionary) -> Any:
    """An Arrow table that an engine made, with packed values as SQL shows them."""
    for i, field in enumerate(schema):
        if isinstance(field.type, Packed):
            words, mask = encode_array(table.column(i), field, dictionary)
            array = decode_column(words, mask, field, dictionary)
            table = table.set_column(i, pa.field(table.column_names[i], array.type), array)
    return table


def _as_stored(words: Words, type_: Type) -> npt.NDArray[Any]:
    """The words as Arrow lays out values of their type."""
    match type_:
        case Boolean():
            return np.packbits(words.astype(np.bool_), bitorder="little")
        case Date():
            return words.astype(np.int32)
        case Integer(bits) if bits < 64:
            return words.astype(np.dtype(f"int{bits}"))
        case Float(bits) if bits < 64:
            with np.errstate(over="ignore"):  # beyond FLOAT is infinity
                return words.astype(np.float32)
        case Decimal():
            return _as_halves(words)
        case _:
            return words


def _as_halves(words: Words) -> npt.NDArray[np.int64]:
    """Decimals as Arrow has them: low, high, low, high."""
    halves = np.empty(2 * len(words), np.int64)
    halves[0::2] = words
    halves[1::2] = words >> 63
    return halves


def _wide_halves(words: Words, dictionary: Dictionary) -> npt.NDArray[np.int64]:
    halves = np.empty(2 * len(words), np.int64)
    halves[0::2], halves[1::2] = dictionary.wide.decode(words)
    return halves


def fixed_width(stored: npt.NDArray[Any], size: int, mask: Mask | None, type_: Any) -> Any:
    """An Arrow array over a buffer; `pa.array` would import pandas to look at its argument."""
    stored = np.ascontiguousarray(stored)
    validity = None if mask is None else pa.py_buffer(np.packbits(mask == 0, bitorder="little"))
    return pa.Array.from_buffers(type_, size, [validity, pa.py_buffer(stored)])


__all__ = [
    "BIGINT", "arrow_schema", "arrow_type", "decimal_words", "decode_column",
    "decode_delta", "encode_array", "encode_columns", "engine_schema", "float_keys",
    "from_arrow_type",
    "nested_arrow_type", "nested_name", "shown", "wrong_value",
]  # fmt: skip


def shown_row(delta: Delta, row: int, dictionary: Dictionary) -> str:
    """A row of a delta for an error: id = 3, name = 'ann'. What was computed for it is left out."""
    one = decode_delta(delta.take(np.array([row])), dictionary).to_pylist()[0]
    return ", ".join(f"{name} = {x!r}" for name, x in one.items() if not _COMPUTED.match(name))
