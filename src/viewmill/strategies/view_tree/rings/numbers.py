"""The rings of numbers: counts, sums and averages, all aggregates in one payload.

takes  `Block`, the tree
gives  one slot for each product that an aggregate needs from the tables below a view

    SUM(r.b * t.d), COUNT(*)      r keeps rows, sum_b; t keeps rows, sum_d; their join rows, sum_b_d

Equal products are kept once. The payload between lines is a value for each product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from viewmill.algebra.aggregates import moments_of
from viewmill.algebra.expressions import Aggregate, Column, Expression
from viewmill.algebra.float_parts import SUM_PARTS
from viewmill.algebra.types import Decimal, Float, Integer, Wide
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.states import EXACT_ROOM, Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.polynomials import (
    ONE,
    Decomposer,
    Factor,
    FloatTerms,
    Polynomial,
    Term,
    as_float,
    collected,
    columns_in,
    float_terms,
    is_null_test,
    judges,
    not_null,
    variable_owner,
)
from viewmill.strategies.view_tree.rings import arithmetic
from viewmill.strategies.view_tree.rings.arithmetic import (
    Kind,
    Value,
    join_kind,
    kind_of,
    leaf_kind,
)
from viewmill.strategies.view_tree.rings.finish_numbers import finish
from viewmill.strategies.view_tree.rings.moments import ShownMoment, finish_moment, moment_sums
from viewmill.strategies.view_tree.rings.ring import SlotRef
from viewmill.strategies.view_tree.rows import Rows
from viewmill.strategies.view_tree.tree import View

Signature = tuple[tuple[str, Factor], ...]  # a product: the factor of each owner that has one
Values = dict[Signature, Value]
TAKEN = ("count", "sum", "avg", *SUM_PARTS)
_SURE_DIGITS = 28  # ten billion numbers of this many digits add up to at most 38

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
    """The slots of an aggregate's count and total."""

    count: str
    total: str = ""
    specials: tuple[str, ...] = ()  # of floats: NaN, +infinity, -infinity
    about: str = ""  # the same total as a float, where the exact one may leave 128 bits


