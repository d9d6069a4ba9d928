"""The one JSON text of a VARIANT, which equal values share: what Spark's to_json gives for it.

takes  JSON text, PySpark's VariantVal, Python's values
gives  text; `ValueError` for what is none
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

from viewmill.deltas.float_text import float_text

_WIDE = decimal.Context(prec=400)
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f",
          "\r": "\\r"}  # fmt: skip


def quoted(text: str) -> str:
    """A text as JSON."""
    inside = _ESCAPED.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04X}", text)
    return f'"{inside}"'


# Reading JSON: whole numbers are int, decimals Decimal, other numbers float.


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _fraction(text: str) -> Any:
    number = decimal.Decimal(text)
    exponent = number.as_tuple().exponent
    is_plain = "e" not in text.lower() and isinstance(exponent, int) and -exponent <= 38
    return number if is_plain and len(number.as_tuple().digits) <= 38 else float(text)


def _whole(text: str) -> Any:
    digits = len(text.lstrip("-"))
    return int(text) if digits <= 38 else float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _kept_fraction(text: str) -> Any:
    """A fraction as `shown` wrote it: it leaves zeros out, but for the one of a float."""
    return float(text) if text.endswith(".0") else _fraction(text)


def _decoder(fraction: Callable[[str], Any], constant: Callable[[str], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_constant=constant, parse_float=fraction, parse_int=_whole
    )


_WRITTEN, _KEPT = _decoder(_fraction, _refuse), _decoder(_kept_fraction, float)


@lru_cache(10_000)
def value_of(text: str) -> Any:
    """The value of a VARIANT."""
    return _read(_KEPT, text)


def parsed(text: str) -> Any:
    """The value of JSON text that somebody wrote; ValueError if it is none."""
    return _read(_WRITTEN, text)


def _read(decoder: json.JSONDecoder, text: str) -> Any:
    stripped = text.strip(" \t\r\n")
    value, end = decoder.raw_decode(stripped)
    if end < len(stripped):
        raise ValueError("text follows")
    return value


def shown(value: Any) -> str:
    """The one text of a value: the fields of objects in order, numbers as Java writes them."""
    match value:
        case dict():
            fields = sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be"))
            return "{" + ",".join(f"{quoted(k)}:{shown(v)}" for k, v in fields) + "}"
        case list():
            return f"[{','.join(map(shown, value))}]"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case decimal.Decimal():
            return plain_number(value)
        case float():
            return float_text(value)
        case _:
            return quoted(str(value))


def plain_number(value: decimal.Decimal) -> str:
    """A decimal without zeros at its end."""
    return f"{value.normalize(_WIDE):f}" if value else "0"


def of_python(value: Any) -> str:
    """What somebody gives for a VARIANT: JSON text, PySpark's VariantVal, a value."""
    if hasattr(value, "toPython"):
        try:
            return shown(_read(_KEPT, value.toJson()))
        except ValueError:  # PySpark writes infinities as inf
            return shown(_plain(value.toPython()))
    if isinstance(value, str):
        try:
            return shown(_read(_KEPT, value))
        except (RecursionError, ArithmeticError):
            raise ValueError("JSON text is expected") from None
    return shown(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str() | decimal.Decimal():
            return value
        case _:
            raise ValueError("JSON text, or a value of JSON, is expected")
