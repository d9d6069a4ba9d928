"""Lower queries inside expressions: as a value, in EXISTS, in IN.

takes  the query, the lowering of the expression around it
gives  algebra ScalarSubquery, Exists, InSubquery; correlated columns say how far out they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewmill.algebra.expressions import Column, Exists, Expression, InSubquery, ScalarSubquery
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.types import BOOLEAN
from viewmill.errors import Span, TypeMismatch
from viewmill.sql.coercion import cast, common_type
from viewmill.sql.not_modelled import NotModelled

if TYPE_CHECKING:
    from viewmill.sql.lower_expressions import ExpressionLowering


def lower_query(lowering: ExpressionLowering, node: exp.Expr) -> Relation:
    """The rows of a query inside an expression."""
    environment = lowering.environment
    prefix = environment.names.fresh("subquery")
    return environment.lower_query(node, environment.inside(lowering.scope), prefix).relation


def lower_scalar(lowering: ExpressionLowering, node: exp.Expr) -> Expression:
    """A query used as a value."""
    relation = lower_query(lowering, node)
    if len(relation.schema) != 1:
        raise TypeMismatch(
            f"a query used as a value has one column, this has {len(relation.schema)}",
            span=lowering.span(node),
        )
    return ScalarSubquery(relation, relation.schema[0].type, True, lowering.span(node))


def lower_exists(lowering: ExpressionLowering, node: exp.Expr) -> Expression:
    """EXISTS (query)."""
    if not isinstance(node.this, exp.Query):
        raise NotModelled("the function exists", lowering.span(node))
    return Exists(lower_query(lowering, node.this), span=lowering.span(node))


def lower_in(
    lowering: ExpressionLowering,
    values: tuple[Expression, ...],
    node: exp.Expr,
    span: Span | None,
) -> Expression:
    """Values IN (query), both sides in their common types."""
    relation = lower_query(lowering, node)
    if len(values) != len(relation.schema):
        raise TypeMismatch(
            f"IN compares {len(values)} values with a query of {len(relation.schema)} columns",
            span=span,
        )
    left: list[Expression] = []
    right: list[tuple[str, Expression]] = []
    for value, field in zip(values, relation.schema, strict=True):
        meeting = common_type(value.type, field.type)
        if meeting is None:
            raise TypeMismatch(f"{value.type} and {field.type} cannot be compared", span=span)
        left.append(cast(value, meeting))
        right.append((field.name, cast(Column(field.name, field.type, field.nullable), meeting)))
    if any(not isinstance(each, Column) for _, each in right):
        relation = Project(relation, tuple(right))
    nullable = any(each.nullable for each in (*left, *relation.schema))
    return InSubquery(tuple(left), relation, BOOLEAN, nullable, span)
