"""The sum of a window of floats is that of its rows, whatever else came in the same batch."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import numpy as np
import pytest

import viewmill as vm
from viewmill.kernels.float_bins import float_bins, rounded_sums

PARTS = "TIMESTAMP BY t PARTITION LENGTH 10"


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


@pytest.mark.parametrize("stray", [1e15, 1e100])
def test_a_nested_sum_of_floats_is_filled_and_kept(monkeypatch, stray):
    """After 1e100 the levels held nothing else, and the view no row."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE b (p DOUBLE, v DOUBLE)")
        mill.insert("b", [(1.0, 0.1), (2.0, stray)])
        mill.sql(
            "CREATE MATERIALIZED VIEW q AS SELECT SUM(b.v) AS s FROM b WHERE 0.25 * (SELECT SUM(v)"
            " FROM b b1) < (SELECT SUM(b2.v) FROM b b2 WHERE b2.p <= b.p)"
        )
        mill.delete("b", [(2.0, stray)])
        assert mill["q"].rows() == [(0.1,)]
        mill.insert("b", [(0.5, stray)])
        mill.delete("b", [(0.5, stray)])
        assert mill["q"].rows() == [(0.1,)]


@pytest.mark.parametrize("strategy", ["shared_window", "temporal_view"])
@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_sum_may_pass_double_on_its_way(monkeypatch, strategy, mode):
    """1.7e308 twice is Infinity; with both taken away again it is what else there is."""
    monkeypatch.setenv("VIEWMILL_COMPILER", mode)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t PARTITION LENGTH 10")
        mill.sql(
            f"CREATE MATERIALIZED VIEW w STRATEGY {strategy} AS SELECT SUM(x) AS s"
            " FROM s [WINDOW 40 SECONDS SLIDE 10 SECONDS]"
        )
        for second, x in enumerate([1.7e308, 0.5, -1.7e308]):
            mill.insert("s", [(at(10 * second), x), (at(10 * second + 1), x)])
            mill.advance("s", to=at(10 * second + 10))
            assert mill["w"].rows() == [((math.inf, math.inf, 1.0)[second],)]


def test_a_row_that_is_there_thrice_is_added_three_times(mill, uncompiled):
    mill.sql("CREATE TABLE s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t")
    mill.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT SUM(x) AS s FROM s [WINDOW 3 MINUTES SLIDE 1 MINUTE]"
    )
    mill.insert("s", [(at(1), 0.1)] * 3 + [(at(2 + i), -0.1) for i in range(3)])
    mill.advance("s", to=at(60))
    assert mill["w"].rows() == [(0.0,)]


@pytest.mark.parametrize("mode", ["on", "off"])
def test_the_sum_of_a_match_is_that_of_its_rows(monkeypatch, mode):
    monkeypatch.setenv("VIEWMILL_COMPILER", mode)
    values = [1e300, 0.1, 1e16, 1.7e308, 1.7e308, -1.7e308, -1.7e308, -1e300, 0.2, -1e16]
    with vm.connect() as mill:
        mill.sql(
            "CREATE TABLE s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t PARTITION LENGTH 10"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t"
            " MEASURES SUM(b.x) AS s ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW"
            " PATTERN (a b+ c) DEFINE a AS a.k = 'a', b AS b.k = 'b', c AS c.k = 'c')"
        )
        mill.insert("s", [(at(0), "a", 0.0)])
        for second, x in enumerate(values):
            mill.insert("s", [(at(1 + second), "b", x)])
        mill.insert("s", [(at(60), "c", 0.0)])
        assert mill["m"].rows() == [(math.fsum([0.1, 0.2]),)]
        assert mill["m"].verify() == []


@pytest.mark.parametrize("mode", ["on", "off"])
def test_the_sum_of_a_run_is_that_of_its_rows(monkeypatch, mode, tmp_path):
    monkeypatch.setenv("VIEWMILL_COMPILER", mode)
    values = [1e300, 0.1, 1e16, -1e300, 0.2, -1e16]
    with vm.connect(tmp_path / "runs.mill") as mill:
        mill.sql(
            "CREATE TABLE s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t PARTITION LENGTH 10"
        )
        mill.sql(
            "CREATE MATERIALIZED VIEW p AS SELECT SUM(b.x) AS s FROM s PATTERN [a, b+]"
            " WHERE a.k = 'a' AND b.k = 'b'"
        )
        mill.insert("s", [(at(0), "a", 0.0)])
        for second, x in enumerate(values[:4]):
            mill.insert("s", [(at(10 + second), "b", x)])
        mill.checkpoint()
    with vm.connect(tmp_path / "runs.mill") as mill:
        for second, x in enumerate(values[4:]):
            mill.insert("s", [(at(20 + second), "b", x)])
        assert mill["p"].rows() == [(math.fsum([0.1, 0.2]),)]
        assert mill["p"].verify() == []


def test_the_variance_of_a_window_far_from_zero(mill, uncompiled):
    """Means merged in one float each gave seven digits of it."""
    mill.sql(f"CREATE TABLE s (t TIMESTAMP, x DOUBLE) {PARTS}")
    mill.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT VAR_POP(x) AS v, STDDEV(x) AS d"
        " FROM s [WINDOW 60 SECONDS SLIDE 10 SECONDS]"
    )
    values = [1e9 + (i * 37 % 101) / 1e5 for i in range(24)]
    for i, x in enumerate(values):
        mill.insert("s", [(at(2 * i), x)])
    mill.advance("s", to=at(60))
    mean = sum(map(Fraction, values)) / 24
    squares = sum((Fraction(x) - mean) ** 2 for x in values)
    ((variance, deviation),) = mill["w"].rows()
    assert variance == pytest.approx(float(squares / 24), rel=1e-12)
    assert deviation == pytest.approx(math.sqrt(squares / 23), rel=1e-12)


@pytest.mark.parametrize("x", [0.1, 1e9 + 0.1, 1e100])
def test_the_variance_of_equal_values_in_a_window_is_zero(mill, uncompiled, x):
    mill.sql(f"CREATE TABLE s (t TIMESTAMP, x DOUBLE) {PARTS}")
    mill.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT VAR_SAMP(x) AS v"
        " FROM s [WINDOW 60 SECONDS SLIDE 10 SECONDS]"
    )
    mill.insert("s", [(at(i), x) for i in range(0, 60, 7)])
    mill.advance("s", to=at(60))
    assert mill["w"].rows() == [(0.0,)]
