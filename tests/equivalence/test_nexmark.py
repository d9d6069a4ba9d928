"""Nexmark: every query that SQL can say, as a view over the streams and some late deletes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.bench.nexmark.data import TABLES, NexmarkData
from viewmill.bench.nexmark.queries import NOT_SQL, QUERIES

EVENTS = 1500


def test_every_number_is_a_query_or_has_a_reason() -> None:
    assert sorted([*QUERIES, *NOT_SQL]) == list(range(23))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_query_equals_duckdb_after_every_batch(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    tables = NexmarkData(EVENTS, seed).tables()
    with vm.connect() as mill:
        for name, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {name} ({columns}) UNCHECKED")
        for number, query in QUERIES.items():
            mill.sql(f"CREATE MATERIALIZED VIEW q{number} AS {query}")
        mill.insert("side_input", tables["side_input"])
        for start, end in ((0, 0.5), (0.5, 0.9), (0.9, 1.0)):
            for name in ("person", "auction", "bid"):
                mill.insert(name, _between(tables[name], start, end))
            _check(mill)
        for name in ("bid", "auction", "person"):
            mill.delete(name, _between(tables[name], 0.4, 0.6))
            _check(mill)
        shown = {number: len(mill[f"q{number}"]) for number in QUERIES}
        assert [number for number, rows in shown.items() if not rows and number != 2] == []


def _between(rows: pa.Table, start: float, end: float) -> pa.Table:
    count = rows.num_rows
    return rows.slice(int(start * count), int(end * count) - int(start * count))


def _check(mill) -> None:
    for name in mill.views():
        view = mill[name]
        assert view.verify() == [], name
        if "recompute" not in view.status()["strategy"]:
            assert view.status()["refresh_kind"] in ("incremental", "backfill")
