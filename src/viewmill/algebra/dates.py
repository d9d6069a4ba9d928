"""Days and moments by the calendar, without a clock."""

from __future__ import annotations

import datetime as dt
from calendar import monthrange
from typing import TypeVar

_EPOCH = dt.date(1970, 1, 1).toordinal()
Day = TypeVar("Day", bound=dt.date)


def add_months(moment: Day, months: int) -> Day:
    """Add months to a day or moment; clamp to the last day of a shorter month."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def day_after_months(day: int, months: int) -> int:
    """Add months to a day that is counted from 1970-01-01, as `add_months` does."""
    return add_months(dt.date.fromordinal(day + _EPOCH), months).toordinal() - _EPOCH
