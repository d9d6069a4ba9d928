"""Expressions over one row, computed in Python: for what is rare or has no words to compute with.

takes  expressions
gives  functions of a row's values (Python's: int, float, str, Decimal, date), which give a value,
       None for NULL; or raise `RowFailed`, which says what Spark would call an error

The meaning is Spark's with ANSI on, as everywhere; AND, OR, CASE and COALESCE are lazy.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from viewmill.algebra.dates import add_months
from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal, UserCall
from viewmill.algebra.types import Decimal, Float, Integer, Interval, Nested, Type
from viewmill.errors import Span
from viewmill.program.evaluate_casts import convert
from viewmill.program.evaluate_functions import FUNCTIONS
from viewmill.program.python_functions import Unfit
from viewmill.program.text_functions import FUNCTIONS as TEXTS
from viewmill.program.user_calls import answer, answers

Row = tuple[Any, ...]
Closure = Callable[[Row], Any]
_EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
DAY = 86_400_000_000


# What does not look inside the values; of those that print alike when they are equal, whether they
# are; of bytes, which is larger, too.
_OF_NESTED = ("is_null", "coalesce")
_EQUALITIES = ("=", "<>", "<=>", "in")
_ORDERS = ("<", "<=", ">", ">=", "greatest", "least")


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
            return not isinstance(expression.input.type, Nested) and can_evaluate(expression.input)
        case Case():
            inside = [each for branch in expression.branches for each in branch]
            return all(map(can_evaluate, [*inside, expression.otherwise]))
        case UserCall():
            return all(map(can_evaluate, expression.arguments))
        case Call():
            known = expression.function in _LAZY or _function(expression) is not None
            nested = [each.type for each in expression.arguments if isinstance(each.type, Nested)]
            if nested:
                known = _is_of_nested(expression.function, nested)
            return known and all(map(can_evaluate, expression.arguments))
        case _:
            return False


def _is_of_nested(function: str, types: Sequence[Nested]) -> bool:
    """Whether Python computes a function of nested values of these types as Spark does."""
    if function in _EQUALITIES:
        return all(each == types[0] and each.is_exact for each in types)
    if function in _ORDERS:
        return all(each.name == "BINARY" for each in types)
    return function in _OF_NESTED


def compile_rows(
    expressions: Sequence[Expression], names: Sequence[str]
) -> list[Callable[[Row], Any]]:
    """Functions that give the values of expressions for a row, whose columns have these names.

    What stands in them more than once is computed once for a row.
    """
    return _Closures(expressions, names).made


def vectorized_calls(
    expressions: Sequence[Expression], names: Sequence[str]
) -> list[Callable[[Sequence[Row]], None]]:
    """What calls the vectorized functions in expressions for many rows at once, inner ones first.

    What fails here is left to the rows themselves, which may have no need of it.
    """
    return _Closures(expressions, names).vectorized


class _Closures:
    def __init__(self, expressions: Sequence[Expression], names: Sequence[str]) -> None:
        self._places = {name: i for i, name in enumerate(names)}
        self._times = Counter(part for each in expressions for part in _calls(each))
        self._shared: dict[Expression, Closure] = {}
        self.vectorized: list[Callable[[Sequence[Row]], None]] = []
        self.made = [self._of(each) for each in expressions]

    def _of(self, expression: Expression) -> Closure:
        match expression:
            case Column():
                return itemgetter(self._places[expression.name])
            case Literal():
                value = expression.value
                return lambda row: value
            case Cast():
                inner = self._of(expression.input)
                return lambda row: _cast(expression, inner(row))
            case Case():
                return self._case(expression)
            case Call():
                return self._call(expression)
            case _:
                raise AssertionError(expression)

    def _case(self, case: Case) -> Closure:
        branches = [(self._of(test), self._of(value)) for test, value in case.branches]
        otherwise = self._of(case.otherwise)

        def chosen(row: Row) -> Any:
            for test, value in branches:
                if test(row) is True:
                    return value(row)
            return otherwise(row)

        return chosen

    def _call(self, call: Call) -> Closure:
        if call in self._shared:
            return self._shared[call]
        parts = [self._of(each) for each in call.arguments]
        if isinstance(call, UserCall):
            made = self._user(call, parts)
        else:
            lazy = _LAZY.get(call.function)
            made = lazy(call, parts) if lazy is not None else _strict(call, parts)
        if self._times[call] > 1:
            made = self._shared[call] = _once(made)
        return made

    def _user(self, call: UserCall, parts: Sequence[Closure]) -> Closure:
        """A call of the user's function, which is given NULLs, too."""
        user, types = call.user, tuple(each.type for each in call.arguments)

        def asked(row: Row) -> Any:
            try:
                return answer(user, types, tuple([part(row) for part in parts]))
            except Unfit as why:
                raise RowFailed(why.kind, str(why), call.span) from None

        def ask_all(rows: Sequence[Row]) -> None:
            given = []
            for row in rows:
                with suppress(RowFailed):
                    given.append(tuple([part(row) for part in parts]))
            with suppress(Unfit):
                answers(user, types, given)

        if user.takes != "values":
            self.vectorized.append(ask_all)
        return asked


