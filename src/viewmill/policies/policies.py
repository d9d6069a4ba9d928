"""Whether a view is due, by its policies and the changes that wait for it.

Time comes in as an argument; nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from viewmill.algebra.refresh import (
    EveryInterval,
    EveryRows,
    Immediate,
    OnDemand,
    OnReadAfter,
    Policy,
    Within,
)

# WITHIN x refreshes a little before x has passed, so that the view meets its deadline.
_WITHIN_SHARE = 0.9


@dataclass(frozen=True)
class Waiting:
    """The changes that wait for a view. Times are UTC microseconds."""

    rows: int
    since: int  # when the oldest change arrived
    refreshed: int  # when the view was last refreshed


def is_due(policies: Iterable[Policy], waiting: Waiting, now: int, *, reading: bool) -> bool:
    """Whether any policy asks for a refresh now; never if nothing waits."""
    if waiting.rows == 0:
        return False
    return any(_asks(policy, waiting, now, reading=reading) for policy in policies)


def _asks(policy: Policy, waiting: Waiting, now: int, *, reading: bool) -> bool:
    match policy:
        case Immediate():
            return True
        case OnDemand():
            return False
        case EveryRows(rows):
            return waiting.rows >= rows
        case OnReadAfter(microseconds):
            return reading and now - waiting.since >= microseconds
        case EveryInterval() | Within():
            moment = _moment(policy, waiting)
            return moment is not None and now >= moment


def due_at(policies: Iterable[Policy], waiting: Waiting) -> int | None:
    """When the clock makes the view due; None if only rows, reads or REFRESH do."""
    if waiting.rows == 0:
        return None
    moments = [_moment(policy, waiting) for policy in policies]
    known = [moment for moment in moments if moment is not None]
    return min(known, default=None)


def _moment(policy: Policy, waiting: Waiting) -> int | None:
    match policy:
        case EveryInterval(microseconds):
            return waiting.refreshed + microseconds
        case Within(microseconds):
            return waiting.since + int(microseconds * _WITHIN_SHARE)
        case _:
            return None


def span_of(policies: Iterable[Policy]) -> int | None:
    """The microseconds between two refreshes of a deferred view, None if time does not say so."""
    policies = tuple(policies)
    if is_immediate(policies):
        return None
    timed = (EveryInterval, Within, OnReadAfter)
    return min((each.microseconds for each in policies if isinstance(each, timed)), default=None)


def least_rows(policies: Iterable[Policy]) -> int:
    """The rows for which a deferred view waits, if it waits for nothing else."""
    policies = tuple(policies)
    counted = [each.rows for each in policies if isinstance(each, EveryRows)]
    return min(counted) if policies and len(counted) == len(policies) else 0


def is_immediate(policies: Iterable[Policy]) -> bool:
    """Whether every commit refreshes the view, which is the default."""
    policies = tuple(policies)
    return not policies or any(isinstance(policy, Immediate) for policy in policies)
