"""Operators, typed as Spark 4 types them with ANSI on.

takes  an operator's sign and its typed operands
gives  algebra expressions with every conversion explicit
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal as Number

from viewmill.algebra.conditions import chain
from viewmill.algebra.expressions import Call, Case, Expression, Literal
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
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
    is_numeric,
)
from viewmill.errors import MalformedSQL, Span, TypeMismatch
from viewmill.sql import decimals
from viewmill.sql.coercion import cast, common_type, implicit, unify
from viewmill.sql.not_modelled import NotModelled

DAY = 86_400_000_000  # microseconds


def is_nullable(arguments: tuple[Expression, ...]) -> bool:
    """Most functions are NULL exactly when an argument is."""
    return any(each.nullable for each in arguments)


def make_call(
    function: str, arguments: tuple[Expression, ...], type_: Type, span: Span | None
) -> Call:
    """A call that is NULL when an argument is."""
    return Call(function, arguments, type_, is_nullable(arguments), span)


# Arithmetic.


def arithmetic(sign: str, left: Expression, right: Expression, span: Span | None) -> Expression:
    """+ - * / % div, with dates and intervals where Spark allows them."""
    if sign in "+-" and _is_time(left, right):
        return _time_arithmetic(sign, left, right, span)
    if isinstance(left.type, Interval) or isinstance(right.type, Interval):
        raise NotModelled(f"{sign} on intervals", span)
    left, right = _numbers(sign, left, right, span)
    if sign == "div":
        return _integral_division(left, right, span)
    if sign == "/" and not (isinstance(left.type, Decimal) or isinstance(right.type, Decimal)):
        return make_call("/", (cast(left, DOUBLE), cast(right, DOUBLE)), DOUBLE, span)
    if isinstance(left.type, Decimal) and isinstance(right.type, Decimal):
        type_: Type = decimals.result_type(sign, left.type, right.type)
        return make_call(sign, (left, right), type_, span)
    return make_call(sign, (left, right), left.type, span)


def _numbers(
    sign: str, left: Expression, right: Expression, span: Span | None
) -> tuple[Expression, Expression]:
    """Both operands as numbers of one type; decimals keep their own precision."""
    for each in (left, right):
        if not (is_numeric(each.type) or isinstance(each.type, String | Null)):
            raise TypeMismatch(f"{sign} needs numbers, got {each.type}", span=each.span or span)
    if isinstance(left.type, Null) and isinstance(right.type, Null):
        return cast(left, DOUBLE), cast(right, DOUBLE)
    if isinstance(left.type, String) and isinstance(right.type, String):
        hint = "Convert one of them with CAST."
        raise TypeMismatch(f"{sign} needs numbers, got STRING and STRING", hint=hint, span=span)
    left, right = _literal_as_decimal(left, right), _literal_as_decimal(right, left)
    exact_left, exact_right = decimals.as_decimal(left.type), decimals.as_decimal(right.type)
    has_decimal = isinstance(left.type, Decimal) or isinstance(right.type, Decimal)
    if has_decimal and exact_left and exact_right:
        return cast(left, exact_left), cast(right, exact_right)
    meeting = common_type(left.type, right.type)
    if meeting is None or not is_numeric(meeting):
        raise TypeMismatch(f"{sign} cannot take {left.type} and {right.type}", span=span)
    return cast(left, meeting), cast(right, meeting)


def _literal_as_decimal(expression: Expression, other: Expression) -> Expression:
    """An integer written beside a decimal is as narrow as its digits: 2 is DECIMAL(1,0)."""
    if isinstance(expression, Literal) and isinstance(other.type, Decimal):
        value = expression.value
        if isinstance(expression.type, Integer) and isinstance(value, int):
            return cast(expression, decimals.for_number(Number(value)))
    return expression


def _integral_division(left: Expression, right: Expression, span: Span | None) -> Expression:
    if isinstance(left.type, Float):
        raise TypeMismatch("div needs whole numbers or decimals, got DOUBLE", span=span)
    if isinstance(left.type, Integer):
        left, right = cast(left, BIGINT), cast(right, BIGINT)
    return make_call("div", (left, right), BIGINT, span)


def negate(operand: Expression, span: Span | None) -> Expression:
    """-x; a minus before a number is part of the number."""
    if isinstance(operand, Literal) and isinstance(operand.value, int | float | Number):
        fits = not isinstance(operand.type, Integer) or -operand.value <= operand.type.high
        if is_numeric(operand.type) and fits:
            return Literal(-operand.value, operand.type, span)
    if isinstance(operand, Literal) and isinstance(operand.value, tuple):
        months, microseconds = operand.value
        return Literal((-months, -microseconds), INTERVAL, span)
    if isinstance(operand.type, String | Null):
        operand = cast(operand, DOUBLE)
    if not is_numeric(operand.type):
        raise TypeMismatch(f"- needs a number, got {operand.type}", span=operand.span or span)
    return make_call("-", (operand,), operand.type, span)


def bitwise(sign: str, operands: tuple[Expression, ...], span: Span | None) -> Expression:
    """& | ^ ~ on integers."""
    for each in operands:
        if not isinstance(each.type, Integer | Null):
            raise TypeMismatch(f"{sign} needs whole numbers, got {each.type}", span=each.span)
    operands = unify(operands, sign)
    return make_call(sign, operands, operands[0].type, span)


# Times.


def _is_time(left: Expression, right: Expression) -> bool:
    return any(isinstance(each.type, Date | Timestamp | Interval) for each in (left, right))


def _time_arithmetic(
    sign: str, left: Expression, right: Expression, span: Span | None
) -> Expression:
    if sign == "+" and isinstance(left.type, Interval | Integer):
        left, right = right, left
    match left.type, right.type:
        case (Date(), Integer()):
            name = "date_add" if sign == "+" else "date_sub"
            return make_call(name, (left, cast(right, INT)), DATE, span)
        case (Date(), Interval()):
            return make_call(sign, (left, right), _date_shifted(right), span)
        case (Timestamp() | String(), Interval()):
            return make_call(sign, (cast(left, TIMESTAMP), right), TIMESTAMP, span)
        case (Interval(), Interval()):
            return _interval_sum(sign, left, right, span)
        case (Date() | Timestamp(), Date() | Timestamp() | String()) if sign == "-":
            meeting = common_type(left.type, right.type) or TIMESTAMP
            return make_call("-", (cast(left, meeting), cast(right, meeting)), INTERVAL, span)
        case _:
            raise TypeMismatch(f"{sign} cannot take {left.type} and {right.type}", span=span)


def _date_shifted(interval: Expression) -> Type:
    # A date moved by whole days or months is a date; moved by hours it is a moment.
    if isinstance(interval, Literal) and isinstance(interval.value, tuple):
        return DATE if interval.value[1] % DAY == 0 else TIMESTAMP
    return TIMESTAMP


def _interval_sum(sign: str, left: Expression, right: Expression, span: Span | None) -> Expression:
    values = [each.value for each in (left, right) if isinstance(each, Literal)]
    pairs = [each for each in values if isinstance(each, tuple)]
    if len(pairs) == 2:
        factor = 1 if sign == "+" else -1
        months, microseconds = (a + factor * b for a, b in zip(*pairs, strict=True))
        return Literal((months, microseconds), INTERVAL, span)
    return make_call(sign, (left, right), INTERVAL, span)


# Comparison and logic.


def compare(sign: str, left: Expression, right: Expression, span: Span | None) -> Expression:
    """= <> < <= > >= and <=>, both sides in their common type."""
    left, right = _literal_as_decimal(left, right), _literal_as_decimal(right, left)
    meeting = common_type(left.type, right.type)
    if meeting is None:
        raise TypeMismatch(
            f"{left.type} and {right.type} cannot be compared",
            hint="Convert one of them with CAST.",
            span=span,
        )
    if isinstance(meeting, Nested) and meeting.name.upper().startswith("MAP"):
        raise TypeMismatch(f"{meeting} cannot be compared", span=span)
    arguments = (cast(left, meeting), cast(right, meeting))
    nullable = sign != "<=>" and is_nullable(arguments)
    return Call(sign, arguments, BOOLEAN, nullable, span)


def boolean(operand: Expression, what: str) -> Expression:
    """A condition, or an error that underlines it."""
    if isinstance(operand.type, Boolean):
        return operand
    if isinstance(operand.type, Null | String):
        return cast(operand, BOOLEAN)
    raise TypeMismatch(f"{what} needs a BOOLEAN, got {operand.type}", span=operand.span)


def connect(sign: str, left: Expression, right: Expression, span: Span | None) -> Expression:
    """`and`, `or`."""
    return connect_all(sign, [left, right], span)


def connect_all(sign: str, operands: Iterable[Expression], span: Span | None) -> Expression:
    """Connect one or more conditions with `and` or `or`."""
    return chain(sign, [boolean(each, sign.upper()) for each in operands], span)


def conjunction(conditions: list[Expression]) -> Expression | None:
    """All of `conditions`, None when there are none."""
    return connect_all("and", conditions, None) if conditions else None


def negation(operand: Expression, span: Span | None) -> Expression:
    """NOT."""
    return make_call("not", (boolean(operand, "NOT"),), BOOLEAN, span)


def is_null(operand: Expression, span: Span | None) -> Expression:
    """IS NULL, never NULL itself."""
    return Call("is_null", (operand,), BOOLEAN, False, span)


def among(value: Expression, options: tuple[Expression, ...], span: Span | None) -> Expression:
    """value IN (options)."""
    options = tuple(_literal_as_decimal(each, value) for each in options)
    return make_call("in", unify((value, *options), "IN"), BOOLEAN, span)


def matches(
    name: str, value: Expression, pattern: Expression, escape: str, span: Span | None
) -> Expression:
    """like, rlike; `escape` is the third argument of the first."""
    arguments: tuple[Expression, ...] = (
        implicit(value, STRING, name.upper()),
        implicit(pattern, STRING, name.upper()),
    )
    if name != "rlike":
        _check_escapes(arguments[1], escape, span)
        arguments += (Literal(escape, STRING),)
    return make_call(name, arguments, BOOLEAN, span)


def _check_escapes(pattern: Expression, escape: str, span: Span | None) -> None:
    """Only _, % and the escape itself can be escaped."""
    text = pattern.value if isinstance(pattern, Literal) else None
    if not isinstance(text, str) or not escape:
        return
    rest = text.replace(escape * 2, "")
    after = [each[:1] for each in rest.split(escape)[1:]]
    if any(each not in ("_", "%") for each in after):
        raise MalformedSQL(
            f"{text!r} is no pattern",
            detail=f"Behind {escape} comes _, % or {escape} once more.",
            span=pattern.span or span,
        )


# Choice.


def choose(
    branches: list[tuple[Expression, Expression]], otherwise: Expression | None, span: Span | None
) -> Expression:
    """CASE WHEN ... THEN ... ELSE ... END."""
    last = otherwise or Literal(None, NULL)
    values = unify([then for _, then in branches] + [last], "CASE")
    conditions = [boolean(when, "WHEN") for when, _ in branches]
    pairs = tuple(zip(conditions, values[:-1], strict=True))
    nullable = any(each.nullable for each in values)
    return Case(pairs, values[-1], values[-1].type, nullable, span)
