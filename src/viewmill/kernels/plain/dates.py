"""The calendar by Python's own."""

from __future__ import annotations

import datetime as dt

from viewmill.algebra.dates import day_after_months

_EPOCH = dt.date(1970, 1, 1).toordinal()
_OUTSIDE = 10**7  # a day that no check lets pass


def _date(day: int) -> dt.date:
    return dt.date.fromordinal(int(day) + _EPOCH)


def date_year(day: int) -> int:
    """The year."""
    return _date(day).year


def date_month(day: int) -> int:
    """The month, from 1."""
    return _date(day).month


def date_day(day: int) -> int:
    """The day of the month, from 1."""
    return _date(day).day


def date_day_of_year(day: int) -> int:
    """The day of the year, from 1."""
    return _date(day).timetuple().tm_yday


def date_day_of_week(day: int) -> int:
    """The day of the week, Sunday 1 to Saturday 7."""
    return _date(day).isoweekday() % 7 + 1


def date_add_months(day: int, months: int) -> int:
    """Add months to a day; clamp to the last day of a shorter month."""
    try:
        return day_after_months(int(day), months)
    except (ValueError, OverflowError):
        return _OUTSIDE


def date_trunc(day: int, months: int) -> int:
    """The first day of the span of so many months that a day lies in."""
    date = _date(day)
    first = (date.month - 1) // months * months + 1
    return date.replace(month=first, day=1).toordinal() - _EPOCH
