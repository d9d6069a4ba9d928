"""What stands above and below the operator that keeps something: filters and projections.

takes  a relation
gives  conditions and columns over the scans below, so that triggers read scans and nothing else
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from viewmill.algebra.conditions import conjuncts, filtered
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column, Expression
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Aggregate, Named, Project, Relation, Scan, Sort
from viewmill.algebra.schema import Field, free_name
from viewmill.algebra.types import BIGINT, BOOLEAN
from viewmill.algebra.walk import columns_of, has_subquery
from viewmill.codegen.shape import NotTaken, blame, peel, require_shown


@dataclass(frozen=True)
class Top:
    """What stands above an operator: its output rows that meet `where`, shown as `outputs`."""

    where: tuple[Expression, ...]
    outputs: tuple[Named, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Everything that is computed per output row."""
        return (*self.where, *(each for _, each in self.outputs))


@dataclass(frozen=True)
class Leaf:
    """A scan, the conditions on its rows, and what its columns stand for."""

    scan: Scan
    where: tuple[Expression, ...]
    columns: Mapping[str, Expression]

    def relation(self, more: Iterable[Expression] = ()) -> Relation:
        """The rows that pass."""
        return filtered(self.scan, (*self.where, *more))


def top_of(query: Relation) -> tuple[Top, Relation]:
    """Peel what keeps nothing; gives it and the operator below."""
    if isinstance(query, Sort):
        require_shown(query)
        query = query.input
    where, outputs, bottom = peel(query)
    conditions = tuple(part for each in where for part in conjuncts(each))
    return Top(conditions, outputs), bottom


def leaf_of(relation: Relation) -> Leaf:
    """A filtered and projected scan, or `NotTaken`."""
    where, columns, bottom = peel(relation)
    if not isinstance(bottom, Scan):
        raise NotTaken(*blame(bottom))
    refuse_subqueries((*where, *(each for _, each in columns)))
    conditions = tuple(part for each in where for part in conjuncts(each))
    return Leaf(bottom, conditions, dict(columns))


def refuse_subqueries(expressions: Iterable[Expression]) -> None:
    """Raise `NotTaken` if a query stands inside an expression."""
    for each in expressions:
        if has_subquery(each):
            raise NotTaken("a subquery that no rule turns into a join", each.span)


def refuse_failing(shown: Iterable[Expression], *, overflow: bool = False) -> None:
    """Have what can fail evaluated once all inputs have changed: pairs of new and old rows come
    and go."""
    for each in shown:
        if (part := failing_part(each, overflow=overflow)) is not None:
            what = display_expression(part)
            raise NotTaken(f"{what} over joined rows can fail: a block of its own", part.span)


def columns_as(fields: Iterable[Field]) -> tuple[Named, ...]:
    """Columns under their own names."""
    return tuple((f.name, Column(f.name, f.type, f.nullable)) for f in fields)


def fields_of(named: Iterable[Named]) -> tuple[Field, ...]:
    """The columns that expressions make."""
    return tuple(Field(name, each.type, each.nullable) for name, each in named)


def used_columns(expressions: Iterable[Expression]) -> set[str]:
    """The columns that any of the expressions reads."""
    return set().union(*(columns_of(each) for each in expressions))


def projected(relation: Relation, outputs: Iterable[Named]) -> Relation:
    """A projection."""
    return Project(relation, tuple(outputs))


def counted(rows: Relation, fields: Iterable[Field]) -> Aggregate:
    """The distinct rows of these columns, with their multiplicity in a last column."""
    keys = columns_as(fields)
    count = free_name("#count", (name for name, _ in keys))
    return Aggregate(rows, keys, ((count, AggregateCall("count", (), BIGINT, False)),))


def not_null(expression: Expression) -> Expression:
    """Whether an expression is not NULL."""
    return Call("not", (Call("is_null", (expression,), BOOLEAN, False),), BOOLEAN, False)
