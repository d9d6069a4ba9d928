"""Queries of the shapes of TPC-DS: all incremental, right after inserts and deletes everywhere."""

from __future__ import annotations

import pytest
from tests.equivalence.tpcds_shapes import QUERIES, TABLES, Row, Rows

import viewmill as vm
from viewmill.mill.mill import Mill

DIMENSIONS = ("date_dim", "item", "store", "customer", "address", "demographics")
_VIEW = "CREATE MATERIALIZED VIEW"
FEW = [1, 5, 9, 16, 20, 36, 51, 58, 61, 97]  # in the default run; the slow one has them all


def drive(numbers: list[int], seed: int, steps: int) -> None:
    rows = Rows(seed)
    with vm.connect() as mill:
        live: dict[str, list[Row]] = {}
        for name, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {name} ({columns})")
            live[name] = [rows.draw(name) for _ in range(8 if name in DIMENSIONS else 14)]
            if seed % 2:
                mill.insert(name, live[name])
        for number in numbers:
            strict = "REFRESH POLICY INCREMENTAL STRICT"
            mill.sql(f"CREATE MATERIALIZED VIEW q{number} {strict} AS {QUERIES[number]}")
        if not seed % 2:
            with mill.batch():
                for name in TABLES:
                    mill.insert(name, live[name])
        check(mill, "the load")
        for step in range(steps):
            change(mill, rows, live, all_tables=step % 2 == 0)
            check(mill, f"step {step}")


def change(mill: Mill, rows: Rows, live: dict[str, list[Row]], *, all_tables: bool) -> None:
    """Rows come and go, in all tables or in one."""
    names = list(TABLES) if all_tables else [rows.random.choice(list(TABLES))]
    with mill.batch():
        for name in names:
            new = [rows.draw(name) for _ in range(rows.random.randrange(4))]
            rows.random.shuffle(live[name])
            old = [live[name].pop() for _ in range(min(len(live[name]), rows.random.randrange(4)))]
            live[name] += new
            mill.insert(name, new)
            mill.delete(name, old)


def check(mill: Mill, what: str) -> None:
    for name in mill.views():
        assert mill[name].verify() == [], f"{name} after {what}"


def test_shapes_equal_recompute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    drive(FEW, seed=1, steps=2)


def test_all_shapes_are_incremental(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        for name, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {name} ({columns})")
        for number, query in QUERIES.items():
            mill.sql(f"EXPLAIN {_VIEW} q{number} REFRESH POLICY INCREMENTAL STRICT AS {query}")
            said = str(mill.sql(f"EXPLAIN {_VIEW} q{number} AS {query}"))
            (chosen,) = (line for line in said.splitlines() if "─ chosen " in line)
            assert "recompute" not in chosen, f"query {number} over tables that are empty yet"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_many_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    drive(list(QUERIES), seed, steps=12)


@pytest.mark.slow
def test_compiled() -> None:
    drive([3, 12, 16, 36, 51, 97], seed=3, steps=6)
