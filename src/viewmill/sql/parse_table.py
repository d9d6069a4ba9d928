"""Read CREATE TABLE.

takes  a Cursor after CREATE TABLE
gives  CreateTable, its names and types checked against each other
next   mill
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from viewmill.algebra.types import Date, Timestamp
from viewmill.errors import MalformedSQL, Span, TypeMismatch, UnknownName, nearest
from viewmill.sql.cursor import Cursor
from viewmill.sql.parse_clauses import parse_interval
from viewmill.sql.parse_type import parse_type
from viewmill.sql.statements import ColumnDef, CreateTable, RollUp

TABLE_CLAUSES = (
    "APPEND ONLY",
    "UNCHECKED",
    "STATIC",
    "TIMESTAMP BY",
    "PARTITION LENGTH",
    "LATENESS",
    "IDLE AFTER",
    "RETENTION",
    "ROLL UP",
    "ARCHIVE",
)
COLUMN_CLAUSES = ("NOT NULL", "NULL", "PRIMARY KEY", "COMMENT")

Key = list[tuple[str, Span]]  # names with their places, to underline the wrong one


def parse_create_table(cursor: Cursor) -> CreateTable:
    """What follows CREATE TABLE."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the table")
    if cursor.at("AS"):
        hint = "Declare its columns, then INSERT INTO ... SELECT."
        raise cursor.failure("a table cannot be created from a query", hint=hint)
    columns, key = _columns(cursor)
    clauses = _clauses(cursor, columns)
    names = tuple(_find(each, span, columns, "PRIMARY KEY").name for each, span in key)
    _reject_repeated(key)
    # A key column is NOT NULL, written or not, as in Spark.
    columns = [replace(each, nullable=each.nullable and each.name not in names) for each in columns]
    return CreateTable(
        name,
        tuple(columns),
        primary_key=names,
        if_not_exists=if_not_exists,
        span=cursor.whole(),
        **clauses,
    )


def _columns(cursor: Cursor) -> tuple[list[ColumnDef], Key]:
    cursor.expect("(", hint="Write CREATE TABLE name (column TYPE, ...).")
    columns: list[ColumnDef] = []
    key: Key = []
    while True:
        start = cursor.span()
        found = _constraint(cursor)
        if not found:
            column, is_key = _column(cursor)
            _reject_duplicate(column, columns)
            columns.append(column)
            found = [(column.name, start)] if is_key else []
        if found and key:
            hint = "Write PRIMARY KEY (a, b) for a key of several columns."
            raise MalformedSQL("the table has two primary keys", hint=hint, span=start)
        key = key or found
        if cursor.accept(")"):
            break
        if not cursor.accept(","):
            raise cursor.unknown((*COLUMN_CLAUSES, ",", ")"), "part of a column")
    if not columns:
        raise MalformedSQL("the table has no columns", span=start)
    return columns, key


def _constraint(cursor: Cursor) -> Key:
    """[CONSTRAINT name] PRIMARY KEY (a, b), or nothing."""
    if cursor.at("CONSTRAINT") and cursor.word(2) != ",":
        cursor.index += 1
        cursor.name("the constraint")
    others = cursor.at("FOREIGN KEY") or cursor.at("CHECK", "(") or cursor.at("UNIQUE", "(")
    if others:
        hint = "The only constraints are PRIMARY KEY and NOT NULL."
        raise cursor.failure(f"{cursor.word()} is not supported", hint=hint)
    return _name_list(cursor) if cursor.accept("PRIMARY KEY") else []


def _name_list(cursor: Cursor) -> Key:
    cursor.expect("(")
    names: Key = []
    while True:
        span = cursor.span()
        names.append((cursor.name("a column"), span))
        if not cursor.accept(","):
            cursor.expect(")")
            return names


def _column(cursor: Cursor) -> tuple[ColumnDef, bool]:
    """name TYPE [NOT NULL] [PRIMARY KEY]; whether it is the primary key."""
    start = cursor.index
    name = cursor.name("a column")
    type_ = parse_type(cursor, name)
    nullable, is_key = True, False
    while cursor.word() not in (",", ")") and not cursor.is_done:
        match cursor.choose(COLUMN_CLAUSES, "part of a column"):
            case "NOT NULL":
                nullable = False
            case "PRIMARY KEY":
                is_key = True
            case "COMMENT" if cursor.string() is None:
                raise cursor.failure("expected the comment in quotes")
    return ColumnDef(name, type_, nullable, cursor.span_from(start)), is_key


def _clauses(cursor: Cursor, columns: list[ColumnDef]) -> dict[str, Any]:
    """The table's clauses in any order, as arguments of CreateTable."""
    values: dict[str, Any] = {}
    while not cursor.is_done:
        start = cursor.span()
        clause = cursor.choose(TABLE_CLAUSES, "clause of CREATE TABLE")
        field = clause.lower().replace(" ", "_")
        if field in values:
            raise MalformedSQL(f"{clause} is given twice", span=start)
        match clause:
            case "TIMESTAMP BY":
                values[field] = _timestamp_by(cursor, columns)
            case "PARTITION LENGTH":
                values[field] = cursor.integer("PARTITION LENGTH, in seconds,")
            case "LATENESS":
                values[field] = parse_interval(cursor, positive=False)
            case "IDLE AFTER":
                values[field] = parse_interval(cursor)
            case "RETENTION":
                values[field] = parse_interval(cursor)
            case "ROLL UP":
                values[field] = _roll_up(cursor)
            case "ARCHIVE":
                values[field] = _folder(cursor)
            case _:
                values[field] = True
    return values


def _roll_up(cursor: Cursor) -> RollUp:
    hint = "Write ROLL UP LENGTH 86400 AFTER INTERVAL '1' DAY."
    cursor.expect("LENGTH", hint=hint)
    length = cursor.integer("the LENGTH of rolled up parts, in seconds,")
    cursor.expect("AFTER", hint=hint)
    return RollUp(length, parse_interval(cursor, positive=False))


def _folder(cursor: Cursor) -> str:
    folder = cursor.string()
    if not folder:
        raise cursor.failure("expected the folder in quotes", hint="Write ARCHIVE 'folder'.")
    return folder


def _timestamp_by(cursor: Cursor, columns: list[ColumnDef]) -> str:
    span = cursor.span()
    column = _find(cursor.name("the time column"), span, columns, "TIMESTAMP BY")
    if not isinstance(column.type, Timestamp | Date):
        raise TypeMismatch(
            f'TIMESTAMP BY needs a TIMESTAMP or DATE, "{column.name}" is {column.type}', span=span
        )
    return column.name


def _find(name: str, span: Span, columns: list[ColumnDef], clause: str) -> ColumnDef:
    """The column of this name, whatever its case."""
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    hint = nearest(name, [each.name for each in columns])
    raise UnknownName(f'{clause} names no column of the table: "{name}"', hint=hint, span=span)


def _reject_duplicate(column: ColumnDef, columns: list[ColumnDef]) -> None:
    if any(each.name.lower() == column.name.lower() for each in columns):
        hint = "Names are compared without case."
        raise MalformedSQL(f'two columns are named "{column.name}"', hint=hint, span=column.span)


def _reject_repeated(key: Key) -> None:
    seen: set[str] = set()
    for name, span in key:
        if name.lower() in seen:
            raise MalformedSQL(f'"{name}" is twice in the PRIMARY KEY', span=span)
        seen.add(name.lower())
