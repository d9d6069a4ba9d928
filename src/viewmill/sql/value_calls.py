"""Calls of functions of bytes, URLs and text that only Python computes: one table of facts.

takes  a function's name and its lowered arguments
gives  algebra UserCall over a function of `program.value_functions`; None if the name is none of
       these, or means something else for arguments of such types
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewmill.algebra.expressions import Expression, Literal
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Integer,
    Nested,
    Null,
    String,
    Type,
)
from viewmill.errors import Span, TypeMismatch
from viewmill.program import json_values as j
from viewmill.program import value_functions as f
from viewmill.program import zone_functions as zones
from viewmill.program.value_functions import lenient
from viewmill.sql.coercion import cast, constant, implicit
from viewmill.sql.decimals import as_decimal
from viewmill.sql.python_calls import python_call

BINARY = Nested("BINARY")
_TEXTS = Nested("ARRAY<STRING>")
Arguments = tuple[Expression, ...]


@dataclass(frozen=True)
class Fact:
    """What computes a function, of which types, how many are required, what of NULL."""

    code: Callable[..., Any]
    takes: tuple[Type, ...]
    result: Type
    required: int | None = None
    nulls: bool = False  # NULL arguments reach the function
    repeats: bool = False  # the last type is that of all further arguments

    def fits(self, count: int) -> bool:
        """Whether so many arguments may be given."""
        least = len(self.takes) if self.required is None else self.required
        return least <= count and (self.repeats or count <= len(self.takes))


_B, _S = (BINARY,), (STRING,)
_PARSE = (STRING, STRING, STRING)
_ZONED, _PARTS = (TIMESTAMP, STRING), (INT, INT, INT, INT, INT, DOUBLE)

# By their names alone.
_FACTS: dict[str, Fact] = {
    "unhex": Fact(f.unhex, _S, BINARY),
    "unbase64": Fact(f.unbase64, _S, BINARY), "from_base64": Fact(f.unbase64, _S, BINARY),
    "encode": Fact(f.encode, (STRING, STRING), BINARY),
    "to_binary": Fact(f.to_binary, (STRING, STRING), BINARY, 1),
    "try_to_binary": Fact(lenient(f.to_binary), (STRING, STRING), BINARY, 1),
    "bitmap_count": Fact(f.bitmap_count, _B, BIGINT),
    "bitmap_bit_position": Fact(f.bitmap_position, (BIGINT,), BIGINT),
    "bitmap_bucket_number": Fact(f.bitmap_bucket, (BIGINT,), BIGINT),
    "is_valid_utf8": Fact(f.is_utf8, _B, BOOLEAN),
    "make_valid_utf8": Fact(f.text_of_bytes, _B, STRING),
    "validate_utf8": Fact(f.validate_utf8, _B, STRING),
    "try_validate_utf8": Fact(lenient(f.validate_utf8), _B, STRING),
    "mask": Fact(f.mask, (STRING,) * 5, STRING, 1, nulls=True),
    "regexp_split": Fact(f.split_letters, (STRING, STRING, INT), _TEXTS, 2),
    "split": Fact(f.split_letters, (STRING, STRING, INT), _TEXTS, 2),
    "regexp_extract_all": Fact(f.extract_all, (STRING, STRING, INT), _TEXTS, 2),
    "str_to_map": Fact(f.text_map, _PARSE, Nested("MAP<STRING,STRING>"), 1),
    "sha2": Fact(f.sha2, (BINARY, INT), STRING), "decode": Fact(f.decode, (BINARY, STRING), STRING),
    "json_array_length": Fact(j.array_length, _S, INT),
    "json_keys": Fact(j.object_keys, _S, _TEXTS),
    "schema_of_json": Fact(j.schema_of, _S, STRING),
    "asinh": Fact(math.asinh, (DOUBLE,), DOUBLE), "acosh": Fact(f.acosh, (DOUBLE,), DOUBLE),
    "atanh": Fact(f.atanh, (DOUBLE,), DOUBLE),
    "regexp_replace with more arguments": Fact(f.replace_from, (*_PARSE, INT), STRING),
    "quote": Fact(f.quote, _S, STRING),
    "to_base32": Fact(f.to_base32, _B, STRING), "from_base32": Fact(f.from_base32, _S, BINARY),
    "parse_url": Fact(f.url_part, _PARSE, STRING, 2),
    "from_utc_timestamp": Fact(zones.from_utc, _ZONED, TIMESTAMP),
    "to_utc_timestamp": Fact(zones.to_utc, _ZONED, TIMESTAMP),
    "convert_timezone": Fact(zones.converted, (STRING, STRING, TIMESTAMP), TIMESTAMP),
    "try_make_timestamp": Fact(lenient(zones.make), _PARTS, TIMESTAMP),
    "try_make_timestamp_ntz": Fact(lenient(zones.make), _PARTS, TIMESTAMP),
    "try_make_timestamp_ltz": Fact(lenient(zones.make), _PARTS, TIMESTAMP),
    "make_timestamp_ntz": Fact(zones.make, _PARTS, TIMESTAMP),
    "make_timestamp_ltz": Fact(zones.make, _PARTS, TIMESTAMP),
    "try_parse_url": Fact(lenient(f.url_part), _PARSE, STRING, 2),
}  # fmt: skip

# With a time zone as a further argument.
_IN_ZONE = {
    "make_timestamp": Fact(zones.make_in_zone, (*_PARTS, STRING), TIMESTAMP),
    "make_timestamp_ltz": Fact(zones.make_in_zone, (*_PARTS, STRING), TIMESTAMP),
    "try_make_timestamp": Fact(lenient(zones.make_in_zone), (*_PARTS, STRING), TIMESTAMP),
    "try_make_timestamp_ltz": Fact(lenient(zones.make_in_zone), (*_PARTS, STRING), TIMESTAMP),
}

# With further arguments.
_PLACED = Fact(f.place_of, (STRING, STRING, INT, INT), INT, 3)

# If an argument is BINARY.
_OF_BYTES: dict[str, Fact] = {
    "hex": Fact(f.hex_of_bytes, _B, STRING),
    "length": Fact(len, _B, INT), "octet_length": Fact(len, _B, INT),
    "bit_length": Fact(lambda value: 8 * len(value), _B, INT),
    "base64": Fact(f.base64_of_bytes, _B, STRING),
    "md5": Fact(f.md5, _B, STRING), "sha": Fact(f.sha1, _B, STRING),
    "sha1": Fact(f.sha1, _B, STRING),
    "crc32": Fact(f.crc32, _B, BIGINT),
    "concat": Fact(f.joined, _B, BINARY, repeats=True),
    "substring": Fact(f.part, (BINARY, INT, INT), BINARY, 2),
    "left": Fact(f.first_bytes, (BINARY, INT), BINARY),
    "right": Fact(f.last_letters, (STRING, INT), STRING),
    "lpad": Fact(f.padded_left, (BINARY, INT, BINARY), BINARY, 2),
    "rpad": Fact(f.padded_right, (BINARY, INT, BINARY), BINARY, 2),
    "startswith": Fact(bytes.startswith, (BINARY, BINARY), BOOLEAN),
    "endswith": Fact(bytes.endswith, (BINARY, BINARY), BOOLEAN),
    "contains": Fact(bytes.__contains__, (BINARY, BINARY), BOOLEAN),
}  # fmt: skip
_ONLY_OF_BYTES = frozenset({"concat"})  # all arguments are, or they are texts together


def value_call(name: str, given: Arguments, span: Span | None) -> Expression | None:
    """The call, or None if it is no call of a function of these."""
    if name == "elt":
        return _elt(given, span)
    if name in ("bit_get", "getbit") and len(given) == 2:
        return _bit_at(given, span)
    if name in ("ceil", "floor") and len(given) == 2:
        return _rounded(name, given, span)
    fact = _fact(name, given)
    if fact is None or not fact.fits(len(given)):
        return None
    takes = fact.takes + fact.takes[-1:] * (len(given) - len(fact.takes))
    taken = tuple(_as(each, wanted, name) for each, wanted in zip(given, takes, strict=False))
    return python_call(name, fact.code, taken, fact.result, span, nulls=fact.nulls)


def _fact(name: str, given: Arguments) -> Fact | None:
    of_bytes = [each.type == BINARY for each in given]
    if name in _OF_BYTES and any(of_bytes) and (all(of_bytes) or name not in _ONLY_OF_BYTES):
        return _OF_BYTES[name]
    if name == "instr" and len(given) > 2:
        return _PLACED
    if name in _IN_ZONE and len(given) == 7:
        return _IN_ZONE[name]
    return _FACTS.get(name)


def _as(value: Expression, wanted: Type, name: str) -> Expression:
    """An argument as the type that a function takes."""
    if wanted == BINARY:
        return binary(value, name)
    if value.type == BINARY and wanted == STRING:
        return text(value)
    if wanted == BIGINT and isinstance(value.type, Integer | Null | String):
        return cast(value, BIGINT)
    return cast(value, wanted) if isinstance(value.type, Null) else implicit(value, wanted, name)


def binary(value: Expression, name: str = "CAST") -> Expression:
    """CAST(value AS BINARY), of text."""
    if value.type == BINARY:
        return value
    if isinstance(value.type, Null):
        value = cast(value, STRING)
    if not isinstance(value.type, String):
        raise TypeMismatch(f"{name} needs a BINARY, got {value.type}", span=value.span)
    return python_call("to_bytes", str.encode, (value,), BINARY, value.span)


def text(value: Expression) -> Expression:
    """CAST(value AS STRING), of bytes."""
    return python_call("to_text", f.text_of_bytes, (value,), STRING, value.span)


def binary_literal(digits: str, span: Span | None) -> Expression:
    """The constant X'...'."""
    return python_call("unhex", f.unhex, (Literal(digits, STRING, span),), BINARY, span)


def _elt(given: Arguments, span: Span | None) -> Expression | None:
    if len(given) < 2:
        return None
    place, *values = given
    of_bytes = all(each.type == BINARY for each in values)
    result: Type = BINARY if of_bytes else STRING
    taken = tuple(_as(each, result, "elt") for each in values)
    place = implicit(place, INT, "elt")
    return python_call("elt", f.elt, (place, *taken), result, span, nulls=True)


def _rounded(name: str, given: Arguments, span: Span | None) -> Expression:
    """ceil(x, digits) and floor(x, digits), which are DECIMAL."""
    digits = constant(given[1], f"digits of {name}")
    if not isinstance(digits, int):
        raise TypeMismatch(f"{name} needs a whole number of digits", span=given[1].span or span)
    exact = as_decimal(given[0].type) or _OF_FLOATS.get(given[0].type)
    if exact is None:
        raise TypeMismatch(f"{name} needs a number, got {given[0].type}", span=given[0].span)
    scale = min(max(digits, 0), exact.scale)
    whole = max(exact.precision - exact.scale + 1, 1 - digits)
    result = Decimal(min(whole + scale, 38), scale)
    way = decimal.ROUND_CEILING if name == "ceil" else decimal.ROUND_FLOOR
    code = f.rounded_to(way, min(digits, exact.scale))
    key = (way, digits, exact)
    return python_call(name, code, (cast(given[0], exact),), result, span, of=key)


_OF_FLOATS: dict[Type, Decimal] = {DOUBLE: Decimal(30, 15), FLOAT: Decimal(14, 7)}


def _bit_at(given: Arguments, span: Span | None) -> Expression | None:
    value, place = given
    if not isinstance(value.type, Integer):
        return None
    bits = value.type.bits

    def bit(number: int, at: int) -> int:
        return f.bit_at(number, at, bits)

    taken = (value, implicit(place, INT, "getbit"))
    return python_call("getbit", bit, taken, Integer(8), span, of=bits)
