"""F-IVM's matrix chain: A = A1 A2 A3 under changes of A2 (section 8.3).

takes  sizes n; matrices that are sums of a few random outer products, so that they fill quickly
gives  the time of changing one row of A2, and of changing it by a matrix of rank 1 to 128, for
       viewmill through the API, for `first_order` (A1 dA2 A3 computed anew) and `reevaluate`

Keyed: states are hash tables, the two baselines are DuckDB over the same tables. Dense: the view is
kept as arrays (hint DENSE), the baselines multiply NumPy's. CPU time is that of the whole process,
for BLAS has threads of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import viewmill as vm
from viewmill.bench.report import Report, Say

Matrix = npt.NDArray[np.float64]

TABLES = (("A1", "i", "j"), ("A2", "j", "k"), ("A3", "k", "l"))
QUERY = (
    "A1.i, A3.l, SUM(A1.P * A2.P * A3.P) AS P FROM A1 JOIN A2 ON A1.j = A2.j "
    "JOIN A3 ON A2.k = A3.k GROUP BY A1.i, A3.l"
)
REEVALUATE = """SELECT A1.i, b.l, SUM(A1.P * b.P) AS P FROM A1 JOIN
    (SELECT A2.j, A3.l, SUM(A2.P * A3.P) AS P FROM A2 JOIN A3 ON A2.k = A3.k GROUP BY A2.j, A3.l) b
    ON A1.j = b.j GROUP BY A1.i, b.l"""
RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
_FILL = 4  # outer products that a matrix is made of
_MOST_SQL = 512  # DuckDB takes minutes for larger ones


def matrix(*, seed: int, quick: bool, say: Say, sizes: tuple[int, ...] = ()) -> Report:
    """Run the whole workload."""
    report = Report("matrix", seed, plotted="us_per_update", across="n")
    report.oracle = "NumPy's"
    ranks = RANKS[:3] if quick else RANKS
    keyed = sizes or ((32, 64) if quick else (256, 512, 1024))
    dense = sizes or ((64, 128) if quick else (256, 512, 1024, 2048, 4096))
    verified = []
    for result, chosen in (("keyed", keyed), ("dense", dense)):
        for n in chosen:
            chain = Chain(n, result, np.random.default_rng(seed))
            say(f"{result}, n = {n}")
            swept = chosen[0] if result == "keyed" else chosen[-1]
            verified.append(chain.run(report, ranks if n == swept else (1,)))
        _growth(report, result, chosen)
    report.verified = all(verified)
    return report


def _growth(report: Report, result: str, sizes: tuple[int, ...]) -> None:
    """As which power of n the time grows between the smallest and the largest."""
    first, last = sizes[0], sizes[-1]
    if first == last:
        return
    for system in ("viewmill", "first_order"):
        try:
            low, high = (
                report.value(system, "us_per_update", n=n, result=result, updates="row")
                for n in (first, last)
            )
        except KeyError:
            continue
        power = math.log(high / low) / math.log(last / first)
        report.add(system, {"result": result, "updates": "row"}, growth=power)


@dataclass
class Chain:
    """Three matrices in tables, the view over them, and what NumPy says of it."""

    n: int
    result: str
    random: np.random.Generator
    matrices: dict[str, Matrix] = field(default_factory=dict)

    def run(self, report: Report, ranks: tuple[int, ...]) -> bool:
        """Fill, time, compare."""
        with vm.connect() as mill:
            for name, a, b in TABLES:
                columns = f"{a} INT NOT NULL, {b} INT NOT NULL, P DOUBLE NOT NULL"
                mill.sql(f"CREATE TABLE {name} ({columns}) UNCHECKED")
            hint = "/*+ DENSE */ " if self.result == "dense" else ""
            mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {hint}{QUERY}")
            for name in ("A2", "A3", "A1"):
                self._fill(mill, name)
            self._time_rows(mill, report)
            report.add(
                "viewmill", self._key(), state_bytes=float(mill["v"].status()["state_bytes"])
            )
            for rank in ranks:
                self._time_rank(mill, report, rank)
            baseline = self._numpy if self.result == "dense" else self._duckdb
            baseline(report)
            return self._is_right(mill)

    def _key(self, **more: Any) -> dict[str, Any]:
        return {"result": self.result, "n": self.n, **more}

    def _fill(self, mill: Any, name: str) -> None:
        self.matrices[name] = np.zeros((self.n, self.n))
        for _ in range(_FILL):
            self._change(mill, name, *self._vectors(1))

    def _vectors(self, rank: int) -> tuple[Matrix, Matrix]:
        size = rank, self.n
        return self.random.normal(size=size), self.random.normal(size=size) / math.sqrt(self.n)

    def _change(self, mill: Any, name: str, u: Matrix, v: Matrix) -> None:
        self.matrices[name] += u.T @ v
        self._apply(mill, name, u, v)

    def _apply(self, mill: Any, name: str, u: Matrix, v: Matrix) -> None:
        (_, a, b), every = next(each for each in TABLES if each[0] == name), np.arange(self.n)
        with mill.batch():
            for left, right in zip(u, v, strict=True):
                kept = np.flatnonzero(left)
                factors = [{a: kept, "P": left[kept]}, {b: every, "P": right}]
                mill.apply_product(name, factors, value="P")

    # Viewmill.

    def _time_rows(self, mill: Any, report: Report) -> None:
        """Changes of one row each."""
        updates = []
        for row in self.random.integers(0, self.n, 6):
            _, v = self._vectors(1)
            updates.append((np.where(np.arange(self.n) == row, 1.0, 0.0)[None], v))
        self._change(mill, "A2", *updates.pop())  # compiles
        self._timed_updates(mill, report, updates, updates="row", rank=1)

    def _time_rank(self, mill: Any, report: Report, rank: int) -> None:
        updates = [self._vectors(rank) for _ in range(3 if rank < 16 else 1)]
        if rank == 1:
            self._change(mill, "A2", *updates[0])
        self._timed_updates(mill, report, updates, updates="rank", rank=rank)

    def _timed_updates(
        self, mill: Any, report: Report, changes: list[tuple[Matrix, Matrix]], **key: Any
    ) -> None:
        cpu, walls = time.process_time(), []
        for u, v in changes:
            start = time.perf_counter()
            self._apply(mill, "A2", u, v)
            walls.append(time.perf_counter() - start)
        cpu_s = (time.process_time() - cpu) / len(changes)
        for u, v in changes:
            self.matrices["A2"] += u.T @ v
        metrics = {"us_per_update": cpu_s * 1e6, "p50_ms": float(np.median(walls)) * 1e3}
        report.add("viewmill", self._key(**key), **metrics)

    def _is_right(self, mill: Any) -> bool:
        expected = self.matrices["A1"] @ self.matrices["A2"] @ self.matrices["A3"]
        found = np.full((self.n, self.n), np.nan)
        for batch in mill["v"].batches():
            i, l, p = (column.to_numpy() for column in batch.columns)  # noqa: E741
            found[i, l] = p
        return bool(np.abs(found - expected).max() <= 1e-9 * np.abs(expected).max())

    # Baselines.

    def _numpy(self, report: Report) -> None:
        a1, a2, a3 = (self.matrices[name] for name, *_ in TABLES)
        delta = np.zeros_like(a2)
        delta[self.n // 2] = 1.0
        self._timed(report, "first_order", lambda: a1 @ delta @ a3, updates="row", rank=1)
        self._timed(report, "reevaluate", lambda: a1 @ a2 @ a3, updates="rank", rank=1)

    def _duckdb(self, report: Report) -> None:
        if self.n > _MOST_SQL:
            return
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            at = np.arange(self.n * self.n)
            for name, a, b in TABLES:
                i, j = np.divmod(at, self.n)
                rows = pa.table({a: i, b: j, "P": self.matrices[name].ravel()})
                connection.register("rows", rows)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            query = f"CREATE OR REPLACE TABLE v AS {REEVALUATE}"
            self._timed(
                report, "reevaluate", lambda: connection.execute(query), updates="rank", rank=1
            )
            # The change alone meets A1 and A3.
            connection.execute(f"DELETE FROM A2 WHERE j <> {self.n // 2}")
            delta = f"CREATE OR REPLACE TABLE v AS SELECT {QUERY}"
            self._timed(
                report, "first_order", lambda: connection.execute(delta), updates="row", rank=1
            )

    def _timed(self, report: Report, system: str, work: Callable[[], object], **key: Any) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
        report.add(system, self._key(**key), us_per_update=cpu_s * 1e6, p50_ms=wall_s * 1e3)
