"""Rows that pass a comparison with a nested aggregate: as views, and as blocks of others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm
from viewmill.bench.tpch.data import TpchData
from viewmill.bench.tpch.queries import QUERIES, TABLES
from viewmill.mill.mill import Mill

# Every comparison, keys of one column and two, none, and each kind of aggregate inside.
VIEWS = {
    "above_average": "SELECT k, x, s FROM t WHERE x > (SELECT avg(y) FROM u)",
    "at_most_count": "SELECT * FROM t WHERE 2 * x <= (SELECT count(*) FROM u)",
    "below_largest": "SELECT * FROM t WHERE x < (SELECT max(y) FROM u)",
    "half_of_key": "SELECT x, s FROM t WHERE x >= (SELECT 0.5 * sum(y) FROM u WHERE u.k = t.k)",
    "smallest": "SELECT k, x, s FROM t WHERE x = (SELECT min(x) FROM t t2 WHERE t2.k = t.k)",
    "not_largest": "SELECT k, s FROM t WHERE x <> (SELECT max(y) FROM u WHERE u.k = t.k)",
    "by_text": "SELECT k FROM t WHERE (SELECT sum(x) FROM t a WHERE a.s = t.s AND a.k = t.k) > x",
    "float": "SELECT k, f FROM t WHERE f < (SELECT avg(f) FROM t a WHERE a.s = t.s)",
    "distinct": "SELECT s FROM t WHERE x > (SELECT sum(DISTINCT y) FROM u WHERE u.k = t.k)",
    # A key without rows inside, NULL among them, has 0 or what COALESCE says.
    "above_count": "SELECT x, s FROM t WHERE x >= (SELECT count(*) FROM u WHERE u.k = t.k)",
    "as_many": "SELECT k, x FROM t WHERE x = (SELECT count(y) FROM u WHERE u.k = t.k)",
    "another_count": "SELECT k FROM t WHERE x <> (SELECT count(*) FROM t a WHERE a.k = t.k"
    " AND a.s = 'a')",
    "or_one": "SELECT s, f FROM t WHERE f <= (SELECT coalesce(max(f), 1.0D) FROM t a"
    " WHERE a.s = t.s AND a.k = t.k AND a.x > 0)",
    "none_is_null": "SELECT k, x FROM t WHERE x < (SELECT CASE WHEN count(*) > 1 THEN max(y) END"
    " FROM u WHERE u.k = t.k)",
    "none_is_two": "SELECT k, x FROM t WHERE 1 + (SELECT CASE WHEN count(*) > 1 THEN max(y)"
    " ELSE 2 END FROM u WHERE u.k = t.k) > x",
}
BLOCKS = {
    "two_tests": "SELECT k, x FROM t WHERE x > (SELECT avg(y) FROM u)"
    " AND x < (SELECT max(y) FROM u WHERE u.k = t.k)",
    "in_groups": "SELECT s, count(*), sum(x) FROM t WHERE x = (SELECT max(x) FROM t a"
    " WHERE a.k = t.k) AND NOT EXISTS (SELECT * FROM u WHERE u.y = t.x) GROUP BY s",
    "of_groups": "SELECT k, total FROM (SELECT k, sum(x) AS total FROM t GROUP BY k) g"
    " WHERE total = (SELECT max(total) FROM (SELECT sum(x) AS total FROM t GROUP BY k) h)",
    "having": "SELECT t.k, sum(x) FROM t JOIN u ON t.k = u.k GROUP BY t.k"
    " HAVING sum(x) > (SELECT 0.1 * sum(x * y) FROM t JOIN u ON t.k = u.k)",
    "in_subquery": "SELECT y FROM u WHERE k IN (SELECT k FROM t WHERE s <> 'b'"
    " AND x > (SELECT 0.5 * sum(y) FROM u v WHERE v.k = t.k))",
    "count_of_join": "SELECT t.k, x FROM t WHERE x >= (SELECT count(*) FROM u v JOIN t w"
    " ON v.k = w.k WHERE v.k = t.k AND w.s = 'a')",
    "join_inside": "SELECT t.s, u.y FROM t JOIN u ON t.k = u.k WHERE u.y = (SELECT min(v.y)"
    " FROM u v JOIN t w ON v.k = w.k WHERE v.k = t.k AND w.s = 'a')",
}
NESTED = (2, 11, 15, 17, 18, 20, 22)


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mill]:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as made:
        yield made


class Stream:
    """Random rows of both tables with duplicates, NULLs, zeros and negative numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.live: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}

    def tables(self, mill: Mill) -> None:
        mill.sql("CREATE TABLE t (k INT, x DECIMAL(10,2), s STRING, f DOUBLE)")
        mill.sql("CREATE TABLE u (k BIGINT, y DECIMAL(10,2))")

    def _number(self) -> Decimal | None:
        return None if self.random.random() < 0.1 else Decimal(self.random.randint(-4, 9)) / 2

    def _row(self, table: str) -> tuple[Any, ...]:
        k = None if self.random.random() < 0.1 else self.random.randint(1, 4)
        if table == "u":
            return k, self._number()
        f = self.random.choice([0.0, -1.5, 2.25, 1e300, None, float("inf")])
        return k, self._number(), self.random.choice("abc"), f

    def step(self, mill: Mill) -> None:
        """One batch: some rows come, some or all go."""
        with mill.batch():
            for table, rows in self.live.items():
                new = [self._row(table) for _ in range(self.random.randint(0, 6))]
                gone = len(rows) if self.random.random() < 0.15 else min(len(rows), 5)
                self.random.shuffle(rows)
                old = [rows.pop() for _ in range(self.random.randint(0, gone))]
                rows += new
                mill.insert(table, new)
                mill.delete(table, old)


