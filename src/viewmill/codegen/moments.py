"""STDDEV, SKEWNESS, CORR, REGR_*, ...: the slots they keep, how rows come in, how they finish.

takes  aggregate calls over one or two expressions
gives  slots with their definitions, the source that adds a row, the source that shows a value

Calls over the same expressions keep their sums once. A row with a NULL among them does not count;
NaN and infinities are counted apart, so that taking them away brings the rest back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from viewmill.algebra.aggregates import Moments, moments_of
from viewmill.algebra.aggregates.moments import LARGEST_SHAPED
from viewmill.algebra.conditions import chain
from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.states import Slot


@dataclass(frozen=True)
class Moment:
    """What calls over the same expressions keep."""

    values: tuple[Expression, ...]
    where: Expression | None
    number: int
    has_shape: bool = False  # third and fourth powers are kept, too

    @property
    def count(self) -> str:
        """The slot of rows that count."""
        return f"pairs_{self.number}"

    @property
    def special(self) -> str:
        """The slot of those among them that are not finite."""
        return f"special_{self.number}"

    @property
    def sums(self) -> tuple[str, ...]:
        """The sum slots, side by side."""
        kept = (*_OWN, *_SHAPE) if self.has_shape else _OWN
        own = [f"{what}_{self.number}_{i}" for i in range(len(self.values)) for what in kept]
        return (*own, f"cross_{self.number}") if len(self.values) == 2 else tuple(own)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What is read of a row."""
        return self.values if self.where is None else (*self.values, self.where)

    # Definitions.

    def _counts(self) -> Expression:
        known = [_not(Call("is_null", (each,), BOOLEAN, False)) for each in self.values]
        return chain("and", [*([] if self.where is None else [self.where]), *known])

    def _finite(self) -> Expression:
        """Whether a row counts and is finite."""
        most = LARGEST_SHAPED if self.has_shape else float("inf")
        tests = [_less(Call("abs", (each,), DOUBLE, each.nullable), most) for each in self.values]
        return chain("and", [self._counts(), *tests])

    def kept(self) -> list[tuple[Slot, Aggregate]]:
        """The slots and their definitions."""
        finite, counts = self._finite(), self._counts()
        special = chain("and", [counts, _not(finite)])
        made = [
            (Slot(self.count, "int"), Aggregate("count", (), BIGINT, False, where=counts)),
            (Slot(self.special, "int"), Aggregate("count", (), BIGINT, False, where=special)),
        ]
        sums: list[Aggregate] = []
        for each in self.values:
            square = _product(each, each)
            powers = [each, square]
            if self.has_shape:
                powers += [_product(square, each), _product(square, square)]
            sums += [Aggregate("sum", (power,), DOUBLE, True, where=finite) for power in powers]
        if len(self.values) == 2:
            both = _product(*self.values)
            sums.append(Aggregate("sum", (both,), DOUBLE, True, where=finite))
        slots = [Slot(name, "sum") for name in self.sums]
        return [*made, *zip(slots, sums, strict=True)]

    # Source.

    def lift(self, scalar: Scalar, word: dict[str, int], state: str) -> None:
        """Write what adds row i, `m` times, to entry e."""
        source = scalar.source
        operands = [scalar.emit(each) for each in self.values]
        known = [f"not {each.null}" for each in operands if each.null is not None]
        with source.block(f"if {' and '.join(known) or 'True'}:"):
            source.line(f"keyed_add({state}, e, {word[self.count]}, m)")
            test = f"abs({{}}) < {LARGEST_SHAPED!r}" if self.has_shape else "is_finite({})"
            with source.block(f"if {' and '.join(test.format(each.value) for each in operands)}:"):
                self._add(scalar, operands, word, state)
            with source.block("else:"):
                source.line(f"keyed_add({state}, e, {word[self.special]}, m)")

    def _add(
        self, scalar: Scalar, operands: list[Operand], word: dict[str, int], state: str
    ) -> None:
        first = word[self.sums[0]]
        for i, each in enumerate(operands):
            scalar.source.line(f"moment_add({state}, e, {first + 6 * i}, {each.value}, m)")
        if self.has_shape:
            (each,) = operands
            scalar.source.line(f"moment_add_powers({state}, e, {first + 6}, {each.value}, m)")
        if len(operands) == 2:
            both = ", ".join(each.value for each in operands)
            scalar.source.line(f"moment_cross({state}, e, {first + 12}, {both}, m)")

    def finish(self, call: Aggregate, scalar: Scalar, word: dict[str, int], state: str) -> Operand:
        """Write what shows a call."""
        source, made = scalar.source, moments_of(call.function)
        assert made is not None
        n, value, null = (source.name(each) for each in ("n", call.function, "none"))
        source.line(f"{n} = int_at({state}, e, {word[self.count]})")
        if made.least == 0:
            return Operand(n)
        special = f"int_at({state}, e, {word[self.special]}) != 0"
        with shown_moments(source, made, n, value, null, special):
            self._compute(made, scalar, f"{state}, e", word[self.sums[0]], value, null, n)
        return Operand(value, null)

    def _compute(
        self, made: Moments, scalar: Scalar, at: str, first: int, value: str, null: str, n: str
    ) -> None:
        y, x = first, first + 6  # the first argument is y, the second x
        texts = {
            "yy": f"max(moment_central({at}, {y}, {y}, {y + 3}, {n}), 0.0)",
            "xx": f"max(moment_central({at}, {x}, {x}, {x + 3}, {n}), 0.0)",
            "xy": f"moment_central({at}, {y}, {x}, {x + 6}, {n})",
            "my": f"moment_mean({at}, {y}, {n})",
            "mx": f"moment_mean({at}, {x}, {n})",
            "yyy": f"moment_third({at}, {y}, {n})",
            "yyyy": f"moment_fourth({at}, {y}, {n})",
        }
        show_moments(scalar.source, made, texts, value, null, n)


