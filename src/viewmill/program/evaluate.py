"""Expressions over one row, computed in Python: for what is rare or has no words to compute with.

takes  an expression, and the values of a row by column (Python's: int, float, str, Decimal, date)
gives  its value, None for NULL; or `RowFailed`, which says what Spark would call an error

The meaning is Spark's with ANSI on, as everywhere; AND, OR, CASE and COALESCE are lazy.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal
from viewmill.algebra.types import Decimal, Float, Integer, Interval, Type
from viewmill.errors import Span
from viewmill.program.evaluate_casts import convert
from viewmill.program.evaluate_functions import FUNCTIONS, Unfit
from viewmill.program.text_functions import FUNCTIONS as TEXTS

Row = Mapping[str, Any]
_EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
DAY = 86_400_000_000


class RowFailed(Exception):
    """An expression has no value for a row."""

    def __init__(self, kind: str, message: str, span: Span | None) -> None:
        super().__init__(message)
        self.kind, self.message, self.span = kind, message, span


def can_evaluate(expression: Expression) -> bool:
    """Whether every part of an expression is known here."""
    match expression:
        case Column():
            return expression.outer == 0
        case Literal():
            return True
        case Cast():
            return can_evaluate(expression.input)
        case Case():
            inside = [each for branch in expression.branches for each in branch]
            return all(map(can_evaluate, [*inside, expression.otherwise]))
        case Call():
            known = expression.function in _LAZY or _function(expression) is not None
            return known and all(map(can_evaluate, expression.arguments))
        case _:
            return False


def evaluate(expression: Expression, row: Row) -> Any:
    """The value of an expression."""
    match expression:
        case Column():
            return row[expression.name]
        case Literal():
            return expression.value
        case Cast():
            return _cast(expression, evaluate(expression.input, row))
        case Case():
            for condition, value in expression.branches:
                if evaluate(condition, row) is True:
                    return evaluate(value, row)
            return evaluate(expression.otherwise, row)
        case Call():
            lazy = _LAZY.get(expression.function)
            return lazy(expression, row) if lazy is not None else _call(expression, row)
        case _:
            raise AssertionError(expression)


def _call(call: Call, row: Row) -> Any:
    arguments = [evaluate(each, row) for each in call.arguments]
    if any(each is None for each in arguments):
        return None
    function = _function(call)
    assert function is not None
    try:
        return function(call, arguments)
    except Unfit as why:
        raise _failed(call, why.kind, str(why)) from None
    except (ArithmeticError, ValueError, OverflowError) as why:
        raise _failed(call, "EvaluationFailed", str(why) or "it has no value") from None


def _cast(cast: Cast, value: Any) -> Any:
    if value is None:
        return None
    try:
        return convert(value, cast.input.type, cast.type)
    except (ArithmeticError, ValueError, OverflowError) as why:
        if cast.lenient:
            return None
        kind = why.kind if isinstance(why, Unfit) else "EvaluationFailed"
        raise _failed(cast, kind, f"{value!r} is no {cast.type}") from None


def _failed(expression: Expression, kind: str, why: str) -> RowFailed:
    return RowFailed(kind, f"{display_expression(expression)}: {why}", expression.span)


# Lazy ones.


def _and(call: Call, row: Row) -> Any:
    left = evaluate(call.arguments[0], row)
    if left is False:
        return False
    right = evaluate(call.arguments[1], row)
    return False if right is False else None if left is None or right is None else True


def _or(call: Call, row: Row) -> Any:
    left = evaluate(call.arguments[0], row)
    if left is True:
        return True
    right = evaluate(call.arguments[1], row)
    return True if right is True else None if left is None or right is None else False


def _coalesce(call: Call, row: Row) -> Any:
    for each in call.arguments:
        value = evaluate(each, row)
        if value is not None:
            return value
    return None


def _is_null(call: Call, row: Row) -> Any:
    return evaluate(call.arguments[0], row) is None


def _null_safe_equal(call: Call, row: Row) -> Any:
    a, b = (evaluate(each, row) for each in call.arguments)
    return a is b if a is None or b is None else _equal(a, b)


def _in(call: Call, row: Row) -> Any:
    first, *others = (evaluate(each, row) for each in call.arguments)
    if first is None:
        return None
    found = [None if each is None else _equal(first, each) for each in others]
    return True if True in found else None if None in found else False


def _extreme(call: Call, row: Row) -> Any:
    values = [x for each in call.arguments if (x := evaluate(each, row)) is not None]
    if not values:
        return None
    best = values[0]
    for each in values[1:]:
        if _less(best, each) if call.function == "greatest" else _less(each, best):
            best = each
    return best


def _concat_ws(call: Call, row: Row) -> Any:
    first, *others = (evaluate(each, row) for each in call.arguments)
    return None if first is None else first.join(each for each in others if each is not None)


def _is_nan(call: Call, row: Row) -> Any:
    value = evaluate(call.arguments[0], row)
    return value is not None and math.isnan(value)


_LAZY: dict[str, Callable[[Call, Row], Any]] = {
    "and": _and, "or": _or, "coalesce": _coalesce, "is_null": _is_null, "isnan": _is_nan,
    "<=>": _null_safe_equal, "in": _in, "greatest": _extreme, "least": _extreme,
    "concat_ws": _concat_ws,
}  # fmt: skip


# Comparisons. NaN is equal to itself and larger than every number.


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def _less(a: Any, b: Any) -> bool:
    if isinstance(a, float) and a != a:
        return False
    return bool(a < b or (isinstance(b, float) and b != b))


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": _equal,
    "<>": lambda a, b: not _equal(a, b),
    "<": _less,
    "<=": lambda a, b: not _less(b, a),
    ">": lambda a, b: _less(b, a),
    ">=": lambda a, b: not _less(a, b),
}


# Arithmetic.


def _function(call: Call) -> Callable[[Call, list[Any]], Any] | None:
    name = call.function
    if name in _COMPARISONS:
        return lambda call, values: _COMPARISONS[name](*values)
    if name in ("+", "-", "*", "/", "%", "div", "pmod"):
        return _time_arithmetic if _is_time(call) else _arithmetic
    if name in FUNCTIONS:
        return lambda call, values: FUNCTIONS[name](call, *values)
    if name in TEXTS:
        return lambda call, values: TEXTS[name](*values)
    return None


def _is_time(call: Call) -> bool:
    return any(isinstance(each.type, Interval) for each in call.arguments)


def _time_arithmetic(call: Call, values: list[Any]) -> Any:
    moment, interval = values
    if not isinstance(interval, tuple) or call.function not in ("+", "-"):
        raise Unfit("EvaluationFailed", "this arithmetic of times")
    months, microseconds = (x if call.function == "+" else -x for x in interval)
    moved = add_months(moment, months) if months else moment
    if isinstance(moved, dt.datetime):
        return moved + dt.timedelta(microseconds=microseconds)
    return moved + dt.timedelta(days=microseconds // DAY)


def add_months(moment: Any, months: int) -> Any:
    """A date or moment so many months later, on the last day where there is no such day."""
    total = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(total, 12)
    last = (dt.date(year + month // 11, (month + 1) % 12 + 1, 1) - dt.timedelta(days=1)).day
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _arithmetic(call: Call, values: list[Any]) -> Any:
    if call.function in ("/", "%", "div", "pmod") and values[1] == 0:
        raise Unfit("EvaluationFailed", "division by zero")
    match call.type:
        case Float():
            return _float(call.function, *values)
        case Integer():
            return _fitted(_whole(call.function, *values), call.type)
        case Decimal():
            exact = [decimal.Decimal(each) for each in values]
            return fitted_decimal(_digits(call.function, *exact), call.type)
        case _:
            raise Unfit("EvaluationFailed", f"arithmetic on {call.type}")


def _float(function: str, a: float, b: float | None = None) -> float:
    if b is None:
        return -a
    if function == "+":
        return a + b
    if function == "-":
        return a - b
    if function == "*":
        return a * b
    if function == "/":
        return a / b
    rest = math.fmod(a, b)
    return math.fmod(rest + b, b) if function == "pmod" and rest < 0 else rest


def _whole(function: str, a: Any, b: Any = None) -> int:
    if b is None:
        return int(-a)
    if function == "+":
        return int(a + b)
    if function == "-":
        return int(a - b)
    if function == "*":
        return int(a * b)
    quotient = int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    if function == "div":
        return quotient
    rest = a - quotient * b
    return int((rest + b) % b if function == "pmod" and rest < 0 else rest)


def _digits(function: str, a: decimal.Decimal, b: decimal.Decimal | None = None) -> Any:
    if b is None:
        return -a
    if function == "+":
        return _EXACT.add(a, b)
    if function == "-":
        return _EXACT.subtract(a, b)
    if function == "*":
        return _EXACT.multiply(a, b)
    if function == "/":
        return _EXACT.divide(a, b)
    rest = _EXACT.remainder(a, b)
    return _EXACT.remainder(rest + b, b) if function == "pmod" and rest < 0 else rest


def fitted_decimal(value: decimal.Decimal, type_: Decimal) -> decimal.Decimal:
    """A decimal at the scale of its type, half up, or `Unfit`."""
    fitted = value.quantize(decimal.Decimal(1).scaleb(-type_.scale), context=_EXACT)
    if abs(fitted) >= decimal.Decimal(10) ** (type_.precision - type_.scale):
        raise Unfit("Overflow", f"the result does not fit {type_}")
    return fitted


def _fitted(value: int, type_: Type) -> int:
    assert isinstance(type_, Integer)
    if not type_.low <= value <= type_.high:
        raise Unfit("Overflow", f"the result does not fit {type_}")
    return value
