"""Lower comparisons with ANY, SOME and ALL of a query.

takes  x < ANY (query), x <> ALL (query) and their like; the lowering of the expression around them
gives  the same by IN, or by comparing with the extremes of the query

x < ANY (query) is true if x is below the largest value. Else it is false if the query has no row,
unknown if x or one of the values is NULL, and false otherwise. x < ALL (query) is NOT x >= ANY
(query), in three-valued logic too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Literal as OneOf

from sqlglot import exp

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Expression, Literal, ScalarSubquery
from viewmill.algebra.relations import Aggregate, Project
from viewmill.algebra.types import BIGINT, BOOLEAN, Null
from viewmill.errors import Span, TypeMismatch
from viewmill.sql import operators
from viewmill.sql.lower_subqueries import lower_in, lower_query
from viewmill.sql.not_modelled import NotModelled

if TYPE_CHECKING:
    from viewmill.sql.lower_expressions import ExpressionLowering

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
_EXTREMES: dict[str, tuple[OneOf["min", "max"], ...]] = {
    "<": ("max",), "<=": ("max",), ">": ("min",), ">=": ("min",), "<>": ("min", "max"),
}  # fmt: skip


def lower_quantified(
    lowering: ExpressionLowering, sign: str, value: exp.Expr, among: exp.Expr, span: Span | None
) -> Expression:
    """A value compared with ANY or ALL of a query."""
    query = among.this.this if isinstance(among.this, exp.Subquery | exp.Paren) else among.this
    if not isinstance(query, exp.Query) or isinstance(value, exp.Tuple):
        raise NotModelled("ANY and ALL of what is no query", span)
    if sign not in _OPPOSITE:
        raise NotModelled(f"{sign} with ANY or ALL", span)
    left = lowering.lower(value)
    if isinstance(among, exp.All):
        return operators.negation(_any(lowering, _OPPOSITE[sign], left, query, span), span)
    return _any(lowering, sign, left, query, span)


def _any(
    lowering: ExpressionLowering, sign: str, left: Expression, query: exp.Expr, span: Span | None
) -> Expression:
    if sign == "=":
        return lower_in(lowering, (left,), query, span)
    true, false = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
    unknown = Literal(None, Null())
    met: Expression | None = None
    for each in _EXTREMES[sign]:
        extreme = _extreme(lowering, each, query, span)
        holds = operators.compare(sign, left, extreme, span)
        met = holds if met is None else operators.connect("or", met, holds, span)
    assert met is not None
    none = operators.is_null(extreme, span)
    doubt = operators.is_null(left, span)
    nulls = _nulls(lowering, query)
    if nulls is not None:
        zero = Literal(0, BIGINT)
        none = operators.connect("and", none, operators.compare("=", nulls, zero, span), span)
        doubt = operators.connect("or", doubt, operators.compare(">", nulls, zero, span), span)
    branches: list[tuple[Expression, Expression]] = [(met, true), (none, false), (doubt, unknown)]
    return operators.choose(branches, false, span)


def _extreme(
    lowering: ExpressionLowering, which: str, query: exp.Expr, span: Span | None
) -> Expression:
    """The smallest or largest value of a query; NULL if it has none."""
    rows = lower_query(lowering, query)
    if len(rows.schema) != 1:
        raise TypeMismatch(
            f"ANY and ALL compare with a query of one column, this has {len(rows.schema)}",
            span=span,
        )
    (field,) = rows.schema
    column = Column(field.name, field.type, field.nullable)
    name = lowering.environment.names.fresh(which)
    call = AggregateCall(which, (column,), field.type, True)
    return ScalarSubquery(Aggregate(rows, (), ((name, call),)), field.type, True, span)


def _nulls(lowering: ExpressionLowering, query: exp.Expr) -> Expression | None:
    """How many rows of a query are NULL; None if none can be."""
    rows = lower_query(lowering, query)
    (field,) = rows.schema
    if not field.nullable:
        return None
    column = Column(field.name, field.type, True)
    names = lowering.environment.names
    every, known = names.fresh("rows"), names.fresh("values")
    counts = Aggregate(
        rows,
        (),
        (
            (every, AggregateCall("count", (), BIGINT, False)),
            (known, AggregateCall("count", (column,), BIGINT, False)),
        ),
    )
    left, right = (Column(name, BIGINT, False) for name in (every, known))
    difference = operators.arithmetic("-", left, right, None)
    return ScalarSubquery(Project(counts, ((names.fresh("nulls"), difference),)), BIGINT, True)
