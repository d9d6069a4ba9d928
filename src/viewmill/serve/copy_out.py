"""COPY ... TO STDOUT: what is asked, and rows as its three formats write them.

takes  the tokens of a COPY statement; Arrow tables
gives  the statement inside and a format; rows as bytes, one message each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.mill.change_stream import MULTIPLICITY
from viewmill.serve.client_sql import ClientStatement
from viewmill.serve.failures import Refused
from viewmill.serve.values import cells, encoder, field_of
from viewmill.sql.cursor import Cursor

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROWS_AT_ONCE = 2_000
_ESCAPES = bytes.maketrans(b"\b\f\n\r\t\v", b"bfnrtv")
_TRUE = ("TRUE", "ON", "1")


@dataclass(frozen=True)
class CopyFormat:
    """How rows are written."""

    kind: str = "text"  # text, csv or binary
    delimiter: bytes = b"\t"
    null: bytes = rb"\N"
    header: bool = False

    @property
    def is_binary(self) -> bool:
        """Whether values are binary."""
        return self.kind == "binary"

    def start(self, schema: Any) -> bytes:
        """What comes before the rows, in one message with the first."""
        if self.is_binary:
            return _SIGNATURE
        if not self.header:
            return b""
        return self.delimiter.join(self._written(each.name.encode()) for each in schema) + b"\n"

    def whole(self, table: Any) -> Iterator[bytes]:
        """All messages for a table."""
        before = self.start(table.schema)
        end = [b"\xff\xff"] if self.is_binary else []
        for body in chain(self.rows(table), end):
            yield before + body
            before = b""
        if before:
            yield before

    def rows(self, table: Any) -> Iterator[bytes]:
        """Each row."""
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            piece = table.slice(start, _ROWS_AT_ONCE)
            yield from self._binary(piece) if self.is_binary else self._text(piece)

    def _binary(self, table: Any) -> Iterator[bytes]:
        head = len(table.columns).to_bytes(2)
        columns = [cells(each, encode) for each, encode in _encoded(table, 1)]
        if not columns:
            return iter([head] * table.num_rows)
        return (head + b"".join(row) for row in zip(*columns, strict=True))

    def _text(self, table: Any) -> Iterator[bytes]:
        columns = [
            [
                self.null if each is None else self._written(encode(each))
                for each in column.to_pylist()
            ]
            for column, encode in _encoded(table, 0)
        ]
        if not columns:
            return iter([b"\n"] * table.num_rows)
        return (self.delimiter.join(row) + b"\n" for row in zip(*columns, strict=True))

    def _written(self, value: bytes) -> bytes:
        return self._quoted(value) if self.kind == "csv" else self._escaped(value)

    def _quoted(self, value: bytes) -> bytes:
        special = any(each in value for each in (self.delimiter, b'"', b"\n", b"\r"))
        if special or value == self.null or value == rb"\.":
            return b'"' + value.replace(b'"', b'""') + b'"'
        return value

    def _escaped(self, value: bytes) -> bytes:
        if b"\\" in value:
            value = value.replace(b"\\", rb"\\")
        for each in (*b"\b\f\n\r\t\v",):
            if each in value:
                value = value.replace(bytes([each]), b"\\" + bytes([each]).translate(_ESCAPES))
        if self.delimiter in value:
            value = value.replace(self.delimiter, b"\\" + self.delimiter)
        return value


def _encoded(table: Any, form: int) -> list[tuple[Any, Callable[[Any], bytes]]]:
    return [
        (column, encoder(field_of(each.name, each.type).oid, form))
        for column, each in zip(table.columns, table.schema, strict=True)
    ]


@dataclass(frozen=True)
class CopyStatement:
    """What is copied: a query, or the change stream of a table or view."""

    inner: ClientStatement
    format: CopyFormat


def parse_copy(statement: ClientStatement) -> CopyStatement:
    """COPY (query) TO STDOUT, COPY name TO STDOUT, with options in parentheses or bare."""
    cursor = statement.cursor()
    cursor.expect("COPY")
    inner = _inner(cursor, statement)
    if not (cursor.accept("TO", "STDOUT")):
        raise Refused(
            "42601", "only COPY ... TO STDOUT is possible: no file can be read or written",
            hint="Write COPY (SELECT ...) TO STDOUT.", span=statement.cursor().span(),
        )  # fmt: skip
    found = read_format(cursor)
    cursor.finish()
    return CopyStatement(inner, found)


def _inner(cursor: Cursor, statement: ClientStatement) -> ClientStatement:
    if cursor.at("("):
        start = cursor.index + 1
        end = _closing(cursor)
        cursor.index = end + 1
        return ClientStatement(tuple(cursor.tokens[start:end]), statement.sql)
    return ClientStatement(tuple(_select(cursor)), statement.sql)


def _closing(cursor: Cursor) -> int:
    depth = 0
    for i in range(cursor.index, len(cursor.tokens)):
        kind = cursor.tokens[i].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if not depth:
            return i
    raise cursor.failure("a parenthesis is not closed")


def _select(cursor: Cursor) -> Sequence[Token]:
    """The tokens of SELECT columns FROM name."""
    named = cursor.tokens[cursor.index]
    cursor.name("a table or view")
    columns = [_made(TokenType.STAR, "*", named)]
    if cursor.at("("):
        end = _closing(cursor)
        columns = list(cursor.tokens[cursor.index + 1 : end])
        cursor.index = end + 1
    return [_made(TokenType.SELECT, "SELECT", named), *columns,
            _made(TokenType.FROM, "FROM", named), named]  # fmt: skip


def _made(kind: TokenType, text: str, near: Token) -> Token:
    return Token(kind, text, near.line, near.col, near.start, near.end, [])


def read_format(cursor: Cursor) -> CopyFormat:
    """The options of COPY."""
    cursor.accept("WITH")
    bracketed = cursor.accept("(")
    found: dict[str, str] = {}
    while not cursor.is_done and not cursor.at(")"):
        _read_option(cursor, found)
        if bracketed and not cursor.accept(","):
            break
    if bracketed:
        cursor.expect(")")
    return _format(found)


def _read_option(cursor: Cursor, found: dict[str, str]) -> None:
    option = cursor.choose(("FORMAT", "CSV", "BINARY", "HEADER", "DELIMITER", "NULL"), "option")
    if option in ("CSV", "BINARY"):
        found["FORMAT"] = option
        return
    cursor.accept("AS")
    given = cursor.string()
    if given is None and not cursor.is_done and not cursor.at(",") and not cursor.at(")"):
        given = cursor.tokens[cursor.index].text
        cursor.index += 1
    if given is None and option != "HEADER":
        raise cursor.failure(f"{option} needs a value")
    found[option] = "TRUE" if given is None else given


def _format(found: dict[str, str]) -> CopyFormat:
    kind = found.get("FORMAT", "text").lower()
    if kind not in ("text", "csv", "binary"):
        raise Refused("22023", f'COPY does not know the format "{kind}"')
    delimiter = found.get("DELIMITER", "," if kind == "csv" else "\t").encode()
    if len(delimiter) != 1 or delimiter in b'\\\r\n"' or delimiter.isalnum():
        raise Refused("22023", "the delimiter of COPY is one character, no letter and no digit")
    null = found.get("NULL", "" if kind == "csv" else r"\N").encode()
    made = CopyFormat(kind, delimiter, null)
    return replace(made, header=found.get("HEADER", "").upper() in _TRUE)


def parse_subscribe(statement: ClientStatement) -> tuple[str, bool]:
    """SUBSCRIBE [TO] name [WITH (SNAPSHOT [=] false)]: a name, and whether its rows come first."""
    cursor = statement.cursor()
    cursor.expect("SUBSCRIBE")
    if cursor.at("TO") and len(cursor.tokens) > cursor.index + 1:
        cursor.accept("TO")
    name = cursor.name("a table or view")
    with_rows = True
    if cursor.accept("WITH", "("):
        cursor.expect("SNAPSHOT")
        cursor.accept("=")
        with_rows = cursor.at(")") or cursor.choose(("TRUE", "FALSE"), "choice") == "TRUE"
        cursor.expect(")")
    cursor.finish()
    return name, with_rows


def with_version(version: int, change: Any) -> Any:
    """A change as a client gets it: version and multiplicity in front of the columns."""
    count, rows = change.column(MULTIPLICITY), change.drop_columns([MULTIPLICITY])
    versions = pa.repeat(pa.scalar(version, pa.int64()), change.num_rows)
    return rows.add_column(0, "multiplicity", count).add_column(0, "version", versions)
