"""Aggregated expressions as sums of products of factors, each over one table or one join variable.

takes  an aggregate's argument over the columns of several tables
gives  `Polynomial`: terms for its sum, terms for the count of rows where it is not NULL
next   rings (slots), emit

    SUM(r.b * (s.e + t.d))   is   b·e·1 + b·1·d     and its count   [b]·[e]·[d]

where [b] means that b is not NULL. A CASE whose conditions each read one table is the sum of its
branches, each with its condition as a guard.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal
from viewmill.algebra.failures import MOST_DIGITS, exact_digits
from viewmill.algebra.types import BOOLEAN, DOUBLE, INT, Decimal, Float, Integer
from viewmill.codegen.shape import NotTaken
from viewmill.strategies.view_tree.block import Block


@dataclass(frozen=True)
class Factor:
    """The part of a product that one owner has: the product of `values` where all `guards` hold.

    The owner is an occurrence or a joined variable; a variable has values only, itself or a power.
    """

    values: tuple[Expression, ...] = ()
    guards: tuple[Expression, ...] = ()

    @property
    def is_float(self) -> bool:
        """Whether the product is a float."""
        return any(isinstance(value.type, Float) for value in self.values)

    @property
    def scale(self) -> int:
        """Digits after the point of the product's word."""
        return sum(v.type.scale for v in self.values if isinstance(v.type, Decimal))

    def times(self, other: Factor) -> Factor:
        """The product of two factors of one owner."""
        guards = (*self.guards, *(each for each in other.guards if each not in self.guards))
        return Factor((*self.values, *other.values), guards)


@dataclass(frozen=True)
class Term:
    """coefficient * the product of the factors, by owner. Owners that are not named have 1."""

    coefficient: Fraction = Fraction(1)
    factors: tuple[tuple[str, Factor], ...] = ()

    def times(self, other: Term) -> Term:
        """The product of two terms."""
        merged = dict(self.factors)
        for owner, factor in other.factors:
            merged[owner] = merged[owner].times(factor) if owner in merged else factor
        factors = tuple(sorted(merged.items(), key=lambda each: each[0]))
        return Term(self.coefficient * other.coefficient, factors)

    @property
    def is_float(self) -> bool:
        """Whether the product is a float."""
        return any(factor.is_float for _, factor in self.factors)

    @property
    def scale(self) -> int:
        """Digits after the point of the product's word."""
        return sum(factor.scale for _, factor in self.factors)

    def guarded(self) -> Term:
        """1 where the guards hold."""
        factors = tuple((o, Factor((), f.guards)) for o, f in self.factors if f.guards)
        return Term(Fraction(1), factors)


ONE = Term()


@dataclass(frozen=True)
class Piece:
    """A value where the guards of `where` hold; the pieces of a value exclude each other."""

    where: Term
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Polynomial:
    """The terms of a sum and of its non-null count."""

    terms: tuple[Term, ...]
    count: tuple[Term, ...]


