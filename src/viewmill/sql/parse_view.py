"""Read CREATE [MATERIALIZED] VIEW, and INITIALIZE/UPDATE views.

takes  a Cursor after CREATE [OR REPLACE] [MATERIALIZED] VIEW
gives  CreateMaterializedView, CreateView or CreateTemporalView
next   mill
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from viewmill.algebra.refresh import Policy
from viewmill.errors import MalformedSQL, Span
from viewmill.sql.cursor import Cursor
from viewmill.sql.parse_clauses import parse_memory, parse_refresh
from viewmill.sql.parse_hints import read_hints
from viewmill.sql.statements import (
    CreateMaterializedView,
    CreateTemporalView,
    CreateView,
    PartQuery,
    QueryTree,
)

Columns = list[tuple[str, Span]]  # names with their places

VIEW_CLAUSES = ("REFRESH", "STRATEGY", "MEMORY", "RESULT", "AS")
RESULTS = ("LISTED", "FACTORIZED")
SECTIONS = ("INITIALIZE", "UPDATE", "PARTITION LENGTH", "DEFINED BY")


def parse_create_materialized_view(
    cursor: Cursor, *, or_replace: bool
) -> CreateMaterializedView | CreateTemporalView:
    """What follows CREATE [OR REPLACE] MATERIALIZED VIEW."""
    name, columns, if_not_exists = _head(cursor, or_replace)
    clauses = _clauses(cursor)
    if cursor.at("INITIALIZE"):
        _refuse_columns(columns)
        return _temporal(cursor, name, clauses, or_replace, if_not_exists)
    hints = read_hints(cursor.tokens[cursor.index :], cursor.sql)
    query, query_sql = cursor.query()
    return CreateMaterializedView(
        name,
        _renamed(query, columns),
        query_sql,
        hints=hints,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        span=cursor.whole(),
        **clauses,
    )


def _temporal(
    cursor: Cursor, name: str, clauses: dict[str, Any], or_replace: bool, if_not_exists: bool
) -> CreateTemporalView:
    """INITIALIZE ... UPDATE ..., which says itself how the view is kept, but not when."""
    whole = cursor.whole()
    others = set(clauses) - {"policies", "strategy"}
    if others or clauses.get("strategy", "temporal_view") != "temporal_view":
        hint = "INITIALIZE and UPDATE say how it is kept; REFRESH may say when."
        raise cursor.failure("a temporal view has REFRESH clauses only", hint=hint)
    return CreateTemporalView(
        name,
        **_sections(cursor, name),
        policies=clauses["policies"],
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        span=whole,
    )


def parse_create_view(cursor: Cursor, *, or_replace: bool) -> CreateView | CreateTemporalView:
    """What follows CREATE [OR REPLACE] VIEW."""
    name, columns, if_not_exists = _head(cursor, or_replace)
    options: dict[str, Any] = {
        "or_replace": or_replace,
        "if_not_exists": if_not_exists,
        "span": cursor.whole(),
    }
    if cursor.word() in VIEW_CLAUSES[:-1]:
        hint = "Write CREATE MATERIALIZED VIEW: a plain view is only a name for its query."
        raise cursor.failure(f"a plain view has no {cursor.word()} clause", hint=hint)
    has_as = cursor.accept("AS")
    if cursor.at("INITIALIZE"):  # the paper leaves AS out in one place
        _refuse_columns(columns)
        return CreateTemporalView(name, **_sections(cursor, name), **options)
    if not has_as:
        raise cursor.unknown(("AS",), "part of CREATE VIEW")
    query, query_sql = cursor.query()
    return CreateView(name, _renamed(query, columns), query_sql, **options)


def _head(cursor: Cursor, or_replace: bool) -> tuple[str, Columns, bool]:
    """[IF NOT EXISTS] name [(columns)]."""
    if or_replace and cursor.at("IF", "NOT", "EXISTS"):
        raise cursor.failure("OR REPLACE and IF NOT EXISTS exclude each other")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the view")
    return name, _columns(cursor), if_not_exists


def _columns(cursor: Cursor) -> Columns:
    """Read [(name [COMMENT text], ...)], or nothing."""
    columns: Columns = []
    if not cursor.accept("("):
        return columns
    while True:
        span = cursor.span()
        name = cursor.name("a column")
        if any(known.lower() == name.lower() for known, _ in columns):
            raise MalformedSQL(f'column "{name}" is named twice', span=span)
        columns.append((name, span))
        if cursor.accept("COMMENT") and cursor.string() is None:
            raise cursor.failure("expected the comment in quotes")
        if not cursor.accept(","):
            cursor.expect(")")
            return columns


def _refuse_columns(columns: Columns) -> None:
    if columns:
        hint = "Name the columns in the query: SELECT a AS b."
        raise MalformedSQL(
            "a temporal view takes no list of columns", hint=hint, span=columns[0][1]
        )


def _renamed(query: QueryTree, columns: Columns) -> QueryTree:
    """The query with the columns that the view lists, if it lists any."""
    if not columns:
        return query
    names = [exp.to_identifier(name, quoted=True) for name, _ in columns]
    for made, (_, span) in zip(names, columns, strict=True):
        made.meta.update(start=span.start, end=span.end)
    alias = exp.TableAlias(this=exp.to_identifier("query", quoted=True), columns=names)
    return exp.select("*").from_(exp.Subquery(this=query, alias=alias))


def _clauses(cursor: Cursor) -> dict[str, Any]:
    """The view's clauses in any order, up to and with AS, as arguments of the statement."""
    values: dict[str, Any] = {}
    policies: list[Policy] = []
    while True:
        start = cursor.span()
        clause = cursor.choose(VIEW_CLAUSES, "clause of CREATE MATERIALIZED VIEW")
        if clause == "AS":
            return {**values, "policies": tuple(policies)}
        field, value = _clause(cursor, clause)
        if field == "policies":
            policies.append(value)
        elif field in values:
            raise MalformedSQL(f"{clause} is given twice", span=start)
        else:
            values[field] = value


