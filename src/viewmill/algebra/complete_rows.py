"""Which rows cofactor() counts: those that have every column, and numbers that can be squared."""

from __future__ import annotations

from viewmill.algebra.conditions import chain
from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal
from viewmill.algebra.packed import LARGEST
from viewmill.algebra.types import BOOLEAN, DOUBLE


def complete(call: Aggregate) -> Expression:
    """Whether a row counts: it has every column, and no number is NaN or too large."""
    tests = [
        _is_number(each) if each.type == DOUBLE else _is_there(each) for each in call.arguments
    ]
    tests += [] if call.where is None else [call.where]
    return chain("and", tests)


def _is_number(value: Expression) -> Expression:
    size = Call("abs", (value,), DOUBLE, value.nullable)
    return Call("<", (size, Literal(LARGEST, DOUBLE)), BOOLEAN, value.nullable)


def _is_there(value: Expression) -> Expression:
    return Call("not", (Call("is_null", (value,), BOOLEAN, False),), BOOLEAN, False)
