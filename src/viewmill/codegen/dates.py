"""Functions of dates and moments as arithmetic on days and microseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.types import Date, Interval, Timestamp
from viewmill.codegen.shape import NotTaken

if TYPE_CHECKING:
    from viewmill.codegen.scalar import Scalar

DAY = 86_400_000_000  # microseconds
_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000

Write = Callable[["Scalar", Expression, list[str]], str]


def _template(text: str) -> Write:
    return lambda scalar, expression, values: text.format(*values)


# From the year 1 to the year 9999: what Python, Arrow and every sink can show.
_DAYS = (-719_162, 2_932_896)
_FAR = 12 * 20_000  # months: outside wherever they are counted from, and no word overflows
_MOMENTS = (_DAYS[0] * DAY, (_DAYS[1] + 1) * DAY - 1)


def _moved(function: str) -> Write:
    """A date or moment some days or microseconds later (add) or before (sub)."""

    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        return _checked(scalar, expression, function, *values)

    return write


def _checked(scalar: Scalar, expression: Expression, function: str, a: str, b: str | int) -> str:
    low, high = _DAYS if isinstance(expression.type, Date) else _MOMENTS
    outside = f"the result is no {expression.type} of the years 1 to 9999"
    why = scalar.failure(expression, "EvaluationFailed", outside)
    return f"{function}_checked({why}, {a}, {b}, {low}, {high})"


# A date is a number of days, a moment one of microseconds; // rounds down, also before 1970.
DATES: dict[str, Write] = {
    "year": _template("date_year({0})"),
    "month": _template("date_month({0})"),
    "day": _template("date_day({0})"),
    "quarter": _template("((date_month({0}) + 2) // 3)"),
    "dayofyear": _template("date_day_of_year({0})"),
    "dayofweek": _template("date_day_of_week({0})"),
    "weekday": _template("(({0} + 3) % 7)"),
    "hour": _template(f"({{0}} % {DAY} // {_HOUR})"),
    "minute": _template(f"({{0}} % {_HOUR} // {_MINUTE})"),
    "second": _template(f"({{0}} % {_MINUTE} // {_SECOND})"),
    "date_add": _moved("add"),
    "date_sub": _moved("sub"),
    "datediff": _template("({0} - {1})"),
    "unix_date": _template("({0} + 0)"),
    "unix_seconds": _template(f"({{0}} // {_SECOND})"),
    "unix_millis": _template("({0} // 1000)"),
    "unix_micros": _template("({0} + 0)"),
}

_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SPANS = {"day": DAY, "hour": _HOUR, "minute": _MINUTE, "second": _SECOND, "millisecond": 1000}


def is_shift(expression: Call) -> bool:
    """Whether a date or moment is moved by a constant interval."""
    return (
        expression.function in ("+", "-")
        and len(expression.arguments) == 2
        and isinstance(expression.arguments[0].type, Date | Timestamp)
        and isinstance(expression.arguments[1].type, Interval)
        and isinstance(expression.arguments[1], Literal)
    )


def shift(call: Call) -> Write:
    """A date or moment moved by a constant interval."""
    interval = call.arguments[1]
    assert isinstance(interval, Literal)
    assert isinstance(interval.value, tuple)
    months, microseconds = (x if call.function == "+" else -x for x in interval.value)
    months = max(-_FAR, min(months, _FAR))

    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        (value,) = values
        is_date = isinstance(call.arguments[0].type, Date)
        if is_date and isinstance(expression.type, Date):
            moved = value if months == 0 else f"date_add_months({value}, {months})"
            return _checked(scalar, expression, "add", moved, microseconds // DAY)
        moment = f"({value} * {DAY})" if is_date else value
        if months == 0:
            return _checked(scalar, expression, "add", moment, microseconds)
        day = f"date_add_months({moment} // {DAY}, {months})"
        moved = f"{day} * {DAY} + {moment} % {DAY}"
        return _checked(scalar, expression, "add", moved, microseconds)

    return write


def truncation(call: Call) -> tuple[Expression, Write]:
    """What date_trunc or trunc takes, and how it is written."""
    unit, moment = call.arguments if call.function == "date_trunc" else call.arguments[::-1]
    assert isinstance(unit, Literal)
    name = str(unit.value)
    if call.function == "trunc":
        if name == "week":
            return moment, _template("({0} - ({0} + 3) % 7)")
        return moment, _template(f"date_trunc({{0}}, {_MONTHS[name]})")
    if name in _SPANS:
        return moment, _template(f"({{0}} - {{0}} % {_SPANS[name]})")
    if name in _MONTHS:
        return moment, _template(f"(date_trunc({{0}} // {DAY}, {_MONTHS[name]}) * {DAY})")
    if name == "week":
        days = f"{{0}} // {DAY}"
        return moment, _template(f"(({days} - ({days} + 3) % 7) * {DAY})")
    raise NotTaken(f"date_trunc to {name} is not maintained incrementally yet", call.span)