@dataclass
class Decomposer:
    """Takes expressions of one block apart."""

    block: Block
    _alias_of: dict[str, str] = field(init=False)
    _variable_of: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        scans = [each.scan for each in self.block.occurrences]
        self._alias_of = {name: scan.alias for scan in scans for name in scan.schema.names}
        # A column that is a joined variable can be multiplied in where the variable is, once.
        self._variable_of = {
            expression.name: variable.name
            for variable in self.block.variables
            if variable.is_joined
            for _, expression in variable.members
            if isinstance(expression, Column) and not isinstance(expression.type, Float)
        }

    def polynomial(self, value: Expression | None, where: Expression | None) -> Polynomial:
        """The polynomial of an aggregate's argument; None is count(*)."""
        pieces = [Piece(ONE, ())] if value is None else self._pieces(value)
        condition = self._guard(where) if where is not None else ONE
        terms: list[Term] = []
        count: list[Term] = []
        for piece in pieces:
            guard = piece.where.times(condition)
            count.append(guard)
            terms += [term.times(guard) for term in piece.terms]
        # inf - inf is NaN: products of floats do not cancel, however equal they are.
        is_float = any(term.is_float for term in terms)
        return Polynomial(tuple(terms) if is_float else collected(terms), collected(count))

    def non_null(self, value: Expression, where: Expression | None) -> tuple[Term, ...]:
        """The terms that count the rows where an expression of any type is not NULL."""
        if len(self._aliases(value)) <= 1:
            pieces = [self._atom(value, self._aliases(value))]
        else:
            pieces = self._pieces(value)
        condition = self._guard(where) if where is not None else ONE
        return collected([piece.where.times(condition) for piece in pieces])

    def condition(self, where: Expression | None) -> Term:
        """1 where FILTER holds."""
        return ONE if where is None else self._guard(where)

    def measured(self, value: Expression, *, rounded: bool) -> list[Piece]:
        """A DOUBLE whose powers are summed exactly: of one table, or made of small whole numbers.

        `rounded` says that whole numbers are taken as floats: their powers may leave 128 bits.
        """
        inner = uncast(value)
        small = isinstance(inner.type, Integer) and inner.type.bits <= 32
        if isinstance(inner, Literal) or (small and not rounded):
            return self._pieces(inner)
        aliases = self._aliases(value)
        if len(aliases) > 1:
            shown = display_expression(inner)
            raise NotTaken(f"the powers of {shown}, which is of several tables", value.span)
        return [self._atom(value, aliases)]

    # Expressions.

    def _aliases(self, expression: Expression) -> set[str]:
        return {self._alias_of[name] for name in columns_in(expression)}

    def _pieces(self, expression: Expression) -> list[Piece]:
        if isinstance(expression, Literal):
            return [_constant(expression)]
        aliases = self._aliases(expression)
        if len(aliases) <= 1 and not self._is_of_variables(expression):
            return [self._atom(expression, aliases)]
        match expression:
            case Column():
                return [self._variable(expression)]
            case Call(function="+" | "-" | "*", arguments=(left, right)):
                _require_digits(expression)
                combine = {"+": _plus, "-": _minus, "*": _times}[expression.function]
                return _combined(self._pieces(left), self._pieces(right), combine)
            case Call(function="-", arguments=(only,)):
                return _combined([_constant(Literal(0, only.type))], self._pieces(only), _minus)
            case Call(function="/", arguments=(left, right)) if isinstance(expression.type, Float):
                divisor = [Piece(ONE, (Term(_reciprocal(right)),))]
                return _combined(self._pieces(left), divisor, _times)
            case Cast():
                return self._cast(expression)
            case Case():
                return self._case(expression)
            case _:
                shown = display_expression(expression)
                raise NotTaken(f"{shown} is no sum of products over the tables", expression.span)

    def _is_of_variables(self, expression: Expression) -> bool:
        """Whether it is a product of whole joined variables, which are multiplied in once."""
        match expression:
            case Column(name=name):
                return name in self._variable_of
            case Call(function="*", arguments=parts) if not isinstance(expression.type, Float):
                return all(self._is_of_variables(each) for each in parts)
            case Cast(type=Integer(), input=inner) if isinstance(inner.type, Integer):
                return self._is_of_variables(inner)
            case _:
                return False

    def _variable(self, column: Column) -> Piece:
        name = self._variable_of[column.name]
        value = Column(name, column.type, False)
        return Piece(ONE, (Term(Fraction(1), ((variable_owner(name), Factor((value,))),)),))

    def _atom(self, expression: Expression, aliases: set[str]) -> Piece:
        expression = _same_word(expression)
        owner = next(iter(aliases), self.block.occurrences[0].alias)
        guards = (not_null(expression),) if expression.nullable else ()
        guard = Term(Fraction(1), ((owner, Factor((), guards)),)) if guards else ONE
        return Piece(guard, (Term(Fraction(1), ((owner, Factor((expression,))),)),))

    def _cast(self, cast: Cast) -> list[Piece]:
        pieces = self._pieces(cast.input)
        source, target = cast.input.type, cast.type
        if isinstance(target, Float) and target.bits == 64:
            return [Piece(p.where, tuple(map(as_float, p.terms))) for p in pieces]
        if isinstance(source, Integer) and isinstance(target, Integer | Decimal):
            return pieces
        is_exact = isinstance(source, Decimal) and isinstance(target, Decimal)
        if is_exact and target.scale >= source.scale:  # type: ignore[union-attr]
            return pieces
        raise NotTaken(f"a cast to {target} over several tables", cast.span)

    def _case(self, case: Case) -> list[Piece]:
        result: list[Piece] = []
        before = ONE
        for condition, value in case.branches:
            for piece in self._value(value):
                where = piece.where.times(before).times(self._guard(condition))
                result.append(Piece(where, piece.terms))
            before = before.times(self._guard(_not_true(condition)))
        for piece in self._value(case.otherwise):
            result.append(Piece(piece.where.times(before), piece.terms))
        return result

    def _value(self, expression: Expression) -> list[Piece]:
        """The pieces of a branch; a branch that is NULL has none."""
        inner = expression
        while isinstance(inner, Cast):
            inner = inner.input
        if isinstance(inner, Literal) and inner.value is None:
            return []
        return self._pieces(expression)

    def _guard(self, condition: Expression) -> Term:
        """1 where a condition is true."""
        term = ONE
        for each in conjuncts(condition):
            aliases = self._aliases(each)
            if len(aliases) > 1:
                raise NotTaken("a condition over several tables", each.span)
            owner = next(iter(aliases), self.block.occurrences[0].alias)
            term = term.times(Term(Fraction(1), ((owner, Factor((), (each,))),)))
        return term


