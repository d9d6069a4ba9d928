"""The process behind `bench.start`: one view, from an imported package to compiled kernels."""

from __future__ import annotations

import datetime
import json
import sys
import time

import viewmill as vm
from viewmill.bench.start import TABLES, VIEWS

_FIRST = datetime.datetime(2026, 1, 1)


def measure(view: str) -> None:
    """Print how long a view takes to answer and to be compiled, as JSON."""
    mill = vm.connect()
    mill.sql(TABLES)
    start = time.perf_counter()
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[view]}")
    worst = insert_rows(mill, 0)
    mill["v"].rows()
    first = time.perf_counter() - start
    i = 0
    while mill["v"].status()["tier"] == "compiling":
        i += 1
        worst = max(worst, insert_rows(mill, i))
        time.sleep(0.05)
    mill.wait_until_compiled()
    compiled = time.perf_counter() - start
    insert_rows(mill, i + 1)
    found = {"first_s": first, "compile_s": compiled, "worst_ms": worst * 1e3}
    json.dump({**found, "is_right": mill["v"].verify() == []}, sys.stdout)


def insert_rows(mill: vm.Mill, i: int) -> float:
    """Insert a row into each table; gives the seconds it took."""
    start = time.perf_counter()
    mill.insert("orders", [(i, f"customer {i % 7}", i % 30)])
    mill.insert("items", [(i, i % 5, i % 11, i / 4)])
    mill.insert("products", [(i % 5, f"kind {i % 3}")])
    mill.insert("clicks", [(_FIRST + datetime.timedelta(seconds=i), f"page {i % 3}", i)])
    return time.perf_counter() - start


if __name__ == "__main__":
    measure(sys.argv[1])
