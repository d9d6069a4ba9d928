"""Text as a number, a day or a moment, as Spark reads it in a cast.

takes  text with blanks around it
gives  the value, or a ValueError
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from zoneinfo import ZoneInfo

_BLANKS = "".join(map(chr, (*range(33), 127)))
_DATE = r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_DAY = re.compile(_DATE + r"(?:[ T].*)?)?)?", re.DOTALL)
_ZONE = r"(?:\.([0-9]*))?([^0-9.].*)?"
_MOMENT = re.compile(
    rf"{_DATE}(?:[ T]([0-9]{{1,2}})(?::([0-9]{{1,2}})(?::([0-9]{{1,2}}){_ZONE})?)?)?)?)?"
)
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DECIMAL, _REAL = re.compile(_NUMBER), re.compile(f"({_NUMBER})[dDfF]?")
_NO_NUMBER = re.compile("nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+")
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?)?"
    r"|([0-9]{2})([0-9]{2})([0-9]{2})?)"
)


def read_decimal(text: str) -> decimal.Decimal:
    """1.50, .5, 5e2."""
    text = text.strip(_BLANKS)
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no number")
    return decimal.Decimal(text)


def read_real(text: str) -> float:
    """Numbers as `read_decimal` reads them, Java's 1d and 0x1p3, infinities and NaN."""
    text = text.strip(_BLANKS)
    if (found := _REAL.fullmatch(text)) is not None:
        return float(found[1])
    if _NO_NUMBER.fullmatch(text):
        return float(text)
    if _HEX.fullmatch(text):
        return float.fromhex(text)
    raise ValueError(f"{text!r} is no number")


def read_date(text: str) -> dt.date:
    """2024-02-03, 2024-2-3, 2024-02, 2024; after a whole day what follows is not looked at."""
    found = _DAY.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise ValueError(f"{text!r} is no DATE")
    year, month, day = found.groups()
    return dt.date(int(year), int(month or 1), int(day or 1))


def read_timestamp(text: str) -> dt.datetime:
    """A day, or one with hours, with minutes, with seconds and then a fraction and a zone."""
    found = _MOMENT.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise ValueError(f"{text!r} is no TIMESTAMP")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    moment = dt.datetime(
        int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0),
        int(second or 0), int((fraction or "").ljust(6, "0")[:6]),
    )  # fmt: skip
    return moment if zone is None else _in_utc(moment, zone.strip(_BLANKS))


def _in_utc(moment: dt.datetime, zone: str) -> dt.datetime:
    if zone in ("Z", "UTC", "GMT", "UT"):
        return moment
    if (found := _OFFSET.fullmatch(zone)) is not None:
        sign, *parts = found.groups()
        pairs = zip(parts[:3], parts[3:], strict=True)
        hours, minutes, seconds = (int(a or b or 0) for a, b in pairs)
        if hours > 18 or minutes > 59 or seconds > 59:
            raise ValueError(f"{zone!r} is no time zone")
        away = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return moment - away if sign == "+" else moment + away
    if not re.fullmatch("[A-Za-z]+/[A-Za-z/_+-]+", zone):
        raise ValueError(f"{zone!r} is no time zone")
    try:
        there = moment.replace(tzinfo=ZoneInfo(zone))
    except (KeyError, OSError):
        raise ValueError(f"{zone!r} is no time zone") from None
    return there.astimezone(dt.UTC).replace(tzinfo=None)
