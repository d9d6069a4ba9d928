"""What a table did at this hour on other days, and at this hour of other weeks.

takes  the deltas of a table, one after another
gives  how many rows came with a delta in such an hour, and how long the next one took

An hour of the week is known by what happened in it on two days; else the hour of the day, on three.
A day counts once, however many deltas it had, so that a busy hour does not displace older days.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

HOUR = 3_600_000_000  # microseconds
_DAY_HOURS, _WEEK_HOURS = 24, 168
_FIRST = 72  # 1970 began on a Thursday: so many hours after a Monday
_DAYS = 6  # that are remembered of an hour of the week
_WEEKDAYS, _ALIKE = 2, 3  # days that make a season: of one weekday, of any


@dataclass
class HourOfDay:
    """The deltas of a table in one hour."""

    hour: int  # since 1970
    deltas: int = 0
    rows: int = 0
    gaps: int = 0  # that were seen to end
    waited: int = 0  # in them, microseconds

    @property
    def mean_rows(self) -> float:
        """Rows of a delta."""
        return self.rows / self.deltas


class Seasons:
    """The remembered hours of one table."""

    def __init__(self) -> None:
        self._hours: dict[int, list[HourOfDay]] = {}  # by hour of the week, the oldest first
        self._last: tuple[int, HourOfDay] | None = None  # when the last delta came, and its hour

    def note(self, at: int, rows: int) -> None:
        """A delta has come."""
        number = at // HOUR
        if self._last is not None:
            before, its_hour = self._last
            its_hour.gaps += 1
            its_hour.waited += at - before
        if self._last is not None and self._last[1].hour == number:
            current = self._last[1]
        else:
            current = HourOfDay(number)
            known = self._hours.setdefault(_of_week(number), [])
            known.append(current)
            del known[:-_DAYS]
        current.deltas += 1
        current.rows += rows
        self._last = at, current

    def rows_at(self, moment: int) -> float | None:
        """Rows of a delta in the hour of a moment, by other days; None if no season is known."""
        found = self._alike(moment // HOUR)
        return None if found is None else median(each.mean_rows for each in found)

    def gap_after(self, moment: int) -> float | None:
        """The time to the next delta after one in the hour of a moment, by other days."""
        found = self._alike(moment // HOUR)
        gaps = [each.waited / each.gaps for each in found or () if each.gaps]
        return median(gaps) if len(gaps) >= _WEEKDAYS else None

    def _alike(self, hour: int) -> list[HourOfDay] | None:
        """The same hour on other days: of this weekday, or of any."""
        same = list(self._others(hour, _WEEK_HOURS))
        if len(same) >= _WEEKDAYS:
            return same
        same = list(self._others(hour, _DAY_HOURS))
        return same if len(same) >= _ALIKE else None

    def _others(self, hour: int, cycle: int) -> Iterator[HourOfDay]:
        first = _of_week(hour) % cycle
        for of_week in range(first, _WEEK_HOURS, cycle):
            for each in self._hours.get(of_week, ()):
                if each.hour != hour:
                    yield each


def _of_week(hour: int) -> int:
    """The hour of the week, counted from Monday."""
    return (hour + _FIRST) % _WEEK_HOURS
