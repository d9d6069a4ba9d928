"""to_json, from_json and their kin, as Spark's JSON writer and reader have them.

takes  Python's values with their types of Arrow, or JSON text with the type to read
gives  text or values, None for what the text does not have
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa

from viewmill.deltas.float_text import float_text
from viewmill.deltas.variant_text import quoted
from viewmill.program.python_functions import Unfit
from viewmill.program.text_values import read_date, read_timestamp

# Writing.


def writer(type_: Any) -> Callable[[Any], str]:
    """What writes values of a type as JSON; fields of structs that are NULL are left out."""
    if pa.types.is_struct(type_):
        return _writer_of_struct(type_)
    if pa.types.is_map(type_):
        key, value = _key_writer(type_.key_type), writer(type_.item_type)
        return lambda pairs: _braced([f"{quoted(key(k))}:{_or_null(value, v)}" for k, v in pairs])
    if pa.types.is_list(type_):
        element = writer(type_.value_type)
        return lambda array: f"[{','.join(_or_null(element, each) for each in array)}]"
    if pa.types.is_boolean(type_):
        return lambda value: "true" if value else "false"
    if pa.types.is_floating(type_):
        return _float_writer(is_short=type_.bit_width == 32)
    if pa.types.is_decimal(type_):
        return lambda value: f"{value:f}"
    if pa.types.is_integer(type_):
        return str
    plain = _key_writer(type_)
    return lambda value: quoted(plain(value))


def _writer_of_struct(type_: Any) -> Callable[[Any], str]:
    fields = [(each.name, quoted(each.name), writer(each.type)) for each in type_]
    return lambda struct: _braced(
        [
            f"{shown}:{write(struct[name])}"
            for name, shown, write in fields
            if struct[name] is not None
        ]
    )


def _braced(parts: list[str]) -> str:
    return "{" + ",".join(parts) + "}"


def _or_null(write: Callable[[Any], str], value: Any) -> str:
    return "null" if value is None else write(value)


def _float_writer(*, is_short: bool) -> Callable[[float], str]:
    def write(value: float) -> str:
        text = float_text(value, short=is_short)
        return text if text[-1].isdigit() else quoted(text)

    return write


def _key_writer(type_: Any) -> Callable[[Any], str]:
    """A value as the name of an entry."""
    if pa.types.is_binary(type_):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_timestamp(type_):
        return _moment
    if pa.types.is_floating(type_):
        return lambda value: float_text(value, short=type_.bit_width == 32)
    if pa.types.is_boolean(type_):
        return lambda value: "true" if value else "false"
    return str


def _moment(value: dt.datetime) -> str:
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


# Reading.


class _Number(str):
    """A number as it is written."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object, in order."""


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_Pairs, parse_constant=_refuse,
    parse_int=_Number, parse_float=_Number,
)  # fmt: skip


class _Misfit(ValueError):
    """The value is none of its type."""


def parsed(text: str) -> Any:
    """The first value of a text; ValueError if there is none."""
    value, _ = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
    return value


def compact(value: Any) -> str:
    """A parsed value as text without spaces."""
    match value:
        case _Pairs():
            return _braced([f"{quoted(k)}:{compact(v)}" for k, v in value])
        case list():
            return f"[{','.join(map(compact, value))}]"
        case _Number():  # a fraction as Java writes it
            return str(value) if re.fullmatch("-?[0-9]+", value) else float_text(float(value))
        case str():
            return quoted(value)
        case None:
            return "null"
        case _:
            return "true" if value else "false"


def reader(type_: Any) -> Callable[[str], Any]:
    """from_json(text, type): what does not fit is NULL, and all of it where the text is none."""
    nothing = {each.name: None for each in type_} if pa.types.is_struct(type_) else None
    is_of_structs = pa.types.is_list(type_) and pa.types.is_struct(type_.value_type)
    read = _reader(type_)

    def attempt(text: str) -> Any:
        if not text.strip():
            return None
        try:
            value = parsed(text)
        except (ValueError, RecursionError):
            return nothing
        if nothing is not None and isinstance(value, list) and not isinstance(value, _Pairs):
            value = value[0] if value else None  # an array of structs stands for its first,
        elif is_of_structs and isinstance(value, _Pairs):
            value = [value]  # and a struct for an array of it
        try:
            return nothing if value is None else read(value)
        except _Misfit:
            return nothing

    return attempt


def _reader(type_: Any) -> Callable[[Any], Any]:
    if pa.types.is_struct(type_):
        readers = {each.name: _reader(each.type) for each in type_}
        return lambda value: _struct(readers, value)
    if pa.types.is_map(type_):
        inner = _reader(type_.item_type)
        return lambda value: list({k: (k, _or_none(inner, v)) for k, v in _object(value)}.values())
    if pa.types.is_list(type_):
        inner = _reader(type_.value_type)
        # One element that does not fit makes the whole array NULL.
        return lambda value: [None if each is None else inner(each) for each in _array(value)]
    if pa.types.is_integer(type_):
        half = 1 << (type_.bit_width - 1)
        return lambda value: _whole(value, half)
    if pa.types.is_decimal(type_):
        return lambda value: _decimal(value, type_)
    for is_kind, read in _SCALARS:
        if is_kind(type_):
            return read
    raise Unfit("EvaluationFailed", f"from_json does not read {type_}")


def _or_none(read: Callable[[Any], Any], value: Any) -> Any:
    if value is None:
        return None
    try:
        return read(value)
    except _Misfit:
        return None


