"""VERIFY judges floats by exact values: an engine that rounds is not taken for a wrong view."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from viewmill.engines.exact_floats import OF_PAIRS, OF_VALUES

NEAR = [(i % 3, 1e9 + (i * 37 % 101) / 1e5, 1e9 + (i * 53 % 97) / 1e5) for i in range(60)]
CANCEL = [(1, x, 1 / (1 + abs(x))) for x in (1e100, 0.1, 1e33, -1e100, 1e16, -1e33, -1e16, 1e50)]
MOMENTS = (
    "SELECT g, VAR_POP(x) v, STDDEV(x) d, COVAR_SAMP(x, y) c, CORR(x, y) r, REGR_SLOPE(y, x) s, "
    "REGR_INTERCEPT(y, x) i, REGR_R2(y, x) q, SUM(x) t, AVG(x) a, REGR_AVGX(y, x) ax, "
    "REGR_AVGY(y, x) ay, REGR_SXX(y, x) xx, REGR_SYY(y, x) yy, REGR_SXY(y, x) xy FROM t GROUP BY g"
)


@pytest.fixture
def view(mill, uncompiled):
    mill.sql("CREATE TABLE t (g INT, x DOUBLE, y DOUBLE)")
    return mill


@pytest.mark.parametrize("rows", [NEAR, CANCEL])
@pytest.mark.parametrize("query", [MOMENTS, "SELECT linear_regression(y, x) AS l FROM t"])
def test_an_engine_that_rounds_is_no_difference(view, rows, query):
    view.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    view.insert("t", rows)
    assert view["v"].verify() == []


@pytest.mark.parametrize("column", [1, 3, 5])
def test_a_wrong_digit_is_a_difference(view, column):
    view.sql(f"CREATE MATERIALIZED VIEW v AS {MOMENTS}")
    view.insert("t", NEAR)
    maintainer = view.core.catalog.view("v").block.maintainer
    right = maintainer.contents()
    columns = list(right.columns)
    columns[column] = columns[column] * (1 + 1e-7)
    columns[column][1:] = right.columns[column][1:]
    maintainer.contents = lambda: replace(right, columns=tuple(columns))
    assert len(view["v"].verify()) == 2


def test_the_exact_aggregates_are_those_of_fractions():
    rng = np.random.default_rng(2)
    for _ in range(30):
        size = int(rng.integers(1, 8))
        x = (rng.normal(size=size) * 10.0 ** rng.integers(-30, 30, size)).tolist()
        y = (rng.normal(size=size) + 1e9).tolist()
        a, b = [*map(Fraction, x)], [*map(Fraction, y)]
        mean, other = sum(a) / size, sum(b) / size
        squares = sum((each - mean) ** 2 for each in a)
        both = sum((p - mean) * (q - other) for p, q in zip(a, b, strict=True))
        pairs = [{"a": p, "b": q} for p, q in zip(y, x, strict=True)]
        assert OF_VALUES["sum"]([*x, None]) == float(sum(a))
        assert OF_VALUES["avg"](x) == float(mean)
        assert OF_VALUES["var_pop"](x) == float(squares / size)
        assert OF_PAIRS["covar_pop"](pairs) == float(both / size)
        if size > 1:
            slope = both / squares
            assert OF_VALUES["stddev_samp"](x) == math.sqrt(squares / (size - 1))
            assert OF_PAIRS["regr_slope"](pairs) == float(slope)
            assert OF_PAIRS["regr_intercept"](pairs) == float(other - slope * mean)
