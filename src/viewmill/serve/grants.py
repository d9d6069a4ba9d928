"""Who may read what: roles, grants and filters of rows.

takes  a file of statements
gives  per user, the tables and views that it may read and which of their rows

    CREATE ROLE analysts;
    GRANT analysts TO ann, bob;
    GRANT SELECT ON revenue, orders TO analysts;
    GRANT SELECT ON payments TO ann WHERE region = 'eu' AND clerk = current_user;

What nobody granted to a user, to a role of theirs or to PUBLIC, is not there for them. A plain view
that is granted reads its tables with the rights of who runs the server, as in Postgres.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import exp

from viewmill.errors import InvalidArgument, ViewmillError
from viewmill.serve.client_sql import ClientStatement, split
from viewmill.sql.cursor import Cursor
from viewmill.sql.dialect import parse_tokens

PUBLIC = "public"


@dataclass(frozen=True)
class Access:
    """What one user may read: filters per relation; one that is None lets all rows through."""

    user: str
    rows: dict[str, tuple[exp.Expr | None, ...]]

    @property
    def names(self) -> frozenset[str]:
        """The tables and views, in lower case."""
        return frozenset(self.rows)

    def filter(self, name: str) -> exp.Expr | None:
        """The condition for rows of a table or view; None if all may be read."""
        found = self.rows[name.lower()]
        conditions = [each for each in found if each is not None]
        if len(conditions) < len(found):
            return None
        return exp.or_(*(_for_user(each, self.user) for each in conditions), copy=False)


def _for_user(condition: exp.Expr, user: str) -> exp.Expr:
    def named(node: exp.Expr) -> exp.Expr:
        return exp.Literal.string(user) if isinstance(node, exp.CurrentUser) else node

    return exp.Paren(this=condition.copy().transform(named))


@dataclass
class Grants:
    """All roles and grants of a server."""

    roles: set[str] = field(default_factory=set)
    members: dict[str, set[str]] = field(default_factory=dict)  # roles by their member
    rows: dict[str, dict[str, list[exp.Expr | None]]] = field(default_factory=dict)

    def access(self, user: str) -> Access:
        """What a user may read."""
        found: dict[str, list[exp.Expr | None]] = {}
        for grantee in {PUBLIC, *self._roles_of(user)}:
            for name, filters in self.rows.get(grantee, {}).items():
                found.setdefault(name, []).extend(filters)
        return Access(user, {name: tuple(each) for name, each in found.items()})

    def _roles_of(self, user: str) -> set[str]:
        """A user, their roles, and the roles of these."""
        found: set[str] = set()
        waiting = [user]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting.extend(self.members.get(each, ()))
        return found


def read_grants(path: str | os.PathLike[str]) -> Grants:
    """The grants of a file."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise InvalidArgument(f"the grants in {path} cannot be read", detail=str(why)) from why
    made = Grants()
    for statement in split(text):
        try:
            _read(statement, made)
        except ViewmillError as why:
            raise InvalidArgument(
                f"the grants in {path} are wrong: {why.message}", hint=why.hint, span=why.span
            ) from why
    return made


def _read(statement: ClientStatement, made: Grants) -> None:
    cursor = statement.cursor()
    if cursor.accept("CREATE", "ROLE"):
        made.roles.add(cursor.name("a role"))
    elif cursor.accept("GRANT", "SELECT", "ON"):
        _read_select(cursor, made)
    elif cursor.accept("GRANT"):
        roles = list(_names(cursor, "a role"))
        cursor.expect("TO")
        for role in roles:
            if role not in made.roles:
                raise cursor.failure(
                    f'there is no role "{role}"', hint=f"CREATE ROLE {role} first."
                )
        for member in _names(cursor, "a user"):
            made.members.setdefault(member, set()).update(roles)
    else:
        raise cursor.failure("expected CREATE ROLE or GRANT", hint="GRANT SELECT ON v TO ann")
    cursor.finish()


def _read_select(cursor: Cursor, made: Grants) -> None:
    cursor.accept("TABLE")
    relations = [each.lower() for each in _names(cursor, "a table or view")]
    cursor.expect("TO")
    grantees = list(_names(cursor, "a user or role"))
    condition = _condition(cursor) if cursor.at("WHERE") else None
    for grantee in grantees:
        key = PUBLIC if grantee.lower() == PUBLIC else grantee
        for name in relations:
            made.rows.setdefault(key, {}).setdefault(name, []).append(condition)


def _condition(cursor: Cursor) -> exp.Expr:
    """What follows WHERE, parsed as the condition of a SELECT."""
    rest = cursor.tokens[cursor.index :]
    head = split("SELECT 1")[0].tokens
    tree = parse_tokens([*head, *rest], cursor.sql)
    where = tree.args.get("where")
    if not isinstance(tree, exp.Select) or where is None or set(_clauses(tree)) != {"where"}:
        raise cursor.failure("expected one condition after WHERE")
    cursor.index = len(cursor.tokens)
    condition: exp.Expr = where.this
    return condition


def _clauses(tree: exp.Select) -> Iterator[str]:
    return (
        name for name, each in tree.args.items() if each and name not in ("expressions", "kind")
    )


def _names(cursor: Cursor, what: str) -> Iterator[str]:
    yield cursor.name(what)
    while cursor.accept(","):
        yield cursor.name(what)