def _struct(readers: dict[str, Callable[[Any], Any]], value: Any) -> dict[str, Any]:
    given = dict(_object(value))
    return {name: _or_none(read, given.get(name)) for name, read in readers.items()}


def _object(value: Any) -> _Pairs:
    if not isinstance(value, _Pairs):
        raise _Misfit
    return value


def _array(value: Any) -> list[Any]:
    if isinstance(value, _Pairs) or not isinstance(value, list):
        raise _Misfit
    return value


def _whole(value: Any, half: int) -> int:
    if not isinstance(value, _Number) or not re.fullmatch("-?[0-9]+", value):
        raise _Misfit
    number = int(value)
    if not -half <= number < half:
        raise _Misfit
    return number


def _decimal(value: Any, type_: Any) -> decimal.Decimal:
    try:
        number = decimal.Decimal(value if isinstance(value, str) else "")
        unit, context = decimal.Decimal(1).scaleb(-type_.scale), decimal.Context(prec=100)
        made = number.quantize(unit, decimal.ROUND_HALF_UP, context)
    except decimal.InvalidOperation:
        raise _Misfit from None
    if len(made.as_tuple().digits) > type_.precision:
        raise _Misfit
    return made


_WORDS = {"NaN", "Infinity", "-Infinity", "+INF", "INF", "+Infinity", "-INF"}


def _float(value: Any) -> float:
    if isinstance(value, _Number):
        return float(value)
    if isinstance(value, str) and value in _WORDS:
        return float(value)
    raise _Misfit


def _text(value: Any) -> str:
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    return value if is_text else compact(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Misfit
    return value


def _read_as(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    def attempt(value: Any) -> Any:
        if isinstance(value, _Number) or not isinstance(value, str):
            raise _Misfit
        try:
            return read(value)
        except ValueError:
            raise _Misfit from None

    return attempt


def _bytes(value: Any) -> bytes:
    if isinstance(value, _Number) or not isinstance(value, str):
        raise _Misfit
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise _Misfit from None


_SCALARS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_floating, _float), (pa.types.is_string, _text), (pa.types.is_boolean, _boolean),
    (pa.types.is_date, _read_as(read_date)), (pa.types.is_timestamp, _read_as(read_timestamp)),
    (pa.types.is_binary, _bytes),
)  # fmt: skip


# Parts.


def array_length(text: str) -> int | None:
    """json_array_length: NULL for what is no array."""
    try:
        value = parsed(text)
    except (ValueError, RecursionError):
        return None
    return len(value) if isinstance(value, list) and not isinstance(value, _Pairs) else None


def object_keys(text: str) -> list[str] | None:
    """json_object_keys: NULL for what is no object."""
    try:
        value = parsed(text)
    except (ValueError, RecursionError):
        return None
    return [name for name, _ in value] if isinstance(value, _Pairs) else None


def fields(text: str | None, *names: str | None) -> list[dict[str, str | None]]:
    """json_tuple: a row of the fields of an object, as text."""
    try:
        value = parsed(text) if text is not None else None
    except (ValueError, RecursionError):
        value = None
    given = dict(value) if isinstance(value, _Pairs) else {}
    found = [given.get(each) if each is not None else None for each in names]
    return [{f"c{i}": None if x is None else _text(x) for i, x in enumerate(found)}]


def schema_of(text: str) -> str:
    """schema_of_json: the type that fits a text, as DDL."""
    try:
        return _spelled(_inferred(parsed(text)))
    except (ValueError, RecursionError):
        raise Unfit("EvaluationFailed", f"{text!r} is no JSON") from None


_Inferred = Any  # a name, ("ARRAY", type), or ("STRUCT", {name: type})


def _inferred(value: Any) -> _Inferred:
    match value:
        case _Pairs():
            return "STRUCT", {name: _inferred(each) for name, each in sorted(value)}
        case list():
            return "ARRAY", _merged([_inferred(each) for each in value])
        case _Number():
            return _number_type(value)
        case None:
            return "VOID"
        case bool():
            return "BOOLEAN"
        case _:
            return "STRING"


def _number_type(number: str) -> _Inferred:
    if not re.fullmatch("-?[0-9]+", number):
        return "DOUBLE"
    digits = len(number.lstrip("-"))
    if -(1 << 63) <= int(number) < 1 << 63:
        return "BIGINT"
    return f"DECIMAL({digits},0)" if digits <= 38 else "DOUBLE"


def _merged(types: list[_Inferred]) -> _Inferred:
    found: _Inferred = "VOID"
    for each in types:
        found = _both(found, each)
    return found


def _both(a: _Inferred, b: _Inferred) -> _Inferred:
    if a == b or b == "VOID":
        return a
    if a == "VOID":
        return b
    if {a, b} == {"BIGINT", "DOUBLE"} if isinstance(a, str) and isinstance(b, str) else False:
        return "DOUBLE"
    if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0]:
        if a[0] == "ARRAY":
            return "ARRAY", _both(a[1], b[1])
        names = sorted({*a[1], *b[1]})
        return "STRUCT", {n: _both(a[1].get(n, "VOID"), b[1].get(n, "VOID")) for n in names}
    return "STRING"


def _spelled(type_: _Inferred) -> str:
    if isinstance(type_, str):
        return "STRING" if type_ == "VOID" else type_
    if type_[0] == "ARRAY":
        return f"ARRAY<{_spelled(type_[1])}>"
    inside = (f"{_name(name)}: {_spelled(each)}" for name, each in type_[1].items())
    return f"STRUCT<{', '.join(inside)}>"


def _name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"
