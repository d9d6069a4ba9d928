"""Relations: what yields rows. Frozen nodes that know their schema.

Columns inside a query carry qualified names ("o.amount"), unique in the whole query, so that a
correlated column is never mistaken for a local one. The outermost node of a view is a `Project` (or
a `Sort`, `Limit`, `Distinct`, `SetOperation` above one) whose names are what the user sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression, Literal, Over, SortKey
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.types import BOOLEAN, NULL
from viewmill.algebra.windows import SlidingWindow
from viewmill.errors import Span, TypeMismatch

Named = tuple[str, Expression]


@dataclass(frozen=True)
class Scan:
    """The rows of table or view `source`. Its columns are named "alias.column"."""

    source: str
    alias: str
    schema: Schema  # of the output: qualified names, in the source's order
    span: Span | None = field(default=None, compare=False, repr=False)
    window: SlidingWindow | None = None  # only the rows of the last window


@dataclass(frozen=True)
class Values:
    """Rows written in the query itself; one row without columns is SELECT without FROM."""

    rows: tuple[tuple[Expression, ...], ...]
    schema: Schema
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Filter:
    """The rows of `input` for which `condition` is true."""

    input: Relation
    condition: Expression
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.condition.type not in (BOOLEAN, NULL):
            raise TypeMismatch(
                f"a condition needs a BOOLEAN, got {self.condition.type}",
                span=self.condition.span,
            )

    @property
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


@dataclass(frozen=True)
class Project:
    """One output row per input row, each column an expression.

    With `by_row` it is kept apart, because Python computes it and not a trigger.
    """

    input: Relation
    outputs: tuple[Named, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    by_row: bool = False

    @property
    def schema(self) -> Schema:
        """The outputs."""
        return Schema(tuple(_field(each) for each in self.outputs))


JoinKind = OneOf["inner", "cross", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Join:
    """Pairs of rows that meet `condition`; outer joins pad with NULL, semi and anti keep left.

    With `lateral` the right side is a subquery for each row of the left, whose columns are outer.
    """

    kind: JoinKind
    left: Relation
    right: Relation
    condition: Expression | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    lateral: bool = False

    @property
    def schema(self) -> Schema:
        """The columns of both sides, nullable where a join pads them."""
        left, right = self.left.schema.fields, self.right.schema.fields
        if self.kind in ("semi", "anti"):
            return self.left.schema
        if self.kind in ("right", "full"):
            left = tuple(replace(each, nullable=True) for each in left)
        if self.kind in ("left", "full"):
            right = tuple(replace(each, nullable=True) for each in right)
        return Schema(left + right)


@dataclass(frozen=True)
class Aggregate:
    """One row per group of `keys`; without keys one row in all.

    `grouping_sets` (positions of keys) makes ROLLUP, CUBE and GROUPING SETS; keys that a set leaves
    out are NULL there. `grouping(k)` and `grouping_id(...)` are aggregates over key positions.
    """

    input: Relation
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """Keys, then aggregates."""
        keys = tuple(_field(each) for each in self.keys)
        if self.grouping_sets is not None:
            keys = tuple(replace(each, nullable=True) for each in keys)
        return Schema(keys + tuple(_field(each) for each in self.aggregates))


@dataclass(frozen=True)
class Window:
    """The rows of `input` with further columns computed over their partition."""

    input: Relation
    calls: tuple[tuple[str, Over], ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """The input's columns, then the calls."""
        return Schema(self.input.schema.fields + tuple(_field(each) for each in self.calls))


@dataclass(frozen=True)
class Distinct:
    """Each row once."""

    input: Relation
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


@dataclass(frozen=True)
class SetOperation:
    """UNION, INTERSECT, EXCEPT; both sides have equal types, the names are the left's."""

    kind: OneOf["union", "intersect", "except"]
    all: bool
    left: Relation
    right: Relation
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """The left's names, nullable where either side is."""
        pairs = zip(self.left.schema, self.right.schema, strict=True)
        return Schema(tuple(replace(a, nullable=a.nullable or b.nullable) for a, b in pairs))


@dataclass(frozen=True)
class Sort:
    """The rows in order."""

    input: Relation
    keys: tuple[SortKey, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


@dataclass(frozen=True)
class Limit:
    """The first `count` rows after `offset`; None is all."""

    input: Relation
    count: int | None
    offset: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


@dataclass(frozen=True)
class Foreign:
    """A query that the algebra does not model, kept as Spark SQL for the engine.

    `scans` are the tables it reads, `reason` says what could not be modelled.
    """

    text: str
    scans: tuple[Scan, ...]
    schema: Schema
    reason: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Recursion:
    """A recursive CTE: the rows of `base`, and what `step` makes of rows, again and again.

    `step` reads the rows of the last step by a scan of the source `name`, whose last column is the
    step that made them; it passes that on as its own last column. Without `all` a row that was made
    before is not made again. Rows of step number `limit` are an error. `scans` are the tables.
    """

    name: str
    base: Relation
    step: Relation
    all: bool
    limit: int
    scans: tuple[Scan, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """The base's names; a step may make any value NULL."""
        return Schema(tuple(replace(each, nullable=True) for each in self.base.schema))


Form = OneOf["explode", "posexplode", "inline"]


@dataclass(frozen=True)
class Explode:
    """Each row of `input` once for each element of an array, or each entry of a map.

    `made` are the columns of an element: itself, or the fields of a struct with `inline`, or the
    key and the value of an entry; with `posexplode` the position stands before. With `outer` a row
    without elements stays once, with NULLs.
    """

    input: Relation
    array: Column
    made: tuple[Field, ...]
    form: Form
    outer: bool
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        """The input's columns, then those of the elements."""
        return Schema(self.input.schema.fields + self.made)


Relation = (
    Scan
    | Values
    | Filter
    | Project
    | Join
    | Aggregate
    | Window
    | Distinct
    | SetOperation
    | Sort
    | Limit
    | Foreign
    | Recursion
    | Explode
)


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """The relations directly below, subqueries inside expressions left out."""
    match relation:
        case Scan() | Values():
            return ()
        case Foreign() | Recursion():
            return relation.scans
        case Join() | SetOperation():
            return (relation.left, relation.right)
        case (
            Filter()
            | Project()
            | Aggregate()
            | Window()
            | Distinct()
            | Sort()
            | Limit()
            | Explode()
        ):
            return (relation.input,)


def _field(named: tuple[str, Expression]) -> Field:
    name, expression = named
    return Field(name, expression.type, expression.nullable)


def one_row() -> Values:
    """What SELECT without FROM reads: one row of no columns."""
    return Values(((),), Schema(()))


__all__ = [
    "Aggregate",
    "Distinct",
    "Explode",
    "Filter",
    "Foreign",
    "Form",
    "Join",
    "JoinKind",
    "Limit",
    "Literal",
    "Named",
    "Project",
    "Recursion",
    "Relation",
    "Scan",
    "SetOperation",
    "Sort",
    "Values",
    "Window",
    "inputs",
    "one_row",
]  # fmt: skip
