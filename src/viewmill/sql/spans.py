"""Where in the SQL text a thing came from, and sqlglot's errors said our way.

takes  sqlglot nodes, tokens and errors
gives  Span, MalformedSQL
next   every error that underlines SQL
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token

from viewmill.errors import MalformedSQL, Span

# Words whose misspelling sqlglot takes for an alias, so that it stumbles only one token later.
KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET",
    "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "ON", "USING", "UNION", "INTERSECT",
    "EXCEPT", "VALUES", "WITH", "CASE", "WHEN", "THEN", "ELSE", "END", "BETWEEN", "EXISTS",
)  # fmt: skip


def span_of(node: exp.Expr, sql: str) -> Span | None:
    """From the first to the last character of `sql` that anything below `node` came from."""
    metas = [each.meta for each in node.walk() if "start" in each.meta]
    if not metas:
        return None
    return Span(sql, min(meta["start"] for meta in metas), max(meta["end"] for meta in metas))


def span_of_tokens(tokens: Sequence[Token], sql: str) -> Span:
    """From the first to the last of `tokens`, which may not be empty."""
    return Span(sql, tokens[0].start, tokens[-1].end)


def alternatives(word: str, options: Iterable[str]) -> str:
    """A hint for a word that is none of `options`.

    >>> alternatives("EVRY", ["EVERY", "WITHIN"])
    'Did you mean EVERY? Possible here: EVERY, WITHIN.'
    """
    options = list(options)
    first_words = {option.split()[0]: option for option in reversed(options)}
    close = get_close_matches(word.upper(), first_words, n=1, cutoff=0.6)
    guess = f"Did you mean {first_words[close[0]]}? " if close else ""
    return f"{guess}Possible here: {', '.join(options)}."


def malformed(error: ParseError | TokenError, sql: str, tokens: Sequence[Token]) -> MalformedSQL:
    """`error` as ours, with the place underlined. Our parser notes the offsets in the error."""
    if isinstance(error, TokenError):
        return _unreadable(error, sql)
    first: dict[str, Any] = error.errors[0] if error.errors else {"description": str(error)}
    start, end = first.get("start"), first.get("end")
    if start is None or end is None:
        span = span_of_tokens(tokens, sql) if tokens else None
    else:
        span = Span(sql, start, end)
    detail = _plain(str(first.get("description", "")))
    if first.get("at_end"):
        return MalformedSQL("the statement ends too early", detail=detail, span=span)
    message = f'unexpected "{span.text}"' if span else "not a statement"
    return MalformedSQL(message, detail=detail, hint=_misspelt(start, tokens), span=span)


def _unreadable(error: TokenError, sql: str) -> MalformedSQL:
    start = min(error.start or 0, max(len(sql) - 1, 0))
    opening = {"'": "string", '"': "string", "`": "name", "/": "comment"}.get(
        sql[start : start + 1]
    )
    message = f"a {opening} is not closed" if opening else "this cannot be read as SQL"
    hint = f"It starts here and needs its closing {sql[start]}." if opening else ""
    if opening == "comment":
        hint = "It starts here and needs its closing */."
    return MalformedSQL(message, hint=hint, span=Span(sql, start, max(len(sql) - 1, 0)))


def _plain(description: str) -> str:
    """sqlglot's description without its Python.

    >>> _plain("Required keyword: 'this' missing for <class 'sqlglot.expressions.query.Where'>")
    'WHERE is incomplete.'
    """
    if description.startswith("Required keyword") and "<class" in description:
        name = description.rsplit(".", 1)[-1].rstrip("'>")
        return f"{name.upper()} is incomplete."
    text = description.split(" but got")[0].split(", got")[0].strip()
    return "" if not text or "Unexpected token" in text else f"{text}."


def _misspelt(start: int | None, tokens: Sequence[Token]) -> str:
    """A hint when the token at `start`, or one of the two before it, is nearly a keyword."""
    at = next((i for i, token in enumerate(tokens) if token.start == start), None)
    if at is None:
        return ""
    if tokens[at].text == "[":
        return "A suffix stands between the table and its alias: m[i] t."
    for token in (tokens[i] for i in (at, at - 1, at - 2) if i >= 0):
        word = token.text.upper()
        close = get_close_matches(word, KEYWORDS, n=1, cutoff=0.74)
        if close and close[0] != word and len(word) > 2:
            return f'Did you mean {close[0]} instead of "{token.text}"?'
    return ""
