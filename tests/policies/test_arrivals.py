"""What is expected of a table: from its history, from a model, from a hint."""

from __future__ import annotations

import pytest

from viewmill.policies.arrivals import Arrivals, ArrivalTimes, Expectation, Late, Periodic

SECOND = 1_000_000


def _history(*rows: int, every: int = 10 * SECOND) -> Arrivals:
    arrivals = Arrivals()
    held = 0
    for i, count in enumerate(rows):
        arrivals.note(count, 0, held, i * every)
        held += count
    return arrivals


def test_a_new_table_is_expected_to_change_a_little() -> None:
    expected = Arrivals().expect(5000, 0)
    assert (expected.rows, expected.complete, expected.basis) == (50.0, False, "nothing known")
    assert Arrivals().expect(0, 0).rows == 1.0


def test_history_gives_rows_and_time_and_leaves_the_load_out() -> None:
    arrivals = _history(100_000, 10, 12, 14, 11)
    expected = arrivals.expect(100_047, 41 * SECOND)
    assert expected.rows == 11.5
    assert expected.at == 50 * SECOND
    assert expected.basis == "history"


def test_an_unknown_rest_of_the_tail_is_as_long_as_what_was_waited() -> None:
    times = ArrivalTimes([1.0, 2.0, 3.0])
    assert times.cdf(2.0) == pytest.approx(2 / 3)
    assert times.next_after(1.5) == 2.5
    assert times.next_after(7.0) == 14.0


def test_of_a_time_the_first_gap_is_one_of_those_that_are_longer() -> None:
    assert ArrivalTimes([10.0, 10.0, 10.0]).deltas_within(0.0, 60.0) == 6.0
    times = ArrivalTimes([1.0, 2.0, 9.0])  # four on average
    assert times.deltas_within(1.5, 1.0) == pytest.approx((1 + 0.5 / 4) / 2)
    assert times.deltas_within(20.0, 10.0) == 0.0  # it is quiet for as long as it was


def test_what_comes_until_a_deferred_refresh_is_expected_as_one_delta() -> None:
    arrivals = _history(100_000, 10, 12, 14, 11)  # every ten seconds
    expected = arrivals.expect_within(100_047, 40 * SECOND, 60 * SECOND)
    assert expected.rows == pytest.approx(6 * 11.5)
    assert expected.deltas == pytest.approx(100 / 6)
    assert arrivals.expect_within(100_047, 40 * SECOND, SECOND).rows == 11.5  # at least the next
    arrivals.declare(Late(1000, 0.9, 60 * SECOND))
    assert arrivals.expect_within(0, 0, 120 * SECOND).rows == pytest.approx(990.0)
    arrivals.declare(Periodic(5, SECOND, 100))
    assert arrivals.expect_within(0, 0, 4 * SECOND).rows == 20
    assert arrivals.expect_within(0, 0, 60 * SECOND).rows == 100
    arrivals.say(Expectation(7.0))
    assert arrivals.expect_within(0, 0, 60 * SECOND).rows == 7.0


def test_a_table_that_is_silent_while_others_change_is_quiet() -> None:
    arrivals = _history(1000, 10, 10, 10, 10)
    for _ in range(25):
        arrivals.commits.count += 1
    assert not arrivals.expect(1040, 41 * SECOND).is_quiet
    assert arrivals.expect(1040, 4000 * SECOND).is_quiet
    loaded = _history(1000)
    for _ in range(25):
        loaded.commits.count += 1
    assert loaded.expect(1000, SECOND).is_quiet


def test_late_data_comes_in_geometric_portions_and_ends() -> None:
    model = Late(1000, 0.9, 60 * SECOND)
    first = model.expect(900, 0)
    assert (first.rows, first.at, first.complete) == (90.0, 60 * SECOND, False)
    assert model.expect(990, 0).rows == 9.0
    assert model.expect(1000, 0).complete


def test_a_period_ends_when_the_table_is_full() -> None:
    model = Periodic(200, SECOND, 500)
    assert (model.expect(100, 0).rows, model.expect(100, 0).deltas) == (200, 2)
    assert model.expect(450, 0).rows == 50
    assert model.expect(500, 0).complete


