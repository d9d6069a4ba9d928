"""A one-row change costs the same on a small table and on a large one."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm

# Thirty times would be the cost of the data; three allows for caches and a noisy machine.
MOST = 3.0

QUERIES = {
    "group by": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "having": "SELECT k, AVG(v) AS a FROM t GROUP BY k HAVING COUNT(*) > 1",
    "filter and project": "SELECT k + 1 AS k, v FROM t WHERE v >= 0",
    "distinct": "SELECT DISTINCT k, v FROM t",
    "total": "SELECT SUM(v) AS s FROM t",
}


def cost_of_one_row(query: str, rows: int, option: str) -> tuple[float, int]:
    """CPU seconds of a one-row insert and delete, and the engine calls that many of them made."""
    with vm.connect() as mill:
        mill.sql(f"CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL) {option}")
        numbers = np.arange(rows)
        mill.insert("t", pa.table({"k": numbers, "v": numbers % 1000}))
        mill.sql(f"CREATE MATERIALIZED VIEW w AS {query}")
        assert mill["w"].status()["strategy"] == "dataflow"
        for i in range(20):
            mill.insert("t", [(i, 1)])
        calls, costs = mill["w"].status()["engine_calls"], []
        for i in range(200):
            start = time.process_time()
            mill.insert("t", [(rows + i, 7)])
            mill.delete("t", [(rows + i, 7)])
            costs.append(time.process_time() - start)
        made = mill["w"].status()["engine_calls"] - calls
        assert mill["w"].verify() == []
    return median(costs), made


@pytest.mark.parametrize("option", ["", "UNCHECKED"], ids=["checked", "unchecked"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_one_row_change_costs_the_same_at_2000_and_at_200000_rows(query, option):
    small, calls_small = cost_of_one_row(QUERIES[query], 2_000, option)
    large, calls_large = cost_of_one_row(QUERIES[query], 200_000, option)
    assert (calls_small, calls_large) == (0, 0)
    assert large < MOST * small + 100e-6, f"{large * 1e6:.0f} µs against {small * 1e6:.0f} µs"


def test_a_one_row_change_under_a_window_costs_the_same_at_2000_and_at_200000_rows():
    query = "SELECT k, v, LAG(v) OVER (PARTITION BY v % 10 ORDER BY k) AS x FROM t"
    small, calls_small = cost_of_one_row(query, 2_000, "UNCHECKED")
    large, calls_large = cost_of_one_row(query, 200_000, "UNCHECKED")
    assert (calls_small, calls_large) == (0, 0)
    assert large < MOST * small + 100e-6, f"{large * 1e6:.0f} µs against {small * 1e6:.0f} µs"
