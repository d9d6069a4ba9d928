"""What each view keeps: one slot for each product that an aggregate needs from the tables below it.

takes  `Block`, the tree
gives  `Layout`: the slots of every view, and for the root what each aggregate reads
next   states, emit, definitions

    SUM(r.b * t.d), COUNT(*)      r keeps rows, sum_b; t keeps rows, sum_d; their join rows, sum_b_d
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from viewmill.algebra.expressions import Aggregate, Column
from viewmill.algebra.types import Decimal, Float, Integer
from viewmill.program.states import Slot
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.polynomials import (
    ONE,
    Decomposer,
    Factor,
    FloatTerms,
    Polynomial,
    Term,
    collected,
    columns_in,
    float_terms,
    variable_owner,
)
from viewmill.strategies.view_tree.rings import Kind, join_kind, leaf_kind
from viewmill.strategies.view_tree.tree import View

Signature = tuple[tuple[str, Factor], ...]  # a product: the factor of each owner that has one
TAKEN = ("count", "sum", "avg")

_SPECIALS: tuple[tuple[str, Callable[[FloatTerms], tuple[Term, ...]]], ...] = (
    ("nan", lambda parts: parts.nan),
    ("plus", lambda parts: parts.plus),
    ("minus", lambda parts: parts.minus),
)


@dataclass(frozen=True)
class RootSlot:
    """A slot of the result: a sum of products, with word-level coefficients."""

    slot: Slot
    terms: tuple[Term, ...]
    scale: int = 0  # digits after the point of its word


@dataclass(frozen=True)
class Shown:
    """Where an aggregate's count and total are."""

    count: str
    total: str = ""
    specials: tuple[str, ...] = ()  # of floats: NaN, +infinity, -infinity


@dataclass
class Layout:
    """The slots of the views."""

    block: Block
    root: View
    root_slots: list[RootSlot] = field(default_factory=list)
    shown: dict[str, Shown] = field(default_factory=dict)
    slots: dict[str, dict[Signature, Slot]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root_slot("rows", (ONE,), exact=True)
        decomposer = Decomposer(self.block)
        for name, call in self.block.aggregates:
            _require_taken(call)
            self.shown[name] = self._aggregate(call, decomposer)
        for view in self.root.walk():
            if view is not self.root:
                self.slots[view.name] = self._view_slots(view)

    def _aggregate(self, call: Aggregate, decomposer: Decomposer) -> Shown:
        value = call.arguments[0] if call.arguments else None
        if call.function == "count" and (value is None or not value.nullable):
            value = None
        if call.function == "count" and value is not None:
            polynomial = Polynomial((), decomposer.non_null(value, call.where))
        else:
            polynomial = decomposer.polynomial(value, call.where)
        count = self._root_slot("count", polynomial.count, exact=True)
        if call.function == "count":
            return Shown(count)
        assert value is not None
        if isinstance(value.type, Float):
            return self._float_aggregate(count, polynomial.terms)
        scale = value.type.scale if isinstance(value.type, Decimal) else 0
        terms = _scaled_terms(polynomial.terms, scale, call)
        wish = "_".join(["sum", *_names(t for term in terms for t in term.factors)])
        return Shown(count, self._root_slot(wish, terms, exact=True, scale=scale))

    def _float_aggregate(self, count: str, terms: tuple[Term, ...]) -> Shown:
        """A sum of floats keeps its finite rows; NaN and infinities are counted apart."""
        parts = [float_terms(term) for term in terms]
        finite = collected(part.finite for part in parts)
        wish = "_".join(["sum", *_names(f for term in finite for f in term.factors)])
        total = self._root_slot(wish, finite, exact=False)
        specials = [
            self._root_slot(name, collected(term for p in parts for term in chosen(p)), exact=True)
            for name, chosen in _SPECIALS
        ]
        return Shown(count, total, tuple(specials))

    def _root_slot(self, wish: str, terms: tuple[Term, ...], *, exact: bool, scale: int = 0) -> str:
        kind: Kind = "wide" if exact else "sum"
        for known in self.root_slots:
            if (known.terms, known.slot.kind) == (terms, kind):
                return known.slot.name
        name = _unique(wish, [each.slot.name for each in self.root_slots])
        self.root_slots.append(RootSlot(Slot(name, kind), terms, scale))
        return name

    @property
    def terms(self) -> list[Term]:
        """Every product that the result needs."""
        return [term for each in self.root_slots for term in each.terms]

    def restrict(self, factors: Signature, view: View) -> Signature:
        """The part of a product that comes from below a view."""
        owners = view.relations | {variable_owner(each) for each in view.lifted()}
        return tuple((owner, factor) for owner, factor in factors if owner in owners)

    def _view_slots(self, view: View) -> dict[Signature, Slot]:
        slots: dict[Signature, Slot] = {}
        for term in self.terms:
            signature = self.restrict(term.factors, view)
            if signature not in slots:
                taken = [slot.name for slot in slots.values()]
                slots[signature] = Slot(
                    _unique(_wish(signature), taken), self._kind(view, signature)
                )
        return slots

    def _kind(self, view: View, signature: Signature) -> Kind:
        factors = [factor for _, factor in signature]
        if view.is_leaf:
            return leaf_kind(factors[0] if factors else Factor())
        return join_kind(factors)


def _scaled_terms(terms: tuple[Term, ...], scale: int, call: Aggregate) -> tuple[Term, ...]:
    """Coefficients for words: a product of words has its own digits after the point."""
    result = []
    for term in terms:
        coefficient = term.coefficient * Fraction(10) ** (scale - term.scale)
        if coefficient.denominator != 1:
            raise NotTaken("a product with more digits than its sum", call.span)
        result.append(Term(coefficient, term.factors))
    return tuple(result)


def _wish(signature: Signature) -> str:
    if not signature:
        return "rows"
    if any(factor.values for _, factor in signature):
        return "_".join(["sum", *_names(signature)])
    return "_".join(["count", *_names(signature)])


def _names(factors: Iterable[tuple[str, Factor]]) -> list[str]:
    """The columns of a product, for a name that a person can read."""
    names: list[str] = []
    for _, factor in factors:
        for value in factor.values or factor.guards:
            found = columns_in(value) if not isinstance(value, Column) else {value.name}
            names += sorted(each.split(".")[-1].lower() for each in found)
    return list(dict.fromkeys(names))[:4]


def _unique(wish: str, taken: list[str]) -> str:
    name, count = wish, 2
    while name in taken:
        name, count = f"{wish}_{count}", count + 1
    return name


def _require_taken(call: Aggregate) -> None:
    if call.function not in TAKEN:
        raise NotTaken(f"{call.function} is not maintained by a view tree", call.span)
    if call.distinct:
        raise NotTaken(f"{call.function}(DISTINCT) is not maintained by a view tree", call.span)
    if len(call.arguments) > 1:
        raise NotTaken("count of several columns is not maintained by a view tree", call.span)
    if call.function != "count" and not isinstance(
        call.arguments[0].type, Integer | Decimal | Float
    ):
        raise NotTaken(f"{call.function} of {call.arguments[0].type}", call.span)
