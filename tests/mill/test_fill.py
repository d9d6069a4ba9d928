"""Views created over tables that hold rows: filled by triggers, and planned for what is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import viewmill as vm

CHAIN = (
    "SELECT A1.i, A3.j, SUM(A1.p * A2.p * A3.p) AS p FROM A1 JOIN A2 ON A1.j = A2.i "
    "JOIN A3 ON A2.j = A3.i GROUP BY A1.i, A3.j"
)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def _matrices(n: int, options: str = "") -> vm.Mill:
    mill = vm.connect()
    i, j = np.divmod(np.arange(n * n), n)
    random = np.random.default_rng(3)
    for name in ("A1", "A2", "A3"):
        mill.sql(f"CREATE TABLE {name} (i INT NOT NULL, j INT NOT NULL, p DOUBLE) {options}")
        values = pa.array(random.integers(-9, 9, n * n).astype(np.float64), mask=i % 7 == j)
        mill.insert(name, pa.table({"i": i, "j": j, "p": values}))
    return mill


def test_a_chain_over_full_tables_is_a_view_tree_filled_by_its_triggers() -> None:
    with _matrices(8) as mill:
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {CHAIN}")
        assert mill["v"].status()["strategy"] == "view_tree"
        assert mill["v"].verify() == []
        calls = mill["v"].status()["engine_calls"]
        mill.delete("A2", [(0, 1, mill.sql("SELECT p FROM A2 WHERE i = 0 AND j = 1").rows()[0][0])])
        mill.insert("A1", [(0, 0, 5.0)])
        assert mill["v"].status()["engine_calls"] == calls
        assert mill["v"].verify() == []


def test_rows_that_are_owed_are_in_the_states_from_the_start() -> None:
    with _matrices(3, "UNCHECKED") as mill:
        mill.delete("A2", [(5, 5, 1.0)])
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {CHAIN}")
        mill.insert("A1", [(0, 5, 2.0)])
        mill.insert("A3", [(5, 0, 2.0)])
        mill.insert("A2", [(5, 5, 1.0)])
        assert mill["v"].verify() == []


def test_what_never_changes_is_loaded() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (k INT, x INT)")
        mill.sql("CREATE TABLE s (k INT, y INT) STATIC")
        mill.insert("r", [(1, 2), (1, 3), (2, 5)])
        mill.insert("s", [(1, 10), (2, 20), (2, 30)])
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x * y) AS p FROM r JOIN s ON r.k = s.k")
        assert mill["v"].rows() == [(300,)]
        mill.insert("r", [(2, 1)])
        assert mill["v"].rows() == [(350,)]
        assert mill["v"].verify() == []


def test_a_batch_for_which_there_is_no_memory_changes_nothing() -> None:
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (k INT, x INT)")
        mill.sql("CREATE TABLE s (k INT, y INT)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(x * y) AS p FROM r JOIN s ON r.k = s.k")
        mill.insert("r", [(1, 2), (1, 3), (2, 5)])
        mill.insert("s", [(1, 10), (2, 20)])
        feed = mill.core.catalog.view("v").block.maintainer._feeds["r"]  # type: ignore[attr-defined]
        kernel = feed.kernel

        def ends_in_the_middle(start: int, size: int, *rest: object) -> int:
            kernel(start, 1, *rest)
            raise MemoryError

        feed.kernel = ends_in_the_middle
        with pytest.raises(vm.ViewmillError, match="no memory for this batch"):
            mill.insert("r", [(2, 7), (1, 9)])
        # The states are filled by the same trigger, for which there is no memory either.
        with pytest.raises(vm.ViewmillError, match="fills them again"):
            mill["v"].rows()
        with pytest.raises(vm.ViewmillError, match="no memory for this batch"):
            mill.insert("s", [(1, 1)])
        feed.kernel = kernel
        mill.insert("s", [(1, 1)])
        assert mill["v"].rows() == [(155,)]
        assert mill["v"].verify() == []
        assert len(mill.sql("SELECT * FROM r").rows()) == 3


@pytest.mark.parametrize("created", ["first", "later"])
def test_a_float_sum_of_computed_values_sees_the_rows_that_were_there(created: str) -> None:
    """The block that computes the values keeps no rows: the sum was filled from none."""
    view = "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(CAST(k AS FLOAT)) AS s FROM t GROUP BY g"
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (g INT, k INT) UNCHECKED")
        if created == "first":
            mill.sql(view)
        mill.insert("t", [(1, 5), (1, 2), (2, 3)])
        mill.delete("t", [(3, 4), (2, 3)])
        if created == "later":
            mill.sql(view)
        assert mill["v"].rows() == [(1, 7.0)]
        mill.insert("t", [(3, 4), (3, 8)])
        assert sorted(mill["v"].rows()) == [(1, 7.0), (3, 8.0)]


@pytest.mark.parametrize("whole", ["sum(s)", "max(s)", "count(s)", "avg(s)"])
def test_the_row_of_a_total_over_no_rows_is_fed_once(uncompiled: None, whole: str) -> None:
    """Over an empty table it was loaded and fed, so the group of its NULL never went."""
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (k INT, s DOUBLE)")
        total = f"SELECT {whole} AS g FROM t"
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT g, sum(g) AS x FROM ({total}) q GROUP BY g")
        mill.insert("t", [(1, 2.0)])
        assert mill["v"].verify() == []
        assert len(mill["v"].rows()) == 1
        mill.delete("t", [(1, 2.0)])
        assert mill["v"].verify() == []
