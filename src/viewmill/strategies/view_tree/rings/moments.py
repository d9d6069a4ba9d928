"""STDDEV, SKEWNESS, CORR, REGR_*, ... over a join: the sums they are made of, and how they finish.

takes  a call, and the pieces of its arguments
gives  sums of products for the result's slots, and the source that shows a value of them

    CORR(r.x, s.y)   is made of   rows, sum(x), sum(x x), sum(y), sum(y y), sum(x y)

where each sum is over the rows in which neither is NULL, NaN or infinite. They are exact, whatever
the order in which rows come and go, and are finished as those over one table are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from viewmill.algebra.aggregates import moments_of
from viewmill.algebra.aggregates.moments import LARGEST_SHAPED
from viewmill.algebra.expressions import Aggregate, Expression
from viewmill.algebra.types import Float
from viewmill.codegen.moments import show_moments, shown_moments
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.strategies.view_tree.polynomials import (
    Decomposer,
    Factor,
    Piece,
    Term,
    collected,
    is_below,
    is_finite,
    uncast,
)
from viewmill.strategies.view_tree.rings.ring import SlotRef

SHAPE = ("y", "yy", "yyy", "yyyy")  # side by side, as what finishes them wants

_SLOT_WORDS = 3


@dataclass(frozen=True)
class MomentSums:
    """What a call is made of: rows that count, those of them that are finite, sums over these."""

    count: tuple[Term, ...]
    finite: tuple[Term, ...]
    sums: Mapping[str, tuple[Term, ...]]  # by what is multiplied: y, yy, x, xx, xy, yyy, yyyy


@dataclass(frozen=True)
class ShownMoment:
    """The slots of a call."""

    count: str
    finite: str
    sums: Mapping[str, str]


def moment_sums(call: Aggregate, decomposer: Decomposer) -> MomentSums:
    """The sums of a call."""
    made = moments_of(call.function)
    assert made is not None
    arguments = [_Argument(each, decomposer, has_shape=made.has_shape) for each in call.arguments]
    condition = decomposer.condition(call.where)
    names = SHAPE if made.has_shape else ("y", "yy") if len(arguments) == 1 else _PAIR
    finite = [_over_all(arguments, condition, name) for name in ("", *names)]
    count = _over_all([each.unguarded() for each in arguments], condition, "")
    return MomentSums(count, finite[0], dict(zip(names, finite[1:], strict=True)))


_PAIR = ("y", "yy", "x", "xx", "xy")


class _Argument:
    """An argument of a call: pieces that exclude each other, over its finite values."""

    def __init__(self, value: Expression, decomposer: Decomposer, *, has_shape: bool) -> None:
        self.pieces = decomposer.measured(value, rounded=has_shape)
        self._all = self.pieces
        if has_shape:
            self.pieces = [_guarded(each, is_below(value, LARGEST_SHAPED)) for each in self._all]
        elif isinstance(uncast(value).type, Float):
            self.pieces = [_guarded(each, is_finite(value)) for each in self._all]

    def unguarded(self) -> _Argument:
        """The same, over all its values."""
        other = _Argument.__new__(_Argument)
        other.pieces = other._all = self._all
        return other


def _guarded(piece: Piece, guard: Expression) -> Piece:
    """A piece of one table where a guard of its value holds, too."""
    (term,) = piece.terms
    for owner, factor in term.factors:
        if factor.values:
            test = Term(factors=((owner, Factor((), (guard,))),))
            return Piece(piece.where.times(test), piece.terms)
    return piece  # a constant


def _over_all(arguments: list[_Argument], condition: Term, product: str) -> tuple[Term, ...]:
    """The sum of a product of arguments over the rows that have them all."""
    terms: list[Term] = []
    for y in arguments[0].pieces:
        for x in arguments[1].pieces if len(arguments) > 1 else [None]:
            where = condition.times(y.where)
            where = where if x is None else where.times(x.where)
            factors = [y.terms if each == "y" else x.terms for each in product]  # type: ignore[union-attr]
            terms += reduce(_times, factors, (where,))
    return collected(terms)


def _times(left: Iterable[Term], right: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(a.times(b) for a in left for b in right)


def finish_moment(call: Aggregate, shown: ShownMoment, scalar: Scalar, ref: SlotRef) -> Operand:
    """Write the value of a call."""
    source, made = scalar.source, moments_of(call.function)
    assert made is not None
    n, value, null = (source.name(each) for each in ("n", call.function, "none"))
    counted = f"wide_at({ref.at(shown.count)})"
    source.line(f"{n} = max(wide_low({counted}), 0)")
    with source.block(f"if not wide_value_fits({counted}):"):
        why = scalar.failure(call, "Overflow", f"the result does not fit {call.type}")
        source.line(f"fail({why})")
    if made.least == 0:
        return Operand(n)
    special = "False"
    if shown.finite != shown.count:
        rest = f"wide_minus({counted}, wide_at({ref.at(shown.finite)}))"
        special = f"not wide_is_zero({rest})"
    with shown_moments(source, made, n, value, null, special):
        show_moments(source, made, _texts(shown, ref, n), value, null, n)
    return Operand(value, null)


def _texts(shown: ShownMoment, ref: SlotRef, n: str) -> dict[str, str]:
    """The source of each moment that the slots give."""
    word = {name: ref.words[slot] for name, slot in shown.sums.items()}
    at = f"{ref.state}, {ref.entry}"

    def central(a: str, b: str, both: str) -> str:
        return f"moment_central({at}, {word[a]}, {word[b]}, {word[both]}, {n})"

    y = word["y"]
    texts = {
        "my": f"moment_mean({at}, {y}, {n})",
        "yy": f"max({central('y', 'y', 'yy')}, 0.0)",
    }
    if "x" in word:
        texts["mx"] = f"moment_mean({at}, {word['x']}, {n})"
        texts["xx"] = f"max({central('x', 'x', 'xx')}, 0.0)"
        texts["xy"] = central("y", "x", "xy")
    if "yyy" in word:
        assert [word[name] for name in SHAPE] == [y + _SLOT_WORDS * i for i in range(4)]
        texts["yyy"] = f"moment_third({at}, {y}, {n})"
        texts["yyyy"] = f"moment_fourth({at}, {y}, {n})"
    return texts
