"""Fields of cofactor() and linear_regression() where they are called, each as an aggregate.

takes  the call as algebra, a field's name, a subscript
gives  count, sum or sum of products over the rows that have all columns: what every strategy keeps
"""

from __future__ import annotations

from itertools import combinations_with_replacement

from viewmill.algebra.conditions import chain
from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal
from viewmill.algebra.packed import LARGEST
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE
from viewmill.errors import InvalidArgument, Span, UnsupportedQuery

FUNCTIONS = ("cofactor", "linear_regression")


def moment_field(
    call: Aggregate, name: str, subscript: int | None, span: Span | None
) -> Expression:
    """The field of one call; an array's needs its subscript."""
    field = name.lower()
    if field == "n":
        return Aggregate("count", (), BIGINT, False, where=_complete(call), span=span)
    values = {"sums": _sums, "products": _products}.get(field)
    if call.function != "cofactor" or values is None or subscript is None:
        raise UnsupportedQuery(
            f'"{name}" of {call.function}() cannot be part of an expression where it is called',
            hint="Keep the whole value in a view and read the field from it: "
            "SELECT v.value.field FROM v. Here n, sums[i] and products[i] of cofactor() can stand.",
            span=span,
        )
    found = values(call)
    if not 0 <= subscript < len(found):
        raise InvalidArgument(
            f"{name}[{subscript}] of {len(found)} values",
            hint="Subscripts count from 0.",
            span=span,
        )
    total = Aggregate("sum", (found[subscript],), DOUBLE, True, where=_complete(call), span=span)
    return Call("coalesce", (total, Literal(0.0, DOUBLE)), DOUBLE, False)


def _sums(call: Aggregate) -> list[Expression]:
    return list(call.arguments)


def _products(call: Aggregate) -> list[Expression]:
    """The upper triangle by rows."""
    return [
        Call("*", (a, b), DOUBLE, a.nullable or b.nullable)
        for a, b in combinations_with_replacement(call.arguments, 2)
    ]


def _complete(call: Aggregate) -> Expression:
    """Whether a row counts: it has every column, and none is NaN or too large to be squared."""
    tests: list[Expression] = [
        Call("<", (_size(each), Literal(LARGEST, DOUBLE)), BOOLEAN, each.nullable)
        for each in call.arguments
    ]
    tests += [] if call.where is None else [call.where]
    return chain("and", tests)


def _size(value: Expression) -> Expression:
    return Call("abs", (value,), DOUBLE, value.nullable)
