"""MEDIAN and PERCENTILE by group, and spreads over windows: Spark's answers, and recompute's."""

from __future__ import annotations

import pytest
from tests.strategies.dataflow.changes import drive

import viewmill as vm

SHARES = (
    "SELECT a, median(d) AS m, percentile(b, 0.25) AS p, count(*) AS n, max(d) AS x FROM r"
    " GROUP BY a",
    "SELECT c, a, percentile_cont(0.3) WITHIN GROUP (ORDER BY e DESC) AS p,"
    " percentile_disc(0.3) WITHIN GROUP (ORDER BY b) AS q,"
    " percentile_disc(0.5) WITHIN GROUP (ORDER BY b DESC) AS r FROM r GROUP BY c, a",
    "SELECT median(b) AS m, percentile(d, 0.9) FILTER (WHERE a > 1) AS p FROM r",
    "SELECT f, h, percentile_approx(e, 0.4) AS p, approx_percentile(b, 0.5, 100) AS q FROM r"
    " GROUP BY f, h HAVING median(a) >= 1",
    "SELECT r.a, median(s.d) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "SELECT c, median(m) AS m FROM (SELECT c, a, median(b) AS m FROM r GROUP BY c, a) GROUP BY c",
    "SELECT a, c, median(b) AS m FROM r GROUP BY ROLLUP (a, c)",
)
SPREADS = tuple(
    f"SELECT a, b, d, stddev(d) OVER w AS s, var_pop(b) OVER w AS v, corr(d, b) OVER w AS c,"
    f" covar_samp(b, d) OVER w AS o, regr_slope(d, b) OVER w AS r, regr_count(d, b) OVER w AS n"
    f" FROM r WINDOW w AS (PARTITION BY a {order})"
    for order in (
        "",
        "ORDER BY b",
        "ORDER BY b RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING",
        "ORDER BY b, c, d, e, f, g, h ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    )
)


@pytest.mark.parametrize("seed", range(2))
def test_shares_equal_recompute(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    drive(SHARES, seed)


@pytest.mark.parametrize("seed", range(2))
def test_spreads_over_windows_equal_recompute(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    drive(SPREADS, seed)


def test_compiled() -> None:
    drive(("SELECT a, median(b) AS m FROM r GROUP BY a",), seed=5, steps=4)


@pytest.mark.slow
def test_all_compiled() -> None:
    drive((*SHARES[:3], *SPREADS), seed=6, steps=6)


# What Spark 4.3 answers over range(n): percentile, percentile_cont DESC, percentile_disc, the same
# DESC, percentile_approx.
SPARK = {
    (1, 0.3): (0.0, 0.0, 0.0, 0.0, 0),
    (2, 0.1): (0.1, 0.9, 0.0, 1.0, 0),
    (2, 0.75): (0.75, 0.25, 1.0, 0.0, 1),
    (4, 0.25): (0.75, 2.25, 0.0, 3.0, 0),
    (4, 0.3): (0.9, 2.1, 1.0, 2.0, 1),
    (5, 0.25): (1.0, 3.0, 1.0, 3.0, 1),
    (8, 0.9): (6.3, 0.7, 7.0, 0.0, 7),
    (10, 0.0): (0.0, 9.0, 0.0, 9.0, 0),
    (10, 0.3): (2.7, 6.3, 2.0, 7.0, 2),
    (10, 0.9): (8.1, 0.9, 8.0, 1.0, 8),
    (10, 1.0): (9.0, 0.0, 9.0, 0.0, 9),
}


def test_answers_are_those_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (id BIGINT)")
        for i, p in enumerate(sorted({p for _, p in SPARK})):
            mill.sql(
                f"CREATE MATERIALIZED VIEW v{i} AS SELECT percentile(id, {p}) AS a,"
                f" percentile_cont({p}) WITHIN GROUP (ORDER BY id DESC) AS b,"
                f" percentile_disc({p}) WITHIN GROUP (ORDER BY id) AS c,"
                f" percentile_disc({p}) WITHIN GROUP (ORDER BY id DESC) AS d,"
                f" percentile_approx(id, {p}) AS e FROM t"
            )
        for n in range(1, 11):
            mill.insert("t", [(n - 1,)])
            for i, p in enumerate(sorted({p for _, p in SPARK})):
                if (n, p) in SPARK:
                    (row,) = mill[f"v{i}"].rows()
                    assert row == pytest.approx(SPARK[n, p])


def test_deletes_before_their_inserts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, x INT) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, median(x) AS m FROM t GROUP BY k")
        mill.insert("t", [(1, 1), (1, 5), (1, 6), (2, 4)])
        mill.delete("t", [(1, 9), (1, 9), (3, 1)])
        mill.insert("t", [(2, 6)])
        assert dict(mill["v"].rows())[2] == 5.0
        mill.insert("t", [(1, 9), (1, 9), (3, 1)])
        assert dict(mill["v"].rows()) == {1: 5.0, 2: 5.0}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("percentile(x, 1.5)", "percentile takes a share from 0 to 1"),
        ("percentile(x, NULL)", "percentile takes a share from 0 to 1"),
        ("percentile_disc(-1) WITHIN GROUP (ORDER BY x)", "percentile_disc takes a share"),
        ("median(b)", "percentile needs a number, got BOOLEAN"),
    ],
    ids=["above", "null", "below", "boolean"],
)
def test_wrong_shares_are_refused(query: str, message: str) -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x INT, b BOOLEAN)")
        with pytest.raises(vm.errors.TypeMismatch, match=message) as refused:
            mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {query} FROM t")
        assert refused.value.span is not None
