"""One Python value to one word: the path of single rows, and the judge of wrong ones."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import reprlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Nested,
    String,
    Timestamp,
    Type,
    Wide,
    kept_type,
)
from viewmill.deltas.arrow_types import arrow_type, from_arrow_type
from viewmill.deltas.delta import Delta, Mask, Words
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.nested_values import nested_value
from viewmill.deltas.variant_text import of_python as variant_text
from viewmill.errors import InvalidRow, NullViolation

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT = decimal.Context(
    prec=60, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)
_NANOSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")


class _Unfit(Exception):
    """The value is not of the column's type."""


_REFUSED = (_Unfit, ValueError, TypeError, ArithmeticError, RecursionError)


def words_of(
    values: Sequence[Any], field: Field, dictionary: Dictionary
) -> tuple[Words, Mask | None]:
    """A column of Python values as words and a mask."""
    convert, dtype = _CONVERT[type(field.type)]
    words: list[Any] = []
    nulls: list[int] = []
    for row, value in enumerate(values):
        if value is not None:
            try:
                words.append(convert(value, field.type, dictionary))
                continue
            except _REFUSED as why:
                if not _is_missing(value):
                    raise _unfit(row, value, field, why) from None
        if not field.nullable:
            raise NullViolation(
                f'NULL in row {row} of column "{field.name}", which is NOT NULL',
                hint="Give the value, or declare the column without NOT NULL.",
            )
        nulls.append(row)
        words.append(0)
    array = np.array(words, dtype)
    if not nulls:
        return array, None
    mask = np.zeros(len(array), np.uint8)
    mask[nulls] = 1
    return array, mask


def plain_value(value: Any, type_: Type) -> Any:
    """A value that is not NULL as readers of such a column see it, None if it means NULL;
    `ValueError` if it does not fit."""
    dictionary = Dictionary()
    try:
        if isinstance(type_, Nested):
            return nested_value(value, arrow_type(type_), plain_arrow_value)
        word = _CONVERT[type(kept_type(type_))][0](value, kept_type(type_), dictionary)
        return _READ[type(kept_type(type_))](word, type_, dictionary)
    except _REFUSED as why:
        if _is_missing(value):
            return None
        raise ValueError(str(why)) from None


def plain_arrow_value(value: Any, type_: Any) -> Any:
    """`plain_value` by a type of Arrow that is not nested."""
    return plain_value(value, from_arrow_type(type_))


def _text_of(id_: int, _: Any, dictionary: Dictionary) -> str:
    text: str = dictionary.value(id_)
    text.encode()  # which half a character has none of
    return text


def _number_of(word: int, type_: Any) -> decimal.Decimal:
    return decimal.Decimal(word).scaleb(-type_.scale, _EXACT)


# How a word is read back.
_READ: dict[type, Callable[[Any, Any, Dictionary], Any]] = {
    Boolean: lambda word, *_: bool(word),
    Integer: lambda word, *_: word,
    Float: lambda word, *_: word,
    Decimal: lambda word, type_, _: _number_of(word, type_),
    Wide: lambda code, type_, dictionary: _number_of(dictionary.wide.number(code), type_),
    String: _text_of,
    Date: lambda word, *_: dt.date.fromordinal(word + _EPOCH_DAY),
    Timestamp: lambda word, *_: _EPOCH + word * _MICROSECOND,
}


