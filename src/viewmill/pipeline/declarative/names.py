"""Names: which dataset a text means, and what it is called in the mill.

takes  names as users write them: `orders`, sales.orders, spark_catalog.sales.orders
gives  keys that are equal for the same dataset, and identifiers for tables and views of the mill
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.algebra.names import quoted

Key = tuple[str, str, str]
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def parts_of(name: str) -> list[str]:
    """The parts of a name as it is written.

    >>> parts_of("`my db`.orders")
    ['my db', 'orders']
    """
    return [(a.replace("``", "`") if a else b).strip() for a, b in _PART.findall(name)]


class Names:
    """Completes names with the project's catalog and database."""

    def __init__(self, catalog: str, database: str) -> None:
        self._catalog, self._database = catalog.lower(), database.lower()
        self._taken: set[str] = set()

    def key(self, name: str) -> Key:
        """The dataset that a name means."""
        parts = [each.lower() for each in parts_of(name)]
        defaults = [self._catalog, self._database]
        catalog, database, own = (*defaults[: max(3 - len(parts), 0)], *parts[-3:])
        return catalog, database, own

    def own(self, name: str) -> str:
        """An identifier for the mill that nothing else has: the last part, if it is free."""
        parts = [re.sub(r"\W", "_", each) for each in parts_of(name)] or ["rows"]
        for count in range(1, len(parts) + 1):
            wanted = "_".join(parts[-count:])
            wanted = wanted if wanted.isidentifier() else f"t_{wanted}"
            if wanted.lower().startswith("_viewmill"):
                wanted = f"t{wanted}"
            if wanted.lower() not in self._taken:
                break
        number, base = 2, wanted
        while wanted.lower() in self._taken:
            wanted, number = f"{base}_{number}", number + 1
        self._taken.add(wanted.lower())
        return wanted


def rewrite(sql: str, called: Callable[[str, bool], str]) -> str | None:
    """The query with each table's name replaced, and STREAM left out; None if it is not readable.

    `called(name, is_stream)` gives the new name. Everything else stays as it is written.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="databricks")
        tokens = sqlglot.tokenize(sql, dialect="databricks")
    except (SqlglotError, RecursionError):
        return None
    words = _stream_words(tokens)
    streams = {place for _, _, place in words}
    edits = [(start, end, "") for first, last, _ in words for start, end in (first, last)]
    for table in tree.find_all(exp.Table):
        parts = table.parts
        if not all(isinstance(each, exp.Identifier) and "start" in each.meta for each in parts):
            continue
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        if not _is_of_with(table):
            written = ".".join(quoted(each.name) for each in parts)
            alias = "" if _has_alias(table) else f" AS {quoted(parts[-1].name)}"
            edits.append((start, end, called(written, start in streams) + alias))
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _has_alias(table: exp.Table) -> bool:
    """Whether the query calls a table by another name; that of STREAM(t) stands behind it."""
    around = table.parent
    return bool(table.alias or (isinstance(around, exp.Subquery) and around.alias))


def _is_of_with(table: exp.Table) -> bool:
    """Whether a name is one of a WITH around it."""
    if table.args.get("db"):
        return False
    node: exp.Expr | None = table
    while node is not None:
        found = node.args.get("with_") or node.args.get("with")
        if found and table.name.lower() in {each.alias.lower() for each in found.expressions}:
            return True
        node = node.parent
    return False


Span = tuple[int, int]


def _stream_words(tokens: list[Token]) -> list[tuple[Span, Span, int]]:
    """Where STREAM stands, its closing parenthesis, and where the name behind it begins."""
    found = []
    for i, token in enumerate(tokens[1:-1], 1):
        before, after = tokens[i - 1], tokens[i + 1]
        opens = before.token_type in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)
        if token.text.upper() != "STREAM" or not opens or _is_quoted(token):
            continue
        if after.token_type == TokenType.L_PAREN:
            close = next((t for t in tokens[i + 2 :] if t.token_type == TokenType.R_PAREN), None)
            if close is not None:
                name = tokens[i + 2].start
                found.append(((token.start, after.end + 1), (close.start, close.end + 1), name))
        elif after.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            found.append(((token.start, token.end + 1), (after.start, after.start), after.start))
    return found


def _is_quoted(token: Token) -> bool:
    """Whether a word is a quoted name."""
    return bool(token.token_type == TokenType.IDENTIFIER)
