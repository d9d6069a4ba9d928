"""Deleting what was inserted brings a float sum back, whatever passed through it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled

import viewmill as vm

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)
anything = st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e300]))


@settings(max_examples=scaled(0.4))
@given(kept=st.lists(finite, min_size=1, max_size=8), passing=st.lists(anything, max_size=8))
def test_a_float_sum_forgets_what_passed_through_it(kept, passing, uncompiled):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x DOUBLE)")
        mill.sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(x) AS s, AVG(x) AS a FROM t")
        mill.insert("t", [(x,) for x in kept])
        mill.insert("t", [(x,) for x in passing])
        mill.delete("t", [(x,) for x in passing])
        ((total, average),) = mill["s"].rows()
    exact = math.fsum(kept)
    slack = 1e-9 * max(abs(exact), max(map(abs, kept)) * 1e-6)
    assert abs(total - exact) <= slack
    assert abs(average - exact / len(kept)) <= slack


@pytest.mark.parametrize("compiled", ["on", "off"])
def test_a_hundred_thousand_mixed_updates_leave_the_sum_within_a_billionth(compiled, monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", compiled)
    random = np.random.default_rng(7)
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, x DOUBLE) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW s AS SELECT k, SUM(x) AS s FROM t GROUP BY k")
        mill.insert("t", [(1, 0.1), (1, 0.2), (1, 0.7)])
        rounds, size = (50, 1000) if compiled == "on" else (5, 1000)
        for _ in range(rounds):
            x = random.normal(size=size) * 10.0 ** random.integers(-8, 12, size)
            rows = pa.table({"k": np.ones(size, np.int32), "x": x})
            mill.insert("t", rows)
            mill.delete("t", rows.take(pa.array(random.permutation(size))))
        ((_, total),) = mill["s"].rows()
    assert total == pytest.approx(1.0, rel=1e-9)


def test_a_group_whose_rows_are_all_gone_is_gone(mill, uncompiled):
    mill.sql("CREATE TABLE t (k INT, x DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT k, SUM(x) AS s FROM t GROUP BY k")
    mill.insert("t", [(1, 0.1), (1, 0.2), (1, 1e17), (2, -5.0), (2, 5.0)])
    mill.delete("t", [(1, 0.2), (1, 1e17), (1, 0.1)])
    assert mill["s"].rows() == [(2, 0.0)]


@pytest.mark.parametrize("strategy", ["dataflow", "recompute"])
def test_a_sum_may_pass_double_on_its_way(strategy, uncompiled):
    """1e308 + 1e308 - 1e308 is 1e308, in whatever order; only a total beyond DOUBLE is infinite."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (g INT, x DOUBLE)")
        mill.sql(
            f"CREATE MATERIALIZED VIEW s STRATEGY {strategy} AS "
            "SELECT g, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY g"
        )
        mill.insert("t", [(1, 1e308), (1, 1e308), (1, -1e308), (2, 1e308), (2, 1e308)])
        mill.insert("t", [(3, math.inf), (3, 1e308), (4, math.inf), (4, -math.inf)])
        found = {g: s for g, s, _ in mill["s"].rows()}
        assert [found[g] for g in (1, 2, 3)] == [1e308, math.inf, math.inf]
        assert math.isnan(found[4])
        assert mill["s"].verify() == []
        mill.delete("t", [(2, 1e308)])
        assert (2, 1e308, 1e308) in mill["s"].rows()