@dataclass(frozen=True)
class FloatTerms:
    """A float product taken apart: its finite rows, and twice the counts of rows that are not.

    For each factor x let S be its sign, A whether it is not zero, both over rows where it is not
    NaN, and the same over finite rows only. A product is infinite where all factors are signed and
    one is infinite: |S1 S2| - |finite ones| rows, the signs likewise; NaN are all other rows.
    """

    finite: Term
    nan: tuple[Term, ...]
    plus: tuple[Term, ...]
    minus: tuple[Term, ...]


def float_terms(term: Term) -> FloatTerms:
    """Tell finite rows from others: a NaN that entered a sum could not be taken away."""
    finite = _each(term, lambda x: Factor((x,), (is_finite(x),)))
    rows = _each(term, lambda x: Factor(), exact=True)
    finite_rows = _each(term, lambda x: Factor((), (is_finite(x),)), exact=True)
    signs = _each(term, lambda x: Factor((sign(x),), (is_number(x),)), exact=True)
    finite_signs = _each(term, lambda x: Factor((sign(x),), (is_finite(x),)), exact=True)
    sized = _each(term, lambda x: Factor((), (is_number(x), is_not_zero(x))), exact=True)
    finite_sized = _each(term, lambda x: Factor((), (is_finite(x), is_not_zero(x))), exact=True)
    infinite = [(1, sized), (-1, finite_sized)]
    signed = [(1, signs), (-1, finite_signs)]
    plus, minus = _sum(infinite + signed), _sum(infinite + [(-n, t) for n, t in signed])
    if term.coefficient < 0:
        plus, minus = minus, plus
    nan = _sum([(1, rows), (-1, finite_rows), *((-n, t) for n, t in infinite)])
    return FloatTerms(finite, nan, plus, minus)


