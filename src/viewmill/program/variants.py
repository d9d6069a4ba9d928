"""VARIANT: values of any type, kept as the one JSON text that Spark's to_json gives for them.

takes  JSON text, paths like $.a['b'][0], Python's values with their types of Arrow
gives  text in that form, or a value of a type; `Unfit` where Spark would raise an error
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from viewmill.deltas.variant_text import parsed, plain_number, shown, value_of
from viewmill.program.json_values import writer
from viewmill.program.python_functions import Unfit
from viewmill.program.text_values import read_date, read_timestamp

_WIDE = decimal.Context(prec=400)


def _unfit(message: str) -> Unfit:
    return Unfit("EvaluationFailed", message)


def parse(text: str) -> str:
    """parse_json."""
    try:
        return shown(parsed(text))
    except (ValueError, RecursionError, ArithmeticError):
        raise _unfit(f"{text!r} is no JSON") from None


# Paths.

_STEP = re.compile(r"\.([^.\[\]'\"\s]+)|\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d+)\]")


@lru_cache(1000)
def steps_of(path: str) -> tuple[str | int, ...]:
    """The names and indexes of a path."""
    steps, at = list[str | int](), 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            break
        plain, single, double, index = found.groups()
        names = [each for each in (plain, single, double) if each is not None]
        steps.append(int(index) if index else names[0])
        at = found.end()
    if not path.startswith("$") or at < len(path):
        raise _unfit(f"{path!r} is no path like $.a['b'][0]")
    return tuple(steps)


_NOWHERE = object()


def _at(value: Any, steps: tuple[str | int, ...]) -> Any:
    for each in steps:
        if isinstance(each, str):
            value = value.get(each, _NOWHERE) if isinstance(value, dict) else _NOWHERE
        else:
            is_there = isinstance(value, list) and each < len(value)
            value = value[each] if is_there else _NOWHERE
        if value is _NOWHERE:
            break
    return value


def part(variant: str, path: str) -> str | None:
    """variant_get without a type."""
    found = _at(value_of(variant), steps_of(path))
    return None if found is _NOWHERE else shown(found)


def getter(type_: Any) -> Callable[[str, str], Any]:
    """variant_get with a type: what it is not is an error."""
    read = reader(type_)

    def get(variant: str, path: str) -> Any:
        found = _at(value_of(variant), steps_of(path))
        return None if found is _NOWHERE or found is None else read(found)

    return get


def caster(type_: Any) -> Callable[[str], Any]:
    """CAST(variant AS type)."""
    read = reader(type_)

    def as_type(variant: str) -> Any:
        value = value_of(variant)
        return None if value is None else read(value)

    return as_type


# Values of a type.


def reader(type_: Any) -> Callable[[Any], Any]:
    """What makes a value of a type of Arrow of one that is not null."""
    if pa.types.is_struct(type_):
        readers = {each.name: reader(each.type) for each in type_}
        return lambda value: {
            name: _or_none(read, _of(dict, value).get(name)) for name, read in readers.items()
        }
    if pa.types.is_map(type_):
        inner = reader(type_.item_type)
        return lambda value: [(k, _or_none(inner, v)) for k, v in _sorted(_of(dict, value))]
    if pa.types.is_list(type_):
        inner = reader(type_.value_type)
        return lambda value: [_or_none(inner, each) for each in _of(list, value)]
    if pa.types.is_integer(type_):
        return lambda value: _integer(value, 1 << (type_.bit_width - 1))
    if pa.types.is_decimal(type_):
        return lambda value: _decimal(value, type_)
    for is_kind, read in _SCALARS:
        if is_kind(type_):
            return read
    raise _unfit(f"a VARIANT is no {type_}")


def _sorted(value: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be"))


def _or_none(read: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else read(value)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _misfit(value)
    return value


def _misfit(value: Any) -> Unfit:
    return _unfit(f"the variant {shown(value)} is not of the type")


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            return decimal.Decimal(value.strip())
        except decimal.InvalidOperation:
            raise _misfit(value) from None
    if not isinstance(value, int | float | decimal.Decimal):
        raise _misfit(value)
    return value


def _integer(value: Any, half: int) -> int:
    number = _number(value)
    if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?\d+\s*", value):
        raise _misfit(value)
    try:
        made = int(number)
    except (ValueError, OverflowError):
        raise _misfit(value) from None
    if not -half <= made < half:
        raise _misfit(value)
    return made


def _decimal(value: Any, type_: Any) -> decimal.Decimal:
    number = _number(value)
    exact = decimal.Decimal(repr(number)) if isinstance(number, float) else decimal.Decimal(number)
    try:
        made = exact.quantize(decimal.Decimal(1).scaleb(-type_.scale), decimal.ROUND_HALF_UP, _WIDE)
    except decimal.InvalidOperation:
        raise _misfit(value) from None
    if len(made.as_tuple().digits) > type_.precision:
        raise _misfit(value)
    return made


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, str) else float(_number(value))
    except ValueError:
        raise _misfit(value) from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


def _boolean(value: Any) -> bool:
    words = {"true": True, "t": True, "yes": True, "y": True, "1": True, "false": False,
             "f": False, "no": False, "n": False, "0": False}  # fmt: skip
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    if isinstance(value, str | dict | list):
        raise _misfit(value)
    return bool(value)


def _read_as(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    def attempt(value: Any) -> Any:
        try:
            return read(_of(str, value))
        except Unfit:
            raise
        except ValueError:
            raise _misfit(value) from None

    return attempt


_SCALARS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_floating, _float), (pa.types.is_string, _text), (pa.types.is_boolean, _boolean),
    (pa.types.is_date, _read_as(read_date)), (pa.types.is_timestamp, _read_as(read_timestamp)),
)  # fmt: skip


# Others.


def is_null(variant: str | None) -> bool:
    """is_variant_null: whether it is JSON's null, which is no NULL."""
    return variant == "null"