@contextmanager
def shown_moments(
    source: Source, made: Moments, n: str, value: str, null: str, special: str
) -> Iterator[None]:
    """Write what is shown of too few rows and of values that are not finite; inside: of others."""
    source.line(f"{null} = {n} < {made.least}")
    source.line(f"{value} = 0.0")
    with source.block(f"if not {null}:"):
        with source.block(f"if {special}:"):
            is_null = made.special == "null"
            source.line(f"{null} = True" if is_null else f"{value} = 1e400 - 1e400")
        with source.block("else:"):
            yield


def show_moments(
    source: Source, made: Moments, texts: Mapping[str, str], value: str, null: str, n: str
) -> None:
    """Write the value of moments, of which `texts` has the source."""
    names = {"n": n}
    for name, text in texts.items():
        if made.reads(name):
            names[name] = source.name(_NAMES[name])
            source.line(f"{names[name]} = {text}")
    if not made.divisor:
        source.line(f"{value} = {made.value.format_map(names)}")
        return
    source.line(f"{null} = {made.divisor.format_map(names)} == 0.0")
    with source.block(f"if not {null}:"):
        source.line(f"{value} = {made.value.format_map(names)}")


_OWN = ("sum", "square")
_SHAPE = ("cube", "fourth")
# What moments are called in a kernel.
_NAMES = {
    "yy": "syy", "xx": "sxx", "xy": "sxy", "my": "mean_y", "mx": "mean_x", "yyy": "cubes",
    "yyyy": "fourths",
}  # fmt: skip


def _not(expression: Expression) -> Expression:
    return Call("not", (expression,), BOOLEAN, expression.nullable)


def _less(expression: Expression, most: float) -> Expression:
    limit = Literal(most, DOUBLE)
    return Call("<", (expression, limit), BOOLEAN, expression.nullable)


def _product(left: Expression, right: Expression) -> Expression:
    return Call("*", (left, right), DOUBLE, True)
