"""The statements a user can write: one frozen dataclass each, closed in `Statement`.

takes  what sql.parse reads from tokens; queries and conditions stay sqlglot trees
gives  data only; names keep the case they were written in
next   mill
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from sqlglot import exp

from viewmill.algebra.hints import Hints
from viewmill.algebra.refresh import Policy
from viewmill.algebra.types import Type
from viewmill.errors import Span

QueryTree = exp.Query | exp.Values
RefreshPolicy = OneOf["auto", "incremental", "incremental_strict", "full"]
ResultForm = OneOf["listed", "factorized"]


@dataclass(frozen=True)
class ColumnDef:
    """One column of CREATE TABLE."""

    name: str
    type: Type
    nullable: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RollUp:
    """ROLL UP LENGTH seconds AFTER interval: when small parts become larger ones."""

    length: int  # seconds
    after: int  # microseconds

    def oldest_single(self, newest: int, length: int) -> int:
        """The oldest part that stays as it is, for parts of `length` seconds."""
        return newest - -(-self.after // (length * 1_000_000))

    def __str__(self) -> str:
        return f"ROLL UP LENGTH {self.length} AFTER {self.after / 1_000_000:g} s"


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE name (...). Times are microseconds, `partition_length` is seconds."""

    name: str
    columns: tuple[ColumnDef, ...]
    primary_key: tuple[str, ...] = ()
    append_only: bool = False
    unchecked: bool = False
    static: bool = False
    timestamp_by: str | None = None
    partition_length: int | None = None
    lateness: int | None = None
    retention: int | None = None
    roll_up: RollUp | None = None
    archive: str | None = None
    idle_after: int | None = None
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW name AS query: a name for a query, inlined where it is read."""

    name: str
    query: QueryTree
    query_sql: str
    or_replace: bool = False
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateMaterializedView:
    """CREATE MATERIALIZED VIEW name clauses AS query. No `policies` means none was written."""

    name: str
    query: QueryTree
    query_sql: str
    or_replace: bool = False
    if_not_exists: bool = False
    refresh_policy: RefreshPolicy = "auto"
    policies: tuple[Policy, ...] = ()
    strategy: str | None = None
    memory_bytes: int | None = None
    result: ResultForm = "listed"
    hints: Hints = field(default_factory=Hints)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PartQuery:
    """INITIALIZE v[i] AS query, or UPDATE v[j] AS query: `subscript` is the i or j."""

    subscript: str
    query: QueryTree
    query_sql: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateTemporalView:
    """CREATE VIEW name AS INITIALIZE ... UPDATE ... PARTITION LENGTH seconds [DEFINED BY query]."""

    name: str
    initialize: PartQuery
    update: PartQuery
    partition_length: int
    defined_by: QueryTree | None = None
    defined_by_sql: str | None = None
    policies: tuple[Policy, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class AlterRefresh:
    """ALTER MATERIALIZED VIEW name REFRESH ...: what is not written stays as it is."""

    name: str
    policies: tuple[Policy, ...] = ()
    refresh_policy: RefreshPolicy | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RefreshView:
    """REFRESH MATERIALIZED VIEW name [FULL]."""

    name: str
    full: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class DropView:
    """DROP [MATERIALIZED] VIEW [IF EXISTS] name."""

    name: str
    if_exists: bool = False
    materialized: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name."""

    name: str
    if_exists: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Verify:
    """VERIFY name."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a view that exists (its name), or of one that is not created."""

    of: str | CreateMaterializedView
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Insert:
    """INSERT INTO table [(columns)] VALUES ... or a query; no `columns` means all, in order."""

    table: str
    columns: tuple[str, ...]
    source: QueryTree
    source_sql: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Delete:
    """DELETE FROM table [alias] [WHERE where]."""

    table: str
    where: exp.Expr | None = None
    alias: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Update:
    """UPDATE table [alias] SET column = value, ... [WHERE where]."""

    table: str
    assignments: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None = None
    alias: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Query:
    """SELECT ... over tables and views."""

    query: QueryTree
    query_sql: str
    span: Span | None = field(default=None, compare=False, repr=False)


Statement = (
    CreateTable
    | CreateView
    | CreateMaterializedView
    | CreateTemporalView
    | AlterRefresh
    | RefreshView
    | DropView
    | DropTable
    | Verify
    | Explain
    | Insert
    | Delete
    | Update
    | Query
)
