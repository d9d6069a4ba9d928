"""STDDEV, CORR and REGR_* keep their digits far from zero and after deletes."""

from __future__ import annotations

import numpy as np
import pytest

import viewmill as vm

QUERY = "SELECT stddev(x) AS s, corr(y, x) AS c, regr_slope(y, x) AS m, var_pop(y) AS v FROM t"


def expected(rows: np.ndarray) -> tuple[float, ...]:
    x, y = (rows - rows[0]).T  # exact: the values are near each other
    slope = np.cov(x, y)[0, 1] / np.var(x, ddof=1)
    return np.std(x, ddof=1), np.corrcoef(x, y)[0, 1], slope, np.var(y)


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_far_from_zero_and_after_deletes_no_digit_is_lost(offset):
    source = np.random.default_rng(3)
    rows = source.integers(-1000, 1000, (400, 2)) / 8 + offset
    rows[:, 1] += rows[:, 0] - offset
    rows = rows.tolist()
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x DOUBLE, y DOUBLE)")
        mill.insert("t", rows[:100])
        mill.sql(f"CREATE MATERIALIZED VIEW loaded AS {QUERY}")
        mill.insert("t", rows[100:])
        mill.insert("t", [(offset * 7 + 3, float("inf"))])
        mill.delete("t", [(offset * 7 + 3, float("inf"))])
        mill.delete("t", rows[:300])
        for shown in mill["loaded"].rows():
            assert shown == pytest.approx(expected(np.array(rows[300:])), rel=1e-9)
        mill.delete("t", rows[300:])
        assert mill["loaded"].rows() == [(None, None, None, None)]
        mill.insert("t", rows[:50])
        for shown in mill["loaded"].rows():
            assert shown == pytest.approx(expected(np.array(rows[:50])), rel=1e-9)