@dataclass
class Numbers:
    """The ring of some aggregates of a block, and of its row count, which is the first slot."""

    block: Block
    root: View
    aggregates: tuple[tuple[str, Aggregate], ...]
    root_slots: list[RootSlot] = field(default_factory=list)
    shown: dict[str, Shown] = field(default_factory=dict)
    moments: dict[str, ShownMoment] = field(default_factory=dict)
    by_signature: dict[str, dict[Signature, Slot]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root_slot("rows", (ONE,), exact=True)
        decomposer = Decomposer(self.block)
        for name, call in self.aggregates:
            _require_taken(call)
            if moments_of(call.function) is not None:
                self.moments[name] = self._moment(call, decomposer)
            else:
                self.shown[name] = self._aggregate(call, decomposer)
        for view in self.root.walk():
            if view is not self.root:
                self.by_signature[view.name] = self.view_slots(view)

    # Which products.

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
        total = self._root_slot(wish, terms, exact=True, scale=scale)
        if not isinstance(call.type, Wide) or max(map(_digits, terms), default=0) <= _SURE_DIGITS:
            return Shown(count, total)
        floats = tuple(map(as_float, polynomial.terms))
        return Shown(count, total, about=self._root_slot(f"about_{wish}", floats, exact=False))

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

    def _moment(self, call: Aggregate, decomposer: Decomposer) -> ShownMoment:
        """The slots of what is made of sums of powers and of products."""
        made = moment_sums(call, decomposer)
        count = self._root_slot("count", made.count, exact=True)
        finite = self._root_slot("finite", made.finite, exact=True)
        sums = {
            name: self._root_slot(_moment_name(call, name), terms, exact=False)
            for name, terms in made.sums.items()
        }
        return ShownMoment(count, finite, sums)

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

    def view_slots(self, view: View) -> dict[Signature, Slot]:
        """A slot for each product that comes from below a view."""
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

    def _wanted(self, view: View) -> list[Signature]:
        """The products that a view needs, those that others begin with first."""
        if view.name == self.root.name:
            signatures = {self.restrict(term.factors, view) for term in self.terms}
        else:
            signatures = set(self.by_signature[view.name])
        return sorted(signatures, key=lambda each: (len(each), repr(each)))

    # The ring.

    def slots(self, view: View) -> tuple[Slot, ...]:
        """A slot for each product, at the root for each sum of products."""
        if view.name == self.root.name:
            return tuple(each.slot for each in self.root_slots)
        return tuple(self.by_signature[view.name].values())

    def _leaf_factors(self, leaf: View) -> dict[Signature, Factor]:
        (alias,) = leaf.relations
        return {each: dict(each).get(alias, Factor()) for each in self._wanted(leaf)}

    def reads(self, leaf: View) -> Sequence[Expression]:
        """The values and guards of all factors."""
        factors = self._leaf_factors(leaf).values()
        return [part for each in factors for part in (*each.values, *each.guards)]

    def lift(self, source: Source, leaf: View, rows: Rows) -> Values:
        """m times each factor."""
        factors = self._leaf_factors(leaf)
        return {signature: _factor(source, factor, rows) for signature, factor in factors.items()}

    def one(self, source: Source, times: str) -> Values:
        """The product of nothing."""
        return {(): Value(times, "int")}

    def stored(self, view: View, ref: SlotRef) -> Values:
        """What reads each slot."""
        return {
            signature: arithmetic.read(ref, slot)
            for signature, slot in self.by_signature[view.name].items()
        }

    def join(
        self,
        source: Source,
        above: View,
        parts: Sequence[tuple[View, Values]],
        keys: Mapping[str, Operand],
    ) -> Values:
        """The products that the view above keeps."""
        memo: dict[tuple[str, ...], Value] = {}
        result: Values = {}
        for signature in self._wanted(above):
            factors = [values[self.restrict(signature, view)] for view, values in parts]
            factors += _lifted(above, signature, keys)
            result[signature] = _multiplied(source, factors, memo)
        return result

    def nonzero(self, payload: Values) -> str:
        """Whether one of the products is not zero; mostly that is known from the first."""
        return " or ".join(map(arithmetic.nonzero, payload.values()))

    def add(self, source: Source, view: View, payload: Values, ref: SlotRef) -> None:
        """Add each product to its slot."""
        if view.name == self.root.name:
            for each in self.root_slots:
                for value in self._root_values(each, payload):
                    arithmetic.add(source, ref, each.slot, value)
            return
        self.add_values(source, self.by_signature[view.name].items(), payload, ref)

    def add_values(
        self,
        source: Source,
        slots: Iterable[tuple[Signature, Slot]],
        payload: Values,
        ref: SlotRef,
    ) -> None:
        """Add products to slots; what is known to fit 64 bits need not be multiplied in 64."""
        for signature, slot in slots:
            value = payload[signature]
            if slot.kind == "int" and value.kind == "wide":
                value = Value(f"wide_low({value.text})", "int")
            arithmetic.add(source, ref, slot, value)

    def _root_values(self, root_slot: RootSlot, payload: Values) -> list[Value]:
        return [
            arithmetic.scaled(payload[self.restrict(term.factors, self.root)], term.coefficient)
            for term in root_slot.terms
        ]

    def begin(self, source: Source) -> dict[str, str]:
        """A variable for each exact slot; floats go to the entry, where no rounding is lost."""
        totals: dict[str, str] = {}
        for each in self.root_slots:
            if each.slot.kind != "sum":
                name = totals[each.slot.name] = source.name(f"total_{each.slot.name}")
                source.line(f"{name} = {arithmetic.zero(kind_of(each.slot))}")
        return totals

    def gather(self, source: Source, total: dict[str, str], payload: Values, ref: SlotRef) -> None:
        """Add each sum of products."""
        for each in self.root_slots:
            name = total.get(each.slot.name)
            for value in self._root_values(each, payload):
                if name is None:
                    arithmetic.add(source, ref, each.slot, value)
                else:
                    source.line(f"{name} = {arithmetic.plus(name, value, kind_of(each.slot))}")

    def end(self, source: Source, total: dict[str, str], ref: SlotRef) -> None:
        """Add the totals of the batch."""
        for each in self.root_slots:
            if each.slot.name in total:
                value = Value(total[each.slot.name], kind_of(each.slot))
                arithmetic.add(source, ref, each.slot, value)

    def finish(self, name: str, call: Aggregate, scalar: Scalar, ref: SlotRef) -> Operand:
        """The count, the sum, the average or what moments make."""
        if name in self.moments:
            return finish_moment(call, self.moments[name], scalar, ref)
        shown = self.shown[name]
        return finish(call, shown.count, shown.total, shown.specials, shown.about, scalar, ref)


# Lines.


def _factor(source: Source, factor: Factor, rows: Rows) -> Value:
    """m times the factor, 0 where its guards do not hold."""
    if not factor.values and not factor.guards:
        return Value("m", "int")
    kind, name = leaf_kind(factor), source.name("x")
    # The word of NULL is 0, so a sum needs no test whether its own value is NULL.
    own = {not_null(value) for value in factor.values}
    guards = [guard for guard in factor.guards if guard not in own]
    conditions = [rows.guard(guard) for guard in guards]
    if all(is_null_test(g) or _judges_one_of(g, factor.values) for g in guards):
        product = _product([rows.value(value) for value in factor.values], kind)
        test = f" if {' and '.join(conditions)} else {arithmetic.zero(kind)}" if conditions else ""
        source.line(f"{name} = {product}{test}")
        return Value(name, kind)
    source.line(f"{name} = {arithmetic.zero(kind)}")
    # Behind a condition a value may fail where the condition does not hold.
    with source.block(f"if {' and '.join(conditions)}:"):
        operands = [rows.scalar.emit_number(value) for value in factor.values]
        source.line(f"{name} = {_product(operands, kind)}")
    return Value(name, kind)


def _product(operands: list[Operand], kind: Kind) -> str:
    if kind == "int":
        return " * ".join(["m", *(each.value for each in operands)])
    first, *others = operands
    if kind == "sum":
        text = f"exact_of({EXACT_ROOM}, {first.value}, m)"
        for other in others:
            once = f"exact_of({EXACT_ROOM}, {other.value}, 1)"
            text = f"exact_mul({EXACT_ROOM}, {text}, {once})"
        return text
    text = f"wide_times({first.value}, m)" if first.is_wide else f"wide_product(m, {first.value})"
    for other in others:
        text = f"wide_{'mul' if other.is_wide else 'times'}({text}, {other.value})"
    return text


def _judges_one_of(guard: Expression, values: Sequence[Expression]) -> bool:
    return any(judges(guard, value) for value in values)


def _lifted(view: View, signature: Signature, keys: Mapping[str, Operand]) -> list[Value]:
    """The powers of the view's own variables."""
    factors = dict(signature)
    lifted: list[Value] = []
    for variable in view.variables:
        factor = factors.get(variable_owner(variable))
        powers = () if factor is None else factor.values
        lifted += [Value(keys[variable].value, "int") for _ in powers]
    return lifted


def _multiplied(source: Source, parts: list[Value], memo: dict[tuple[str, ...], Value]) -> Value:
    """The product, its beginnings shared with products that begin alike."""
    total = parts[0]
    for n in range(2, len(parts) + 1):
        texts = tuple(part.text for part in parts[:n])
        if texts not in memo:
            memo[texts] = arithmetic.multiply(source, total, parts[n - 1], "p")
        total = memo[texts]
    return total


# Names and digits.


def _scaled_terms(terms: tuple[Term, ...], scale: int, call: Aggregate) -> tuple[Term, ...]:
    """Coefficients for words: a product of words has its own digits after the point."""
    result = []
    for term in terms:
        coefficient = term.coefficient * Fraction(10) ** (scale - term.scale)
        if coefficient.denominator != 1:
            raise NotTaken("a product with more digits than its sum", call.span)
        result.append(Term(coefficient, term.factors))
    return tuple(result)


def _digits(term: Term) -> int:
    """How many digits a product may have."""
    types = [value.type for _, factor in term.factors for value in factor.values]
    return sum(each.precision if isinstance(each, Decimal) else 19 for each in types)


def _wish(signature: Signature) -> str:
    if not signature:
        return "rows"
    if any(factor.values for _, factor in signature):
        return "_".join(["sum", *_names(signature)])
    return "_".join(["count", *_names(signature)])


def _moment_name(call: Aggregate, product: str) -> str:
    """How a sum of products of arguments is called."""
    columns = [sorted(columns_in(call.arguments["yx".index(each)])) for each in product]
    return "_".join(["sum", *(each.split(".")[-1].lower() for some in columns for each in some)])


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
    if moments_of(call.function) is not None and not call.distinct:
        return
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
