"""The sum of a window of floats is that of its rows, whatever else came in the same batch."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

import viewmill as vm
from viewmill.kernels.float_bins import float_bins, rounded_sums


def at(second):
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=second)


@pytest.mark.parametrize("stray", [1e15, 1e300, -3e20])
def test_a_value_that_cancels_does_not_hide_the_others(mill, uncompiled, stray):
    mill.sql("CREATE TABLE s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t")
    mill.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT SUM(x) AS s FROM s [WINDOW 3 MINUTES SLIDE 1 MINUTE]"
    )
    mill.insert("s", [(at(1), 0.1), (at(2), stray), (at(3), 0.2), (at(4), -stray)])
    mill.insert("s", [(at(70), 0.4)])
    assert mill["w"].rows() == [(pytest.approx(0.1 + 0.2, rel=1e-15),)]


@pytest.mark.parametrize("strategy", ["shared_window", "temporal_view"])
@pytest.mark.parametrize("mode", ["on", "off"])
def test_panes_of_three_sizes_add_up_to_what_remains(monkeypatch, strategy, mode):
    monkeypatch.setenv("VIEWMILL_COMPILER", mode)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t PARTITION LENGTH 10")
        mill.sql(
            f"CREATE MATERIALIZED VIEW w STRATEGY {strategy} AS SELECT SUM(x) AS s, AVG(x) AS a"
            " FROM s [WINDOW 60 SECONDS SLIDE 10 SECONDS]"
        )
        for second, x in enumerate([1e300, 0.1, 1e15, -1e300, 0.2, -1e15]):
            mill.insert("s", [(at(10 * second), x), (at(10 * second + 1), 0.25)])
        mill.advance("s", to=at(60))
        assert mill["w"].rows() == [(1.8, 0.15)]


def test_sums_by_group_are_those_of_fsum():
    rng = np.random.default_rng(3)
    values = rng.normal(size=500) * 10.0 ** rng.integers(-200, 200, 500)
    groups = rng.integers(0, 20, 500)
    totals = rounded_sums(float_bins(groups, values, 20))
    for group in range(20):
        exact = math.fsum(values[groups == group])
        assert totals[group] == pytest.approx(exact, rel=1e-15)


def test_infinities_are_added_as_they_are():
    totals, *lost = float_bins(np.array([0, 0, 1]), [math.inf, 1.0, 2.0], 2)
    assert totals.tolist() == [math.inf, 2.0]
    assert not np.any(lost)


@pytest.mark.parametrize("stray", [math.inf, math.nan, 1.7e308])
def test_what_is_no_number_changes_no_sum_but_its_group_s(stray):
    values = [stray, -1e15, -1e15, 1e15, 1e15, 0.1]
    totals = rounded_sums(float_bins(np.array([0, 1, 1, 1, 1, 1]), values, 2))
    assert totals[1] == 0.1
    assert totals[0] == stray or math.isnan(stray)


def test_values_of_many_sizes_are_all_added():
    values = 10.0 ** np.arange(-300, 300, 30)
    totals = rounded_sums(float_bins(np.arange(len(values)), values, len(values)))
    assert totals.tolist() == values.tolist()


def test_a_nested_sum_of_floats_is_filled_and_kept(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE b (p DOUBLE, v DOUBLE)")
        mill.insert("b", [(1.0, 0.1), (2.0, 1e15)])
        mill.sql(
            "CREATE MATERIALIZED VIEW q AS SELECT SUM(b.v) AS s FROM b WHERE 0.25 * (SELECT SUM(v)"
            " FROM b b1) < (SELECT SUM(b2.v) FROM b b2 WHERE b2.p <= b.p)"
        )
        mill.delete("b", [(2.0, 1e15)])
        assert mill["q"].rows() == [(0.1,)]
