"""Arrow columns whose type alone says that every value fits: words without a look at the values."""

from __future__ import annotations

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
from viewmill.deltas.late import Pair


def is_sure(given: Any, type_: Type) -> bool:
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


def sure_words(array: Any, field: Field, dictionary: Dictionary) -> Pair:
    """The words and the mask of a column that is sure."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    type_ = field.type
    if array.null_count or not len(array) or isinstance(type_, Boolean):
        return encode_array(array, field, dictionary)
    if isinstance(type_, String):
        return dictionary.encode(array), None
    start, end = array.offset, array.offset + len(array)
    values = np.frombuffer(array.buffers()[1], _stored(array.type))
    if isinstance(type_, Decimal):  # the low half of each: 18 digits fit 64 bits
        return values[2 * start : 2 * end : 2].copy(), None
    word = np.float64 if is_float_word(type_) else np.int64
    return values[start:end].astype(word, copy=False), None


def _stored(given: Any) -> np.dtype[Any]:
    """How Arrow lays values of a type out."""
    if pa.types.is_floating(given):
        return np.dtype(f"float{given.bit_width}")
    return np.dtype(f"int{min(given.bit_width, 64)}")
