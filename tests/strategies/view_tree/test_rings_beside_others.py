"""A regression beside MAX, MIN, REGR_* and COUNT(DISTINCT) in one SELECT is kept incrementally."""

from __future__ import annotations

import random

import pytest

import viewmill as vm

TABLES = "CREATE TABLE r (k INT, x DOUBLE, t STRING); CREATE TABLE s (k INT, y DOUBLE)"
OTHERS = "MAX(r.x) AS mx, MIN(r.t) AS mt, COUNT(DISTINCT s.y) AS n, REGR_SLOPE(r.x, s.y) AS q"
JOIN = "FROM r JOIN s ON r.k = s.k"
VIEWS = {
    "of all rows": f"SELECT linear_regression(r.x, s.y) AS m, {OTHERS} {JOIN}",
    "by key": f"SELECT r.k, cofactor(r.x, s.y) AS m, {OTHERS} {JOIN} GROUP BY r.k",
    "by a text or NULL": f"SELECT r.t, cofactor(r.x, s.y) AS m, {OTHERS} {JOIN} GROUP BY r.t",
    "having": f"SELECT r.k, cofactor(r.x) AS m {JOIN} GROUP BY r.k HAVING MAX(s.y) > 2",
    "of one table": "SELECT k, cofactor(x) AS m, MAX(x) + 1 AS d FROM r WHERE x > 1 GROUP BY k",
}


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")


def row_of(rng, table):
    key, number = rng.choice([1, 2, 3, None]), rng.choice([-1.5, 0.0, 2.0, 3.0, None])
    return (key, number, rng.choice(["a", "b", None])) if table == "r" else (key, number)


def changed(mill, rng, held):
    with mill.batch():
        for _ in range(rng.choice([1, 3])):
            table = rng.choice("rs")
            if held[table] and rng.random() < 0.45:
                mill.delete(table, [held[table].pop(rng.randrange(len(held[table])))])
            else:
                held[table].append(row_of(rng, table))
                mill.insert(table, held[table][-1:])


@pytest.mark.parametrize("name", VIEWS)
def test_it_equals_recompute(name, tmp_path):
    rng = random.Random(name)
    held: dict[str, list[object]] = {"r": [], "s": []}
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLES)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
        assert "recompute" not in mill["v"].status()["strategy"]
        assert mill["v"].verify() == []
        for _ in range(8):
            changed(mill, rng, held)
            assert mill["v"].verify() == []
    with vm.connect(tmp_path / "m.mill") as mill:
        calls = mill["v"].status()["engine_calls"]
        changed(mill, rng, held)
        assert mill["v"].status()["engine_calls"] == calls
        assert mill["v"].verify() == []


def test_a_refused_batch_leaves_the_values_beside():
    mill = vm.connect()
    mill.sql(TABLES)
    mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT cofactor(r.x) AS m, MAX(r.x) AS h {JOIN}")
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT 1 / x AS q FROM r")
    mill.insert("s", [(1, 1.0)])
    mill.insert("r", [(1, 4.0, "a")])
    with pytest.raises(vm.EvaluationFailed):
        mill.insert("r", [(1, 9.0, "a"), (1, 0.0, "b")])
    assert [row[1] for row in mill["v"].rows()] == [4.0]
    mill.delete("r", [(1, 4.0, "a")])
    assert [row[1] for row in mill["v"].rows()] == [None]
