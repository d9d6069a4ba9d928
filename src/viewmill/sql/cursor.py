"""A place in the tokens of one statement, from which heads are cut word by word.

takes  the tokens of one statement
gives  words, names, numbers, and queries from the tokens that remain
next   sql.parse_table, sql.parse_view, sql.parse_changes
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.algebra.names import check_name
from viewmill.errors import MalformedSQL, Span
from viewmill.sql.dialect import Viewmill, parse_tokens
from viewmill.sql.spans import alternatives, span_of, span_of_tokens
from viewmill.sql.statements import QueryTree

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER, *Viewmill.Parser.ID_VAR_TOKENS}


class Cursor:
    """Reads tokens from the left. Methods that take what they find move on; `at` only looks."""

    def __init__(self, tokens: Sequence[Token], sql: str) -> None:
        self.tokens, self.sql, self.index = tokens, sql, 0

    @property
    def is_done(self) -> bool:
        """Whether all tokens are taken."""
        return self.index >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """The bare word or sign here, in upper case; "" for quoted names, strings and the end."""
        at = self.index + ahead
        if at >= len(self.tokens):
            return ""
        token = self.tokens[at]
        quoted = token.token_type == TokenType.IDENTIFIER or token.token_type in _STRINGS
        return "" if quoted else token.text.upper()

    def at(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.word(i) == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        found = self.at(*words)
        self.index += len(words) * found
        return found

    def expect(self, *words: str, hint: str = "") -> None:
        """Take these words, or fail at the first that is not there."""
        for word in words:
            if not self.accept(word):
                raise self.failure(f"expected {word}", hint=hint or f"Write {' '.join(words)}.")

    def is_name(self) -> bool:
        """Whether a name can start here."""
        return not self.is_done and self.tokens[self.index].token_type in _NAMES

    def name(self, what: str) -> str:
        """Take a name of one part, back-quotes removed."""
        if not self.is_name():
            raise self.failure(f"expected the name of {what}", hint=self._name_hint())
        token = self.tokens[self.index]
        self.index += 1
        if self.at("."):
            span = Span(self.sql, token.start, self.tokens[self.index].end)
            hint = "There are no schemas: write the last part only."
            raise MalformedSQL(f"the name of {what} has one part", hint=hint, span=span)
        check_name(token.text, what, Span(self.sql, token.start, token.end))
        return token.text

    def integer(self, what: str, least: int = 1) -> int:
        """Take a whole number of at least `least`."""
        is_number = not self.is_done and self.tokens[self.index].token_type == TokenType.NUMBER
        text = self.tokens[self.index].text if is_number else ""
        if not text.isdecimal() or int(text) < least:
            raise self.failure(f"{what} is a whole number of at least {least}")
        self.index += 1
        return int(text)

    def string(self) -> str | None:
        """Take a string if there is one."""
        if self.is_done or self.tokens[self.index].token_type not in _STRINGS:
            return None
        self.index += 1
        return self.tokens[self.index - 1].text

    def choose(self, options: Sequence[str], what: str) -> str:
        """Take one of `options`, each of one or more words, the longest that fits."""
        for option in sorted(options, key=len, reverse=True):
            # sqlglot makes one token of some pairs: PRIMARY KEY.
            if self.accept(option) or self.accept(*option.split()):
                return option
        raise self.unknown(options, what)

    def unknown(self, options: Sequence[str], what: str) -> MalformedSQL:
        """The failure for a word here that is none of `options`."""
        if self.is_done:
            return self.failure(f"expected a {what}", hint=alternatives("", options))
        text = self.span().text
        hint = alternatives(text, options)
        return self.failure(f'"{text}" is no {what}', hint=hint)

    def query(self) -> tuple[QueryTree, str]:
        """Take all remaining tokens as a query: its tree and its exact text."""
        rest = self.tokens[self.index :]
        if not rest:
            raise self.failure("expected a query", hint="Write SELECT ...")
        self.index = len(self.tokens)
        return parse_query(rest, self.sql)

    def finish(self) -> None:
        """Fail if anything is left."""
        if not self.is_done:
            raise self.failure(
                f'unexpected "{self.span().text}"', hint="The statement ends before."
            )

    def span(self) -> Span:
        """The token here, or the last one at the end."""
        token = self.tokens[min(self.index, len(self.tokens) - 1)]
        return Span(self.sql, token.start, token.end)

    def span_from(self, index: int) -> Span:
        """The tokens from `index` to the last one taken."""
        return span_of_tokens(self.tokens[index : max(self.index, index + 1)], self.sql)

    def whole(self) -> Span:
        """The whole statement."""
        return span_of_tokens(self.tokens, self.sql)

    def failure(self, message: str, *, hint: str = "") -> MalformedSQL:
        """An error that underlines the token here."""
        detail = "The statement ends too early." if self.is_done else ""
        return MalformedSQL(message, detail=detail, hint=hint, span=self.span())

    def _name_hint(self) -> str:
        if self.is_done or not self.word().isalpha():
            return ""
        return f"{self.word()} is a word of SQL: write `{self.span().text}` to use it as a name."


def parse_query(tokens: Sequence[Token], sql: str) -> tuple[QueryTree, str]:
    """The tree of a query given as tokens, and the slice of `sql` it came from."""
    tree = parse_tokens(tokens, sql)
    span = span_of_tokens(tokens, sql)
    if not isinstance(tree, exp.Query | exp.Values):
        first = Span(sql, tokens[0].start, tokens[0].end)
        is_table = tokens[0].text.upper() == "TABLE"
        hint = "Write SELECT * FROM ..." if is_table else "Write SELECT ..."
        raise MalformedSQL("expected a query", hint=hint, span=first)
    for select in tree.find_all(exp.Select):
        _check_select(select, sql, span)
    return tree, span.text


def _check_select(select: exp.Select, sql: str, whole: Span) -> None:
    """Refuse what sqlglot lets pass and Spark does not."""
    if not select.expressions:
        span = span_of(select, sql) or whole
        raise MalformedSQL("SELECT names no columns", hint="Write SELECT * for all.", span=span)
    if into := select.args.get("into"):
        hint = "Write INSERT INTO table SELECT ..."
        raise MalformedSQL("SELECT does not take INTO", hint=hint, span=span_of(into, sql))
