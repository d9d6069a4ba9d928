"""All 22 queries of TPC-H as views: refresh functions and random deletes, after each as DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest

from viewmill.bench.tpch.data import TpchData
from viewmill.bench.tpch.queries import QUERIES, TABLES
from viewmill.mill.mill import Mill

SCALE, FOCUS = 0.0003, 0.5
FEW = (1, 4)  # compiled in the default run; the slow one compiles them all


class Workload:
    """A mill with every table and some of the queries, and what its tables hold."""

    def __init__(self, mill: Mill, queries: tuple[int, ...], seed: int) -> None:
        self.mill, self.data = mill, TpchData(SCALE, seed, FOCUS)
        self.live = self.data.tables()
        for name, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {name} ({columns}) UNCHECKED")
            mill.insert(name, self.live[name])
        for number in queries:
            mill.sql(
                f"CREATE MATERIALIZED VIEW q{number} REFRESH POLICY INCREMENTAL STRICT "
                f"AS {QUERIES[number]}"
            )
        self.calls = {name: mill[name].status()["engine_calls"] for name in mill.views()}

    def insert_orders(self, count: int) -> None:
        """Refresh function 1, in one batch."""
        orders, lines = self.data.new_orders(count)
        with self.mill.batch():
            self._insert("orders", orders)
            self._insert("lineitem", lines)
        self.check(f"{count} new orders")

    def delete_orders(self, count: int) -> None:
        """Refresh function 2, the line items first, in two batches."""
        orders, lines = self.data.old_orders(self.live["orders"], self.live["lineitem"], count)
        self._delete("lineitem", lines)
        self.check(f"the line items of {count} orders deleted")
        self._delete("orders", orders)
        self.check(f"{count} orders deleted")

    def delete_some(self, table: str, count: int) -> None:
        """Rows of a table, whoever refers to them."""
        self._delete(table, self.live[table].take(self.data.some(len(self.live[table]), count)))
        self.check(f"{count} rows of {table} deleted")

    def _insert(self, table: str, rows: pa.Table) -> None:
        self.live[table] = pa.concat_tables([self.live[table], rows])
        self.mill.insert(table, rows)

    def _delete(self, table: str, rows: pa.Table) -> None:
        gone = set(map(repr, rows.to_pylist()))
        kept = [repr(row) not in gone for row in self.live[table].to_pylist()]
        self.live[table] = self.live[table].filter(pa.array(kept, pa.bool_()))
        self.mill.delete(table, rows)

    def check(self, what: str) -> None:
        """Every view equals recompute, and no engine was asked on the way."""
        for name in self.mill.views():
            view = self.mill[name]
            status = view.status()
            assert view.verify() == [], f"{name} after {what}"
            assert "recompute" not in status["strategy"]
            assert status["engine_calls"] == self.calls[name], f"{name} after {what}"
            assert status["rows"] == len(view.rows())

    def run(self) -> None:
        """Both refresh functions, deletes everywhere, and the refresh functions again."""
        self.check("the load")
        self.insert_orders(6)
        self.delete_orders(6)
        for table in TABLES:
            self.delete_some(table, max(2, len(self.live[table]) // 12))
        self.insert_orders(3)
        self.delete_orders(len(self.live["orders"]))  # nothing is left to join


def test_every_query_is_kept_by_triggers_without_the_compiler(mill: Mill, uncompiled: None) -> None:
    Workload(mill, tuple(QUERIES), seed=1).run()


@pytest.mark.parametrize("number", FEW)
def test_a_query_is_kept_by_compiled_triggers(mill: Mill, number: int) -> None:
    Workload(mill, (number,), seed=6).run()


@pytest.mark.slow
@pytest.mark.parametrize("number", QUERIES)
def test_each_query_is_kept_by_compiled_triggers(mill: Mill, number: int) -> None:
    Workload(mill, (number,), seed=3).run()


def test_the_data_gives_every_query_something_to_find(mill: Mill) -> None:
    data = TpchData(SCALE, 1, FOCUS).tables()
    for name, columns in TABLES.items():
        mill.sql(f"CREATE TABLE {name} ({columns}) UNCHECKED")
        mill.insert(name, data[name])
    found = {number: len(mill.sql(query).rows()) for number, query in QUERIES.items()}
    assert [number for number, rows in found.items() if not rows] == []
