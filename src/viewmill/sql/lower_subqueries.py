"""Lower queries inside expressions: as a value, in EXISTS, in IN.

takes  the query, the lowering of the expression around it
gives  algebra ScalarSubquery, Exists, InSubquery; correlated columns say how far out they are
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewmill.algebra.expressions import (
    Call,
    Column,
    Exists,
    Expression,
    InSubquery,
    Literal,
    ScalarSubquery,
    walk,
)
from viewmill.algebra.relations import Project, Relation
from viewmill.algebra.types import BOOLEAN
from viewmill.errors import Span, TypeMismatch
from viewmill.sql import operators
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


# Spark joins with the list and asks whether a row was found: where SQL's IN or NOT IN is NULL, both
# are FALSE. As a condition that is the same, so there they stay as they are.


def known(test: Expression) -> Expression:
    """IN or NOT IN of a query, FALSE where it is not known."""
    if not test.nullable:
        return test
    return Call("coalesce", (test, Literal(False, BOOLEAN)), BOOLEAN, False, test.span)


def negated(operand: Expression, span: Span | None) -> Expression:
    """NOT, of AND and OR as OR and AND where such a test is inside."""
    match operand:
        case Call(function="and" | "or" as sign) if any(map(_is_known, walk(operand))):
            parts = [negated(each, span) for each in operand.arguments]
            return operators.connect_all("or" if sign == "and" else "and", parts, span)
        case Call(function="not") if any(map(_is_known, walk(operand))):
            return operand.arguments[0]
        case Call() if _is_known(operand):
            test = operand.arguments[0]
            if isinstance(test, Call):  # NOT NOT IN
                return known(test.arguments[0])
            return known(operators.negation(test, span))
        case _:
            return operators.negation(operand, span)


def if_true(condition: Expression) -> Expression:
    """A condition on rows, of which FALSE and NULL keep none."""
    match condition:
        case Call() if _is_known(condition):
            return condition.arguments[0]
        case Call(function="and" | "or" as sign) if any(map(_is_known, walk(condition))):
            parts = [if_true(each) for each in condition.arguments]
            return operators.connect_all(sign, parts, condition.span)
        case _:
            return condition


def _is_known(expression: Expression) -> bool:
    if not isinstance(expression, Call) or expression.function != "coalesce":
        return False
    test = expression.arguments[0]
    if isinstance(test, Call) and test.function == "not":
        test = test.arguments[0]
    return isinstance(test, InSubquery)
