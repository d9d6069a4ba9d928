"""Spark's implicit casts, ANSI on.

takes  typed expressions
gives  the same expressions with `Cast` nodes where Spark would convert, so that everything
       downstream is explicit; constants are converted here and now
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as Number
from typing import TypeVar

from viewmill.algebra.expressions import Cast, Expression, Literal
from viewmill.algebra.types import (
    BIGINT,
    DOUBLE,
    NULL,
    TIMESTAMP,
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Interval,
    Nested,
    Null,
    String,
    Timestamp,
    Type,
)
from viewmill.errors import Span, TypeMismatch
from viewmill.program.text_values import read_date, read_decimal, read_timestamp
from viewmill.sql import decimals
from viewmill.sql.not_modelled import NotModelled

_EXACT = Context(prec=200)
T = TypeVar("T")


def common_type(a: Type, b: Type) -> Type | None:
    """The type that two values meet in: branches of CASE, sides of a comparison, of a UNION."""
    if a == b or isinstance(b, Null):
        return a
    if isinstance(a, Null):
        return b
    if isinstance(a, String) or isinstance(b, String):
        return _beside_string(b if isinstance(a, String) else a)
    if isinstance(a, Date | Timestamp) and isinstance(b, Date | Timestamp):
        return TIMESTAMP
    return _common_number(a, b)


def _beside_string(other: Type) -> Type | None:
    # Spark reads the string as the other side's kind of value, in its widest type.
    if isinstance(other, Integer):
        return BIGINT
    if isinstance(other, Decimal | Float):
        return DOUBLE
    return None if isinstance(other, Nested | Interval) else other


def _common_number(a: Type, b: Type) -> Type | None:
    if isinstance(a, Integer) and isinstance(b, Integer):
        return a if a.bits >= b.bits else b
    if isinstance(a, Float) and isinstance(b, Float):
        return DOUBLE
    # FLOAT beside an integer or a decimal would lose digits, so Spark takes DOUBLE.
    exact_a, exact_b = decimals.as_decimal(a), decimals.as_decimal(b)
    if isinstance(a, Float) or isinstance(b, Float):
        return DOUBLE if exact_a or exact_b else None
    if exact_a and exact_b:
        return decimals.wider(exact_a, exact_b)
    return None


def common_types(types: Sequence[Type]) -> Type | None:
    """The type that all of `types` meet in. Strings come last, as in Spark."""
    found: Type = NULL
    for each in sorted(types, key=lambda type_: isinstance(type_, String)):
        meeting = common_type(found, each)
        if meeting is None:
            return None
        found = meeting
    return found


def unify(expressions: Sequence[Expression], what: str) -> tuple[Expression, ...]:
    """All of `expressions` in their common type, or an error that underlines the odd one."""
    found = common_types([each.type for each in expressions])
    if found is None:
        first = expressions[0]
        odd = next(
            (each for each in expressions if common_type(first.type, each.type) is None), first
        )
        raise TypeMismatch(
            f"{what} needs values of one type, got {first.type} and {odd.type}",
            hint="Convert one of them with CAST.",
            span=odd.span or first.span,
        )
    return tuple(cast(each, found) for each in expressions)


def cast(
    expression: Expression, type_: Type, *, lenient: bool = False, span: Span | None = None
) -> Expression:
    """`expression` as `type_`: itself when it is, a constant when it can be, else a `Cast`."""
    if expression.type == type_:
        return expression
    span = span or expression.span
    if isinstance(expression, Literal):
        value = convert(expression.value, expression.type, type_)
        if value is not None or expression.value is None:
            return Literal(value, type_, span)
    # NaN and infinities are NULL as decimals.
    may_fail = isinstance(expression.type, Float) and isinstance(type_, Decimal)
    return Cast(expression, type_, expression.nullable or lenient or may_fail, lenient, span)


def convert(value: object, source: Type, target: Type) -> object | None:
    """A constant in another type, or None when only the engine should say what it becomes."""
    match target:
        case Integer() if isinstance(source, Integer) and isinstance(value, int):
            return value if target.low <= value <= target.high else None
        case Decimal() if isinstance(source, Integer | Decimal):
            return _decimal(value, target)
        case Decimal() if isinstance(source, String):
            return _decimal(_read(read_decimal, value), target)
        case Float(bits=64) if isinstance(source, Integer | Decimal) and value is not None:
            return float(str(value))
        case Date() if isinstance(source, String):
            return _read(read_date, value)
        case Timestamp() if isinstance(source, String):
            return _read(read_timestamp, value)
        case Timestamp() if isinstance(source, Date) and isinstance(value, dt.date):
            return dt.datetime(value.year, value.month, value.day)
        case String() if isinstance(source, Integer | Decimal):
            return str(value) if isinstance(value, int) else None
        case _:
            return None


def _decimal(value: object, target: Decimal) -> Number | None:
    if not isinstance(value, int | Number):
        return None
    unit = Number(1).scaleb(-target.scale)
    try:
        number = Number(value).quantize(unit, ROUND_HALF_UP, context=_EXACT)
    except InvalidOperation:  # more digits than any type has
        return None
    return number if len(number.as_tuple().digits) <= target.precision else None


def _read(reader: Callable[[str], T], value: object) -> T | None:
    """Text that is none of its kind is left to the engine, which says so."""
    try:
        return reader(value) if isinstance(value, str) else None
    except (ValueError, ArithmeticError):
        return None


def is_castable(source: Type, target: Type) -> bool:
    """Whether ANSI allows CAST(source AS target) at all."""
    if source == target or isinstance(source, Null):
        return True
    if isinstance(source, Nested | Interval) or isinstance(target, Nested | Interval | Null):
        return isinstance(source, Nested) and isinstance(target, String | Nested)
    if isinstance(source, String) or isinstance(target, String):
        return True
    if isinstance(source, Date) or isinstance(target, Date):
        return isinstance(source, Date | Timestamp) and isinstance(target, Date | Timestamp)
    if isinstance(source, Boolean) or isinstance(target, Boolean):
        return not isinstance(source, Timestamp) and not isinstance(target, Timestamp)
    return True


def explicit_cast(
    expression: Expression, type_: Type, *, lenient: bool = False, span: Span | None = None
) -> Expression:
    """CAST as the user wrote it."""
    if not is_castable(expression.type, type_):
        raise TypeMismatch(
            f"{expression.type} cannot be cast to {type_}", span=span or expression.span
        )
    return cast(expression, type_, lenient=lenient, span=span)


def implicit(expression: Expression, type_: Type, what: str) -> Expression:
    """An argument as the parameter's type, where Spark would convert on its own."""
    source = expression.type
    if source == type_ or isinstance(source, Null):
        return cast(expression, type_)
    allowed = (
        isinstance(source, String)
        or (isinstance(type_, String) and not isinstance(source, Nested | Interval))
        or (isinstance(type_, Integer) and isinstance(source, Integer))
        or (isinstance(type_, Float) and isinstance(source, Integer | Decimal | Float))
        or (isinstance(type_, Decimal) and isinstance(source, Integer))
        or (isinstance(type_, Date | Timestamp) and isinstance(source, Date | Timestamp))
    )
    if not allowed or (isinstance(type_, Nested | Interval)):
        raise TypeMismatch(f"{what} needs {_a(type_)}, got {source}", span=expression.span)
    return cast(expression, type_)


def _a(type_: Type) -> str:
    return f"{'an' if str(type_)[0] in 'AEIOU' else 'a'} {type_}"


def constant(argument: Expression, what: str) -> object:
    """The value of an argument that must be written out; NotModelled if it is not."""
    if not isinstance(argument, Literal) or argument.value is None:
        raise NotModelled(f"{what} that is not a constant", argument.span)
    return argument.value