def maker(type_: Any) -> Callable[[Any], str]:
    """CAST(value AS VARIANT), to_variant_object(value)."""
    write = writer(type_)
    if pa.types.is_struct(type_) or pa.types.is_map(type_) or pa.types.is_list(type_):
        return lambda value: shown(_with_nulls(value, type_))
    if pa.types.is_decimal(type_):
        return plain_number
    return write


def _with_nulls(value: Any, type_: Any) -> Any:
    """A nested value as JSON has it; NULL fields stay as null."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {each.name: _with_nulls(value[each.name], each.type) for each in type_}
    if pa.types.is_map(type_):
        return {k: _with_nulls(v, type_.item_type) for k, v in value}
    if pa.types.is_list(type_):
        return [_with_nulls(each, type_.value_type) for each in value]
    plain = pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_)
    if plain or pa.types.is_decimal(type_) or pa.types.is_string(type_):
        return value
    return json.loads(writer(type_)(value))


def rows(variant: str | None) -> list[dict[str, Any]]:
    """variant_explode: a row for each field or element, with its place."""
    value = None if variant is None else value_of(variant)
    if isinstance(value, dict):
        return [{"pos": i, "key": k, "value": shown(v)} for i, (k, v) in enumerate(_sorted(value))]
    if isinstance(value, list):
        return [{"pos": i, "key": None, "value": shown(v)} for i, v in enumerate(value)]
    return []


def schema_of(variant: str) -> str:
    """schema_of_variant."""
    return _spelled(_schema(value_of(variant)))


def _schema(value: Any) -> Any:
    match value:
        case dict():
            return "OBJECT", {k: _schema(v) for k, v in _sorted(value)}
        case list():
            found: Any = "VOID"
            for each in value:
                found = _both(found, _schema(each))
            return "ARRAY", found
        case None:
            return "VOID"
        case bool():
            return "BOOLEAN"
        case int():
            is_long = -(1 << 63) <= value < 1 << 63
            return "BIGINT" if is_long else f"DECIMAL({len(str(abs(value)))},0)"
        case decimal.Decimal():
            return _decimal_type(value)
        case float():
            return "DOUBLE"
        case _:
            return "STRING"


def _decimal_type(value: decimal.Decimal) -> str:
    _, digits, exponent = value.normalize(_WIDE).as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    return f"DECIMAL({precision},{scale})"


def _both(a: Any, b: Any) -> Any:
    if a == b or b == "VOID":
        return a
    if a == "VOID":
        return b
    if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0]:
        if a[0] == "ARRAY":
            return "ARRAY", _both(a[1], b[1])
        names = sorted({*a[1], *b[1]})
        return "OBJECT", {n: _both(a[1].get(n, "VOID"), b[1].get(n, "VOID")) for n in names}
    numbers = [_as_decimal(each) for each in (a, b)]
    if None not in numbers:
        scale = max(n[1] for n in numbers if n)
        whole = max(n[0] - n[1] for n in numbers if n)
        return f"DECIMAL({min(whole + scale, 38)},{scale})"
    if "DOUBLE" in (a, b) and any(numbers):
        return "DOUBLE"
    return "VARIANT"


def _as_decimal(type_: Any) -> tuple[int, int] | None:
    if type_ == "BIGINT":
        return 20, 0
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", type_) if isinstance(type_, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _spelled(type_: Any) -> str:
    if isinstance(type_, str):
        return type_
    if type_[0] == "ARRAY":
        return f"ARRAY<{_spelled(type_[1])}>"
    inside = (f"{_name(name)}: {_spelled(each)}" for name, each in type_[1].items())
    return f"OBJECT<{', '.join(inside)}>"


def _name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"
