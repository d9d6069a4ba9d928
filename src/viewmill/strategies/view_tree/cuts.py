"""Cut the payload of a table's rows along the factors of a product.

takes  an occurrence, its products of factors, the shape of the update
gives  `Cut`: which factors must stay together, and what each of these pieces contributes

A sum over A2.i, A2.j of A2.P splits if P is the product of a value for each i and one for each j;
a condition i < j holds both factors together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression
from viewmill.algebra.types import BIGINT, DOUBLE, Decimal, Float, Integer, Type
from viewmill.algebra.walk import columns_of
from viewmill.deltas.product import Shape
from viewmill.strategies.view_tree.polynomials import (
    Factor,
    is_finite,
    is_not_zero,
    is_number,
    not_null,
    sign,
)

Split = dict[int, Expression]  # by piece


class _Together(Exception):
    """An expression needs several pieces at once."""


@dataclass
class Cut:
    """The pieces of an update, each the factors (by number) that stay together."""

    alias: str
    shape: Shape
    pieces: list[tuple[int, ...]]

    @property
    def value(self) -> str | None:
        """The value column by its name in the query."""
        return None if self.shape.value is None else f"{self.alias}.{self.shape.value}"

    def owner(self, piece: int) -> str:
        """How products name a piece; no alias ends so."""
        return f"{self.alias}#{piece}"

    def columns(self, piece: int) -> frozenset[str]:
        """The columns of a piece by their names in the query, the value column not among them."""
        return frozenset(
            f"{self.alias}.{name}" for f in self.pieces[piece] for name in self.shape.factors[f][0]
        )

    def has_value(self, piece: int) -> bool:
        """Whether some factor of the piece has a value."""
        return any(self.shape.factors[f][1] for f in self.pieces[piece])

    def touched(self, expression: Expression) -> list[int]:
        """The pieces that an expression reads."""
        names = columns_of(expression)
        return [
            piece
            for piece in range(len(self.pieces))
            if names & self.columns(piece) or (self.value in names and self.has_value(piece))
        ]

    # Splitting.

    def factors(self, factor: Factor) -> list[tuple[str, Factor]]:
        """What each piece has of a factor, by owner."""
        values: list[list[Expression]] = [[] for _ in self.pieces]
        guards: list[list[Expression]] = [[] for _ in self.pieces]
        for value in factor.values:
            for piece, part in self._value(value).items():
                values[piece].append(part)
        for guard in factor.guards:
            for piece, part in self._guard(guard).items():
                guards[piece].append(part)
        made = [Factor(tuple(v), tuple(g)) for v, g in zip(values, guards, strict=True)]
        return [(self.owner(i), each) for i, each in enumerate(made) if each != Factor()]

    def _value(self, value: Expression) -> Split:
        """A product of the pieces' values, or `_Together`."""
        if isinstance(value, Column) and value.name == self.value:
            share = replace(value, type=_wide(value.type))
            return {i: share for i in range(len(self.pieces)) if self.has_value(i)}
        touched = self.touched(value)
        if len(touched) <= 1:
            return {touched[0] if touched else 0: value}
        match value:
            case Call(function="*", arguments=(left, right)) if isinstance(value.type, Float):
                return _times(self._value(left), self._value(right))
            case Cast() if value.type == DOUBLE or _widens(value):
                inner = self._value(value.input)
                return {i: Cast(e, value.type, e.nullable) for i, e in inner.items()}
            case Case() if value == sign(_judged(value)):
                inner = self._value(_judged(value))
                return {i: sign(each) for i, each in inner.items()}
        raise _Together

    def _guard(self, guard: Expression) -> Split:
        """A guard that holds where one of each piece does."""
        touched = self.touched(guard)
        if len(touched) <= 1:
            return {touched[0] if touched else 0: guard}
        inner = _judged(guard)
        for made in (not_null, is_finite, is_not_zero):
            if guard == made(inner):
                return {i: made(each) for i, each in self._value(inner).items()}
        if guard == is_number(inner) and isinstance(inner, Column):
            # A product has finite values only, so none of them makes a NaN of another.
            return {i: is_number(each) for i, each in self._value(inner).items()}
        raise _Together


def cut_update(
    alias: str, shape: Shape, alone: Iterable[Expression], factors: Sequence[Factor]
) -> Cut:
    """The finest pieces; an expression of `alone` must lie in one piece."""
    cut = Cut(alias, shape, [(i,) for i in range(len(shape.factors))])
    for expression in alone:
        _join(cut, cut.touched(expression))
    for factor in factors:
        for value in factor.values:
            _try(cut, value, cut._value)
        for guard in factor.guards:
            _try(cut, guard, cut._guard)
    return cut


def _try(cut: Cut, expression: Expression, split: object) -> None:
    try:
        split(expression)  # type: ignore[operator]
    except _Together:
        _join(cut, cut.touched(expression))


def _join(cut: Cut, touched: list[int]) -> None:
    if len(touched) > 1:
        together = tuple(sorted(f for i in touched for f in cut.pieces[i]))
        cut.pieces = [p for i, p in enumerate(cut.pieces) if i not in touched] + [together]


def _times(left: Split, right: Split) -> Split:
    result = dict(left)
    for i, each in right.items():
        mine = result.get(i)
        nullable = each.nullable or (mine is not None and mine.nullable)
        result[i] = each if mine is None else Call("*", (mine, each), DOUBLE, nullable)
    return result


def _wide(type_: Type) -> Type:
    """The type of a share of a value: only the product of all must fit the column."""
    if isinstance(type_, Integer):
        return BIGINT
    return Decimal(18, type_.scale) if isinstance(type_, Decimal) else type_


def _widens(cast: Cast) -> bool:
    source, target = cast.input.type, cast.type
    return (
        isinstance(source, Integer) and isinstance(target, Integer) and source.bits <= target.bits
    )


def _judged(expression: Expression) -> Expression:
    """The value that a guard or a sign asks something of, if it is one."""
    while not isinstance(expression, Column):
        match expression:
            case Call(function="*") | Cast():
                return expression
            case Call(arguments=(first, *_)):
                expression = first
            case Case(branches=((condition, _), *_)):
                expression = condition
            case _:
                return expression
    return expression