def test_a_hint_wins_and_a_wrong_one_is_counted_and_forgotten() -> None:
    arrivals = _history(100, 10, 10, 10, 10)
    arrivals.say(Expectation(0.0, None, True, 0.0, basis="hint"))
    assert arrivals.expect(140, 0).complete
    arrivals.note(7, 0, 140, 50 * SECOND)
    assert arrivals.accuracy.surprises == 1
    assert not arrivals.expect(147, 50 * SECOND).complete


def test_accuracy_is_how_near_predictions_came() -> None:
    arrivals = _history(100, 10, 10)
    arrivals.say(Expectation(20.0, basis="hint"))
    arrivals.note(20, 0, 120, 0)
    assert arrivals.accuracy.of_rows == 1.0
    arrivals.say(Expectation(20.0, basis="hint"))
    arrivals.note(10, 0, 140, 0)
    assert arrivals.accuracy.of_rows == 0.75


def test_a_hint_is_forgotten_when_the_deltas_have_come_that_it_is_about() -> None:
    arrivals = _history(100, 10, 10, 10, 10)
    arrivals.say(Expectation(5000.0, basis="hint"))
    assert arrivals.expect(140, 0).rows == 5000
    arrivals.note(10, 0, 140, 50 * SECOND)
    assert arrivals.expect(150, 50 * SECOND).rows == 10
    arrivals.say(Expectation(5000.0, deltas=2.0, basis="hint"), deltas=2)
    arrivals.note(10, 0, 150, 60 * SECOND)
    assert (arrivals.expect(160, 0).rows, arrivals.expect(160, 0).deltas) == (5000, 1)
    arrivals.note(10, 0, 160, 70 * SECOND)
    assert arrivals.expect(170, 70 * SECOND).basis == "history"


def test_deletes_are_part_of_what_is_expected() -> None:
    arrivals = _history(100, 10, 10, 10)
    for i in range(3):
        arrivals.note(10, 10, 130, (4 + i) * 10 * SECOND)
    assert arrivals.expect(100, 0).deletes == pytest.approx(0.5)
    assert Arrivals(static=True).expect(5, 0).complete


HOUR = 3600 * SECOND
DAY = 24 * HOUR


def _from(arrivals: Arrivals, moments: list[tuple[int, int]]) -> int:
    """Feed deltas at moments; gives how many rows the table has then."""
    held = 0
    for at, rows in moments:
        arrivals.note(rows, 0, held, at)
        held += rows
    return held


def test_a_load_on_workdays_is_expected_on_monday_after_friday() -> None:
    monday = 4 * DAY + 2 * HOUR  # 5 January 1970, two o'clock
    nights = [monday + d * DAY for d in range(21) if d % 7 < 5]
    friday = nights[9]
    arrivals = Arrivals()
    held = _from(arrivals, [(0, 5)] + [(at, 1000) for at in nights if at <= friday + 4 * DAY])
    # Thursday of the third week: the next load is tomorrow.
    assert arrivals.expect(held, friday + 4 * DAY + HOUR).at == friday + 7 * DAY - 2 * DAY
    held = _from(arrivals, [(friday + 7 * DAY, 1000)])
    expected = arrivals.expect(held, friday + 7 * DAY + HOUR)
    assert (expected.at, expected.basis) == (friday + 10 * DAY, "season")


def test_an_hour_of_many_rows_is_expected_to_have_many_again() -> None:
    # Every 20 minutes: 10 rows, but 500 in the hour from eight o'clock.
    moments = [
        (t, 500 if t % DAY // HOUR == 8 else 10) for t in range(HOUR, 4 * DAY, 20 * 60 * SECOND)
    ]
    until = 3 * DAY + 8 * HOUR
    arrivals = Arrivals()
    held = _from(arrivals, [each for each in moments if each[0] < until])
    expected = arrivals.expect(held, until - 60 * SECOND)
    assert (expected.rows, expected.at, expected.basis) == (500.0, until, "season")
    held = _from(arrivals, [(until + i * 20 * 60 * SECOND, 500) for i in range(3)])
    assert arrivals.expect(held, until + 41 * 60 * SECOND).rows == 10.0


def test_a_hint_for_a_time_outlasts_deltas_and_ends() -> None:
    arrivals = _history(1000, 10, 10, 10, 10)
    arrivals.say(Expectation(700.0, basis="hint"), until=100 * SECOND)
    held = _from(arrivals, [(50 * SECOND, 10), (60 * SECOND, 10)])
    assert arrivals.expect(held, 99 * SECOND).rows == 700.0
    assert arrivals.expect(held, 100 * SECOND).basis == "history"
