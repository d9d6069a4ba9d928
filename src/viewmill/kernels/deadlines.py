"""From which moment to which a row is shown, as its columns say.

A bound compares a column with g(now), where g never falls. So g(now) >= v holds from one moment on:
the first one, which follows from v step by step, from the last step of g to its first.

    ts > now() - INTERVAL 1 DAY     until ts + 1 day
    day = current_date()            from 00:00 of that day until 00:00 of the next
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from viewmill.deltas.delta import Delta
from viewmill.program.program import Step, TimeBound, Timed

Words = npt.NDArray[np.int64]

ALWAYS, NEVER = -(2**62), 2**62
_DAY = 86_400_000_000
_DAYS_TRIED = range(-3, 4)  # around the day so many months before: months differ by 3 days


def shown_between(body: Timed, rows: Delta, after: int) -> tuple[Words, Words]:
    """The first moments, ending behind `after`, from which and until which each row is shown.

    Equal ones if it is never shown any more.
    """
    begin = np.full(rows.size, ALWAYS, np.int64)
    end = np.full(rows.size, NEVER, np.int64)
    for bound in body.bounds:
        values, nulls = rows.columns[bound.column], rows.nulls[bound.column]
        first, last = _span(bound, np.asarray(values).astype(np.int64), after)
        begin, end = np.maximum(begin, first), np.minimum(end, last)
        if nulls is not None:
            end = np.where(nulls, ALWAYS, end)
    return begin, np.maximum(begin, end)


def comes_back(body: Timed) -> bool:
    """Whether a row may be shown again after it left."""
    return any(each.steps and _falls(each.steps[0]) for each in body.bounds)


def _span(bound: TimeBound, values: Words, after: int) -> tuple[Words, Words]:
    always, never = np.full(len(values), ALWAYS), np.full(len(values), NEVER)
    if bound.steps and _falls(bound.steps[0]):
        return _span_of_months(bound, values, after)
    if bound.sign in ("<", "<=", "="):
        always = _from(bound, values + 1 if bound.sign == "<" else values)
    if bound.sign in (">", ">=", "="):
        never = _from(bound, values if bound.sign == ">" else values + 1)
    return always, never


def _falls(step: Step) -> bool:
    """Whether it may fall: a month before 30 March, 00:00, is earlier than one before 23:00 on the
    29th, because both are on the last day of February."""
    return step.kind == "months" and not step.in_days


def _from(bound: TimeBound, values: Words) -> Words:
    """The first moment at which the function of the clock is at least the value."""
    for step in reversed(bound.steps):
        values = _before(step, values)
    return values


def _span_of_months(bound: TimeBound, values: Words, after: int) -> tuple[Words, Words]:
    months, later = bound.steps[0].number, replace(bound, steps=bound.steps[1:])
    if bound.sign in ("<", "<="):
        return _reached(months, _from(later, values + (bound.sign == "<")), after)
    if bound.sign in (">", ">="):
        return _not_reached(months, _from(later, values + (bound.sign == ">=")), after)
    low, high = _from(later, values), _from(later, values + 1)
    day = low // _DAY
    if bound.steps[1:]:  # of whole days or more: nothing falls there
        return _reached(months, low, after)[0], _reached(months, high, after)[0]
    first, count = _days_giving(months, day)
    number = np.clip((after - 1 - low % _DAY) // _DAY + 1 - first, 0, np.maximum(count - 1, 0))
    begin = (first + number) * _DAY + low % _DAY
    return begin, np.where(count > 0, begin + 1, begin)


def _reached(months: int, values: Words, after: int) -> tuple[Words, Words]:
    """When the time so many months later is at least a value: on each day that gives its day."""
    first, count = _days_giving(months, values // _DAY)
    number = np.clip(after // _DAY - first, 0, np.maximum(count - 1, 0))
    day = first + number
    begin = day * _DAY + np.where(count > 0, values % _DAY, 0)
    return begin, np.where(number < count - 1, (day + 1) * _DAY, NEVER)


def _not_reached(months: int, values: Words, after: int) -> tuple[Words, Words]:
    """When the time so many months later is below a value."""
    first, count = _days_giving(months, values // _DAY)
    time = np.where(count > 0, values % _DAY, 0)
    number = np.clip((after - time) // _DAY + 1 - first, 0, np.maximum(count - 1, 0))
    day = first + number
    return np.where(number > 0, day * _DAY, ALWAYS), day * _DAY + time


def _days_giving(months: int, days: Words) -> tuple[Words, Words]:
    """The first day that is, so many months later, a day or later, and how many give that day."""
    held = _held(days, _DAY)
    first = _months_before(months, held)
    count = sum((_add_months(first + i, months) == held).astype(np.int64) for i in range(4))
    return first, np.asarray(count)


def _before(step: Step, values: Words) -> Words:
    """The smallest argument for which a step gives at least the value."""
    number = step.number
    match step.kind:
        case "add":
            return _held(values, 1) - number
        case "scale":
            return -(-values // number)
        case "floor":
            return _held(values, number) * number
        case "divide":
            held = _held(values, number)
            return np.where(held > 0, held * number, (held - 1) * number + 1)
        case "truncate":
            return -((step.offset - _held(values, 1)) // number) * number + step.offset
        case "calendar":
            return _calendar_before(step, values)
        case "months":
            return _months_before(number, _held(values, _DAY))
        case "year":
            years = np.clip(values - 1970, -100_000, 100_000)
            return years.astype("M8[Y]").astype("M8[D]").astype(np.int64)
    raise AssertionError(step.kind)


def _held(values: Words, number: int) -> Words:
    """Values that can be multiplied and added to; those cut off are no moments of any clock."""
    most = NEVER // (2 * number)
    return np.clip(values, -most, most)


def _calendar_before(step: Step, values: Words) -> Words:
    days = _held(values, _DAY) if step.in_days else -(-values // _DAY)
    months = days.astype("M8[D]").astype("M8[M]")
    whole = months.astype("M8[D]").astype(np.int64) == days
    numbers = months.astype(np.int64) + np.where(whole, 0, 1)
    first = -(-numbers // step.number) * step.number
    found = first.astype("M8[M]").astype("M8[D]").astype(np.int64)
    return found if step.in_days else found * _DAY


def _months_before(number: int, days: Words) -> Words:
    """The first day that is, so many months later, the given day or a later one."""
    about = _add_months(days, -number)
    found = about + _DAYS_TRIED[-1] + 1
    for each in reversed(_DAYS_TRIED):
        found = np.where(_add_months(about + each, number) >= days, about + each, found)
    return found


def _add_months(days: Words, number: int) -> Words:
    """The same day so many months later, or the last one of a shorter month."""
    months = days.astype("M8[D]").astype("M8[M]")
    day = days - months.astype("M8[D]").astype(np.int64)
    later = months + number
    length = (later + 1).astype("M8[D]").astype(np.int64) - later.astype("M8[D]").astype(np.int64)
    result: Words = later.astype("M8[D]").astype(np.int64) + np.minimum(day, length - 1)
    return result
