"""Which expressions can fail for a row: division by zero, a bad cast, overflow.

takes  a typed expression
gives  the first part that can fail, or None

SQL evaluates an expression for the rows that come out of the join and pass WHERE, and for no
others; an error for another row is not the query's. What cannot fail may be evaluated wherever that
is cheapest, what can fail must be evaluated where SQL does.

Overflow is told apart: whether numbers leave their type hangs on the values, and nearly all
arithmetic of whole numbers would have to be called failing.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Call, Case, Cast, Expression, Literal, parts
from viewmill.algebra.types import (
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Null,
    String,
    Timestamp,
    Type,
    Wide,
    shown_type,
)

_DIVISIONS = ("/", "%", "div", "pmod")
MOST_DIGITS = 38

# Functions that have a value for all arguments of their types. Others are taken to be able to fail.
_TOTAL = frozenset({
    "and", "or", "not", "is_null", "coalesce", "in", "<=>", "=", "<>", "<", "<=", ">", ">=",
    "greatest", "least", "isnan", "&", "|", "^", "~",
    "sqrt", "cbrt", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
    "cosh", "tanh", "radians", "degrees", "sign", "ln", "log", "log10", "log1p", "log2", "pow",
    "pi", "e", "rint", "hypot", "bit_count",
    "concat", "concat_ws", "contains", "startswith", "endswith", "like", "length", "lower",
    "upper", "left", "right", "substring", "substring_index", "trim", "ltrim", "rtrim", "replace",
    "reverse", "repeat", "translate", "instr", "locate", "lpad", "rpad", "ascii", "octet_length",
    "bit_length", "initcap", "md5", "sha1", "crc32", "soundex", "levenshtein",
    "year", "month", "day", "quarter", "dayofweek", "weekday", "dayofyear", "weekofyear", "hour",
    "minute", "second", "second_fraction", "dayname", "monthname", "datediff", "last_day",
    "date_trunc", "trunc", "unix_date", "unix_seconds", "unix_millis", "unix_micros",
    "timestamp_micros", "months_between", "named_struct",
})  # fmt: skip

# Functions that fail by overflow alone.
_OVERFLOWING = frozenset({
    "+", "-", "*", "abs", "floor", "ceil", "round", "bround", "date_add", "date_sub", "add_months",
})  # fmt: skip


def failing_part(expression: Expression, *, overflow: bool = False) -> Expression | None:
    """The first part that can fail; by overflow only if asked for.

    What stands in a branch of CASE or behind AND is judged as if it stood alone, subqueries are
    not looked into.
    """
    found = (failing_part(each, overflow=overflow) for each in parts(expression))
    inner = next((each for each in found if each is not None), None)
    if inner is not None:
        return inner
    match expression:
        case Cast():
            fails = _cast_fails(expression, overflow=overflow)
        case Call(function=function) if function in _DIVISIONS:
            fails = not _is_nonzero(expression.arguments[1])
            fails |= overflow and _overflows(expression)
        case Call(function=function) if function in _OVERFLOWING:
            fails = overflow and _overflows(expression)
        case Call(function=function):
            fails = function not in _TOTAL
        case _:
            fails = False
    return expression if fails else None


def _is_nonzero(divisor: Expression) -> bool:
    """Whether a divisor is never zero: a constant, or NULLIF(x, 0)."""
    match divisor:
        case Literal():
            return divisor.value is None or bool(divisor.value)
        case Cast(lenient=False, input=inner) if _keeps_zero(inner.type, divisor.type):
            return _is_nonzero(inner)
        case Case(branches=((Call(function="=", arguments=(left, right)), then),), otherwise=other):
            is_zero = _is_literal(_uncast(right), 0) and _uncast(left) == _uncast(other)
            return is_zero and _is_literal(_uncast(then), None)
        case _:
            return False


def _keeps_zero(source: Type, target: Type) -> bool:
    """Whether a cast makes zero of nothing but zero."""
    source, target = shown_type(source), shown_type(target)
    if isinstance(source, Null):
        return True
    if isinstance(source, Integer):
        return isinstance(target, Integer | Decimal | Float)
    if isinstance(source, Decimal):
        return isinstance(target, Float) or (
            isinstance(target, Decimal) and target.scale >= source.scale
        )
    return isinstance(source, Float) and source == target


def _uncast(expression: Expression) -> Expression:
    while isinstance(expression, Cast) and _keeps_zero(expression.input.type, expression.type):
        expression = expression.input
    return expression


def _is_literal(expression: Expression, value: int | None) -> bool:
    return isinstance(expression, Literal) and expression.value == value


def _overflows(call: Call) -> bool:
    """Whether a result may leave its type, which has no room for all that the arguments allow."""
    match call.type:
        case Float():
            return False
        case Integer():
            return call.function not in ("%", "pmod")
        case Decimal():
            return exact_digits(call) > MOST_DIGITS
        case _:
            return True


def exact_digits(call: Call) -> int:
    """The digits that a decimal result may need."""
    types = [each.type for each in call.arguments]
    wholes, scales = [whole_digits(each) for each in types], [scale_of(each) for each in types]
    match call.function:
        case "+" | "-" if len(types) == 2:
            return max(wholes) + max(scales) + 1
        case "*":
            return sum(wholes) + sum(scales) + 1
        case "/":
            return wholes[0] + scales[1] + scale_of(call.type)
        case "div":
            return wholes[0] + scales[1]
        case _:
            return wholes[0] + scales[0] + 1


def _cast_fails(cast: Cast, *, overflow: bool) -> bool:
    source, target = shown_type(cast.input.type), shown_type(cast.type)
    if cast.lenient or source == target or isinstance(target, String) or isinstance(source, Null):
        return False
    match target:
        case Boolean():
            return isinstance(source, String)
        case Float():
            return isinstance(source, String)
        case Integer() | Decimal() if isinstance(source, Integer | Decimal | Float | Boolean):
            return overflow and not always_fits(source, target)
        case Date() | Timestamp():
            return not isinstance(source, Date | Timestamp)
        case _:
            return True


def always_fits(source: Type, target: Integer | Decimal) -> bool:
    """Whether every number of one type has a place in the other."""
    if isinstance(source, Float):
        return False
    if isinstance(source, Integer) and isinstance(target, Integer):
        return source.bits <= target.bits
    whole = whole_digits(source)
    if isinstance(target, Integer):
        return bool(10**whole <= target.high)
    whole += scale_of(source) > target.scale  # 9.99 rounds to 10.0
    return whole <= target.precision - target.scale


def whole_digits(type_: Type) -> int:
    """The digits before the point of a number's type."""
    match type_:
        case Integer():
            return {8: 3, 16: 5, 32: 10, 64: 19}[type_.bits]
        case Decimal() | Wide():
            return type_.precision - type_.scale
        case _:
            return 1


def scale_of(type_: Type) -> int:
    """The digits after the point of a number's type."""
    return type_.scale if isinstance(type_, Decimal | Wide) else 0
