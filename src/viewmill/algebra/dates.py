"""Days as numbers: the calendar without a clock."""

from __future__ import annotations

import datetime as dt
from calendar import monthrange

_EPOCH = dt.date(1970, 1, 1).toordinal()


def add_months(day: int, months: int) -> int:
    """A day (since 1970-01-01) so many months later; the last day of a shorter month if need be."""
    date = dt.date.fromordinal(day + _EPOCH)
    count = date.year * 12 + date.month - 1 + months
    year, month = count // 12, count % 12 + 1
    last = monthrange(year, month)[1]
    return dt.date(year, month, min(date.day, last)).toordinal() - _EPOCH
