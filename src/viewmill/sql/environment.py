"""What is around the place that is being lowered: the text, the catalog, CTEs, outer columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.errors import Span
from viewmill.sql.catalog import Catalog
from viewmill.sql.scopes import Names, Scope
from viewmill.sql.spans import span_of


@dataclass(frozen=True)
class Lowered:
    """A query as algebra; `names` are its columns as the user knows them."""

    relation: Relation
    names: tuple[str, ...]


@dataclass(frozen=True)
class CommonTable:
    """One CTE with the surroundings it was written in."""

    node: exp.CTE
    environment: Environment
    is_recursive: bool = False


@dataclass(frozen=True)
class RecursiveRows:
    """What the name of a recursive CTE means inside it: the rows of the last step.

    The last column of the schema is the number of the step; the user does not see it.
    """

    source: str
    schema: Schema


# How a query is lowered: the tree, its surroundings, the prefix of its output columns.
LowerQuery = Callable[[exp.Expr, "Environment", "str | None"], Lowered]


Describe = Callable[[str, tuple[Scan, ...]], Schema]


@dataclass(frozen=True)
class Environment:
    """Handed down unchanged except where a WITH, a subquery or a plain view adds to it."""

    sql: str
    catalog: Catalog
    names: Names
    lower_query: LowerQuery
    common_tables: Mapping[str, CommonTable] = field(default_factory=dict)
    recursive: Mapping[str, RecursiveRows] = field(default_factory=dict)
    outer: Scope | None = None
    given: Mapping[str, tuple[Relation, Scope]] = field(default_factory=dict)  # lowered already
    keeps_order: bool = False  # whether what reads the rows depends on their order
    views: tuple[str, ...] = ()  # the plain views being put in, to see a cycle
    describe: Describe | None = None  # tells the types of what only the engine understands
    window_columns: bool = False  # whether the query shows where a window begins and ends
    filters_windows: bool = False  # whether its windows are filters by time that passes
    now: dt.datetime | None = None  # when a query is answered; a view is never done

    def span(self, node: exp.Expr | None) -> Span | None:
        """Where `node` stands in the text."""
        return None if node is None else span_of(node, self.sql)

    def inside(self, scope: Scope) -> Environment:
        """The surroundings of a subquery in an expression: `scope` is what it may correlate to."""
        return replace(self, outer=scope)
