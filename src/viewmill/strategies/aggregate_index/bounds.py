"""Comparisons as bounds on words: the lines that say which levels qualify.

q * factor θ w, with q a level's aggregate (or the level itself) and w the same for all levels:
`low` is the first q with q * factor >= w, `high` the first with q * factor > w. Floats are words
that compare as they do, and the next word is the next float. A whole number or decimal that meets a
float is compared as a float: q / 10^digits with w.
"""

from __future__ import annotations

from viewmill.algebra.types import Float
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.strategies.aggregate_index.classify import Test
from viewmill.strategies.aggregate_index.levels import OUTGROWN
from viewmill.strategies.aggregate_index.products import scale_of

LOWEST = -(1 << 63)

HIGHEST = (1 << 63) - 1

# low, high, bounded above, the others instead. Where no number is above, `none_low` or `none_high`
# is true, and low or high is the largest number itself.
_BOUNDS = {
    ">=": ("low", "low", "{none_low}", "False"),
    ">": ("high", "high", "{none_high}", "False"),
    "<": (str(LOWEST), "low", "not {none_low}", "False"),
    "<=": (str(LOWEST), "high", "not {none_high}", "False"),
    "=": ("low", "high", "({none_low} or not {none_high})", "False"),
    "<>": ("low", "high", "({none_low} or not {none_high})", "True"),
}
_PYTHON = {"=": "==", "<>": "!="}


def write_bound(scalar: Scalar, test: Test) -> Operand:
    """Write what computes w, at the scale of the comparison."""
    bound = scalar.emit(test.bound)
    if isinstance(test.bound.type, Float):
        return bound
    digits = test.scale - scale_of(test.bound.type)
    if digits <= 0:
        return bound
    why = scalar.failure(test.bound, OUTGROWN, "the bound does not fit 64 bits")
    value = scalar.source.name("bound")
    scalar.source.line(f"{value} = scale_up({why}, {bound.value}, {10**digits})")
    return Operand(value, bound.null)


def write_bounds(source: Source, test: Test, bound: str) -> tuple[str, str, str, str]:
    """Write low and high where the comparison needs them; the arguments of a selection."""
    low, high, bounded, outside = _BOUNDS[test.operator]
    names = {"low": source.name("low"), "high": source.name("high")}
    lines, none = _lines(test, bound), _none(test, bound)
    for word in ("low", "high"):
        if word in (low, high):
            source.line(f"{names[word]} = {lines[word]}")
    is_bounded = _simple(bounded.format(**none))
    if is_bounded not in ("True", "False"):
        source.line(f"{(name := source.name('is_bounded'))} = {is_bounded}")
        is_bounded = name
    return names.get(low, low), names.get(high, high), is_bounded, outside


def _simple(text: str) -> str:
    """A condition without what is always false."""
    if text == "not False":
        return "True"
    return text.replace("(False or not False)", "True").replace("(False or not ", "(not ")


def _lines(test: Test, bound: str) -> dict[str, str]:
    if isinstance(test.core.type, Float):
        return {"low": _order(bound), "high": f"{_order(bound)} + 1"}
    if isinstance(test.bound.type, Float):
        first = f"first_whole({bound}, {10 ** scale_of(test.core.type)}"
        return {"low": f"{first}, False)", "high": f"{first}, True)"}
    factor = test.factor
    return {
        "low": bound if factor == 1 else f"{bound} // {factor} + int({bound} % {factor} > 0)",
        "high": f"min({bound}, {HIGHEST - 1}) + 1" if factor == 1 else f"{bound} // {factor} + 1",
    }


def _none(test: Test, bound: str) -> dict[str, str]:
    """The texts that are true when no number is above the bound, or above and not equal."""
    if isinstance(test.core.type, Float):
        return {"none_low": "False", "none_high": "False"}
    if isinstance(test.bound.type, Float):
        none = f"no_whole({bound}, {10 ** scale_of(test.core.type)}"
        return {"none_low": f"{none}, False)", "none_high": f"{none}, True)"}
    none = f"{bound} == {HIGHEST}" if test.factor == 1 else "False"
    return {"none_low": "False", "none_high": none}


def _order(value: str) -> str:
    return f"sort_word(float_key({value}))"


def holds(test: Test, number: float, bound: str) -> str:
    """The text that is true when `number` in the aggregate's place passes the test."""
    operator = _PYTHON.get(test.operator, test.operator)
    if not isinstance(test.bound.type, Float):
        return f"({int(number) * test.factor} {operator} {bound})"
    if not isinstance(test.core.type, Float):
        number = number / 10 ** scale_of(test.core.type)
    return f"({_order(repr(float(number)))} {operator} {_order(bound)})"
