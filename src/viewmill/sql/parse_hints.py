"""Read the hints of a query: /*+ VARIABLE_ORDER(A(B, C(D, E))) */, /*+ NO_INDICATORS */,
/*+ TECHNIQUE(daba) */, /*+ LATENCY(worst) */.

takes  the tokens of a query
gives  `Hints`
next   planner

Spark ignores hints that it does not know, and so do we: BROADCAST(t) and its like pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from viewmill.algebra.hints import HintedVariable, Hints
from viewmill.errors import MalformedSQL, Span
from viewmill.sql.dialect import tokenize

_EXAMPLE = "Write VARIABLE_ORDER(A(B, C(D, E))): a variable, in parentheses what lies below it."

_TECHNIQUE = "Write TECHNIQUE(flatfat), or another technique's name."

_LATENCY = "Write LATENCY(worst): the slowest answer counts; or LATENCY(usual)."


def read_hints(tokens: Sequence[Token], sql: str) -> Hints:
    """The hints that stand anywhere in a query."""
    found = Hints()
    for token in tokens:
        if token.token_type == TokenType.HINT:
            found = _Reader(token, sql).read(found)
    return found


class _Reader:
    """Reads the inside of one hint; its tokens know their places in `sql`."""

    def __init__(self, hint: Token, sql: str) -> None:
        self.sql = sql
        self.first = sql.index("/*+", hint.start) + 3
        inside = sql[self.first : sql.index("*/", self.first)]
        self.end = self.first + len(inside)
        self.tokens = tokenize(inside)
        self.at = 0

    def read(self, before: Hints) -> Hints:
        """What this hint adds to those before it."""
        hints = before
        while self.at < len(self.tokens):
            start = self._span()
            word = self._word()
            self.at += 1
            if word == "VARIABLE_ORDER":
                if hints.order:
                    raise MalformedSQL("VARIABLE_ORDER is given twice", span=start)
                order = self._list()
                span = Span(self.sql, start.start, self._last())
                hints = replace(hints, order=order, span=span)
            elif word == "NO_INDICATORS":
                hints = replace(hints, indicators=False)
            elif word == "DENSE":
                hints = replace(hints, dense=True)
            elif word == "TECHNIQUE":
                span, name = self._name_inside(_TECHNIQUE)
                hints = replace(hints, technique=name, technique_span=span)
            elif word == "LATENCY":
                hints = replace(hints, worst=self._latency())
        return hints

    def _latency(self) -> bool:
        """Whether the worst case counts."""
        span, name = self._name_inside(_LATENCY)
        if name not in ("worst", "usual"):
            raise MalformedSQL(f"there is no latency {name!r}", hint=_LATENCY, span=span)
        return name == "worst"

    def _name_inside(self, example: str) -> tuple[Span, str]:
        """A name in parentheses, in small letters, and where it stands."""
        if self._word() != "(":
            raise MalformedSQL('expected "("', hint=example, span=self._span())
        self.at += 1
        span, name = self._span(), self._word().lower()
        self.at += 1
        if not name or self._word() != ")":
            raise MalformedSQL('expected ")"', hint=example, span=self._span())
        self.at += 1
        return span, name

    def _list(self) -> tuple[HintedVariable, ...]:
        """Variables in parentheses."""
        self._expect("(")
        found = [self._variable()]
        while self._word() == ",":
            self.at += 1
            found.append(self._variable())
        self._expect(")")
        return tuple(found)

    def _variable(self) -> HintedVariable:
        start = self._span()
        table, name = None, self._name()
        if self._word() == ".":
            self.at += 1
            table, name = name, self._name()
        span = Span(self.sql, start.start, self._last())
        children = self._list() if self._word() == "(" else ()
        return HintedVariable(name, table, children, span)

    def _name(self) -> str:
        if self.at >= len(self.tokens) or not self._is_name(self.tokens[self.at]):
            raise MalformedSQL("expected a variable", hint=_EXAMPLE, span=self._span())
        self.at += 1
        return self.tokens[self.at - 1].text

    def _is_name(self, token: Token) -> bool:
        return token.token_type == TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()

    def _expect(self, sign: str) -> None:
        if self._word() != sign:
            raise MalformedSQL(f'expected "{sign}"', hint=_EXAMPLE, span=self._span())
        self.at += 1

    def _word(self) -> str:
        return self.tokens[self.at].text.upper() if self.at < len(self.tokens) else ""

    def _span(self) -> Span:
        """The token here, or the end of the hint."""
        if self.at >= len(self.tokens):
            return Span(self.sql, self.end, self.end + 1)
        token = self.tokens[self.at]
        return Span(self.sql, self.first + token.start, self.first + token.end)

    def _last(self) -> int:
        return self.first + self.tokens[self.at - 1].end
