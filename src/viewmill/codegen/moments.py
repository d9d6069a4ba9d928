"""STDDEV, VARIANCE, CORR, COVAR, REGR_*: the slots they keep, how rows come in, how they finish.

takes  aggregate calls over one or two expressions
gives  slots with their definitions, the source that adds a row, the source that shows a value

Calls over the same expressions keep their sums once. A row with a NULL among them does not count;
NaN and infinities are counted apart, so that taking them away brings the rest back.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.conditions import chain
from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.program.states import Slot

SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
PAIRS = (
    "corr", "covar_pop", "covar_samp", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx",
    "regr_syy", "regr_sxy", "regr_slope", "regr_intercept", "regr_r2",
)  # fmt: skip
MOMENTS = (*SPREADS, *PAIRS)


@dataclass(frozen=True)
class Moment:
    """What calls over the same expressions keep."""

    values: tuple[Expression, ...]
    where: Expression | None
    number: int

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
        own = [f"{what}_{self.number}_{i}" for i in range(len(self.values)) for what in _OWN]
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
        tests = [_less(Call("abs", (each,), DOUBLE, each.nullable)) for each in self.values]
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
            sums.append(Aggregate("sum", (each,), DOUBLE, True, where=finite))
            sums.append(Aggregate("sum", (_binary("*", each, each),), DOUBLE, True, where=finite))
        if len(self.values) == 2:
            both = _binary("*", *self.values)
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
            tests = " and ".join(f"is_finite({each.value})" for each in operands)
            with source.block(f"if {tests}:"):
                self._add(scalar, operands, word, state)
            with source.block("else:"):
                source.line(f"keyed_add({state}, e, {word[self.special]}, m)")

    def _add(
        self, scalar: Scalar, operands: list[Operand], word: dict[str, int], state: str
    ) -> None:
        first = word[self.sums[0]]
        for i, each in enumerate(operands):
            scalar.source.line(f"moment_add({state}, e, {first + 6 * i}, {each.value}, m)")
        if len(operands) == 2:
            both = ", ".join(each.value for each in operands)
            scalar.source.line(f"moment_cross({state}, e, {first + 12}, {both}, m)")

    def finish(self, call: Aggregate, scalar: Scalar, word: dict[str, int], state: str) -> Operand:
        """Write what shows a call."""
        source = scalar.source
        n, value, null = (source.name(each) for each in ("n", call.function, "none"))
        source.line(f"{n} = int_at({state}, e, {word[self.count]})")
        if call.function == "regr_count":
            return Operand(n)
        least = 2 if call.function.endswith("_samp") else 1
        source.line(f"{null} = {n} < {least}")
        source.line(f"{value} = 0.0")
        with source.block(f"if not {null}:"):
            with source.block(f"if int_at({state}, e, {word[self.special]}) != 0:"):
                is_null = call.function in FINITE
                source.line(f"{null} = True" if is_null else f"{value} = 1e400 - 1e400")
            with source.block("else:"):
                self._compute(
                    call.function, scalar, f"{state}, e", word[self.sums[0]], value, null, n
                )
        return Operand(value, null)

    def _compute(
        self,
        function: str,
        scalar: Scalar,
        at: str,
        first: str | int,
        value: str,
        null: str,
        n: str,
    ) -> None:
        source = scalar.source
        # The first argument is y, the second x.
        y, x, c = int(first), int(first) + 6, int(first) + 12
        if function in SPREADS:
            source.line(f"{value} = max(moment_central({at}, {y}, {y}, {y + 3}, {n}), 0.0)")
            source.line(f"{value} = {value} / {n if function.endswith('_pop') else f'({n} - 1)'}")
            if function.startswith("stddev"):
                source.line(f"{value} = {value} ** 0.5")
            return
        if function in ("regr_avgx", "regr_avgy"):
            source.line(f"{value} = moment_mean({at}, {x if function == 'regr_avgx' else y}, {n})")
            return
        sxx, syy, sxy = (source.name(each) for each in ("sxx", "syy", "sxy"))
        source.line(f"{sxx} = max(moment_central({at}, {x}, {x}, {x + 3}, {n}), 0.0)")
        source.line(f"{syy} = max(moment_central({at}, {y}, {y}, {y + 3}, {n}), 0.0)")
        source.line(f"{sxy} = moment_central({at}, {y}, {x}, {c}, {n})")
        divisor, text = RESULTS[function]
        if divisor:
            source.line(f"{null} = {divisor.format(xx=sxx, yy=syy)} == 0.0")
        with source.block(f"if not {null}:"):
            means = f"moment_mean({at}, {y}, {n})", f"moment_mean({at}, {x}, {n})"
            filled = text.format(xx=sxx, yy=syy, xy=sxy, n=n, my=means[0], mx=means[1])
            source.line(f"{value} = {filled}")


_OWN = ("sum", "square")
# A NaN among the rows makes these NULL.
FINITE = ("corr", "regr_slope", "regr_intercept", "regr_r2", "covar_samp", "covar_pop")

# What must not be zero, and the value.
RESULTS = {
    "corr": ("{xx} * {yy}", "min(max({xy} / ({xx} ** 0.5 * {yy} ** 0.5), -1.0), 1.0)"),
    "covar_pop": ("", "{xy} / {n}"),
    "covar_samp": ("", "{xy} / ({n} - 1)"),
    "regr_sxx": ("", "{xx}"),
    "regr_syy": ("", "{yy}"),
    "regr_sxy": ("", "{xy}"),
    "regr_slope": ("{xx}", "{xy} / {xx}"),
    "regr_intercept": ("{xx}", "{my} - {xy} / {xx} * {mx}"),
    "regr_r2": ("{xx}", "1.0 if {yy} == 0.0 else {xy} * {xy} / ({xx} * {yy})"),
}


def _not(expression: Expression) -> Expression:
    return Call("not", (expression,), BOOLEAN, expression.nullable)


def _less(expression: Expression) -> Expression:
    infinity = Literal(float("inf"), DOUBLE)
    return Call("<", (expression, infinity), BOOLEAN, expression.nullable)


def _binary(function: str, left: Expression, right: Expression) -> Expression:
    return Call(function, (left, right), DOUBLE, True)
