"""INTERVAL literals as (months, microseconds).

takes  exp.Interval
gives  algebra Literal of type INTERVAL
"""

from __future__ import annotations

from decimal import Decimal as Number
from decimal import InvalidOperation

from sqlglot import exp

from viewmill.algebra.expressions import Literal
from viewmill.algebra.types import INTERVAL
from viewmill.algebra.units import MICROSECONDS_BY_UNIT
from viewmill.errors import MalformedSQL, Span
from viewmill.sql.not_modelled import NotModelled

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def lower_interval(node: exp.Expr, span: Span | None) -> Literal:
    """INTERVAL '3' MONTH, INTERVAL 1 DAY, INTERVAL '1-2' YEAR TO MONTH and the like."""
    unit = node.args.get("unit")
    value = node.this
    if isinstance(value, exp.Neg):
        inner = lower_interval(exp.Interval(this=value.this, unit=unit), span)
        assert isinstance(inner.value, tuple)
        return Literal((-inner.value[0], -inner.value[1]), INTERVAL, span)
    if isinstance(value, exp.Literal) and unit is None and _is_number(value.name):
        raise MalformedSQL("an interval needs a unit", hint="Write INTERVAL '1' DAY.", span=span)
    if not isinstance(value, exp.Literal) or unit is None:
        raise NotModelled("an interval that is not a constant", span)
    if isinstance(unit, exp.IntervalSpan):
        return Literal(_compound(value.name, unit, span), INTERVAL, span)
    return Literal(_single(value.name, _singular(unit.name), span), INTERVAL, span)


def has_hours(node: exp.Expr) -> bool:
    """Whether an interval counts hours, minutes or seconds."""
    return any(_is_fine(each.args.get("unit")) for each in node.find_all(exp.Interval))


def _is_fine(unit: exp.Expr | None) -> bool:
    last = unit.expression if isinstance(unit, exp.IntervalSpan) else unit
    return last is not None and _singular(last.name) not in (*_MONTHS, "DAY", "WEEK")


def _is_number(text: str) -> bool:
    try:
        return Number(text.strip()).is_finite()
    except InvalidOperation:
        return False


def _singular(unit: str) -> str:
    return unit.upper().removesuffix("S")


def _single(text: str, unit: str, span: Span | None) -> tuple[int, int]:
    try:
        number = Number(text.strip())
    except InvalidOperation:
        raise MalformedSQL(f"'{text}' is not a number of {unit}S", span=span) from None
    if unit in _MONTHS:
        if number != number.to_integral_value():
            raise MalformedSQL(f"an interval needs a whole number of {unit}S", span=span)
        return int(number) * _MONTHS[unit], 0
    if unit not in MICROSECONDS_BY_UNIT:
        raise NotModelled(f"an interval of {unit}", span)
    return 0, int(number * MICROSECONDS_BY_UNIT[unit])


def _compound(text: str, unit: exp.IntervalSpan, span: Span | None) -> tuple[int, int]:
    first, last = _singular(unit.this.name), _singular(unit.expression.name)
    sign = -1 if text.strip().startswith("-") else 1
    digits = text.strip().lstrip("+-").replace("-", " ").replace(":", " ").split()
    ladder = ["YEAR", "MONTH"] if first == "YEAR" else ["DAY", "HOUR", "MINUTE", "SECOND"]
    if first not in ladder or last not in ladder:
        raise NotModelled("an interval of this kind", span)
    units = ladder[ladder.index(first) : ladder.index(last) + 1]
    if len(units) != len(digits):
        raise MalformedSQL(f"'{text}' is not an interval of {first} TO {last}", span=span)
    parts = [_single(number, each, span) for number, each in zip(digits, units, strict=True)]
    return sign * sum(months for months, _ in parts), sign * sum(time for _, time in parts)
