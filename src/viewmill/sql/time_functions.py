"""Builders of functions of days and moments, for `sql.functions`.

takes  typed arguments
gives  algebra expressions; where a function is a sum of simpler ones it is written as these, so
       that triggers compute it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from viewmill.algebra.date_patterns import text_shape
from viewmill.algebra.expressions import Call, Expression, Literal
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Integer,
    String,
)
from viewmill.errors import Span, TypeMismatch
from viewmill.program.date_texts import date_writer
from viewmill.sql import operators, patterns
from viewmill.sql.coercion import cast, constant, implicit
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.operators import make_call
from viewmill.sql.time_bucket import time_bucket

Arguments = tuple[Expression, ...]
Builder = Callable[[Arguments, Span | None], Expression]


def _to_date(arguments: Arguments, span: Span | None) -> Expression:
    if len(arguments) > 1:
        return cast(_parsed("to_date", arguments, span), DATE)
    return implicit(arguments[0], DATE, "to_date")


def _to_timestamp(arguments: Arguments, span: Span | None) -> Expression:
    if len(arguments) > 1:
        return _parsed("to_timestamp", arguments, span)
    return implicit(arguments[0], TIMESTAMP, "to_timestamp")


def _try_to_date(arguments: Arguments, span: Span | None) -> Expression:
    return cast(arguments[0], DATE, lenient=True, span=span)


def _try_to_timestamp(arguments: Arguments, span: Span | None) -> Expression:
    return cast(arguments[0], TIMESTAMP, lenient=True, span=span)


def _parsed(name: str, arguments: Arguments, span: Span | None) -> Expression:
    """Text read by a pattern; other texts are errors."""
    if not isinstance(arguments[0].type, String):
        return implicit(arguments[0], TIMESTAMP, name)
    pattern = patterns.to_spark(str(constant(arguments[1], f"a pattern of {name}")))
    if pattern is None or text_shape(pattern) is None:
        raise NotModelled(f"{name} with this pattern", arguments[1].span)
    text = Literal(pattern, STRING, arguments[1].span)
    return make_call("to_timestamp", (arguments[0], text), TIMESTAMP, span)


def _timestamp_seconds(arguments: Arguments, span: Span | None) -> Expression:
    operand = arguments[0]
    if not isinstance(operand.type, Integer):
        raise NotModelled("timestamp_seconds of a fraction", span)
    return make_call("timestamp_seconds", (cast(operand, BIGINT),), TIMESTAMP, span)


TRUNCATIONS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month",
    "MON": "month", "MM": "month", "WEEK": "week", "DAY": "day", "DD": "day", "HOUR": "hour",
    "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}  # fmt: skip


def _unit(argument: Expression, allowed: Iterable[str], what: str) -> Literal:
    unit = TRUNCATIONS.get(str(constant(argument, f"a unit of {what}")).upper())
    if unit is None or unit not in allowed:
        # Spark answers NULL for a unit it does not know; that is never meant.
        raise TypeMismatch(
            f"{what} does not know this unit",
            hint=f"Use one of {', '.join(sorted(set(allowed)))}.",
            span=argument.span,
        )
    return Literal(unit, STRING, argument.span)


def _date_trunc(arguments: Arguments, span: Span | None) -> Expression:
    unit = _unit(arguments[0], TRUNCATIONS.values(), "date_trunc")
    moment = implicit(arguments[1], TIMESTAMP, "date_trunc")
    return make_call("date_trunc", (unit, moment), TIMESTAMP, span)


def _trunc(arguments: Arguments, span: Span | None) -> Expression:
    unit = _unit(arguments[1], ("year", "quarter", "month", "week"), "trunc")
    return make_call("trunc", (implicit(arguments[0], DATE, "trunc"), unit), DATE, span)


def _date_format(arguments: Arguments, span: Span | None) -> Expression:
    pattern = str(constant(arguments[1], "a pattern of date_format"))
    moment = implicit(arguments[0], TIMESTAMP, "date_format")
    text = Literal(pattern, STRING, arguments[1].span)
    if patterns.to_duckdb(pattern) is not None:
        return make_call("date_format", (moment, text), STRING, span)
    if date_writer(pattern) is None:
        raise TypeMismatch(f"{pattern!r} is no pattern of dates", span=arguments[1].span or span)
    return make_call("date_text", (moment, text), STRING, span)


_DISTANCES = {
    "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1000, "MICROSECOND": 1, "WEEK": 7 * 86_400_000_000,
}  # fmt: skip
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _timestampdiff(arguments: Arguments, span: Span | None) -> Expression:
    """Whole units from the second to the third argument, towards zero."""
    unit = str(constant(arguments[0], "a unit of timestampdiff")).upper()
    if unit in _MONTHS:
        moments = tuple(implicit(each, TIMESTAMP, "timestampdiff") for each in arguments[1:])
        months = make_call("whole_months_between", moments, BIGINT, span)
        return operators.arithmetic("div", months, Literal(_MONTHS[unit], BIGINT), span)
    if unit not in _DISTANCES:
        raise NotModelled(f"timestampdiff in {unit}", span)
    micros = [
        make_call("unix_micros", (implicit(each, TIMESTAMP, "timestampdiff"),), BIGINT, span)
        for each in arguments[1:]
    ]
    away = operators.arithmetic("-", micros[1], micros[0], span)
    return operators.arithmetic("div", away, Literal(_DISTANCES[unit], BIGINT), span)


def _timestampadd(arguments: Arguments, span: Span | None) -> Expression:
    """timestampadd: a moment plus a number of units."""
    unit = str(constant(arguments[0], "a unit of timestampadd")).upper()
    moment = implicit(arguments[2], TIMESTAMP, "timestampadd")
    if unit in _MONTHS:
        count = implicit(arguments[1], INT, "timestampadd")
        months = operators.arithmetic("*", count, Literal(_MONTHS[unit], INT), span)
        return make_call("timestamp_add_months", (moment, months), TIMESTAMP, span)
    if unit not in _DISTANCES:
        raise NotModelled(f"timestampadd of {unit}", span)
    micros = make_call("unix_micros", (moment,), BIGINT, span)
    count = implicit(arguments[1], BIGINT, "timestampadd")
    away = operators.arithmetic("*", count, Literal(_DISTANCES[unit], BIGINT), span)
    later = operators.arithmetic("+", micros, away, span)
    return make_call("timestamp_micros", (later,), TIMESTAMP, span)


def _unix_timestamp(arguments: Arguments, span: Span | None) -> Expression:
    """Seconds since 1970 towards zero, where unix_seconds goes down."""
    if len(arguments) > 1:
        moment = _parsed("unix_timestamp", arguments, span)
    else:
        moment = implicit(arguments[0], TIMESTAMP, "unix_timestamp")
    micros = make_call("unix_micros", (moment,), BIGINT, span)
    return operators.arithmetic("div", micros, Literal(1_000_000, BIGINT), span)


def _from_unixtime(arguments: Arguments, span: Span | None) -> Expression:
    seconds = implicit(arguments[0], BIGINT, "from_unixtime")
    moment = make_call("timestamp_seconds", (seconds,), TIMESTAMP, span)
    usual = Literal("yyyy-MM-dd HH:mm:ss", STRING)
    return _date_format((moment, arguments[1] if len(arguments) > 1 else usual), span)


def _months_between(arguments: Arguments, span: Span | None) -> Expression:
    moments = tuple(implicit(each, TIMESTAMP, "months_between") for each in arguments[:2])
    rounded = constant(arguments[2], "whether to round") if len(arguments) > 2 else True
    return make_call("months_between", (*moments, Literal(rounded, BOOLEAN)), DOUBLE, span)


_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_WEEKDAY = {name[:size]: i for i, name in enumerate(_WEEKDAYS) for size in (2, 3, len(name))}


def _next_day(arguments: Arguments, span: Span | None) -> Expression:
    """The first such weekday after a day: 1 to 7 days later."""
    name = str(constant(arguments[1], "a weekday of next_day")).upper()
    if name not in _WEEKDAY:
        raise TypeMismatch(
            "next_day does not know this weekday",
            hint="Write it as MO, MON or MONDAY.",
            span=arguments[1].span,
        )
    day = implicit(arguments[0], DATE, "next_day")
    weekday = make_call("weekday", (day,), INT, span)
    since = operators.arithmetic("-", weekday, Literal(_WEEKDAY[name], INT), span)
    passed = Call("pmod", (since, Literal(7, INT)), INT, since.nullable, span)
    ahead = operators.arithmetic("-", Literal(7, INT), passed, span)
    return make_call("date_add", (day, ahead), DATE, span)


BUILDERS: dict[str, tuple[Builder, int, int | None]] = {
    "date_format": (_date_format, 2, 2), "timestampdiff": (_timestampdiff, 3, 3),
    "timestampadd": (_timestampadd, 3, 3), "from_unixtime": (_from_unixtime, 1, 2),
    "unix_timestamp": (_unix_timestamp, 1, 2), "to_unix_timestamp": (_unix_timestamp, 1, 2),
    "to_timestamp_ntz": (_to_timestamp, 1, 2), "to_timestamp_ltz": (_to_timestamp, 1, 2),
    "try_to_date": (_try_to_date, 1, 1), "try_to_timestamp": (_try_to_timestamp, 1, 1),
    "months_between": (_months_between, 2, 3), "next_day": (_next_day, 2, 2),
    "to_date": (_to_date, 1, 2), "date": (_to_date, 1, 1), "to_timestamp": (_to_timestamp, 1, 2),
    "date_trunc": (_date_trunc, 2, 2), "trunc": (_trunc, 2, 2),
    "timestamp_seconds": (_timestamp_seconds, 1, 1), "time_bucket": (time_bucket, 2, 3),
}  # fmt: skip
