"""Which plan each outer table takes (RPAI, section 4.3.1), and why none if so.

takes  `Query`
gives  one `Side` for each outer table: the rows that count (`where`), and the `Test` that depends
       on an aggregate

order    v θ (SELECT SUM(..) .. WHERE inner <= outer)    levels of the correlated column, in order
column   column θ v                                      levels of the column
equal    v θ (SELECT SUM(..) .. WHERE inner = outer)     groups of the column, levels of the sums
all      no condition of this kind                       one level

where v is anything that is the same for all rows outside: constants, uncorrelated aggregates,
arithmetic on them.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal, walk
from viewmill.algebra.relations import Scan
from viewmill.algebra.types import Date, Decimal, Float, Integer, Nested, Timestamp, Type
from viewmill.codegen.shape import NotTaken
from viewmill.errors import Span
from viewmill.strategies.aggregate_index.query import (
    FLIPPED,
    VALUE,
    Conjunct,
    Query,
    Value,
    own_names,
)

INSIDE = ("sum", "count")


@dataclass(frozen=True)
class Test:
    """`core` * `factor` `operator` `bound`: what a row outside must pass.

    core     the nested aggregate's column, or an expression over the outer table
    scale    digits after the point of both sides: the factor brings the core's word there
    default  what takes the place of an aggregate over no rows (COALESCE), or None
    """

    core: Expression
    factor: int
    operator: str
    bound: Expression
    default: float | None = None
    value: Value | None = None
    scale: int = 0


@dataclass(frozen=True)
class Side:
    """An outer table."""

    alias: str
    scan: Scan
    where: tuple[Expression, ...]
    plan: OneOf["order", "column", "equal", "all"]
    test: Test | None = None


@dataclass(frozen=True)
class Classified:
    """The sides, and every uncorrelated value."""

    query: Query
    sides: tuple[Side, ...]
    fixed: tuple[Value, ...]


def classify(query: Query) -> Classified:
    """A side for each outer table, or `NotTaken`."""
    plain: dict[str, list[Expression]] = {alias: [] for alias in query.scans}
    tests: dict[str, Test] = {}
    fixed: list[Value] = []
    for conjunct in query.conjuncts:
        correlated = [each for each in conjunct.values if each.correlations]
        fixed += [each for each in conjunct.values if not each.correlations]
        if not conjunct.values and len(conjunct.aliases) == 1:
            plain[next(iter(conjunct.aliases))].append(own_names(conjunct.condition))
            continue
        alias, test = _test(conjunct, correlated)
        if alias in tests:
            raise NotTaken(
                f"two conditions on {alias} depend on aggregates",
                _span(conjunct),
            )
        tests[alias] = test
    sides = tuple(
        Side(alias, scan, tuple(plain[alias]), _plan(tests.get(alias)), tests.get(alias))
        for alias, scan in query.scans.items()
    )
    return Classified(query, sides, tuple(fixed))


def _plan(test: Test | None) -> OneOf["order", "column", "equal", "all"]:
    if test is None:
        return "all"
    if test.value is None:
        return "column"
    return "equal" if test.value.correlations[0].operator == "=" else "order"


def _test(conjunct: Conjunct, correlated: list[Value]) -> tuple[str, Test]:
    condition = conjunct.condition
    if not isinstance(condition, Call) or condition.function not in FLIPPED:
        raise NotTaken(
            f"{display_expression(condition)} is no comparison",
            _span(conjunct),
        )
    if len(correlated) > 1:
        raise NotTaken(
            "several correlated aggregates in one comparison",
            correlated[1].span or _span(conjunct),
        )
    if not conjunct.values:
        raise NotTaken("a join condition between the tables outside", _span(conjunct))
    left, right = condition.arguments
    operator = condition.function
    moving = {each.name for each in correlated}
    if not _moves(left, moving):
        left, right, operator = right, left, FLIPPED[operator]
    if not _moves(left, moving) or _moves(right, moving):
        raise NotTaken(
            "both sides of the comparison change from row to row",
            _span(conjunct),
        )
    if correlated:
        if conjunct.aliases:
            raise NotTaken("a column and a correlated aggregate in one comparison", _span(conjunct))
        return _nested(left, operator, right, correlated[0], conjunct)
    (alias, *others) = sorted(conjunct.aliases)
    if others:
        raise NotTaken("columns of two tables in one comparison", _span(conjunct))
    core, factor, _, scale = comparison_core(own_names(left), right.type, conjunct)
    return alias, Test(core, factor, operator, right, scale=scale)


def _nested(
    left: Expression, operator: str, right: Expression, value: Value, conjunct: Conjunct
) -> tuple[str, Test]:
    core, factor, default, scale = comparison_core(left, right.type, conjunct)
    if not isinstance(core, Column) or core.name != value.name:
        raise NotTaken(
            f"arithmetic on the correlated aggregate ({display_expression(core)})", _span(conjunct)
        )
    _require_taken(value)
    alias = value.alias
    assert alias is not None
    return alias, Test(core, factor, operator, right, default, value, scale)


def _require_taken(value: Value) -> None:
    call = value.call
    if call.function not in INSIDE or call.distinct or call.where is not None:
        word = call.function.upper()
        why = " by an inequality moves by another amount at every level" if word == "AVG" else ""
        raise NotTaken(f"{word} inside, correlated{why}", call.span)
    for each in value.correlations:
        if each.operator != "=":
            require_ordered(each.inner.type, each.outer.type, call.span)
        elif each.inner.type != each.outer.type or isinstance(each.inner.type, Nested):
            raise NotTaken(f"{each.inner.type} = {each.outer.type}", value.span)
        elif call.function == "sum" and isinstance(call.type, Float):
            raise NotTaken(
                "groups by a sum of floats, which no two ways of adding make equal", call.span
            )
    operators = {each.operator for each in value.correlations}
    if "<>" in operators or len(value.correlations) > 1:
        raise NotTaken(
            "a correlation by more than one comparison",
            value.span,
        )


def require_ordered(left: Type, right: Type, span: Span | None) -> None:
    """Both types hold the same exact words in order."""
    kinds = (Integer, Decimal, Date, Timestamp)
    if isinstance(left, Float) and isinstance(right, Float):
        return
    if not isinstance(left, kinds) or not isinstance(right, kinds):
        shown = left if not isinstance(left, kinds) else right
        raise NotTaken(f"levels of type {shown}: numbers and times only", span)
    if _scale(left) != _scale(right):
        raise NotTaken(f"comparing {left} with {right} by levels", span)


def _moves(expression: Expression, moving: set[str]) -> bool:
    """Whether an expression changes from row to row outside."""
    return any(
        isinstance(each, Column) and (not each.name.startswith(VALUE) or each.name in moving)
        for each in walk(expression)
    )


def comparison_core(
    expression: Expression, bound: Type, conjunct: Conjunct
) -> tuple[Expression, int, float | None, int]:
    """The expression without exact casts and constant factors: what its word is times a whole
    number, at which scale; between them COALESCE's default.

    Where floats are compared, the factor is 1, and a number that is cast to one is compared so.
    """
    outside, default = expression.type, None
    if isinstance(outside, Float) and isinstance(bound, Float):
        return *_float_core(expression), 0
    if not isinstance(outside, Integer | Decimal | Date | Timestamp) or not isinstance(
        bound, Integer | Decimal | Date | Timestamp
    ):
        shown = bound if isinstance(outside, Integer | Decimal) else outside
        raise NotTaken(
            f"comparing {outside} with {bound}: {shown} has no order of numbers",
            _span(conjunct),
        )
    core = _uncast(expression)
    scale = max(_scale(outside), _scale(bound))
    digits = scale - _scale(core.type)
    core, times = _without_factor(core)
    if isinstance(core, Call) and core.function == "coalesce" and len(core.arguments) == 2:
        inside = _scale(core.type)
        core, default = _with_default(core)
        digits += inside - _scale(core.type)
    if digits < 0 or digits > 18 or times > 10**18:
        raise NotTaken("a comparison that rounds", _span(conjunct))
    return core, times * 10**digits, default, scale


def _without_factor(expression: Expression) -> tuple[Expression, int]:
    """What a positive constant is multiplied with, and by how much the words of both differ."""
    if not isinstance(expression, Call) or expression.function != "*":
        return expression, 1
    for factor, other in (expression.arguments, expression.arguments[::-1]):
        constant, core = _uncast(factor), _uncast(other)
        if not isinstance(constant, Literal) or isinstance(core, Literal):
            continue
        if not isinstance(constant.value, int | decimal.Decimal) or constant.value <= 0:
            continue
        if _scale(constant.type) + _scale(core.type) == _scale(expression.type):
            times = decimal.Decimal(constant.value).scaleb(_scale(constant.type))
            inside, more = _without_factor(core)
            return inside, int(times) * more
    return expression, 1


def _float_core(expression: Expression) -> tuple[Expression, int, float | None]:
    default: float | None = None
    if isinstance(expression, Cast) and isinstance(expression.input.type, Integer | Decimal):
        expression = _uncast(expression.input)
    if isinstance(expression, Call) and expression.function == "coalesce":
        if len(expression.arguments) != 2:
            raise NotTaken("COALESCE of more than two", expression.span)
        if isinstance(expression.type, Integer | Decimal):
            return _with_default(expression)[0], 1, _with_default(expression)[1]
        expression, second = expression.arguments
        if isinstance(second, Cast):
            second = second.input
        if not isinstance(second, Literal) or not isinstance(
            second.value, int | float | decimal.Decimal
        ):
            raise NotTaken("COALESCE of an aggregate with anything but a number", second.span)
        default = float(second.value)
    return expression, 1, default


def _with_default(call: Call) -> tuple[Expression, int]:
    """What COALESCE guards, and the number that it puts in its place."""
    core, second = _uncast(call.arguments[0]), _uncast(call.arguments[1])
    if not isinstance(second, Literal) or not isinstance(second.value, int | decimal.Decimal):
        raise NotTaken("COALESCE of an aggregate with anything but a number", call.span)
    scaled = decimal.Decimal(second.value).scaleb(_scale(core.type))
    if scaled != int(scaled):
        raise NotTaken("COALESCE with more digits than the aggregate has", call.span)
    return core, int(scaled)


def _uncast(expression: Expression) -> Expression:
    while isinstance(expression, Cast) and _is_exact(expression.input.type, expression.type):
        expression = expression.input
    return expression


def _is_exact(source: Type, target: Type) -> bool:
    if isinstance(source, Integer) and isinstance(target, Integer):
        return source.bits <= target.bits
    if isinstance(source, Integer | Decimal) and isinstance(target, Decimal):
        return _scale(source) <= target.scale
    return False


def _scale(type_: Type) -> int:
    return type_.scale if isinstance(type_, Decimal) else 0


def _span(conjunct: Conjunct) -> Span | None:
    if conjunct.condition.span is not None:
        return conjunct.condition.span
    return next((each.span for each in conjunct.values if each.span is not None), None)
