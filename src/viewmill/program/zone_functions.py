"""Moments in time zones, as Java's clock has them.

takes  Python's values: moments are UTC without a zone, zones their names
gives  a moment; or raises `Unfit` for a zone that there is not
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from zoneinfo import ZoneInfo

from viewmill.program.python_functions import PYTHON_FUNCTIONS, Unfit

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


@lru_cache(1000)
def _zone(name: str) -> dt.tzinfo:
    name = name.strip()
    if name in ("Z", "UTC", "GMT", "UT"):
        return dt.UTC
    found = _OFFSET.fullmatch(name)
    if found is not None:
        hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
        away = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and away <= dt.timedelta(hours=18):
            return dt.timezone(-away if found[1] == "-" else away)
    try:
        return ZoneInfo(_SHORT.get(name, name))
    except (OSError, ValueError, LookupError):  # no such file, a path, ZoneInfoNotFoundError
        raise Unfit("EvaluationFailed", f"there is no time zone {name!r}") from None


def from_utc(moment: dt.datetime, zone: str) -> dt.datetime:
    """What the clocks of a zone show at a moment."""
    try:
        return moment.replace(tzinfo=dt.UTC).astimezone(_zone(zone)).replace(tzinfo=None)
    except OverflowError:
        raise Unfit("EvaluationFailed", f"{moment} in {zone} is out of range") from None


def to_utc(shown: dt.datetime, zone: str) -> dt.datetime:
    """The moment at which the clocks of a zone show this; of two the earlier."""
    try:
        return shown.replace(tzinfo=_zone(zone)).astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise Unfit("EvaluationFailed", f"{shown} in {zone} is out of range") from None


def converted(source: str, target: str, shown: dt.datetime) -> dt.datetime:
    """What the clocks of one zone show when those of another show this."""
    return from_utc(to_utc(shown, source), target)


def make_in_zone(
    year: int, month: int, day: int, hour: int, minute: int, second: float, zone: str
) -> dt.datetime | None:
    """The moment of these numbers in a zone."""
    try:
        made = PYTHON_FUNCTIONS["make_timestamp"].function(year, month, day, hour, minute, second)
    except ValueError as why:
        raise Unfit("EvaluationFailed", str(why)) from None
    return None if made is None else to_utc(made, zone)


def make(
    year: int, month: int, day: int, hour: int, minute: int, second: float
) -> dt.datetime | None:
    """The moment of these numbers."""
    return make_in_zone(year, month, day, hour, minute, second, "UTC")