def _clause(cursor: Cursor, clause: str) -> tuple[str, Any]:
    match clause:
        case "STRATEGY":
            return "strategy", (cursor.string() or cursor.name("a strategy")).lower()
        case "MEMORY":
            return "memory_bytes", parse_memory(cursor)
        case "RESULT":
            return "result", cursor.choose(RESULTS, "form of RESULT").lower()
        case _:
            refresh = parse_refresh(cursor)
            return ("refresh_policy" if isinstance(refresh, str) else "policies"), refresh


def _sections(cursor: Cursor, view: str) -> dict[str, Any]:
    """INITIALIZE v[i] AS ..., UPDATE v[j] AS ..., PARTITION LENGTH n, DEFINED BY ..."""
    values: dict[str, Any] = {}
    while not cursor.is_done:
        start = cursor.span()
        section = cursor.choose(SECTIONS, "part of a temporal view")
        field = section.lower().replace(" ", "_")
        if field in values:
            raise MalformedSQL(f"{section} is given twice", span=start)
        inner = _section_body(cursor)
        values.update(_READ_SECTION[section](inner, view))
    for section in SECTIONS[:3]:
        if section.lower().replace(" ", "_") not in values:
            hint = "Write INITIALIZE v[i] AS ... UPDATE v[j] AS ... PARTITION LENGTH seconds."
            raise cursor.failure(f"a temporal view needs {section}", hint=hint)
    return values


def _section_body(cursor: Cursor) -> Cursor:
    """The tokens up to the next section, which starts outside all brackets."""
    start, depth = cursor.index, 0
    while not cursor.is_done:
        depth += (cursor.word() in ("(", "[")) - (cursor.word() in (")", "]"))
        if depth == 0 and any(cursor.at(*each.split()) for each in SECTIONS):
            break
        cursor.index += 1
    if cursor.index == start:
        raise cursor.failure("expected more before this" if not cursor.is_done else "expected more")
    return Cursor(cursor.tokens[start : cursor.index], cursor.sql)


def _part_query(cursor: Cursor, view: str) -> PartQuery:
    """v[i] AS query."""
    cursor.accept("VIEW")  # the paper writes UPDATE VIEW v[j] in one place
    span = cursor.span()
    name = cursor.name("the view")
    if name.lower() != view.lower():
        raise MalformedSQL(f'expected "{view}", the view that is created', span=span)
    cursor.expect("[", hint=f"Write {name}[i] AS SELECT ...")
    subscript = cursor.name("the subscript")
    cursor.expect("]", "AS")
    query, query_sql = cursor.query()
    return PartQuery(subscript, query, query_sql, cursor.whole())


def _partition_length(cursor: Cursor, _view: str) -> dict[str, Any]:
    seconds = cursor.integer("PARTITION LENGTH, in seconds,")
    if not cursor.is_done:
        raise cursor.unknown(SECTIONS, "part of a temporal view")
    return {"partition_length": seconds}


def _defined_by(cursor: Cursor, _view: str) -> dict[str, Any]:
    query, query_sql = cursor.query()
    return {"defined_by": query, "defined_by_sql": query_sql}


_READ_SECTION: dict[str, Callable[[Cursor, str], dict[str, Any]]] = {
    "INITIALIZE": lambda cursor, view: {"initialize": _part_query(cursor, view)},
    "UPDATE": lambda cursor, view: {"update": _part_query(cursor, view)},
    "PARTITION LENGTH": _partition_length,
    "DEFINED BY": _defined_by,
}
