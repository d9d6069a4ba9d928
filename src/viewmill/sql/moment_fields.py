"""Fields of cofactor() and linear_regression() where they are called, each as an aggregate.

takes  the call as algebra, a field's name, a subscript
gives  count, sum or sum of products over the rows that have all columns: what every strategy keeps
"""

from __future__ import annotations

from itertools import combinations_with_replacement

from viewmill.algebra.complete_rows import complete
from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal
from viewmill.algebra.mixed_moments import FUNCTION as MIXED
from viewmill.algebra.types import BIGINT, DOUBLE
from viewmill.errors import InvalidArgument, Span, UnsupportedQuery

FUNCTIONS = ("cofactor", "linear_regression", MIXED)


def moment_field(
    call: Aggregate, name: str, subscript: int | None, span: Span | None
) -> Expression:
    """The field of one call; an array's needs its subscript."""
    field = name.lower()
    if field == "n":
        return Aggregate("count", (), BIGINT, False, where=complete(call), span=span)
    values = {"sums": _sums, "products": _products}.get(field)
    if call.function == "linear_regression" or values is None or subscript is None:
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
    total = Aggregate("sum", (found[subscript],), DOUBLE, True, where=complete(call), span=span)
    return Call("coalesce", (total, Literal(0.0, DOUBLE)), DOUBLE, False)


def _sums(call: Aggregate) -> list[Expression]:
    return _numbers(call)


def _numbers(call: Aggregate) -> list[Expression]:
    """The columns that are no categories."""
    return [each for each in call.arguments if each.type == DOUBLE]


def _products(call: Aggregate) -> list[Expression]:
    """The upper triangle by rows."""
    return [
        Call("*", (a, b), DOUBLE, a.nullable or b.nullable)
        for a, b in combinations_with_replacement(_numbers(call), 2)
    ]
