"""Functions of single rows by Spark's names, over Python's values; no argument is NULL."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from calendar import monthrange
from collections.abc import Callable
from functools import cache
from hashlib import md5, sha1, sha256
from typing import Any

import numpy as np

from viewmill.algebra.date_patterns import text_shape
from viewmill.algebra.dates import add_months
from viewmill.algebra.expressions import Call
from viewmill.algebra.types import Decimal, Float, Integer
from viewmill.program.date_texts import DAYS, MONTHS, date_writer
from viewmill.program.python_functions import (
    PYTHON_FUNCTIONS,
    Unfit,
    initcap,
    regexp_extract,
    regexp_like,
    regexp_replace,
    rounded,
)

_EPOCH = dt.datetime(1970, 1, 1)
_MOST_KNOWN = 10_000
_WORD = 2**64 - 1
_MICROSECOND = dt.timedelta(microseconds=1)


Function = Callable[..., Any]


def _plain(function: Callable[..., Any]) -> Function:
    return lambda call, *values: function(*values)


# Numbers.


def _whole(rounding: str) -> Function:
    def write(call: Call, value: Any) -> Any:
        if isinstance(call.type, Decimal):
            return value.to_integral_value(rounding=rounding)
        if math.isnan(value):
            return 0  # as Java has it
        if math.isinf(value):
            raise Unfit("Overflow", f"{value} is no whole number")
        whole = math.floor(value) if rounding == decimal.ROUND_FLOOR else math.ceil(value)
        if isinstance(call.type, Integer) and not call.type.low <= whole <= call.type.high:
            raise Unfit("Overflow", f"the result does not fit {call.type}")
        return whole

    return write


def _round(call: Call, value: Any, digits: int) -> Any:
    if isinstance(call.type, Float):
        made = rounded(value, digits)
        return float(np.float32(made)) if call.type.bits == 32 else made
    unit = decimal.Decimal(1).scaleb(-digits)
    context = decimal.Context(prec=80)
    exact = decimal.Decimal(value).quantize(unit, decimal.ROUND_HALF_UP, context)
    if isinstance(call.type, Integer):
        if not call.type.low <= exact <= call.type.high:
            raise Unfit("Overflow", f"the result does not fit {call.type}")
        return int(exact)
    assert isinstance(call.type, Decimal)
    return exact.quantize(decimal.Decimal(1).scaleb(-call.type.scale), context=context)


def _logarithm(function: Callable[[float], float]) -> Function:
    return lambda call, x: None if x <= 0 else function(x)


def _log(call: Call, base: float, x: float) -> Any:
    if x <= 0 or base <= 0:
        return None
    above, below = math.log(x), math.log(base)
    return above / below if below else above * math.inf if above else math.nan


def _sqrt(call: Call, x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def power(x: float, y: float) -> float:
    """x to the power of y; as Java has it, 1 to a power that is no number is none either."""
    if abs(x) == 1 and not math.isfinite(y):
        return math.nan
    odd = math.isfinite(y) and y % 2 == 1
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:
        return math.nan if x else math.copysign(math.inf, x) if odd else math.inf


def _exp(call: Call, x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sign(call: Call, x: float) -> float:
    return x if x != x else float((x > 0) - (x < 0))


def _inverse(function: Callable[[float], float]) -> Function:
    return lambda call, x: function(x) if -1 <= x <= 1 else math.nan


def _trigonometric(function: Callable[[float], float]) -> Function:
    return lambda call, x: function(x) if math.isfinite(x) else math.nan


def _cbrt(call: Call, x: float) -> float:
    return math.cbrt(x)


# Text.


def _split_part(call: Call, text: str, delimiter: str, part: int) -> str:
    if part == 0:
        raise Unfit("EvaluationFailed", "the index of split_part is 0")
    parts = text.split(delimiter) if delimiter else [text]
    at = part - 1 if part > 0 else len(parts) + part
    return parts[at] if 0 <= at < len(parts) else ""


def _locate(call: Call, part: str, text: str, position: int = 1) -> int:
    if position < 1 or not part:
        return int(position >= 1)
    return text.find(part, position - 1) + 1


def _pad(left: bool) -> Function:
    def pad(call: Call, text: str, count: int, fill: str = " ") -> str:
        count = max(count, 0)
        missing = count - len(text)
        if missing <= 0 or not fill:
            return text[:count]
        added = (fill * (missing // len(fill) + 1))[:missing]
        return added + text if left else text + added

    return pad


def _translate(call: Call, text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for i, letter in enumerate(old):
        table.setdefault(ord(letter), new[i] if i < len(new) else None)
    return text.translate(table)


def _trim(sides: str) -> Function:
    def trim(call: Call, text: str, letters: str = " ") -> str:
        text = text.lstrip(letters) if "l" in sides else text
        return text.rstrip(letters) if "r" in sides else text

    return trim


def _substring_index(call: Call, text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    parts = text.split(delimiter) if count > 0 else text.rsplit(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def _hex(call: Call, value: Any) -> str:
    return f"{value & _WORD:X}" if isinstance(value, int) else str(value).encode().hex().upper()


# Days and moments.


def _micros(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(micros: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=micros)


def _days(call: Call, day: dt.date, count: int) -> dt.date:
    return day + dt.timedelta(days=count if call.function == "date_add" else -count)


def _last_day(call: Call, day: dt.date) -> dt.date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def _fraction(call: Call, moment: dt.datetime) -> decimal.Decimal:
    return decimal.Decimal(moment.second * 1_000_000 + moment.microsecond).scaleb(-6)


def _trunc(call: Call, first: Any, second: Any) -> Any:
    moment, unit = (second, first) if call.function == "date_trunc" else (first, second)
    at = (
        moment
        if isinstance(moment, dt.datetime)
        else dt.datetime(moment.year, moment.month, moment.day)
    )
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    cut = {
        "year": lambda: midnight.replace(month=1, day=1),
        "quarter": lambda: midnight.replace(month=(at.month - 1) // 3 * 3 + 1, day=1),
        "month": lambda: midnight.replace(day=1),
        "week": lambda: midnight - dt.timedelta(days=at.weekday()),
        "day": lambda: midnight,
        "hour": lambda: at.replace(minute=0, second=0, microsecond=0),
        "minute": lambda: at.replace(second=0, microsecond=0),
        "second": lambda: at.replace(microsecond=0),
        "millisecond": lambda: at.replace(microsecond=at.microsecond // 1000 * 1000),
        "microsecond": lambda: at,
    }[unit]()
    return cut if call.function == "date_trunc" else cut.date()


def _months_between(call: Call, a: dt.datetime, b: dt.datetime, rounded: bool) -> float:
    """Whole months where the days are equal or both the last ones; else months of 31 days."""
    months = float((a.year - b.year) * 12 + a.month - b.month)
    ends = [each.day == monthrange(each.year, each.month)[1] for each in (a, b)]
    if a.day != b.day and not all(ends):
        months += (_day_seconds(a) - _day_seconds(b)) / 2_678_400
    return math.floor(months * 1e8 + 0.5) / 1e8 if rounded else months


def _day_seconds(t: dt.datetime) -> int:
    return ((t.day * 24 + t.hour) * 60 + t.minute) * 60 + t.second


def _date_format(call: Call, moment: dt.datetime, pattern: str) -> str:
    return _formatter(pattern)(moment)


_FINE = frozenset("sS")  # letters that tell moments of one minute apart


@cache
def _formatter(pattern: str) -> Callable[[dt.datetime], str]:
    """What writes moments; those of one minute are written once, unless the pattern has seconds."""
    write = date_writer(pattern)
    assert write is not None
    known: dict[int, str] = {}

    def remembered(moment: dt.datetime) -> str:
        minute = moment.toordinal() * 1440 + moment.hour * 60 + moment.minute
        text = known.get(minute)
        if text is None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            text = known[minute] = write(moment)
        return text

    return remembered if _FINE.isdisjoint(pattern) else write


@cache
def _reader(pattern: str) -> re.Pattern[str]:
    return re.compile(str(text_shape(pattern)))


def _to_timestamp(call: Call, text: str, pattern: str) -> dt.datetime:
    found = _reader(pattern).fullmatch(text)
    if found is None:
        raise Unfit("EvaluationFailed", f"{text!r} is not as {pattern!r} says")
    said = {unit: int(digits) for unit, digits in found.groupdict().items()}
    day = dt.datetime(said["year"], said["month"], said["day"])
    return day.replace(
        hour=said.get("hour", 0),
        minute=said.get("minute", 0),
        second=said.get("second", 0),
        microsecond=said.get("microsecond", 0) + 1000 * said.get("millisecond", 0),
    )


FUNCTIONS: dict[str, Function] = {
    **{name: _plain(python.function) for name, python in PYTHON_FUNCTIONS.items()},
    "not": lambda call, x: not x,
    "abs": lambda call, x: abs(x), "sign": _sign, "floor": _whole(decimal.ROUND_FLOOR),
    "ceil": _whole(decimal.ROUND_CEILING), "round": _round, "sqrt": _sqrt, "cbrt": _cbrt,
    "exp": _exp, "ln": _logarithm(math.log), "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2), "log": _log, "pow": _plain(power),
    "sin": _trigonometric(math.sin), "cos": _trigonometric(math.cos),
    "tan": _trigonometric(math.tan), "asin": _inverse(math.asin), "acos": _inverse(math.acos),
    "atan": _plain(math.atan), "atan2": _plain(math.atan2), "radians": _plain(math.radians),
    "degrees": _plain(math.degrees), "pi": lambda call: math.pi, "e": lambda call: math.e,
    "&": lambda call, a, b: a & b, "|": lambda call, a, b: a | b, "^": lambda call, a, b: a ^ b,
    "~": lambda call, a: ~a,
    "split_part": _split_part, "locate": _locate, "lpad": _pad(True), "rpad": _pad(False),
    "translate": _translate, "trim": _trim("lr"), "ltrim": _trim("l"), "rtrim": _trim("r"),
    "rlike": _plain(regexp_like), "regexp_extract": _plain(regexp_extract),
    "regexp_replace": _plain(regexp_replace),
    "substring_index": _substring_index, "to_timestamp": _to_timestamp,
    "months_between": _months_between, "bit_count": lambda call, n: (n & _WORD).bit_count(),
    "hex": _hex, "sha2": lambda call, text, size: sha256(text.encode()).hexdigest(),
    "initcap": _plain(initcap), "repeat": lambda call, text, n: text * max(n, 0),
    "ascii": lambda call, text: ord(text[0]) if text else 0,
    "md5": lambda call, text: md5(text.encode(), usedforsecurity=False).hexdigest(),
    "sha1": lambda call, text: sha1(text.encode(), usedforsecurity=False).hexdigest(),
    "octet_length": lambda call, text: len(text.encode()),
    "chr": lambda call, n: "" if n < 0 else chr(n % 256),
    "dayname": lambda call, t: DAYS[t.weekday()][:3],
    "monthname": lambda call, t: MONTHS[t.month - 1][:3],
    "year": lambda call, t: t.year, "month": lambda call, t: t.month, "day": lambda call, t: t.day,
    "quarter": lambda call, t: (t.month + 2) // 3,
    "dayofweek": lambda call, t: t.isoweekday() % 7 + 1, "weekday": lambda call, t: t.weekday(),
    "dayofyear": lambda call, t: t.timetuple().tm_yday,
    "weekofyear": lambda call, t: t.isocalendar()[1],
    "hour": lambda call, t: t.hour, "minute": lambda call, t: t.minute,
    "second": lambda call, t: t.second, "second_fraction": _fraction, "date_add": _days,
    "date_sub": _days, "add_months": _plain(add_months),
    "datediff": lambda call, a, b: (a - b).days,
    "last_day": _last_day, "make_date": _plain(dt.date), "date_trunc": _trunc, "trunc": _trunc,
    "unix_seconds": lambda call, t: _micros(t) // 1_000_000,
    "unix_millis": lambda call, t: _micros(t) // 1000, "unix_micros": lambda call, t: _micros(t),
    "unix_date": lambda call, t: (t - _EPOCH.date()).days,
    "date_from_unix_date": lambda call, n: _EPOCH.date() + dt.timedelta(days=n),
    "timestamp_seconds": lambda call, n: _moment(n * 1_000_000),
    "timestamp_millis": lambda call, n: _moment(n * 1000),
    "timestamp_micros": lambda call, n: _moment(n),
    "date_format": _date_format,
    "named_struct": lambda call, *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "struct_field": lambda call, struct, name: struct[name],
}  # fmt: skip
