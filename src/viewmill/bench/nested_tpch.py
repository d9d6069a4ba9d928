"""TPC-H Q17 and Q18 as the RPAI paper has them (section 5.2.2, Figure 8d): single changed rows.

Tables of the columns that the queries read, in TPC-H's proportions; `skewed` gives one part a tenth
of all lines, which the paper does to its generator. Q17 by the index by key and by joins, Q18 by
joins: its nested aggregate is not correlated.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.order_book import cents_to_decimals
from viewmill.bench.report import Report, Say

SCALES = (0.1, 0.5, 1.0)
LINES, PARTS, ORDERS = 6_000_000, 200_000, 1_500_000
UPDATES = 200

Q17 = (
    "SELECT sum(l.extendedprice) / 7.0 AS avg_yearly FROM lineitem l, part p WHERE p.partkey = "
    "l.partkey AND p.brand = 23 AND p.container = 17 AND l.quantity < (SELECT 0.2 * "
    "avg(m.quantity) FROM lineitem m WHERE m.partkey = p.partkey)"
)
Q18 = (
    "SELECT o.custkey, o.orderkey, sum(l.quantity) AS quantity FROM orders o, lineitem l WHERE "
    "o.orderkey = l.orderkey AND o.orderkey IN (SELECT m.orderkey FROM lineitem m "
    "GROUP BY m.orderkey HAVING sum(m.quantity) > 300) GROUP BY o.custkey, o.orderkey"
)
WAYS = {
    ("q17", "aggregate_index"): Q17,
    ("q17", "dataflow"): Q17,
    ("q18", "dataflow"): Q18,
}
TABLES = {
    "lineitem": "orderkey INT NOT NULL, partkey INT NOT NULL, quantity DECIMAL(12,2) NOT NULL, "
    "extendedprice DECIMAL(12,2) NOT NULL",
    "part": "partkey INT NOT NULL, brand INT NOT NULL, container INT NOT NULL",
    "orders": "orderkey INT NOT NULL, custkey INT NOT NULL",
}


class Lines:
    """The tables, and lines that come and go."""

    def __init__(self, scale: float, data: str, seed: int) -> None:
        self.random = np.random.default_rng([seed, int(scale * 1000)])
        self.parts, self.orders = int(PARTS * scale), int(ORDERS * scale)
        self.share = 0.1 if data == "skewed" else 0.0
        # Part 0 is one that Q17 asks for.
        brand, container = (self.random.integers(1, n, self.parts) for n in (26, 41))
        brand[0], container[0] = 23, 17
        numbers = np.arange(self.parts)
        self.tables = {
            "lineitem": self.lines(int(LINES * scale)),
            "part": _ints(partkey=numbers, brand=brand, container=container),
            "orders": _ints(orderkey=np.arange(self.orders), custkey=np.arange(self.orders) // 10),
        }

    def lines(self, count: int) -> pa.Table:
        """New lines."""
        random = self.random
        part = random.integers(0, self.parts, count)
        part[random.random(count) < self.share] = 0
        keys = _ints(orderkey=random.integers(0, self.orders, count), partkey=part)
        quantity = cents_to_decimals(100 * random.integers(1, 51, count))
        price = cents_to_decimals(random.integers(90_000, 200_000, count))
        return keys.append_column("quantity", quantity).append_column("extendedprice", price)


def _ints(**columns: np.ndarray) -> pa.Table:
    return pa.table({name: pa.array(each.astype(np.int32)) for name, each in columns.items()})


def nested_tpch(report: Report, scale: float, data: str, seed: int, say: Say) -> bool:
    """Both queries at one scale."""
    return all(
        _query(report, Lines(scale, data, seed), name, plan, sql, scale, data, say)
        for (name, plan), sql in WAYS.items()
    )


def _query(
    report: Report, lines: Lines, name: str, plan: str, sql: str, scale: float, data: str, say: Say
) -> bool:
    say(f"{name} by {plan}, scale {scale:g}, {data}")
    with vm.connect() as mill:
        for table, columns in TABLES.items():
            mill.sql(f"CREATE TABLE {table} ({columns}) UNCHECKED")
            mill.insert(table, lines.tables[table])
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY {plan} AS {sql}")
        new = lines.lines(UPDATES)
        mill.insert("lineitem", new.slice(0, 1))  # compiled now
        start = time.process_time()
        for i in range(1, UPDATES):
            mill.insert("lineitem", new.slice(i, 1))
        seconds = time.process_time() - start
        workload = {"query": name, "scale": scale, "plan": plan, "data": data}
        report.add("viewmill", workload, us_per_update=seconds / (UPDATES - 1) * 1e6)
        report.add("viewmill", workload, state_bytes=mill["v"].status()["state_bytes"])
        return not mill["v"].verify()
