"""33 generated queries of up to 16 joins over 21 tables, as the join order benchmark has them.

The tables hang on each other like IMDB's: a large one in the middle, satellites that refer to it,
and small dimensions. A query takes a connected piece of them, filters some, and sums and counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.intermittent.lab import AMPLE, cpu_s
from viewmill.bench.report import Report, Say
from viewmill.planner.select_states import select_states

TABLES, QUERIES, MOST_JOINS = 21, 33, 16
_BUDGET = 64 << 20


@dataclass(frozen=True)
class Query:
    """A generated query: its text, and how many joins it has."""

    number: int
    joins: int
    text: str
    tables: tuple[int, ...]


def parents(seed: int) -> list[int]:
    """For each table the one that it refers to; table 0 is in the middle."""
    chance = np.random.default_rng(seed)
    return [0, *(int(chance.integers(0, min(i, 4))) for i in range(1, TABLES))]


def generate(seed: int) -> list[Query]:
    """The queries, the smaller ones first."""
    chance, above = np.random.default_rng(seed + 1), parents(seed)
    found = []
    for number in range(QUERIES):
        joins = 3 + round((MOST_JOINS - 3) * number / (QUERIES - 1))
        taken = [0]
        while len(taken) < joins + 1:
            near = [i for i in range(1, TABLES) if i not in taken and above[i] in taken]
            taken.append(int(chance.choice(near)))
        conditions = [f"t{i}.parent = t{above[i]}.id" for i in taken[1:]]
        conditions += [f"t{i}.x < {int(chance.integers(5, 10))}" for i in taken[1:4]]
        tables = ", ".join(f"t{i}" for i in taken)
        where = " AND ".join(conditions)
        text = f"SELECT count(*) AS n, sum(t0.x) AS s FROM {tables} WHERE {where}"
        found.append(Query(number + 1, joins, text, tuple(taken)))
    return found


class Imdb:
    """A mill with the 21 tables."""

    def __init__(self, rows: int, seed: int) -> None:
        self.mill, self._above = vm.connect(), parents(seed)
        self._chance, self._rows = np.random.default_rng(seed + 2), rows
        for i in range(TABLES):
            self.mill.sql(f"CREATE TABLE t{i} (id INT, parent INT, x INT) UNCHECKED")
            self.mill.insert(f"t{i}", self._new(i, 0, self._count(i)))

    def _count(self, i: int) -> int:
        return max(20, self._rows // (1 if i == 0 else 1 + i % 5 * 4))

    def _new(self, i: int, start: int, count: int) -> pa.Table:
        above = self._count(self._above[i])
        return pa.table(
            {
                "id": pa.array(np.arange(start, start + count), pa.int32()),
                "parent": pa.array(self._chance.integers(0, above, count), pa.int32()),
                "x": pa.array(self._chance.integers(0, 10, count), pa.int32()),
            }
        )

    def grow(self, share: float) -> None:
        """More of every table."""
        with self.mill.batch():
            for i in range(TABLES):
                count = max(1, round(self._count(i) * share))
                self.mill.insert(f"t{i}", self._new(i, self._count(i), count))
        for i in range(TABLES):
            self.mill.core.arrow(f"t{i}")


def many_joins(report: Report, rows: int, seed: int, most_run: int, say: Say) -> bool:
    """Planning time of every query; the first ones are also run, with a delta of 1 %.

    If only one is run, only every eighth is planned: to choose a strategy takes long.
    """
    lab, equal = Imdb(rows, seed), True
    queries = generate(seed)
    for i in range(TABLES):
        lab.mill.expect(f"t{i}", rows=max(1, rows // 100))
    for query in queries if most_run > 1 else queries[::8]:
        workload = {"experiment": "joins", "query": query.number, "joins": query.joins}
        say(f"generated joins: {query.number} of {QUERIES}, {query.joins} joins")
        if query.number <= most_run:
            equal &= _run(report, lab, query, workload)
        report.add("viewmill", workload, planning_s=planning_s(lab, query))
    return equal


def planning_s(lab: Imdb, query: Query) -> float:
    """CPU seconds to select states for a query in a budget that does not hold all of them."""
    root = lab.mill.memory_operators(query.text, rows={f"t{i}": 1e6 for i in query.tables})
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        select_states(root, _BUDGET)
        best = min(best, time.thread_time() - start)
    return best


def _run(report: Report, lab: Imdb, query: Query, workload: dict[str, object]) -> bool:
    mill, head = lab.mill, "CREATE MATERIALIZED VIEW {} REFRESH ON DEMAND MEMORY {} AS {}"
    mill.sql(head.format("v", AMPLE, query.text))
    mill.sql("DROP MATERIALIZED VIEW v")
    first = cpu_s(lambda: mill.sql(head.format("v", AMPLE, query.text)))
    batch = cpu_s(lambda: mill.sql(head.format("b", 0, query.text)))
    held = float(mill["v"].status()["state_bytes"])
    lab.grow(0.01)
    ours, again = cpu_s(mill["v"].refresh), cpu_s(mill["b"].refresh)
    equal = bool(mill["v"].rows() == mill["b"].rows())
    mill.sql("DROP MATERIALIZED VIEW v; DROP MATERIALIZED VIEW b")
    report.add("viewmill", workload, initial_s=first, delta_s=ours, total_s=first + ours,
               state_bytes=held)  # fmt: skip
    report.add("rebatch", workload, initial_s=batch, delta_s=again, total_s=batch + again)
    return equal
