"""Names that begin as the word in the SQL editor does.

takes  a mill and the beginning of a word
gives  tables, views, columns and functions, each with the text to insert
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlglot.tokens import Tokenizer

from viewmill.algebra.names import quoted
from viewmill.console.watch import is_shown
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.mill import Mill
from viewmill.sql.aggregates import function_names as aggregates
from viewmill.sql.functions import function_names as scalars

MOST = 20
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = {word for phrase in Tokenizer.KEYWORDS for word in phrase.split()}


def completions(mill: Mill, beginning: str) -> list[dict[str, Any]]:
    """What the word may become, tables and views first."""
    start = beginning.removeprefix("`").lower()
    found: dict[tuple[str, str], None] = {}
    if start:
        with mill.core.lock:
            names = [(name, kind) for name, kind in _names(mill) if name.lower().startswith(start)]
        found = dict.fromkeys(sorted(names, key=lambda each: (_KINDS.index(each[1]), each[0])))
    shown = islice(found, MOST)
    return [{"name": name, "kind": kind, "insert": _written(name, kind)} for name, kind in shown]


_KINDS = ("table", "view", "column", "function")


def _names(mill: Mill) -> Iterator[tuple[str, str]]:
    entries: list[TableEntry | ViewEntry] = [
        *(each for each in mill.core.catalog.tables() if is_shown(each.name)),
        *mill.core.catalog.views(),
    ]
    for each in entries:
        is_table = isinstance(each, TableEntry)
        yield each.name, "table" if is_table else "view"
        fields = each.table.schema if isinstance(each, TableEntry) else each.schema
        yield from ((field.name, "column") for field in fields)
    yield from ((name, "function") for name in {*scalars(), *aggregates()})


def _written(name: str, kind: str) -> str:
    """A name as SQL takes it."""
    if kind == "function":
        return f"{name}("
    is_plain = _PLAIN.fullmatch(name) is not None and name.upper() not in _KEYWORDS
    return name if is_plain else quoted(name)
