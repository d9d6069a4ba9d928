"""Rows of unchecked tables that are deleted before they come: counted, and never shown."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pytest

import viewmill as vm

VIEWS = {
    "v_all": "SELECT count(*) AS n, sum(p) AS s, max(p) AS m FROM c",
    "v_groups": "SELECT k, count(*) AS n, sum(p) AS s FROM c GROUP BY k",
    "v_least": "SELECT k, min(p) AS m, count(DISTINCT p) AS d FROM c GROUP BY k",
    "v_keys": "SELECT DISTINCT k FROM c",
    "v_rows": "SELECT k, p FROM c WHERE p > 1",
    "v_joined": "SELECT c.k, c.p, d.q FROM c JOIN d ON c.k = d.k",
    "v_by_q": "SELECT d.q, count(*) AS n, sum(c.p) AS s FROM c JOIN d ON c.k = d.k GROUP BY d.q",
    "v_pairs": "SELECT count(*) AS n FROM c JOIN d ON c.k = d.k",
    "v_above": "SELECT k, n FROM v_groups WHERE n > 0",
    "v_high": "SELECT count(*) AS n FROM c WHERE p >= (SELECT avg(x.p) FROM c x)",
}
COUNTS = {"v_all": 0, "v_groups": 1, "v_by_q": 1, "v_pairs": 0, "v_high": 0}

Row = tuple[Any, ...]


def opened(path: Any = None) -> vm.Mill:
    mill = vm.connect(path)
    mill.sql("CREATE TABLE c (k INT, p BIGINT) UNCHECKED; CREATE TABLE d (k INT, q INT)")
    mill.insert("d", [(0, 7), (1, 7), (2, 8)])
    for name, sql in VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    return mill


def follow(mill: vm.Mill) -> dict[str, Counter[Row]]:
    """What subscribers make of the changes; no row may go before it came."""
    nets = {name: Counter(mill[name].rows()) for name in VIEWS}

    def listener(net: Counter[Row]) -> Any:
        def add(change: Any) -> None:
            for row, times in change:
                net[row] += times

        return add

    for name, net in nets.items():
        mill[name].subscribe(listener(net))
    return nets


def test_orphan_delete_is_hidden_and_counted(uncompiled):
    with opened() as mill:
        mill.delete("c", [(2, 5)])
        assert mill["v_all"].rows() == [(0, None, None)]
        assert mill["v_pairs"].rows() == mill["v_high"].rows() == [(0,)]
        for name in ("v_groups", "v_keys", "v_rows", "v_joined", "v_by_q", "v_above"):
            assert mill[name].rows() == []
            assert len(mill[name]) == 0
        assert mill["v_above"].status()["negative_rows"] == 1
        assert mill.status()["tables"]["c"]["negative_rows"] == 1
        assert mill.status()["tables"]["d"]["negative_rows"] == 0
        mill.insert("c", [(2, 5)])
        assert mill["v_above"].status()["negative_rows"] == 0
        assert all(mill[name].verify() == [] for name in VIEWS)


@pytest.mark.parametrize("seed", range(3))
def test_views_are_right_when_every_row_has_come(uncompiled, tmp_path, seed):
    chance, net = random.Random(seed), Counter[Row]()
    path = tmp_path / "m.mill" if seed else None
    mill = opened(path)
    nets = follow(mill)
    for _ in range(25):
        row, times = (chance.randrange(3), chance.randrange(5)), chance.choice([-1, -1, 1])
        (mill.insert if times > 0 else mill.delete)("c", [row])
        net[row] += times
        owed = -sum(each for each in net.values() if each < 0)
        assert mill["v_all"].status()["negative_rows"] == owed
        for name in VIEWS:
            rows = mill[name].rows()
            assert +nets[name] == Counter(rows), name
            assert not -nets[name], name
            if name in COUNTS:
                assert all(each[COUNTS[name]] >= 0 for each in rows)
        if path is not None and chance.random() < 0.15:
            shown = {name: Counter(mill[name].rows()) for name in VIEWS}
            mill.close()
            mill = vm.connect(path)
            assert {name: Counter(mill[name].rows()) for name in VIEWS} == shown
            nets = follow(mill)
    late = [row for row, times in net.items() for _ in range(-times)]
    mill.insert("c", [*late, (0, 3), (1, 1)])
    held = [*(+net).elements(), (0, 3), (1, 1)]
    with duckdb.connect() as duck, mill:
        duck.execute("CREATE TABLE c (k INT, p BIGINT); CREATE TABLE d (k INT, q INT)")
        duck.executemany("INSERT INTO c VALUES (?, ?)", held)
        duck.execute("INSERT INTO d VALUES (0, 7), (1, 7), (2, 8)")
        for name, sql in VIEWS.items():
            expected = duck.execute(sql).fetchall()
            assert Counter(mill[name].rows()) == Counter(expected), name
            duck.execute(f"CREATE TABLE {name} AS {sql}")
        assert mill["v_all"].status()["negative_rows"] == 0
