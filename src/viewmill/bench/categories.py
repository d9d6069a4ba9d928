"""A regression on categories: one row comes, the model follows.

Three categorical columns of 60 values over 20,000 rows. Beside it the same model learnt again: by
DuckDB's group-bys, and by least squares over one-hot columns, which also judges the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations

import duckdb
import numpy as np
import numpy.typing as npt

import viewmill as vm
from viewmill.bench.report import Report, Say

Floats = npt.NDArray[np.float64]
Row = tuple[float, float, str, str, str]

_NAMES = ("x", "a", "b", "c")
_QUERY = "SELECT cofactor(y, x, a, b, c) AS m FROM t"


def categories(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("categories", seed, plotted="p50_ms", across="rows", oracle="NumPy's")
    size, values, updates = (2_000, 20, 20) if quick else (20_000, 60, 100)
    rows, workload = _rows(seed, size + updates, values), {"rows": size, "n": values}
    mill = vm.connect()
    mill.sql("CREATE TABLE t (y DOUBLE, x DOUBLE, a STRING, b STRING, c STRING)")
    say("filling the view")
    mill.insert("t", rows[:size])
    begun = time.perf_counter()
    mill.sql(f"CREATE MATERIALIZED VIEW m AS {_QUERY}")
    model = vm.models.LinearRegression(mill["m"], "y", list(_NAMES))
    report.add("viewmill", workload, initial_s=time.perf_counter() - begun)
    say("one row at a time")
    coming = iter(rows[size:])
    mill.insert("t", [next(coming)])
    model.refresh()

    def follow() -> None:
        mill.insert("t", [next(coming)])
        model.refresh()

    report.add("viewmill", workload, **_times(follow, updates - 1))
    say("the same from all rows")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (y DOUBLE, x DOUBLE, a VARCHAR, b VARCHAR, c VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    report.add("duckdb", workload, **_times(lambda: _by_groups(connection), 5))
    report.add("numpy", workload, **_times(lambda: _predicted(rows), 2))
    asked = [dict(zip(_NAMES, row[1:], strict=True)) for row in rows]
    report.verified = bool(np.allclose(model.predict(asked), _predicted(rows), atol=1e-8))
    mill.close()
    return report


def _rows(seed: int, size: int, values: int) -> list[Row]:
    random = np.random.default_rng(seed)
    codes = random.integers(0, values, (3, size))
    x = random.normal(size=size)
    y = 2 * x + 0.1 * codes[0] - 0.05 * codes[1] + np.sin(codes[2]) + random.normal(size=size)
    names = [[f"{letter}{i}" for i in own] for letter, own in zip("abc", codes, strict=True)]
    return list(zip(y.tolist(), x.tolist(), *names, strict=True))


def _times(run: Callable[[], object], count: int) -> dict[str, float]:
    """Milliseconds of a call."""
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        run()
        found.append((time.perf_counter() - begun) * 1e3)
    return {"p50_ms": float(np.median(found)), "p99_ms": float(np.quantile(found, 0.99))}


def _by_groups(connection: duckdb.DuckDBPyConnection) -> None:
    """What the view keeps, computed by group-bys; the solution is left out."""
    sums = "count(*), sum(y), sum(x), sum(y * y), sum(y * x), sum(x * x)"
    connection.sql(f"SELECT {sums} FROM t").fetchall()
    for each in "abc":
        connection.sql(f"SELECT {each}, {sums} FROM t GROUP BY {each}").fetchnumpy()
    for a, b in combinations("abc", 2):
        connection.sql(f"SELECT {a}, {b}, count(*) FROM t GROUP BY {a}, {b}").fetchnumpy()


def _predicted(rows: list[Row]) -> Floats:
    """The labels that least squares over one-hot columns predicts."""
    columns = list(zip(*rows, strict=True))
    made = [np.ones(len(rows)), np.array(columns[1])]
    for column in columns[2:]:
        values = np.array(column)
        made += [(values == each).astype(np.float64) for each in sorted(set(column))]
    matrix = np.stack(made, axis=1)
    found = np.linalg.lstsq(matrix, np.array(columns[0]), rcond=None)[0]
    return np.asarray(matrix @ found)