def _each(term: Term, change: Callable[[Expression], Factor], *, exact: bool = False) -> Term:
    """The term with every float factor changed, guards kept; exact ones count rows."""
    factors = []
    for owner, factor in term.factors:
        new = Factor((), factor.guards)
        if factor.is_float:
            value = factor.values[0]
            for other in factor.values[1:]:
                value = Call("*", (value, other), DOUBLE, value.nullable or other.nullable)
            new = new.times(change(value))
        if new != Factor():
            factors.append((owner, new))
    return Term(Fraction(1) if exact else term.coefficient, tuple(factors))


def _sum(parts: list[tuple[int, Term]]) -> tuple[Term, ...]:
    return collected([Term(Fraction(n), term.factors) for n, term in parts])


def is_finite(value: Expression) -> Expression:
    """The guard of a float that is neither NaN nor infinite."""
    return is_below(value, float("inf"))


def is_below(value: Expression, most: float) -> Expression:
    """The guard of a float whose magnitude is below a limit; NaN is not."""
    size = Call("abs", (value,), DOUBLE, value.nullable)
    return Call("<", (size, Literal(most, DOUBLE)), BOOLEAN, value.nullable)


def is_number(value: Expression) -> Expression:
    """The guard of a float that is not NaN."""
    is_nan = Call("isnan", (value,), BOOLEAN, value.nullable)
    return Call("not", (is_nan,), BOOLEAN, value.nullable)


def is_not_zero(value: Expression) -> Expression:
    """The guard of a float that is not zero."""
    return Call("<>", (value, Literal(0.0, DOUBLE)), BOOLEAN, value.nullable)


def sign(value: Expression) -> Expression:
    """-1, 0 or 1."""
    one, less = Literal(1, INT), Literal(-1, INT)
    up = Call(">", (value, Literal(0.0, DOUBLE)), BOOLEAN, value.nullable)
    down = Call("<", (value, Literal(0.0, DOUBLE)), BOOLEAN, value.nullable)
    return Case(((up, one), (down, less)), Literal(0, INT), INT, False)


def judges(guard: Expression, value: Expression) -> bool:
    """Whether a guard only asks something of a value that is computed anyway."""
    known = (not_null(value), is_finite(value), is_number(value), is_not_zero(value))
    return guard in known


def uncast(expression: Expression) -> Expression:
    """What a DOUBLE was before it was one."""
    while isinstance(expression, Cast) and isinstance(expression.type, Float):
        expression = expression.input
    return expression


def variable_owner(name: str) -> str:
    """How factors name a variable as their owner; no alias begins so."""
    return f"@{name}"


def columns_in(expression: Expression) -> set[str]:
    """The columns that an expression reads."""
    if isinstance(expression, Column):
        return {expression.name}
    return set().union(*(columns_in(part) for part in _parts(expression)))


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Call():
            return expression.arguments
        case Cast():
            return (expression.input,)
        case Case():
            return (*(e for branch in expression.branches for e in branch), expression.otherwise)
        case _:
            return ()


def _same_word(expression: Expression) -> Expression:
    """Strip casts that keep the word, such as INT to DECIMAL(10,0)."""
    while isinstance(expression, Cast) and not expression.lenient:
        source, target = expression.input.type, expression.type
        widens = (
            isinstance(source, Integer)
            and isinstance(target, Decimal)
            and target.scale == 0
            and 10**target.precision > source.high
        ) or (
            isinstance(source, Integer)
            and isinstance(target, Integer)
            and source.bits <= target.bits
        )
        if not widens:
            break
        expression = expression.input
    return expression


def _constant(literal: Literal) -> Piece:
    if literal.value is None or not isinstance(literal.type, Integer | Decimal | Float):
        raise NotTaken(f"the constant {literal.value} in a product over tables", literal.span)
    number = literal.value
    assert isinstance(number, int | float | decimal.Decimal)
    if isinstance(number, float) and not math.isfinite(number):
        raise NotTaken(f"the constant {number} in a product over tables", literal.span)
    value = Fraction(number)
    return Piece(ONE, (Term(value),) if value else ())


