"""A pattern over a subquery or a plain view: a materialized view keeps the rows that it matches.

takes  CREATE MATERIALIZED VIEW v AS SELECT ... FROM (SELECT ...) MATCH_RECOGNIZE (...)
gives  the text of a view `v rows` of the subquery, and the text of v over that view
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from viewmill.mill.catalog import PlainEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.sql.dialect import tokenize
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView, CreateView

_ROWS = " rows"


class Rows(NamedTuple):
    """The statement that keeps the rows, and the pattern over them."""

    name: str
    create: str
    pattern: str


def rows_to_keep(core: Core, name: str, text: str) -> Rows | None:
    """What keeps the rows of a pattern; None if it reads a table or a view that is kept."""
    (statement,) = parse(text)
    assert isinstance(statement, CreateMaterializedView | CreateView)
    source = statement.query.args["from_"].this
    if isinstance(source, exp.Subquery) and source.this.meta.get("is_call"):  # TUMBLE(...)
        low, high = source.this.meta["start"], source.this.meta["end"] + 1
        query = f"SELECT * FROM {text[low:high]}"
    elif isinstance(source, exp.Subquery):
        low, high = _borders(source, text)
        query = text[low + 1 : high - 1]
    elif isinstance(source, exp.Table) and isinstance(core.catalog.get(source.name), PlainEntry):
        low, high = source.this.meta["start"], source.this.meta["end"] + 1
        query = f"SELECT * FROM {text[low:high]}"
    else:
        return None
    hidden = _free_name(core, name)
    create = f"CREATE MATERIALIZED VIEW {_quoted(hidden)} AS {query}"
    return Rows(hidden, create, text[:low] + _quoted(hidden) + text[high:])


def kept_rows_of(core: Core, entry: object) -> str | None:
    """The view that was made for a pattern and that nobody else reads."""
    if not isinstance(entry, ViewEntry):
        return None
    for name in entry.reads:
        own = core.catalog.get(name)
        is_own = name.startswith(f"{entry.name.lower()}{_ROWS}")
        if is_own and isinstance(own, ViewEntry) and not list(core.catalog.readers(name)):
            return own.name
    return None


def _free_name(core: Core, name: str) -> str:
    found, count = f"{name}{_ROWS}", 2
    while core.catalog.get(found) is not None:
        found, count = f"{name}{_ROWS} {count}", count + 1
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _borders(source: exp.Subquery, text: str) -> tuple[int, int]:
    """From the parenthesis behind FROM to behind the one that closes it."""
    tokens = tokenize(text)
    first = min(each.meta["start"] for each in source.walk() if "start" in each.meta)
    at = max(
        i for i, token in enumerate(tokens)
        if token.start < first and token.token_type == TokenType.L_PAREN
        and tokens[i - 1].token_type == TokenType.FROM
    )  # fmt: skip
    depth, end = 0, at
    for i in range(at, len(tokens)):
        kind = tokens[i].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            end = i
            break
    return tokens[at].start, tokens[end].end + 1
