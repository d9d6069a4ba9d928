"""The calendar in whole numbers: a date is a count of days since 1970-01-01.

Years begin in March while counting, so that the day that some years add comes last.
"""

from __future__ import annotations

from viewmill.kernels.compiler import structure

_ERA = 146097  # days in 400 years
_TO_MARCH = 719468  # days from 0000-03-01 to 1970-01-01


@structure
def civil(day):
    """Year, month and day of the month."""
    z = day + _TO_MARCH
    era = z // _ERA
    in_era = z - era * _ERA
    year = (in_era - in_era // 1460 + in_era // 36524 - in_era // 146096) // 365
    in_year = in_era - (365 * year + year // 4 - year // 100)
    mp = (5 * in_year + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return year + era * 400 + (1 if month <= 2 else 0), month, in_year - (153 * mp + 2) // 5 + 1


@structure
def date_of(year, month, day):
    """The count of days of a date."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    in_era = y - era * 400
    in_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * _ERA + in_era * 365 + in_era // 4 - in_era // 100 + in_year - _TO_MARCH


@structure
def date_year(day):
    """The year."""
    return civil(day)[0]


@structure
def date_month(day):
    """The month, from 1."""
    return civil(day)[1]


@structure
def date_day(day):
    """The day of the month, from 1."""
    return civil(day)[2]


@structure
def date_day_of_year(day):
    """The day of the year, from 1."""
    return day - date_of(civil(day)[0], 1, 1) + 1


@structure
def date_day_of_week(day):
    """The day of the week, Sunday 1 to Saturday 7."""
    return (day + 4) % 7 + 1


@structure
def date_add_months(day, months):
    """Add months to a day; clamp to the last day of a shorter month."""
    year, month, in_month = civil(day)
    count = year * 12 + month - 1 + months
    year, month = count // 12, count % 12 + 1
    next_year, next_month = (count + 1) // 12, (count + 1) % 12 + 1
    last = date_of(next_year, next_month, 1) - date_of(year, month, 1)
    return date_of(year, month, min(in_month, last))


@structure
def date_trunc(day, months):
    """The first day of the span of so many months (a divisor of 12) that a day lies in."""
    year, month, _ = civil(day)
    return date_of(year, (month - 1) // months * months + 1, 1)