def _reciprocal(divisor: Expression) -> Fraction:
    """One over a constant. Of what changes from row to row it is rounded, and 49 * (1 / 49) < 1."""
    while isinstance(divisor, Cast):
        divisor = divisor.input
    value = divisor.value if isinstance(divisor, Literal) else None
    if not isinstance(value, int | decimal.Decimal) or not value:
        raise NotTaken("a quotient is no sum of products over the tables", divisor.span)
    return 1 / Fraction(value)


def float_fraction(coefficient: Fraction) -> tuple[float, float]:
    """What a float is multiplied with and then divided by, so that 49 * 1/49 is 1."""
    up, down = coefficient.numerator, coefficient.denominator
    if abs(up) > 1 << 53 or down > 1 << 1000:
        return float(coefficient), 1.0
    return float(up), float(down)


def _combined(
    left: list[Piece],
    right: list[Piece],
    combine: Callable[[tuple[Term, ...], tuple[Term, ...]], tuple[Term, ...]],
) -> list[Piece]:
    return [
        Piece(a.where.times(b.where), combine(a.terms, b.terms)) for a, b in product(left, right)
    ]


def _plus(left: tuple[Term, ...], right: tuple[Term, ...]) -> tuple[Term, ...]:
    return left + right


def _minus(left: tuple[Term, ...], right: tuple[Term, ...]) -> tuple[Term, ...]:
    return left + tuple(Term(-each.coefficient, each.factors) for each in right)


def _times(left: tuple[Term, ...], right: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(a.times(b) for a, b in product(left, right))


def as_float(term: Term) -> Term:
    """The product in floating point; exact factors are cast one by one."""
    if not term.factors:
        return Term(Fraction(float(term.coefficient)))
    factors = tuple((owner, _float_factor(factor)) for owner, factor in term.factors)
    return Term(term.coefficient, factors)


def _float_factor(factor: Factor) -> Factor:
    values = tuple(
        v if isinstance(v.type, Float) else Cast(v, DOUBLE, v.nullable) for v in factor.values
    )
    return Factor(values, factor.guards)


def _require_digits(expression: Expression) -> None:
    """A decimal result must keep every digit: rounding each row is not linear."""
    assert isinstance(expression, Call)
    if not isinstance(expression.type, Decimal):
        return
    types = [argument.type for argument in expression.arguments]
    scales = [each.scale if isinstance(each, Decimal) else 0 for each in types]
    needed = sum(scales) if expression.function == "*" else max(scales)
    if expression.type.scale < needed:
        raise NotTaken("a decimal product that loses digits", expression.span)
    if exact_digits(expression) > MOST_DIGITS:  # a row may fail whose value the sum would hide
        raise NotTaken("a decimal product that may have more than 38 digits", expression.span)


def not_null(expression: Expression) -> Expression:
    """The guard of a value that may be NULL."""
    return Call("not", (Call("is_null", (expression,), BOOLEAN, False),), BOOLEAN, False)


def is_null_test(guard: Expression) -> bool:
    """Whether a guard only asks that a value is not NULL."""
    return (
        isinstance(guard, Call)
        and guard.function == "not"
        and isinstance(guard.arguments[0], Call)
        and guard.arguments[0].function == "is_null"
    )


def _not_true(condition: Expression) -> Expression:
    if condition.nullable:
        condition = Call("coalesce", (condition, Literal(False, BOOLEAN)), BOOLEAN, False)
    return Call("not", (condition,), BOOLEAN, False)


def collected(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Equal products once, with the sum of their coefficients."""
    totals: dict[tuple[tuple[str, Factor], ...], Fraction] = {}
    for term in terms:
        totals[term.factors] = totals.get(term.factors, Fraction(0)) + term.coefficient
    return tuple(Term(c, factors) for factors, c in totals.items() if c)
