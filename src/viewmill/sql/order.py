"""ORDER BY and LIMIT, with ties broken the same way by every engine.

takes  a projected query, the sort keys over its input
gives  Limit(Sort(...)), and a Project above when keys are not among the outputs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.expressions import Column, Expression, Literal, SortKey
from viewmill.algebra.relations import Limit, Named, Project, Relation, Sort
from viewmill.errors import Span, TypeMismatch
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.lower_windows import is_sortable
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.scopes import Scope


def position_of(node: exp.Expr, count: int, span: Span | None) -> int | None:
    """ORDER BY 2 is the second output; None when the key is no number."""
    inner = node.this if isinstance(node, exp.Ordered) else node
    if not isinstance(inner, exp.Literal) or inner.args.get("is_string"):
        return None
    if not inner.name.isdigit():
        return None
    position = int(inner.name)
    if not 1 <= position <= count:
        raise TypeMismatch(f"ORDER BY position {position} is not one of 1 to {count}", span=span)
    return position - 1


class Ordering:
    """Sort keys as columns of the projection; a key that is no output becomes a hidden column."""

    Change = Callable[[Expression], Expression]

    def __init__(
        self,
        columns: list[Named],
        keys: list[SortKey],
        environment: Environment,
        *,
        hidden_allowed: bool,
    ) -> None:
        self.columns, self.hidden = columns, list[Named]()
        self.environment, self.hidden_allowed = environment, hidden_allowed
        self.keys = [replace(key, expression=self._column(key.expression)) for key in keys]

    def _column(self, expression: Expression) -> Column:
        for name, known in self.columns + self.hidden:
            if known == expression:
                return Column(name, expression.type, expression.nullable)
        if not self.hidden_allowed:
            raise TypeMismatch(
                "ORDER BY with DISTINCT can only use outputs",
                detail="Rows that differ in it were made one.",
                span=expression.span,
            )
        name = self.environment.names.fresh("order")
        self.hidden.append((name, expression))
        return Column(name, expression.type, expression.nullable)

    def outputs(self) -> list[Named]:
        """What the projection computes."""
        return self.columns + self.hidden

    def total(self) -> tuple[SortKey, ...]:
        """The keys, then all remaining outputs: equal rows are then equal in all that is shown."""
        keys = _unique(self.keys)
        used = {key.expression for key in keys}
        rest = [Column(name, each.type, each.nullable) for name, each in self.columns]
        more = [SortKey(each) for each in rest if each not in used and is_sortable(each)]
        return (*keys, *more)


def _unique(keys: list[SortKey]) -> list[SortKey]:
    first: dict[Expression, SortKey] = {}
    for key in keys:
        first.setdefault(key.expression, key)
    return list(first.values())


def limited(
    query: exp.Expr,
    relation: Relation,
    ordering: Ordering,
    environment: Environment,
    *,
    top: bool,
) -> Relation:
    """The query sorted and cut. Below the top, an order without a limit means nothing."""
    count, offset = _bounds(query, environment)
    cut = count is not None or offset > 0
    order = query.args.get("order")
    if ordering.keys and (cut or top):
        keys = ordering.total() if cut or environment.keeps_order else tuple(_unique(ordering.keys))
        relation = Sort(relation, keys, environment.span(order))
    if cut:
        limit = query.args.get("limit") or query.args.get("offset")
        relation = Limit(relation, count, offset, environment.span(limit))
    if ordering.hidden:
        shown = tuple((n, Column(n, each.type, each.nullable)) for n, each in ordering.columns)
        relation = Project(relation, shown)
    return relation


def _bounds(query: exp.Expr, environment: Environment) -> tuple[int | None, int]:
    limit, offset = query.args.get("limit"), query.args.get("offset")
    count: int | None = None
    if isinstance(limit, exp.Fetch):
        raise NotModelled("FETCH", environment.span(limit))
    if limit is not None and limit.expression.name.upper() != "ALL":
        if limit.args.get("expressions") or limit.args.get("offset"):
            raise NotModelled("LIMIT with this", environment.span(limit))
        count = _whole(limit.expression, "LIMIT", environment)
    skipped = 0 if offset is None else _whole(offset.expression, "OFFSET", environment)
    return count, skipped


def _whole(node: exp.Expr, clause: str, environment: Environment) -> int:
    value = ExpressionLowering(environment, Scope()).lower(node)
    span = environment.span(node)
    if not isinstance(value, Literal):
        raise NotModelled(f"{clause} that is not a number", span)
    if not isinstance(value.value, int) or value.value < 0:
        raise TypeMismatch(f"{clause} needs a whole number that is not negative", span=span)
    return value.value
