"""What joins keep: no more than their inputs, whatever comes out of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import viewmill as vm
from viewmill.mill.mill import Mill

ROWS, KEYS = 600, 3  # of each table: the join has ROWS * ROWS / KEYS rows


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mill]:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as made:
        for name in ("a", "b", "c"):
            made.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT) UNCHECKED")
            made.insert(name, [(i % KEYS, i) for i in range(ROWS)])
        yield made


def entries(mill: Mill, view: str) -> int:
    """How many entries all states of a view have."""
    return sum(
        batch.num_rows
        for block in mill.core.catalog.view(view).blocks
        for state in block.program.states
        for batch in block.maintainer.snapshot(state.name)
    )


MANY = {
    "sums": "SELECT a.k, SUM(a.v * b.v) AS s, COUNT(*) AS n FROM a JOIN b ON a.k = b.k "
    "GROUP BY a.k",
    "sums_over_a_subquery": "SELECT a.k, SUM(a.v) AS s FROM a JOIN (SELECT k, MAX(v) AS top FROM b "
    "GROUP BY k) AS t ON a.k = t.k JOIN c ON c.k = a.k GROUP BY a.k",
    "extremes": "SELECT a.k, MAX(a.v - b.v) AS m FROM a JOIN b ON a.k = b.k "
    "WHERE a.v + b.v = 5 GROUP BY a.k",
    "few_pass": "SELECT a.v, SUM(b.v) AS s FROM a JOIN b ON a.k = b.k WHERE a.v IN ("
    "SELECT v FROM c GROUP BY v HAVING COUNT(*) > 1) GROUP BY a.v",
}


@pytest.mark.parametrize("name", MANY)
def test_a_many_to_many_join_is_not_kept(mill: Mill, name: str) -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {MANY[name]}")
    assert entries(mill, "v") <= 4 * 3 * ROWS  # the join has 120,000 rows
    mill.insert("a", [(0, -1), (1, 3)])
    mill.insert("c", [(2, 7), (9, 8)])
    mill.delete("b", [(2, 2), (0, 3)])
    assert mill["v"].verify() == []
    assert entries(mill, "v") <= 4 * 3 * ROWS


def test_a_semi_join_with_few_groups_asks_its_own_table_first(mill: Mill) -> None:
    query = MANY["few_pass"]
    mill.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS {query}")
    kept = [s for b in mill["v"].explain("json")["blocks"] for s in b["states"]]
    assert not any("a.v" in s["label"] and "b.v" in s["label"] for s in kept)
