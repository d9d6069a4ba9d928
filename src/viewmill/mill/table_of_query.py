"""CREATE TABLE ... AS SELECT: a table with the columns of a query, filled with its rows.

takes  the statement, the mill
does   runs the query once, declares the table by the query's columns, inserts the rows; what is
       kept of the statement is the table that it declares
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewmill.algebra.names import quoted
from viewmill.algebra.relations import Relation
from viewmill.deltas.arrow import encode_columns
from viewmill.errors import TypeMismatch, ViewmillError
from viewmill.mill.core import Core
from viewmill.mill.create import create_table, describe, drop
from viewmill.mill.reading import utc_now
from viewmill.rewrite.rules import rewrite
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateTable, CreateTableAs

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill


def create_table_as(mill: Mill, core: Core, statement: CreateTableAs, sql: str) -> None:
    """Create the table and fill it; an error leaves no table."""
    mill.require_no_batch()
    with mill.changing(), core.write_lock:
        if statement.if_not_exists and core.catalog.get(statement.name):
            return
        core.catalog.require_free(statement.name)
        query = lower(statement.query, sql, core.catalog, describe(core), utc_now(core))
        text = _declaration(statement, query)
        rows = core.run(rewrite(query))
        (declared,) = parse(text)
        assert isinstance(declared, CreateTable)
        create_table(core, declared, text)
        schema = core.catalog.table(declared.name).table.schema
        try:
            mill.change(declared.name, encode_columns(schema, rows, core.dictionary))
        except BaseException:
            drop(core, declared.name)
            raise


def _declaration(statement: CreateTableAs, query: Relation) -> str:
    """CREATE TABLE with the columns of the query; every one may be NULL, as in Spark."""
    columns = ", ".join(f"{quoted(each.name)} {each.type}" for each in query.schema)
    text = f"CREATE TABLE {quoted(statement.name)} ({columns})"
    try:
        parse(text)
    except ViewmillError as why:
        hint = "Cast it to the type that the table should have."
        span = statement.span
        raise TypeMismatch(
            f"no table has these columns: {why.message}", hint=hint, span=span
        ) from why
    return text
