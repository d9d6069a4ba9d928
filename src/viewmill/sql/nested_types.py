"""What is inside the types of arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.algebra.schema import Field
from viewmill.algebra.types import NULL, Nested, Type, kept_type
from viewmill.errors import ViewmillError
from viewmill.sql.data_types import type_of

_OPEN, _CLOSED = "<(", ">)"


def element_type(type_: Type) -> Type | None:
    """The type of an array's elements; None if it is no array."""
    inside = _inside(type_, "ARRAY")
    return None if inside is None else _type(inside)


def entry_types(type_: Type) -> tuple[Type, Type] | None:
    """The types of a map's keys and values; None if it is no map."""
    inside = _inside(type_, "MAP")
    if inside is None:
        return None
    key, value = _cut(inside, ",")
    return _type(key), _type(value)


def struct_fields(type_: Type) -> tuple[Field, ...] | None:
    """The fields of a struct; None if it is no struct."""
    inside = _inside(type_, "STRUCT")
    return None if inside is None else tuple(map(_field, _cut(inside, ",")))


def written_type(text: str) -> Type | None:
    """A type, or columns with their types, which are a struct; None if it is neither."""
    for each in (text, f"STRUCT<{text}>"):
        try:
            return kept_type(type_of(exp.DataType.build(each, dialect="spark")))
        except (SqlglotError, ViewmillError, ValueError):
            continue
    return None


def _inside(type_: Type, word: str) -> str | None:
    if not isinstance(type_, Nested) or not type_.name.upper().startswith(f"{word}<"):
        return None
    return type_.name[len(word) + 1 : -1]


def _field(text: str) -> Field:
    name, type_ = _cut(text, ":")
    name = name.strip()
    if name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    return Field(name, _type(type_))


@cache
def _type(text: str) -> Type:
    name = text.strip()
    if name == "VOID":
        return NULL
    return Nested(name) if "<" in name else type_of(exp.DataType.build(name, dialect="spark"))


def _cut(text: str, sign: str) -> Iterator[str]:
    """The parts between signs that stand in no brackets and no quoted name."""
    depth, start, is_quoted = 0, 0, False
    for i, each in enumerate(text):
        if each == "`":
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (each in _OPEN) - (each in _CLOSED)
            if each == sign and depth == 0:
                yield text[start:i]
                start = i + 1
    if text.strip():
        yield text[start:]
