"""Which name means which column at one place of a query.

takes  the tables in FROM, with the names the user gave them
gives  algebra columns, or errors that say what was probably meant
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.schema import Schema
from viewmill.errors import Span, UnknownName, nearest
from viewmill.sql.replace_parts import replace_parts

Visible = tuple[str, Expression]  # the name the user knows, and what it means


class Names:
    """Hands out names that are unique in the whole query, whatever their case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, name: str) -> str:
        """`name`, or `name_1` and so on when it is taken."""
        found, i = name, 0
        while found.lower() in self._taken:
            i += 1
            found = f"{name}_{i}"
        self._taken.add(found.lower())
        return found

    def fresh_alias(self, name: str) -> str:
        """An alias without a dot: columns are named "alias.column" and cut at the first dot."""
        return self.fresh(name.replace(".", "_"))


@dataclass
class Scope:
    """The columns in sight: `tables` by qualified name, `columns` by bare name and for the star.

    They differ after USING: `k` is then one column, `a.k` and `b.k` are still two.
    """

    tables: dict[str, list[Visible]] = field(default_factory=dict)
    columns: list[Visible] = field(default_factory=list)
    outer: Scope | None = None

    def find(self, name: str, table: str | None, span: Span | None) -> Expression:
        """The column, here or in a query around this one."""
        scope: Scope | None = self
        depth = 0
        while scope is not None:
            found = scope.lookup(name, table, span)
            if found is not None:
                return shifted(found, depth)
            scope, depth = scope.outer, depth + 1
        raise self._unknown(name, table, span)

    def lookup(self, name: str, table: str | None, span: Span | None) -> Expression | None:
        """The column among those of this query only, or None."""
        visible = self.columns if table is None else self.tables.get(table.lower(), [])
        matches = [meaning for user, meaning in visible if user.lower() == name.lower()]
        if len(set(matches)) > 1:
            owners = [alias for alias, columns in self.tables.items() if _has(columns, name)]
            choices = " or ".join(f"{owner}.{name}" for owner in owners)
            raise UnknownName(
                f'"{name}" is ambiguous', hint=f"Write {choices}." if choices else "", span=span
            )
        return matches[0] if matches else None

    def _unknown(self, name: str, table: str | None, span: Span | None) -> UnknownName:
        if table is not None:
            columns = self._table(table)
            if columns is None:
                known = [alias for scope in self.chain() for alias in scope.tables]
                return UnknownName(
                    f'there is no table "{table}" in FROM', hint=nearest(table, known), span=span
                )
            names = [user for user, _ in columns]
            message = f'table "{table}" has no column "{name}"'
            return UnknownName(message, hint=nearest(name, names), span=span)
        names = [user for scope in self.chain() for user, _ in scope.columns]
        return UnknownName(f'there is no column "{name}"', hint=nearest(name, names), span=span)

    def _table(self, table: str) -> list[Visible] | None:
        for scope in self.chain():
            if table.lower() in scope.tables:
                return scope.tables[table.lower()]
        return None

    def chain(self) -> Iterable[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def padded(self, schema: Schema) -> Scope:
        """The scope with its columns as nullable as they are in `schema`, the result of a join."""
        nullable = {each.name: each.nullable for each in schema}

        def pad(expression: Expression) -> Expression | None:
            if isinstance(expression, Column) and expression.outer == 0:
                return replace(expression, nullable=nullable.get(expression.name, True))
            return None

        def each(columns: list[Visible]) -> list[Visible]:
            return [(user, replace_parts(meaning, pad)) for user, meaning in columns]

        tables = {alias: each(columns) for alias, columns in self.tables.items()}
        return Scope(tables, each(self.columns), self.outer)


def _has(columns: list[Visible], name: str) -> bool:
    return any(user.lower() == name.lower() for user, _ in columns)


def shifted(expression: Expression, depth: int) -> Expression:
    """The expression as it is written `depth` queries further in."""
    if depth == 0:
        return expression

    def shift(part: Expression) -> Expression | None:
        return replace(part, outer=part.outer + depth) if isinstance(part, Column) else None

    return replace_parts(expression, shift)


def table_scope(alias: str | None, columns: list[Visible], outer: Scope | None) -> Scope:
    """The scope of one table in FROM; without an alias only bare names reach it."""
    tables = {} if alias is None else {alias.lower(): columns}
    return Scope(tables, list(columns), outer)
