"""A mill with TPC-H in it, of which some rows are still to come, and a stopwatch.

takes  a scale, a seed, the share that is there from the beginning
gives  views to measure, and deltas over all relations but REGION and NATION
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import viewmill as vm
from viewmill.bench.tpch.data import TpchData
from viewmill.bench.tpch.queries import QUERIES, TABLES
from viewmill.mill import memory

FLAT = (1, 3, 5, 6, 7, 8, 9, 10, 12, 14, 19)  # the queries without subqueries
COMPLETE = ("region", "nation")
CHANGING = tuple(name for name in TABLES if name not in COMPLETE)
AMPLE = 1 << 40


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process, the engine's threads included."""
    start = time.process_time()
    work()
    return time.process_time() - start


class Lab:
    """Tables with their first rows, and the rows that come later."""

    def __init__(self, scale: float, seed: int, first: float) -> None:
        self.chance = np.random.default_rng(seed)
        self.mill = vm.connect()
        self._later: dict[str, pa.Table] = {}
        self.totals: dict[str, int] = {}
        for name, rows in TpchData(scale, seed).tables().items():
            static = " STATIC" if name in COMPLETE else ""
            self.mill.sql(f"CREATE TABLE {name} ({TABLES[name]}) UNCHECKED{static}")
            self.totals[name] = rows.num_rows
            if name in COMPLETE:
                self.mill.insert(name, rows)
                continue
            order = pa.array(self.chance.permutation(rows.num_rows))
            cut = int(rows.num_rows * first)
            self.mill.insert(name, rows.take(order[:cut]))
            self._later[name] = rows.take(order[cut:])
        self.warm()

    def warm(self) -> None:
        """Tables are hot: the engine's form of them is made before anything is timed."""
        for name in TABLES:
            self.mill.core.arrow(name)

    def coming(self, shares: Mapping[str, float]) -> dict[str, pa.Table]:
        """The next rows: of each table a share of what the complete one has."""
        found = {}
        for name, share in shares.items():
            count = min(self._later[name].num_rows, max(1, round(self.totals[name] * share)))
            found[name] = self._later[name].slice(0, count)
            self._later[name] = self._later[name].slice(count)
        return found

    def arrive(self, shares: Mapping[str, float], deletes: float = 0.0) -> int:
        """Insert the next rows as one batch, or delete as many instead, in proportion."""
        rows = self.coming(shares)
        with self.mill.batch():
            for name, new in rows.items():
                gone = int(new.num_rows * deletes)
                if gone:
                    held = self.mill.core.arrow(name)
                    drawn = self.chance.choice(held.num_rows, gone, replace=False)
                    self.mill.delete(name, held.take(pa.array(np.sort(drawn))))
                if new.num_rows > gone:
                    self.mill.insert(name, new.slice(gone))
        self.warm()
        return sum(each.num_rows for each in rows.values())

    def create(self, name: str, query: int | str, budget: int, selector: Any = None) -> float:
        """A view that is refreshed on demand; gives CPU seconds, compilation left out."""
        text = QUERIES[query] if isinstance(query, int) else query
        head = f"CREATE MATERIALIZED VIEW {name} REFRESH ON DEMAND MEMORY"
        if budget:  # once for the compiler
            self.mill.sql(f"{head} {AMPLE} AS {text}")
            self.drop([name])
        seconds = cpu_s(lambda: self.mill.sql(f"{head} {budget} AS {text}"))
        if selector is not None:
            budgeted = self.budgeted(name)
            budgeted.selector, budgeted.selection = selector, None
            seconds += cpu_s(lambda: memory.release_states(self.mill.core))
        return seconds

    def budgeted(self, name: str) -> Any:
        """The budgeted states of a view."""
        return self.mill.core.catalog.view(name).budgeted

    def refresh(self, name: str) -> float:
        """CPU seconds of a refresh."""
        return cpu_s(self.mill[name].refresh)

    def state_bytes(self, name: str) -> int:
        """The present size of a view's states."""
        return int(self.mill[name].status()["state_bytes"])

    def same(self, first: str, second: str) -> bool:
        """Whether two views show the same rows, up to the last digits of floats."""
        return _rounded(self.mill[first].rows()) == _rounded(self.mill[second].rows())

    def drop(self, names: Iterable[str]) -> None:
        """Drop views."""
        for name in names:
            self.mill.sql(f"DROP MATERIALIZED VIEW {name}")


def _rounded(rows: list[tuple[Any, ...]]) -> list[str]:
    shown = [[f"{v:.9g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    return sorted("|".join(row) for row in shown)


def everywhere(share: float) -> dict[str, float]:
    """Let every relation that changes grow by this share."""
    return dict.fromkeys(CHANGING, share)
