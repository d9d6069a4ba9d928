"""Read the type of a column.

takes  a Cursor at the type
gives  algebra.types.Type
next   sql.parse_table
"""

from __future__ import annotations

from viewmill.algebra.names import quoted, type_spelling
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Integer,
    Nested,
    String,
    Type,
)
from viewmill.errors import MalformedSQL, Span, TypeMismatch
from viewmill.sql.cursor import Cursor
from viewmill.sql.spans import alternatives

TYPES: dict[str, Type] = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": Integer(8),
    "BYTE": Integer(8),
    "SMALLINT": Integer(16),
    "SHORT": Integer(16),
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "FLOAT": FLOAT,
    "REAL": FLOAT,
    "DOUBLE": DOUBLE,
    "DECIMAL": Decimal(10, 0),
    "DEC": Decimal(10, 0),
    "NUMERIC": Decimal(10, 0),
    "STRING": STRING,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
    "CHARACTER": STRING,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "BINARY": Nested("BINARY"),
    "VARIANT": Nested("VARIANT"),
}

# What a hint names: each type once, under its usual name.
SHOWN = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(p,s)", "STRING",
    "DATE", "TIMESTAMP", "BINARY", "VARIANT", "ARRAY<type>", "MAP<type, type>",
    "STRUCT<name: type, ...>",
)  # fmt: skip

MAX_PRECISION = 38
_MAX_DEPTH = 50


def parse_type(cursor: Cursor, column: str, depth: int = 0) -> Type:
    """The type of `column`, with its parameters; `depth` is how many types are around it."""
    start = cursor.index
    word = cursor.word()
    if word in _NESTED:
        cursor.index += 1
        if depth == _MAX_DEPTH:
            raise cursor.failure(f"types are nested at most {_MAX_DEPTH} deep")
        return Nested(f"{word}<{_NESTED[word](cursor, column, depth + 1)}>")
    if word in ("", ",", ")", "NOT", "NULL", "PRIMARY KEY"):
        hint = f"Types: {', '.join(SHOWN)}."
        raise cursor.failure(f'the column "{column}" has no type', hint=hint)
    type_ = TYPES.get(word)
    if type_ is None:
        hint = alternatives(word, SHOWN).replace("Possible here", "Types")
        raise TypeMismatch(f"no column can be of type {word}", hint=hint, span=cursor.span())
    cursor.index += 1
    parameters = _parameters(cursor)
    return _with_parameters(type_, word, parameters, cursor.span_from(start))


def _array(cursor: Cursor, column: str, depth: int) -> str:
    cursor.expect("<", hint="Write ARRAY<INT>.")
    element = parse_type(cursor, column, depth)
    cursor.expect(">", hint="Write ARRAY<INT>.")
    return str(element)


def _map(cursor: Cursor, column: str, depth: int) -> str:
    hint = "Write MAP<STRING, INT>."
    cursor.expect("<", hint=hint)
    start = cursor.index
    key = parse_type(cursor, column, depth)
    if "MAP<" in type_spelling(str(key)):
        raise TypeMismatch("the key of a map holds no map", span=cursor.span_from(start))
    cursor.expect(",", hint=hint)
    value = parse_type(cursor, column, depth)
    cursor.expect(">", hint=hint)
    return f"{key}, {value}"


def _struct(cursor: Cursor, column: str, depth: int) -> str:
    hint = "Write STRUCT<name: STRING, size: INT>."
    cursor.expect("<", hint=hint)
    fields: dict[str, str] = {}
    while True:
        start = cursor.index
        name = cursor.name("a field")
        if name.lower() in fields:
            raise TypeMismatch(
                f'the struct has the field "{name}" twice', span=cursor.span_from(start)
            )
        cursor.accept(":")
        fields[name.lower()] = f"{quoted(name)}: {parse_type(cursor, column, depth)}"
        if cursor.at("NOT", "NULL"):
            raise cursor.failure("fields of a struct may be NULL", hint="Leave out NOT NULL.")
        if cursor.accept("COMMENT"):
            cursor.string()
        if not cursor.accept(","):
            cursor.expect(">", hint=hint)
            return ", ".join(fields.values())


_NESTED = {"ARRAY": _array, "MAP": _map, "STRUCT": _struct}


def _parameters(cursor: Cursor) -> list[int]:
    """(10, 2), or nothing."""
    parameters: list[int] = []
    if not cursor.accept("("):
        return parameters
    while True:
        text = cursor.word()
        if not text.isdecimal():
            raise cursor.failure("expected a whole number")
        cursor.index += 1
        parameters.append(int(text))
        if not cursor.accept(","):
            cursor.expect(")")
            return parameters


def _with_parameters(type_: Type, word: str, parameters: list[int], span: Span) -> Type:
    if not parameters:
        return type_
    if isinstance(type_, Decimal) and len(parameters) <= 2:
        return _decimal(*parameters, span=span)
    if isinstance(type_, String) and len(parameters) == 1 and word not in ("STRING", "TEXT"):
        return type_
    raise MalformedSQL(f"{word} does not take these parameters", span=span)


def _decimal(precision: int, scale: int = 0, *, span: Span) -> Decimal:
    if not 1 <= precision <= MAX_PRECISION:
        raise TypeMismatch(
            f"a DECIMAL has 1 to {MAX_PRECISION} digits, not {precision}",
            hint="Use DOUBLE for numbers of any size.",
            span=span,
        )
    if scale > precision:
        raise TypeMismatch(
            f"DECIMAL({precision},{scale}) has more digits after the point than digits",
            hint="DECIMAL(p,s) needs s of at most p.",
            span=span,
        )
    return Decimal(precision, scale)
