"""Keep the views of a pipeline's mill in line with what the program declares.

takes  the views in the order of their declaration, which is a dependency order
does   creates new views, recreates changed ones, drops those that are gone
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from viewmill.algebra.names import quoted
from viewmill.errors import InvalidArgument
from viewmill.mill.catalog import Entry, PlainEntry, ViewEntry
from viewmill.mill.mill import Mill
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView, CreateView, Query


def define_view(mill: Mill, name: str, sql: str, clauses: str = "") -> None:
    """Create or recreate a view, unless it exists with this definition."""
    statement = statement_of(name, sql, clauses)
    before = mill.definition(name)
    if before == statement:
        return
    if before is not None:
        drop_view(mill, name)
    mill.sql(statement)


def statement_of(name: str, sql: str, clauses: str = "") -> str:
    """The CREATE statement of a view that is given as one, or as a query."""
    sql = sql.strip().removesuffix(";")
    (parsed,) = parse(sql)
    if isinstance(parsed, CreateMaterializedView | CreateView):
        if parsed.name.lower() != name.lower():
            raise InvalidArgument(f'view "{name}" is called "{parsed.name}" in its SQL')
        return sql
    if not isinstance(parsed, Query):
        raise InvalidArgument(
            f'view "{name}" needs a SELECT or a CREATE MATERIALIZED VIEW', hint=f"Got: {sql[:60]}"
        )
    return f"CREATE MATERIALIZED VIEW {quoted(name)} {clauses + ' ' if clauses else ''}AS {sql}"


def drop_others(mill: Mill, declared: Iterable[str]) -> None:
    """Drop the views that are no longer declared."""
    wanted = {name.lower() for name in declared}
    for name in mill.views():
        if name.lower() not in wanted and name in mill:
            drop_view(mill, name)


def names_below(mill: Mill, view: str) -> set[str]:
    """Every name that a view reads, directly or through other views, in lower case."""
    found: set[str] = set()
    todo = [view.lower()]
    while todo:
        entry = mill.core.catalog.get(todo.pop())
        more = set(_names(entry)) - found
        found |= more
        todo += more
    return found


def definition_number(mill: Mill, view: str) -> int:
    """A hash of the definitions of a view and of everything that it reads."""
    names = sorted({view.lower()} | names_below(mill, view))
    texts = [f"{name} {mill.definition(name)}" for name in names]
    digest = blake2b("\0".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _names(entry: Entry | None) -> frozenset[str]:
    match entry:
        case ViewEntry():
            return entry.names
        case PlainEntry():
            return entry.reads
        case _:
            return frozenset()


def drop_view(mill: Mill, name: str) -> None:
    """Drop a view, if it is there, and its readers; who declares them creates them again."""
    if name not in mill:
        return
    for reader in mill.core.catalog.readers(name):
        drop_view(mill, reader.name)
    kind = "VIEW" if isinstance(mill.core.catalog.get(name), PlainEntry) else "MATERIALIZED VIEW"
    mill.sql(f"DROP {kind} IF EXISTS {quoted(name)}")
