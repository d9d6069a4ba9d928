"""Cursors of a session: DECLARE, FETCH, MOVE, CLOSE.

takes  the tokens of a statement
gives  what is declared; rows of an open cursor from its place on

The rows of a cursor are those of one version, held until it is closed, so it moves both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viewmill.serve.client_sql import ClientStatement
from viewmill.serve.failures import Refused
from viewmill.sql.cursor import Cursor

_ALL = 1 << 62


@dataclass(frozen=True)
class Declared:
    """A cursor that DECLARE names, and its query."""

    name: str
    holds: bool  # beyond the end of the transaction
    query: ClientStatement


@dataclass
class OpenCursor:
    """Rows, and how many of them lie behind."""

    table: Any
    holds: bool
    at: int = 0  # 0 is before the first row, n + 1 behind the last

    def move(self, step: int) -> tuple[int, int, bool]:
        """Go so many rows on, or back: the rows passed as start and end, and whether backwards."""
        rows = self.table.num_rows
        if step >= 0:
            start, end = self.at, min(self.at + step, rows)
            self.at = self.at + step if self.at + step <= rows else rows + 1
            return min(start, rows), end, False
        end = self.at - 1
        start = max(end + step, 0)
        self.at = max(self.at + step, 0)
        return start, max(end, start), True

    def jump(self, place: int) -> tuple[int, int, bool]:
        """Go to a row by its number, from one; negative numbers count from the end."""
        rows = self.table.num_rows
        wanted = place if place >= 0 else rows + 1 + place
        self.at = max(0, min(wanted, rows + 1))
        return (self.at - 1, self.at, False) if 1 <= self.at <= rows else (0, 0, False)


@dataclass(frozen=True)
class Fetch:
    """FETCH or MOVE: where to go in which cursor."""

    name: str
    kind: str  # "by" so many rows, or "to" one
    count: int

    def go(self, cursor: OpenCursor) -> Any:
        """The rows that are passed."""
        go = cursor.move if self.kind == "by" else cursor.jump
        start, end, is_back = go(self.count)
        passed = cursor.table.slice(start, max(0, end - start))
        return passed.take(list(range(passed.num_rows))[::-1]) if is_back else passed


def parse_declare(statement: ClientStatement) -> Declared:
    """DECLARE name [BINARY] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query."""
    cursor = statement.cursor()
    cursor.expect("DECLARE")
    name = cursor.name("a cursor")
    for word in ("BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL"):
        cursor.accept(word)
    cursor.expect("CURSOR")
    holds = cursor.accept("WITH", "HOLD")
    if not holds:
        cursor.accept("WITHOUT", "HOLD")
    cursor.expect("FOR")
    rest = tuple(cursor.tokens[cursor.index :])
    if not rest:
        raise cursor.failure("expected a query")
    return Declared(name, holds, ClientStatement(rest, statement.sql))


def parse_fetch(statement: ClientStatement) -> Fetch:
    """FETCH or MOVE [direction] [FROM | IN] name."""
    cursor = statement.cursor()
    cursor.index = 1
    kind, count = _direction(cursor)
    if not cursor.accept("FROM"):
        cursor.accept("IN")
    name = cursor.name("a cursor")
    cursor.finish()
    return Fetch(name, kind, count)


def _direction(cursor: Cursor) -> tuple[str, int]:
    one = {"NEXT": ("by", 1), "PRIOR": ("by", -1), "FIRST": ("to", 1), "LAST": ("to", -1),
           "ALL": ("by", _ALL)}  # fmt: skip
    for word, meaning in one.items():
        if cursor.at(word):
            cursor.accept(word)
            return meaning
    if cursor.accept("ABSOLUTE"):
        return "to", _number(cursor)
    if cursor.accept("RELATIVE"):
        raise Refused("0A000", "FETCH RELATIVE is not supported", hint="Write FETCH FORWARD n.")
    sign = -1 if cursor.accept("BACKWARD") else 1
    cursor.accept("FORWARD")
    if cursor.accept("ALL"):
        return "by", sign * _ALL
    is_number = cursor.at("-") or (not cursor.is_done and cursor.word().isdecimal())
    return "by", sign * (_number(cursor) if is_number else 1)


def _number(cursor: Cursor) -> int:
    sign = -1 if cursor.accept("-") else 1
    return sign * cursor.integer("the number of rows", least=0)