def _is_missing(value: Any) -> bool:
    """Whether a value is one of pandas' and NumPy's ways to say NULL: NA, NaT."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _unfit(row: int, value: Any, field: Field, why: Exception) -> InvalidRow:
    reason = f": {why}" if str(why) else ""
    shown = reprlib.repr(value)  # which shows what it can of a value that fails to show itself
    return InvalidRow(
        f'row {row} does not fit: column "{field.name}" is {field.type}, '
        f"got {shown} ({type(value).__name__}){reason}",
        hint=f"Column {field}.",
    )


def _integer(value: Any, type_: Any, _: Dictionary) -> int:
    if type(value) is not int:
        if isinstance(value, bool | np.bool_):
            raise _Unfit
        if isinstance(value, float | decimal.Decimal | np.floating):
            if not -(1 << 64) < value < 1 << 64 or value != int(value):
                raise _Unfit
        elif not isinstance(value, int | np.integer):
            raise _Unfit
        value = int(value)
    if not type_.low <= value <= type_.high:
        raise _Unfit(f"outside {type_.low} to {type_.high}")
    return int(value)


def _float(value: Any, type_: Any, _: Dictionary) -> float:
    if type(value) is not float:
        number = isinstance(value, int | float | np.integer | np.floating | decimal.Decimal)
        if not number or isinstance(value, bool):
            raise _Unfit
        wide, value = value, float(value)
        if math.isinf(value) and abs(wide) != math.inf:
            raise _Unfit("beyond DOUBLE")
    if type_.bits == 64:
        return float(value)
    with np.errstate(over="ignore"):
        short = float(np.float32(value))
    if math.isinf(short) and not math.isinf(value):
        raise _Unfit("beyond FLOAT")
    return short


def _decimal(value: Any, type_: Any, _: Dictionary) -> int:
    word = _scaled(value, type_)
    if not -(1 << 63) <= word < 1 << 63:
        raise _Unfit("wider than 64 bits")
    return word


def _wide(value: Any, type_: Any, dictionary: Dictionary) -> int:
    return dictionary.wide.code(_scaled(value, type_))


def _scaled(value: Any, type_: Any) -> int:
    """A decimal as a whole number of its last digits."""
    if isinstance(value, bool):
        raise _Unfit
    if isinstance(value, float | np.floating):
        value = decimal.Decimal(repr(float(value)))
    elif isinstance(value, int | np.integer):
        value = decimal.Decimal(int(value))
    elif not isinstance(value, decimal.Decimal):
        raise _Unfit
    if not value.is_finite():
        raise _Unfit
    if value.adjusted() > 38:  # whose digits nobody wants to write out
        raise _Unfit(f"more than {type_.precision} digits")
    scaled = value.scaleb(type_.scale, _EXACT)
    word = int(scaled)
    if word != scaled:
        raise _Unfit(f"more than {type_.scale} digits after the point")
    if abs(word) >= 10**type_.precision:
        raise _Unfit(f"more than {type_.precision} digits")
    return word


def _string(value: Any, _: Any, dictionary: Dictionary) -> int:
    if not isinstance(value, str):
        raise _Unfit
    # Of a subclass what it holds, not what it shows: an Enum shows its name.
    return dictionary.intern(value if type(value) is str else str.__str__(value))


def _boolean(value: Any, _: Any, __: Dictionary) -> int:
    if not isinstance(value, bool | np.bool_):
        raise _Unfit
    return int(value)


def _date(value: Any, _: Any, __: Dictionary) -> int:
    if isinstance(value, str):
        value = dt.date.fromisoformat(value)
    if isinstance(value, np.datetime64):
        value = _moment(value)
    if isinstance(value, dt.datetime):
        if value.time() != dt.time() or _has_nanoseconds(value):
            raise _Unfit("a time of day in a DATE")
        value = value.date()
    if not isinstance(value, dt.date):
        raise _Unfit
    return value.toordinal() - _EPOCH_DAY


def _timestamp(value: Any, _: Any, __: Dictionary) -> int:
    if isinstance(value, str):
        if _NANOSECONDS.search(value):
            raise _Unfit("it has nanoseconds, and a TIMESTAMP has microseconds")
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, np.datetime64):
        value = _moment(value)
    if isinstance(value, dt.datetime):
        if type(value) is not dt.datetime and _has_nanoseconds(value):
            raise _Unfit("it has nanoseconds, and a TIMESTAMP has microseconds")
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
    elif isinstance(value, dt.date):
        value = dt.datetime(value.year, value.month, value.day)
    else:
        raise _Unfit
    return int((value - _EPOCH) // _MICROSECOND)


def _has_nanoseconds(value: Any) -> bool:
    """Whether a time of pandas has more digits than microseconds."""
    return bool(getattr(value, "nanosecond", 0))


def _moment(value: np.datetime64) -> dt.datetime:
    """A time of NumPy as one of Python, if it has microseconds of the years 1 to 9999."""
    moment = value.astype("datetime64[us]")
    if moment.astype(value.dtype) != value:
        raise _Unfit("it has nanoseconds, and a TIMESTAMP has microseconds")
    found = moment.item()
    if not isinstance(found, dt.datetime):
        raise _Unfit("outside the years 1 to 9999")
    return found


def _nested(value: Any, type_: Any, dictionary: Dictionary) -> int:
    if type_.name == "VARIANT":
        plain: Any = variant_text(value)
    else:
        plain = nested_value(value, arrow_type(type_), plain_arrow_value)
    return int(dictionary.encode_nested([plain])[0])


_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)
# By the type of the column: what converts a value, and the dtype of its words.
_CONVERT: dict[type, tuple[Callable[[Any, Any, Dictionary], Any], np.dtype[Any]]] = {
    Boolean: (_boolean, _INT),
    Integer: (_integer, _INT),
    Float: (_float, _FLOAT),
    Decimal: (_decimal, _INT),
    Wide: (_wide, _INT),
    String: (_string, _INT),
    Date: (_date, _INT),
    Timestamp: (_timestamp, _INT),
    Nested: (_nested, _INT),
}


class SingleRows:
    """Makes deltas of single rows of one schema, quickly: all words of a row are one array."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        converts = [_CONVERT[type(field.type)] for field in schema]
        self._steps = [(convert, f.type) for (convert, _), f in zip(converts, schema, strict=True)]
        formats = ("d" if dtype is _FLOAT else "q" for _, dtype in converts)
        self._pack = struct.Struct("=" + "".join(formats)).pack
        self._floats = [i for i, (_, dtype) in enumerate(converts) if dtype is _FLOAT]
        self._places = [slice(i, i + 1) for i in range(len(schema))]
        self._nulls = (None,) * len(schema)

    def delta(self, row: Sequence[Any], dictionary: Dictionary) -> Delta | None:
        """The insert of a row; None if it has a NULL or a value that `words_of` must judge."""
        words = []
        try:
            for value, (convert, type_) in zip(row, self._steps, strict=True):
                if value is None:
                    return None
                words.append(convert(value, type_, dictionary))
            whole = np.frombuffer(bytearray(self._pack(*words)), _INT)
        except (*_REFUSED, struct.error):
            return None
        columns: list[Words] = [whole[place] for place in self._places]
        for i in self._floats:
            columns[i] = columns[i].view(_FLOAT)
        return Delta(self.schema, tuple(columns), self._nulls, None, 1)
