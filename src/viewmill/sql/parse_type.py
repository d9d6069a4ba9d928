"""Read the type of a column.

takes  a Cursor at the type
gives  algebra.types.Type
next   sql.parse_table
"""

from __future__ import annotations

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
}

# What a hint names: each type once, under its usual name.
SHOWN = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(p,s)", "STRING",
    "DATE", "TIMESTAMP",
)  # fmt: skip

MAX_PRECISION = 38


def parse_type(cursor: Cursor, column: str) -> Type:
    """The type of `column`, with its parameters."""
    start = cursor.index
    word = cursor.word()
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
