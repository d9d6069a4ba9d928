"""A regression over numbers far from zero, as seconds since 1970 are, is right or warns."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.deltas.least_squares import PrecisionWarning

ROWS = [(1, 1_700_000_000 + i, 3.0 * i) for i in range(300)]
LINE = {
    "n": 300,
    "label": "y",
    "names": ["x"],
    "intercept": -5.1e9,
    "coefficients": [3.0],
    "r2": 1.0,
}


@pytest.fixture
def seconds(mill, uncompiled):
    mill.sql("CREATE TABLE t (k INT NOT NULL, x BIGINT NOT NULL, y DOUBLE NOT NULL)")
    mill.sql("CREATE TABLE u (k INT NOT NULL, z DOUBLE NOT NULL)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield mill


@pytest.mark.parametrize("policy", ["INCREMENTAL", "FULL"])
@pytest.mark.parametrize("source", ["t", "t JOIN u ON t.k = u.k"])
def test_the_slope_of_seconds(seconds, policy, source):
    head = f"CREATE MATERIALIZED VIEW {{}} REFRESH POLICY {policy} AS SELECT"
    seconds.sql(f"{head.format('solved')} linear_regression(t.y, t.x) AS l FROM {source}")
    seconds.sql(f"{head.format('kept')} cofactor(t.y, t.x) AS c FROM {source}")
    seconds.insert("u", [(1, 0.5)])
    seconds.insert("t", ROWS)
    ((found,),) = seconds["solved"].rows()
    assert {**found, "intercept": pytest.approx(-5.1e9, rel=1e-9)} == {
        **LINE, "intercept": found["intercept"], "coefficients": [pytest.approx(3.0, rel=1e-9)],
        "r2": pytest.approx(1.0, abs=1e-9),
    }  # fmt: skip
    assert seconds["solved"].verify() == []
    model = vm.models.LinearRegression(seconds["kept"], label="y", features=["x"])
    assert model.coefficients["x"] == pytest.approx(3.0, rel=1e-9)
    assert model.r2 == pytest.approx(1.0, abs=1e-9)


def test_what_came_and_went_does_not_bend_the_line(seconds):
    seconds.sql("CREATE MATERIALIZED VIEW kept AS SELECT cofactor(y, x) AS c FROM t")
    seconds.insert("t", ROWS)
    strays = [(1, -(10**15), 1e12), (1, 7, -1e100)]
    seconds.insert("t", strays)
    seconds.delete("t", strays)
    model = vm.models.LinearRegression(seconds["kept"], label="y", features=["x"])
    assert model.coefficients["x"] == pytest.approx(3.0, rel=1e-9)


def test_numbers_that_do_not_carry_the_answer_are_warned_of():
    class Moments:
        """The moments of a view as some other engine shows them."""

        def to_arrow(self):
            sums, products = (
                [510000044850.0, 134550.0],
                [8.67000152490009e20, 228735026865150.0, 80595450.0],
            )
            value = {"n": 300, "names": ["x", "y"], "sums": sums, "products": products}
            return pa.table({"c": [value]})

    with pytest.warns(PrecisionWarning, match="x: these numbers vary too little"):
        vm.models.LinearRegression(Moments(), label="y", features=["x"])