def _calls(expression: Expression) -> Iterator[Call]:
    match expression:
        case Cast():
            yield from _calls(expression.input)
        case Case():
            for each in (*(x for branch in expression.branches for x in branch),
                         expression.otherwise):  # fmt: skip
                yield from _calls(each)
        case Call():
            yield expression
            for each in expression.arguments:
                yield from _calls(each)


def _once(closure: Closure) -> Closure:
    """Cache the value that a closure has for the last row."""
    last: Row | None = None
    value: Any = None

    def remembered(row: Row) -> Any:
        nonlocal last, value
        if row is not last:
            value = closure(row)  # if it fails, the last row stays the one before
            last = row
        return value

    return remembered


def _strict(call: Call, parts: Sequence[Closure]) -> Closure:
    """A function that is NULL where an argument is."""
    found = _function(call)
    assert found is not None
    function = found
    constants = [each.value if isinstance(each, Literal) else None for each in call.arguments[1:]]
    if parts and None not in constants:
        return _of_one(call, function, parts[0], constants)

    def of_all(row: Row) -> Any:
        values = [part(row) for part in parts]
        if any(each is None for each in values):
            return None
        try:
            return function(call, *values)
        except FAILURES as why:
            raise _failure(call, why) from None

    return of_all


def _of_one(
    call: Call, function: Callable[..., Any], part: Closure, constants: Sequence[Any]
) -> Closure:
    """A closure that calls a function of one value and constants."""
    if call.function == "=" and not isinstance(call.arguments[0].type, Float):
        (constant,) = constants

        def equal(row: Row) -> Any:
            value = part(row)
            return None if value is None else value == constant

        return equal

    def of_one(row: Row) -> Any:
        value = part(row)
        if value is None:
            return None
        try:
            return function(call, value, *constants)
        except FAILURES as why:
            raise _failure(call, why) from None

    return of_one


FAILURES = (ArithmeticError, ValueError, OverflowError)  # `Unfit` among them


def _failure(call: Call, why: Exception) -> RowFailed:
    if isinstance(why, Unfit):
        return _failed(call, why.kind, str(why))
    return _failed(call, "EvaluationFailed", str(why) or "it has no value")


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


def _and(call: Call, parts: Sequence[Closure]) -> Closure:
    first, second = parts

    def both(row: Row) -> Any:
        left = first(row)
        if left is False:
            return False
        right = second(row)
        return False if right is False else None if left is None or right is None else True

    return both


def _or(call: Call, parts: Sequence[Closure]) -> Closure:
    first, second = parts

    def either(row: Row) -> Any:
        left = first(row)
        if left is True:
            return True
        right = second(row)
        return True if right is True else None if left is None or right is None else False

    return either


def _coalesce(call: Call, parts: Sequence[Closure]) -> Closure:
    def first(row: Row) -> Any:
        for each in parts:
            value = each(row)
            if value is not None:
                return value
        return None

    return first


def _is_null(call: Call, parts: Sequence[Closure]) -> Closure:
    (part,) = parts
    return lambda row: part(row) is None


def _null_safe_equal(call: Call, parts: Sequence[Closure]) -> Closure:
    first, second = parts

    def same(row: Row) -> Any:
        a, b = first(row), second(row)
        return a is b if a is None or b is None else _equal(a, b)

    return same


