"""Convert Arrow columns whose type guarantees that every value fits, without checking values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.algebra.schema import Field
from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    String,
    Timestamp,
    Type,
    is_float_word,
)
from viewmill.deltas.arrow import arrow_type, encode_array
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.lazy_columns import Pair


def is_lossless(given: Any, type_: Type) -> bool:
    """Whether every value of an Arrow type is a value of `type_`."""
    match type_:
        case Decimal(precision, scale):
            return bool(
                pa.types.is_decimal128(given)
                and given.scale == scale
                and given.precision <= min(precision, 18)
            )
        case Integer(bits):
            return bool(pa.types.is_signed_integer(given) and given.bit_width <= bits)
        case String():
            return bool(pa.types.is_string(given) or pa.types.is_large_string(given))
        case Boolean() | Float() | Date() | Timestamp():
            return bool(given == arrow_type(type_))
        case _:
            return False


def is_word(given: Any) -> bool:
    """Whether NumPy reads values of an Arrow type as words."""
    return bool(given in (pa.int64(), pa.float64()))


def converter(given: Any, field: Field, dictionary: Dictionary) -> Callable[[Any], Pair]:
    """What makes words and a mask of columns of an Arrow type, chosen once per type."""
    type_ = field.type
    if not is_lossless(given, type_) or isinstance(type_, Boolean):
        return lambda array: encode_array(array, field, dictionary)
    if isinstance(type_, String):
        encode = dictionary.encode
        return _of_chunk(lambda array: (encode(array), None), field, dictionary)
    stored = _stored(given)
    if isinstance(type_, Decimal):

        def decimals(array: Any) -> Pair:
            start, end = 2 * array.offset, 2 * (array.offset + len(array))
            # The low half of each: 18 digits fit 64 bits.
            return np.frombuffer(array.buffers()[1], np.int64)[start:end:2].copy(), None

        return _of_chunk(decimals, field, dictionary)
    word = np.dtype(np.float64 if is_float_word(type_) else np.int64)
    if stored == word and is_word(given):
        return _as_they_are(field, dictionary)

    def numbers(array: Any) -> Pair:
        start, end = array.offset, array.offset + len(array)
        values = np.frombuffer(array.buffers()[1], stored)[start:end]
        return values.astype(word, copy=False), None

    return _of_chunk(numbers, field, dictionary)


def _as_they_are(field: Field, dictionary: Dictionary) -> Callable[[Any], Pair]:
    """Convert columns that NumPy reads as words without a copy: the most frequent case."""

    def words(array: Any) -> Pair:
        if array.null_count:
            return encode_array(array, field, dictionary)
        return array.to_numpy(), None

    return words


def _of_chunk(
    make: Callable[[Any], Pair], field: Field, dictionary: Dictionary
) -> Callable[[Any], Pair]:
    """Extend `make` to chunked columns; columns with a NULL take the checking path."""

    def words(array: Any) -> Pair:
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if array.null_count or not len(array):
            return encode_array(array, field, dictionary)
        return make(array)

    return words


def _stored(given: Any) -> np.dtype[Any]:
    """How Arrow lays values of a type out."""
    if pa.types.is_floating(given):
        return np.dtype(f"float{given.bit_width}")
    return np.dtype(f"int{min(given.bit_width, 64)}")
