"""time_bucket(INTERVAL 10 MINUTES, ts): the start of the bucket that a moment is in.

takes  typed arguments
gives  an algebra expression of arithmetic on microseconds, or on months
"""

from __future__ import annotations

import datetime as dt

from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.types import BIGINT, INT, STRING, TIMESTAMP, Interval, Timestamp
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql import operators
from viewmill.sql.operators import make_call

_EPOCH = dt.datetime(1970, 1, 1)
_HINT = "Write time_bucket(INTERVAL 10 MINUTES, ts)."


def time_bucket(arguments: tuple[Expression, ...], span: Span | None) -> Expression:
    """The bucket's start; buckets are laid from 1970 on, or from a third argument."""
    months, micros = bucket_size(arguments[0])
    moment = arguments[1]
    if not isinstance(moment.type, Timestamp):
        raise TypeMismatch(f"time_bucket needs a TIMESTAMP, got {moment.type}",
                           span=moment.span or span)  # fmt: skip
    origin = _origin(arguments[2]) if len(arguments) > 2 else _EPOCH
    ticks = make_call("unix_micros", (moment,), BIGINT, span)
    if months:
        return _by_months(ticks, months, origin, span)
    first = (origin - _EPOCH) // dt.timedelta(microseconds=1) % micros
    since = operators.arithmetic("-", ticks, _number(first), span)
    return _moment(operators.arithmetic("-", ticks, _remainder(since, micros), span), span)


def bucket_size(size: Expression) -> tuple[int, int]:
    """The months or the microseconds of a constant interval."""
    value = size.value if isinstance(size, Literal) else None
    if not isinstance(size.type, Interval) or not isinstance(value, tuple):
        raise TypeMismatch("the size of a bucket is a constant INTERVAL", hint=_HINT,
                           span=size.span)  # fmt: skip
    months, micros = value
    if months < 0 or micros < 0 or (months == 0) == (micros == 0):
        raise TypeMismatch("a bucket is longer than nothing, in months or in smaller units",
                           hint=_HINT, span=size.span)  # fmt: skip
    return months, micros


def _origin(argument: Expression) -> dt.datetime:
    value = argument.value if isinstance(argument, Literal) else None
    if not isinstance(argument.type, Timestamp) or not isinstance(value, dt.datetime):
        raise TypeMismatch("buckets are laid from a constant TIMESTAMP on",
                           hint="TIMESTAMP '2024-01-01 00:00:00'", span=argument.span)  # fmt: skip
    return value


def _by_months(ticks: Expression, months: int, origin: dt.datetime, span: Span | None) -> (
    Expression
):  # fmt: skip
    """Buckets of months begin on one day and at one hour; moved there they are whole months."""
    if origin.day > 28:
        raise UnsupportedQuery(
            f"buckets of months cannot begin on day {origin.day}, which not every month has",
            hint="Take one of the days 1 to 28.", span=span,
        )  # fmt: skip
    moved = (origin - origin.replace(day=1, hour=0, minute=0, second=0, microsecond=0)) // (
        dt.timedelta(microseconds=1)
    )
    moment = _moment(operators.arithmetic("-", ticks, _number(moved), span), span)
    month = make_call("date_trunc", (Literal("month", STRING), moment), TIMESTAMP, span)
    year = operators.arithmetic("*", make_call("year", (moment,), INT, span), _int(12), span)
    number = operators.arithmetic("+", year, make_call("month", (moment,), INT, span), span)
    since = operators.arithmetic("-", number, _int(origin.year * 12 + origin.month), span)
    back = Call("pmod", (since, _int(months)), INT, since.nullable, span)
    ahead = operators.arithmetic("-", _int(0), back, span)
    start = make_call("timestamp_add_months", (month, ahead), TIMESTAMP, span)
    begun = make_call("unix_micros", (start,), BIGINT, span)
    return _moment(operators.arithmetic("+", begun, _number(moved), span), span)


def _remainder(value: Expression, by: int) -> Expression:
    return Call("pmod", (value, _number(by)), BIGINT, value.nullable)


def _moment(ticks: Expression, span: Span | None) -> Expression:
    return make_call("timestamp_micros", (ticks,), TIMESTAMP, span)


def _number(value: int) -> Literal:
    return Literal(value, BIGINT)


def _int(value: int) -> Literal:
    return Literal(value, INT)
