"""An aggregated expression over several tables as a sum of products, one factor for each table.

    sum(a.price * a.volume - b.price * b.volume)  =  sum(A) * count(B) - count(A) * sum(B)

Each table can keep its own sums only if the expression has this form.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Call, Cast, Expression, Literal
from viewmill.algebra.types import Decimal, Float, Integer, Type
from viewmill.codegen.shape import NotTaken
from viewmill.strategies.aggregate_index.query import aliases_of, own_names


@dataclass(frozen=True)
class Term:
    """`coefficient` times a factor of each table named; the other tables only count their rows."""

    coefficient: float  # a whole number unless floats are summed
    factors: tuple[tuple[str, Expression], ...] = ()

    def factor(self, alias: str) -> Expression | None:
        """The factor of a table."""
        return dict(self.factors).get(alias)


def products(expression: Expression) -> tuple[Term, ...]:
    """The terms of an expression; their values are words at the scale of its type."""
    aliases = aliases_of(expression)
    if len(aliases) == 1:
        return (Term(1, ((next(iter(aliases)), own_names(expression)),)),)
    match expression:
        case Literal(value=float() as value):
            return (Term(value),)
        case Literal(value=int() | decimal.Decimal() as value):
            return (Term(int(decimal.Decimal(value).scaleb(scale_of(expression.type)))),)
        case Call(function="+" | "-", arguments=(left, right)):
            sign = 1 if expression.function == "+" else -1
            to = expression.type
            return _scaled(products(left), left.type, to, 1) + _scaled(
                products(right), right.type, to, sign
            )
        case Call(function="-", arguments=(inside,)):
            return _scaled(products(inside), inside.type, expression.type, -1)
        case Call(function="*", arguments=(left, right)):
            is_real = isinstance(expression.type, Float)
            if not is_real and scale_of(left.type) + scale_of(right.type) != scale_of(
                expression.type
            ):
                raise NotTaken("a product that rounds", expression.span)
            return tuple(_times(a, b) for a in products(left) for b in products(right))
        case Cast(input=inside) if isinstance(inside.type, Integer | Decimal):
            return _scaled(products(inside), inside.type, expression.type, 1)
        case _:
            raise NotTaken(
                f"{display_expression(expression)} is no sum of products over the tables",
                expression.span,
            )


def _scaled(terms: tuple[Term, ...], source: Type, target: Type, sign: int) -> tuple[Term, ...]:
    if isinstance(target, Float):
        unit = 1.0 if isinstance(source, Float) else 10.0 ** -scale_of(source)
        return tuple(Term(sign * unit * each.coefficient, each.factors) for each in terms)
    digits = scale_of(target) - scale_of(source)
    if digits < 0 or not isinstance(target, Integer | Decimal):
        raise NotTaken(f"{source} as {target} inside an aggregate over several tables")
    return tuple(Term(sign * 10**digits * each.coefficient, each.factors) for each in terms)


def _times(a: Term, b: Term) -> Term:
    both = dict(a.factors).keys() & dict(b.factors).keys()
    if both:
        raise NotTaken(f"a product in which {both.pop()} has two factors apart")
    return Term(a.coefficient * b.coefficient, a.factors + b.factors)


def scale_of(type_: Type) -> int:
    """Digits after the point."""
    return type_.scale if isinstance(type_, Decimal) else 0
