"""What a project defines: tables and views, in an order in which they can be created.

takes  a `Spec`: the schemas of its sources and the SQL files of its libraries
gives  `Definition`s, each after everything it reads
next   cli.project, which creates them in a mill
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlglot import exp

from viewmill.cli.spec import Spec
from viewmill.errors import CyclicViews, InvalidArgument, NameTaken, Span, ViewmillError
from viewmill.sql.common_tables import is_common_table
from viewmill.sql.parse import parse
from viewmill.sql.statements import (
    CreateMaterializedView,
    CreateTable,
    CreateTemporalView,
    CreateView,
    Statement,
)

Kind = Literal["TABLE", "VIEW", "MATERIALIZED VIEW"]


@dataclass(frozen=True)
class Definition:
    """One CREATE statement. `where` is the file it stands in."""

    name: str
    kind: Kind
    sql: str
    where: Path
    reads: frozenset[str] = frozenset()
    span: Span | None = None

    @property
    def key(self) -> str:
        """The name as SQL compares it."""
        return self.name.lower()

    @property
    def placed_sql(self) -> str:
        """The statement after as many lines as in its file, so that errors count lines rightly."""
        before = self.span.sql.count("\n", 0, self.span.start) if self.span else 0
        return "\n" * before + self.sql

    def error(self, error: ViewmillError) -> ViewmillError:
        """A copy of the error whose message names the file."""
        return named(self.where, error)


def named(file: Path, error: ViewmillError) -> ViewmillError:
    """A copy of the error whose message names the file."""
    kind = type(error)
    return kind(
        f"{file}: {error.message}", detail=error.detail, hint=error.hint, span=error.span
    ).with_traceback(error.__traceback__)


def read_definitions(spec: Spec) -> list[Definition]:
    """Everything the project defines, each after what it reads."""
    found = [*_source_tables(spec)]
    for pattern in spec.libraries:
        files = spec.files(pattern)
        if not files:
            raise InvalidArgument(
                f"{spec.file}: no file matches the library {pattern}",
                hint="Paths are relative to the folder of the spec file.",
            )
        for file in files:
            found += read_library(file)
    return in_order(found)


def _source_tables(spec: Spec) -> Iterable[Definition]:
    for source in spec.sources:
        sql = source.create_statement()
        if sql is not None:
            path = f"sources.{source.name}.schema"
            try:
                statements = parse(sql)
            except ViewmillError as error:
                raise spec.error(
                    path, error.message, detail=error.detail, hint=error.hint
                ) from error
            if len(statements) != 1 or not isinstance(statements[0], CreateTable):
                raise spec.error(path, "this is not a schema", hint='"id BIGINT, name STRING"')
            yield Definition(source.name, "TABLE", sql, spec.file)


def read_library(file: Path) -> list[Definition]:
    """The definitions of one SQL file."""
    text = sql_of(file)
    try:
        return [_define(statement, file) for statement in parse(text)]
    except ViewmillError as error:
        raise named(file, error) from error


def sql_of(file: Path) -> str:
    """The text of a file as it is: a line break within a literal belongs to it."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{file} is not UTF-8 text", detail=str(error)) from error


def _define(statement: Statement, file: Path) -> Definition:
    span = statement.span
    sql = span.text if span else ""
    match statement:
        case CreateTable(name):
            return Definition(name, "TABLE", sql, file, span=span)
        case CreateMaterializedView(name, query):
            return Definition(name, "MATERIALIZED VIEW", sql, file, tables_read(query), span)
        case CreateView(name, query):
            return Definition(name, "VIEW", sql, file, tables_read(query), span)
        case CreateTemporalView(name, initialize, update):
            reads = tables_read(initialize.query) | tables_read(update.query)
            return Definition(name, "VIEW", sql, file, reads - {name.lower()}, span)
        case _:
            raise InvalidArgument(
                "a library holds only CREATE statements",
                detail="It is read at every run, so anything else would be done again and again.",
                span=span,
            )


def tables_read(query: exp.Expr) -> frozenset[str]:
    """The names a query reads, in lower case, without those it defines itself in WITH."""
    tables = (table for table in query.find_all(exp.Table) if not is_common_table(table))
    return frozenset(table.name.lower() for table in tables)


def in_order(definitions: Iterable[Definition]) -> list[Definition]:
    """Each after what it reads; otherwise as they came."""
    waiting: dict[str, Definition] = {}
    for each in definitions:
        if each.key in waiting:
            first = waiting[each.key]
            raise NameTaken(
                f'{each.where}: "{each.name}" is already defined in {first.where}', span=each.span
            )
        waiting[each.key] = each
    ordered: list[Definition] = []
    while waiting:
        ready = [each for each in waiting.values() if not each.reads & waiting.keys()]
        if not ready:
            names = ", ".join(each.name for each in waiting.values())
            raise CyclicViews(f"these views read each other: {names}")
        ordered += ready
        for each in ready:
            del waiting[each.key]
    return ordered


def dependents(names: Iterable[str], definitions: Iterable[Definition]) -> set[str]:
    """The names, and every definition that reads one of them, directly or not."""
    found = set(names)
    for each in definitions:  # in order, so one pass is enough
        if each.reads & found:
            found.add(each.key)
    return found
