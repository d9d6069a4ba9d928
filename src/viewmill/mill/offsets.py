"""How far the sources were taken: a table of the mill, so that offsets are committed with rows.

takes  a table, its source, a step of the source
does   notes which table follows which source, commits steps, forgets them

From the first note on only the source changes the table (`Catalog.require_unfollowed`): rows that
someone else inserted or deleted would be doubled or lost when the source is taken further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from viewmill.algebra.names import check_name, quoted
from viewmill.algebra.types import Decimal, Float, Integer, Null, Type, Wide
from viewmill.deltas.arrow import from_arrow_type
from viewmill.deltas.product import Changed
from viewmill.deltas.rows import to_delta
from viewmill.errors import InvalidArgument, InvalidRow, TypeMismatch
from viewmill.mill.catalog import TableEntry
from viewmill.mill.core import Core
from viewmill.mill.import_table import create_statement
from viewmill.mill.step_changes import change_of
from viewmill.sources.source import Source, Step, Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from viewmill.mill.mill import Mill

OFFSETS = "_viewmill_offsets"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {OFFSETS} (name STRING NOT NULL, source STRING NOT NULL, "
    "part STRING NOT NULL, reached STRING NOT NULL, PRIMARY KEY (name, source, part))"
)
NUMBERS = (Integer, Float, Decimal, Wide)
_FOLLOWS = ""  # the part of the row that says which source a table follows


def read_followed(mill: Mill) -> dict[str, str]:
    """The titles of the sources that tables follow, by the tables' names in lower case."""
    if OFFSETS not in mill:
        return {}
    found = mill.sql(f"SELECT name, source FROM {OFFSETS} WHERE part = '{_FOLLOWS}'").rows()
    return {name.lower(): source for name, source in found} | {OFFSETS: "all sources"}


def read_offsets(mill: Mill, name: str) -> dict[str, str]:
    """The offsets that the mill has committed for a table."""
    found = mill.sql(f"SELECT name, part, reached FROM {OFFSETS}").rows()
    return {part: reached for whose, part, reached in found if whose == name and part != _FOLLOWS}


def prepare(mill: Mill, name: str, source: Source, key: tuple[str, ...], options: str) -> str:
    """Have the table follow the source, and create it if there is none; gives the table's name."""
    catalog = mill.core.catalog
    if name in mill:
        _check_table(mill.core, catalog.table(name), source)
        _note(mill, catalog.table(name).name, source)
        return catalog.table(name).name
    check_name(name, "a table")
    mill.sql(_statement(name, source, key, options))
    try:
        _note(mill, name, source)
    except BaseException:
        mill.sql(f"DROP TABLE {quoted(name)}")
        raise
    return name


def _statement(name: str, source: Source, key: tuple[str, ...], options: str) -> str:
    schema = source.schema()
    if schema is None:
        raise InvalidArgument(
            f"what columns {source.title} have is not known",
            hint=f"CREATE TABLE {quoted(name)} (...) first.",
        )
    key = key or (source.key if isinstance(source, Stream) else ())
    return create_statement(name, schema.empty_table(), key, options)


def _check_table(core: Core, entry: TableEntry, source: Source) -> None:
    """Refuse a table that holds something else, or whose columns do not fit."""
    follows = core.catalog.followed.get(entry.name.lower())
    if follows is not None and follows != source.title:
        raise InvalidArgument(
            f'table "{entry.name}" follows {follows}',
            hint=f'mill.unfollow("{entry.name}") first, or follow into another table.',
        )
    if follows is None and entry.table.rows:
        raise InvalidArgument(
            f'table "{entry.name}" has rows that did not come from {source.title}',
            hint=f"Follow into another table, or empty it first: DELETE FROM {quoted(entry.name)}.",
        )
    schema = source.schema()
    if schema is not None:
        if not source.has_more_columns:
            to_delta(schema.empty_table(), entry.table.schema, core.dictionary)
        _check_columns(entry, schema, source.title)


def _check_columns(entry: TableEntry, schema: pa.Schema, title: str) -> None:
    known = {each.name.lower(): from_arrow_type(each.type) for each in schema}
    for field in entry.table.schema:
        found = known.get(field.name.lower(), field.type)
        if not _is_alike(found, field.type):
            raise TypeMismatch(
                f'column "{field.name}" of table "{entry.name}" is {field.type}, not {found}',
                detail=f"{found} is what {title} have.",
                hint="Follow into another table, or create this one with that type.",
            )
        if not field.nullable and field.name.lower() not in known:
            raise InvalidRow(
                f'column "{field.name}" of table "{entry.name}" is NOT NULL, and {title} lack it',
                hint=f"Columns: {', '.join(schema.names)}.",
            )


def _is_alike(found: Type, wanted: Type) -> bool:
    """Whether values of a type may fit a column of another."""
    both = isinstance(found, NUMBERS) and isinstance(wanted, NUMBERS)
    return both or isinstance(found, Null) or type(found) is type(wanted)


def _note(mill: Mill, name: str, source: Source) -> None:
    mill.sql(_CREATE)
    mill.commit_changes(lambda: _noted(mill.core, name, source.title, {_FOLLOWS: _FOLLOWS}))
    mill.core.catalog.followed |= {name.lower(): source.title, OFFSETS: "all sources"}


def commit_step(
    mill: Mill, name: str, source: Source, step: Step, is_wanted: Callable[[], bool]
) -> None:
    """Commit the rows and the offsets of a step as one version, if they are wanted by then."""

    def changes() -> dict[str, Changed]:
        if not is_wanted():
            return {}
        noted = _noted(mill.core, name, source.title, step.offsets)
        return change_of(mill.core, name, step) | noted

    mill.commit_changes(changes)


def _noted(core: Core, name: str, title: str, offsets: Mapping[str, str]) -> dict[str, Changed]:
    table = core.catalog.table(OFFSETS).table
    rows = [(name, title, part, reached) for part, reached in offsets.items()]
    return {OFFSETS: table.replacement(to_delta(rows, table.schema, core.dictionary), None)}


def forget(mill: Mill, name: str) -> None:
    """Forget which source a table follows, and how far it was taken."""
    core, lower = mill.core, name.lower()
    table = core.catalog.table(OFFSETS).table
    found = mill.sql(f"SELECT name, source, part, reached FROM {OFFSETS}").rows()
    rows = [row for row in found if row[0].lower() == lower]
    mill.commit_changes(lambda: {OFFSETS: to_delta(rows, table.schema, core.dictionary).negated()})
    core.catalog.followed.pop(lower, None)