def _in(call: Call, parts: Sequence[Closure]) -> Closure:
    def among(row: Row) -> Any:
        first, *others = (each(row) for each in parts)
        if first is None:
            return None
        found = [None if each is None else _equal(first, each) for each in others]
        return True if True in found else None if None in found else False

    return among


def _extreme(call: Call, parts: Sequence[Closure]) -> Closure:
    def best_of(row: Row) -> Any:
        values = [x for each in parts if (x := each(row)) is not None]
        if not values:
            return None
        best = values[0]
        for each in values[1:]:
            if _less(best, each) if call.function == "greatest" else _less(each, best):
                best = each
        return best

    return best_of


def _concat_ws(call: Call, parts: Sequence[Closure]) -> Closure:
    def joined(row: Row) -> Any:
        first, *others = (each(row) for each in parts)
        return None if first is None else first.join(each for each in others if each is not None)

    return joined


def _is_nan(call: Call, parts: Sequence[Closure]) -> Closure:
    (part,) = parts

    def is_nan(row: Row) -> Any:
        value = part(row)
        return value is not None and math.isnan(value)

    return is_nan


_LAZY: dict[str, Callable[[Call, Sequence[Closure]], Closure]] = {
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


def _function(call: Call) -> Callable[..., Any] | None:
    """What takes the call itself and the values of its arguments."""
    name = call.function
    if name in _COMPARISONS:
        compare = _COMPARISONS[name]
        return lambda call, a, b: compare(a, b)
    if name in ("+", "-", "*", "/", "%", "div", "pmod"):
        return _time_arithmetic if _is_time(call) else _arithmetic
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in TEXTS:
        of_text = TEXTS[name]
        return lambda call, *values: of_text(*values)
    return None


def _is_time(call: Call) -> bool:
    return any(isinstance(each.type, Interval) for each in call.arguments)


def _time_arithmetic(call: Call, *values: Any) -> Any:
    moment, interval = values
    if not isinstance(interval, tuple) or call.function not in ("+", "-"):
        raise Unfit("EvaluationFailed", "this arithmetic of times")
    months, microseconds = (x if call.function == "+" else -x for x in interval)
    moved = add_months(moment, months) if months else moment
    if isinstance(moved, dt.datetime):
        return moved + dt.timedelta(microseconds=microseconds)
    return moved + dt.timedelta(days=microseconds // DAY)


def _arithmetic(call: Call, *values: Any) -> Any:
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
        case Interval():
            return _span(call.function, *values)
        case _:
            raise Unfit("EvaluationFailed", f"arithmetic on {call.type}")


def _span(function: str, a: Any, b: Any = None) -> tuple[int, int]:
    """An interval as months and microseconds: between two times, or of two intervals."""
    if b is None:
        return -a[0], -a[1]
    if not isinstance(a, tuple):
        return 0, (a - b) // dt.timedelta(microseconds=1)
    sign = 1 if function == "+" else -1
    return a[0] + sign * b[0], a[1] + sign * b[1]


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
        return a.copy_negate() if a else a
    if function == "+":
        return _EXACT.add(a, b)
    if function == "-":
        return _EXACT.subtract(a, b)
    if function == "*":
        return _EXACT.multiply(a, b)
    if function == "/":
        return _EXACT.divide(a, b)
    rest = _EXACT.remainder(a, b)
    is_below = function == "pmod" and rest < 0
    return _EXACT.remainder(_EXACT.add(rest, b), b) if is_below else rest


def fitted_decimal(value: decimal.Decimal, type_: Decimal) -> decimal.Decimal:
    """A decimal at the scale of its type, half up, or `Unfit`."""
    fitted = value.quantize(decimal.Decimal(1).scaleb(-type_.scale), context=_EXACT)
    if fitted.copy_abs() >= decimal.Decimal(10) ** (type_.precision - type_.scale):
        raise Unfit("Overflow", f"the result does not fit {type_}")
    return fitted


def _fitted(value: int, type_: Type) -> int:
    assert isinstance(type_, Integer)
    if not type_.low <= value <= type_.high:
        raise Unfit("Overflow", f"the result does not fit {type_}")
    return value
