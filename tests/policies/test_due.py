"""When a view is due: the borders of each policy, and of several together."""

from __future__ import annotations

from itertools import permutations

import pytest

from viewmill.algebra.refresh import (
    EveryInterval,
    EveryRows,
    Immediate,
    OnDemand,
    OnReadAfter,
    Policy,
    Within,
)
from viewmill.policies.policies import Waiting, due_at, is_due, is_immediate

WAITING = Waiting(rows=3, since=1000, refreshed=940)


@pytest.mark.parametrize(
    ("policy", "moment"),
    [(EveryInterval(100), 1040), (Within(100), 1090), (OnReadAfter(100), None), (OnDemand(), None)],
)
def test_a_policy_that_names_a_time_is_due_at_that_moment(policy, moment):
    assert due_at([policy], WAITING) == moment
    assert is_due([policy], WAITING, moment or 10**9, reading=False) is (moment is not None)
    assert not is_due([policy], WAITING, (moment or 10**9) - 1, reading=False)


def test_the_first_of_several_policies_makes_the_view_due():
    both: list[Policy] = [EveryInterval(100), Within(100)]
    for policies in permutations(both):
        assert due_at((OnDemand(), *policies), WAITING) == 1040
        assert is_due(policies, WAITING, 1040, reading=False)
        assert not is_due(policies, WAITING, 1039, reading=False)


def test_nothing_is_due_while_nothing_waits():
    nothing = Waiting(rows=0, since=1000, refreshed=940)
    policies: list[Policy] = [Immediate(), EveryInterval(1), Within(1), EveryRows(1)]
    assert due_at(policies, nothing) is None
    assert not is_due(policies, nothing, 10**9, reading=True)


def test_a_read_makes_a_view_due_only_after_its_time():
    policies = [OnReadAfter(100)]
    assert is_due(policies, WAITING, 1100, reading=True)
    assert not is_due(policies, WAITING, 1099, reading=True)
    assert not is_due(policies, WAITING, 1100, reading=False)


def test_the_last_of_its_rows_makes_a_view_due():
    assert is_due([EveryRows(3)], WAITING, 1000, reading=False)
    assert not is_due([EveryRows(4)], WAITING, 1000, reading=False)


def test_a_view_without_policies_is_immediate():
    assert is_immediate([])
    assert is_immediate([EveryRows(3), Immediate()])
    assert not is_immediate([EveryRows(3)])
