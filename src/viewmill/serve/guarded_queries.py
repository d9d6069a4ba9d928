"""Queries of users who may not read everything.

takes  the tree of a query, and what a user may read
gives  the tree with each name that has a filter replaced by its rows for this user; or an error

Only the names that the user wrote are checked: what plain views read was granted with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp

from viewmill.serve.failures import Refused
from viewmill.serve.grants import Access

_TREE = TypeVar("_TREE", bound=exp.Expr)
_PLAIN = {"this", "alias"}


def guarded(tree: _TREE, access: Access | None, is_there: Callable[[str], bool]) -> _TREE:
    """A copy of a query that reads only what may be read."""
    if access is None:
        return tree
    made = tree.copy()
    common = {each.alias.lower() for each in made.find_all(exp.CTE)}
    for name in filter(is_there, common):
        # It would stand for the table below it, also in the filters that are put in.
        raise Refused(
            "42712",
            f'the query calls a part of it "{name}", which is a table or view',
            hint="Give what stands after WITH another name.",
        )
    for table in list(made.find_all(exp.Table)):
        name = ".".join(part.name for part in table.parts)
        if name.lower() not in common:
            _guard(table, name, access)
    return made


def require_all(name: str, access: Access | None) -> None:
    """Raise unless all rows of a table or view may be read."""
    if access is None:
        return
    if name.lower() not in access.rows:
        raise denied(name)
    if access.filter(name) is not None:
        raise Refused(
            "0A000",
            f'the rows of "{name}" are filtered for you, and its changes cannot be',
            hint="Read it by SELECT.",
        )


def denied(name: str) -> Refused:
    """The error for a name that was not granted, whether it exists or not."""
    return Refused("42501", f'permission denied for "{name}"')


def _guard(table: exp.Table, name: str, access: Access) -> None:
    if not isinstance(table.this, exp.Identifier):
        return  # VALUES, and functions that have no table
    if name.lower() not in access.rows:
        raise denied(name)
    condition = access.filter(name)
    if condition is None:
        return
    if {each for each, value in table.args.items() if value} - _PLAIN:
        raise Refused(
            "0A000",
            f'the rows of "{name}" are filtered for you, so it is read by its name alone',
            hint="Leave out windows, parts and samples.",
        )
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    plain = exp.Table(this=table.this.copy())
    rows = exp.Select(expressions=[exp.Star()]).from_(plain, copy=False)
    rows.set("where", exp.Where(this=condition))
    table.replace(exp.Subquery(this=rows, alias=alias.copy()))