def create(mill: Mill, views: dict[str, str]) -> None:
    for name, query in views.items():
        mill.sql(f"CREATE MATERIALIZED VIEW v_{name} REFRESH POLICY INCREMENTAL STRICT AS {query}")
        assert "aggregate_index" in mill[f"v_{name}"].status()["strategy"], name


def _fail(mill: Mill) -> None:
    with mill.batch():
        mill.insert("t", [(1, Decimal(9), "a", 1.0), (2, Decimal(-2), "b", 0.0)])
        mill.insert("u", [(1, Decimal(4)), (2, None)])
        mill.delete("u", [(77, Decimal(1))])  # is not there


def check(mill: Mill, step: int) -> None:
    for name in mill.views():
        assert mill[name].verify() == [], f"{name} after step {step}"


@pytest.mark.parametrize("views", [VIEWS, BLOCKS], ids=["views", "blocks"])
def test_rows_that_pass_equal_recompute(mill: Mill, views: dict[str, str]) -> None:
    stream = Stream(7)
    stream.tables(mill)
    create(mill, views)
    calls = {name: mill[name].status()["engine_calls"] for name in mill.views()}
    for step in range(14):
        stream.step(mill)
        check(mill, step)
    assert calls == {name: mill[name].status()["engine_calls"] for name in mill.views()}


def test_rows_that_pass_after_a_load_a_failed_batch_and_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    stream, views = Stream(11), VIEWS | BLOCKS
    with vm.connect(tmp_path / "m.mill") as mill:
        stream.tables(mill)
        for _ in range(3):
            stream.step(mill)
        create(mill, views)
        check(mill, 0)
        before = {name: sorted(map(repr, mill[name].rows())) for name in mill.views()}
        with pytest.raises(vm.ViewmillError):
            _fail(mill)
        assert before == {name: sorted(map(repr, mill[name].rows())) for name in mill.views()}
        stream.step(mill)
        check(mill, 1)
    with vm.connect(tmp_path / "m.mill") as mill:
        check(mill, 2)
        for step in range(3):
            stream.step(mill)
            check(mill, 3 + step)


def test_rows_that_pass_in_compiled_triggers() -> None:
    stream = Stream(3)
    with vm.connect() as mill:
        stream.tables(mill)
        create(mill, {name: VIEWS[name] for name in ("half_of_key",)})
        for step in range(25):
            stream.step(mill)
            check(mill, step)


@pytest.mark.parametrize("number", NESTED)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["empty", "loaded"])
def test_nested_aggregates_of_tpch_are_kept_by_an_index_or_a_view_tree(
    mill: Mill, number: int, is_loaded: bool
) -> None:
    tables = TpchData(0.001, 1).tables() if is_loaded else {}
    for name, columns in TABLES.items():
        mill.sql(f"CREATE TABLE {name} ({columns}) UNCHECKED")
        if is_loaded:
            mill.insert(name, tables[name])
    explain = f"EXPLAIN CREATE MATERIALIZED VIEW q AS {QUERIES[number]}"
    plan = "\n".join(row[0] for row in mill.sql(explain).rows())
    (chosen,) = [line for line in plan.splitlines() if "─ chosen" in line]
    wanted = "view_tree" if number == 18 else "aggregate_index"
    assert wanted in chosen
    assert "recompute" not in chosen
    assert f"block     {wanted}" in plan or f"chosen    {wanted} " in plan


def test_a_refresh_visits_what_changes_and_nothing_else(mill: Mill) -> None:
    """An aggregate of all rows that moves by little: as much work at ten times the rows."""
    mill.sql("CREATE TABLE t (k INT, x BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE x > (SELECT avg(x) FROM t)")
    mill.insert("t", [(i, i * 10) for i in range(500)])
    found: list[int] = []
    mill["v"].subscribe(lambda delta: found.append(len(delta.to_arrow())))
    mill.insert("t", [(1000, 2500)])
    assert mill["v"].verify() == []
    assert sum(found) <= 2
