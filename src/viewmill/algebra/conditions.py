"""Conditions that hold together: taken apart at AND, and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from viewmill.algebra.expressions import Call, Expression
from viewmill.algebra.relations import Filter, Relation
from viewmill.algebra.types import BOOLEAN
from viewmill.errors import Span

_CHAIN = 8  # as many stand in a row; more are halved, so that no tree is as deep as it is long


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The parts that an AND holds together, in order."""
    if isinstance(condition, Call) and condition.function == "and":
        for argument in condition.arguments:
            yield from conjuncts(argument)
    else:
        yield condition


def conjunction(left: Expression, right: Expression) -> Expression:
    """Both conditions, the left one judged first."""
    return _connected("and", left, right)


def together(conditions: Iterable[Expression]) -> Expression | None:
    """All conditions as one, None if there is none."""
    parts = tuple(conditions)
    return chain("and", parts) if parts else None


def chain(sign: str, parts: Sequence[Expression], span: Span | None = None) -> Expression:
    """Conditions between which the same sign stands, judged from left to right."""
    if len(parts) > _CHAIN:
        middle = len(parts) // 2
        left, right = chain(sign, parts[:middle], span), chain(sign, parts[middle:], span)
        return _connected(sign, left, right, span)
    result, *others = parts
    for each in others:
        result = _connected(sign, result, each, span)
    return result


def _connected(
    sign: str, left: Expression, right: Expression, span: Span | None = None
) -> Expression:
    return Call(sign, (left, right), BOOLEAN, left.nullable or right.nullable, span)


def filtered(relation: Relation, conditions: Iterable[Expression]) -> Relation:
    """The rows that meet all conditions."""
    condition = together(conditions)
    return relation if condition is None else Filter(relation, condition)
