"""What clients of Postgres write, cut into statements.

takes  text, with Postgres' quotes: "a name", 'a string', $1
gives  tokens per statement; a query as a tree of ours, whose parameters are reserved names
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.errors import Span
from viewmill.serve.failures import Refused
from viewmill.sql.cursor import Cursor
from viewmill.sql.dialect import Viewmill, tokenize

MAX_PARAMETERS = 1_000
_RESERVED = "parameter $"
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "(")
_WORDS = (
    "INT2", "INT4", "INT8", "FLOAT4", "FLOAT8", "BOOL", "BYTEA", "TIMESTAMPTZ", "VARCHAR",
)  # fmt: skip


class ClientDialect(Viewmill):
    """Our SQL with Postgres' quotes and names of types."""

    class Tokenizer(Viewmill.Tokenizer):
        """Reads a name in double quotes, a string without backslashes, and E'...'."""

        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        RAW_STRINGS: ClassVar[list[Any]] = []
        BYTE_STRINGS: ClassVar[list[Any]] = [("e'", "'"), ("E'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Viewmill.Tokenizer.KEYWORDS,
            **{word: Postgres.Tokenizer.KEYWORDS[word] for word in _WORDS},
        }


@dataclass(frozen=True)
class ClientStatement:
    """One statement: its words, and the text it came from."""

    tokens: tuple[Token, ...]
    sql: str

    @property
    def word(self) -> str:
        """The word that it starts with, in upper case."""
        return Cursor(self.tokens, self.sql).word()

    @property
    def text(self) -> str:
        """Its own text."""
        return self.sql[self.tokens[0].start : self.tokens[-1].end + 1]

    @property
    def is_query(self) -> bool:
        """Whether it is a SELECT."""
        return self.word in _QUERIES

    def cursor(self) -> Cursor:
        """A place at its start."""
        return Cursor(self.tokens, self.sql)

    def words(self) -> Iterator[str]:
        """Its words and names in lower case, strings left out."""
        skipped = (TokenType.STRING, TokenType.NUMBER)
        return (each.text.lower() for each in self.tokens if each.token_type not in skipped)


def split(sql: str) -> list[ClientStatement]:
    """The statements of a text, empty ones left out."""
    found: list[ClientStatement] = []
    tokens: list[Token] = []
    for token in tokenize(sql, ClientDialect):
        if token.token_type != TokenType.SEMICOLON:
            tokens.append(_string(token))
        elif tokens:
            found.append(ClientStatement(tuple(tokens), sql))
            tokens = []
    if tokens:
        found.append(ClientStatement(tuple(tokens), sql))
    return found


def _string(token: Token) -> Token:
    if token.token_type == TokenType.BYTE_STRING:
        token.token_type = TokenType.STRING
    return token


@dataclass(frozen=True)
class ClientQuery:
    """A SELECT with places for parameters."""

    tree: exp.Query | exp.Values
    sql: str
    parameters: int  # how many, the highest number


def parse_query(statement: ClientStatement) -> ClientQuery:
    """The tree of a SELECT by our own parser."""
    tokens, highest = _with_names(statement)
    tree, _ = Cursor(tokens, statement.sql).query()
    return ClientQuery(tree, statement.sql, highest)


def _with_names(statement: ClientStatement) -> tuple[list[Token], int]:
    """The tokens with one reserved name in place of `$` and a number."""
    found: list[Token] = []
    highest = 0
    for token in statement.tokens:
        before = found[-1] if found else None
        if (
            before is not None
            and before.token_type == TokenType.PARAMETER
            and before.text == "$"
            and token.token_type == TokenType.NUMBER
            and before.end + 1 == token.start
        ):
            number = _number(token, statement.sql)
            highest = max(highest, number)
            found[-1] = Token(TokenType.IDENTIFIER, f"{_RESERVED}{number}", before.line,
                              before.col, before.start, token.end, [])  # fmt: skip
        else:
            found.append(token)
    return found, highest


def _number(token: Token, sql: str) -> int:
    if token.text.isdecimal() and len(token.text) < 6 and 1 <= int(token.text) <= MAX_PARAMETERS:
        return int(token.text)
    raise Refused(
        "42P02", f"there is no parameter ${token.text}", span=Span(sql, token.start, token.end)
    )


def parameter_number(node: exp.Expr) -> int | None:
    """Which parameter a node of a tree stands for."""
    if isinstance(node, exp.Column) and node.name.startswith(_RESERVED):
        return int(node.name.removeprefix(_RESERVED))
    if isinstance(node, exp.Parameter) and node.name.isdecimal():
        return int(node.name)
    return None
