"""How long a first view takes: with an empty kernel cache, and in the next process.

Each view is created over empty tables in a process of its own, gets its first rows, and is waited
for until its kernels are compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from viewmill.bench.report import Report, Say
from viewmill.errors import ViewmillError

TABLES = """
CREATE TABLE orders (id BIGINT, customer STRING, day INT, PRIMARY KEY (id));
CREATE TABLE items (id BIGINT, product INT, amount BIGINT, price DOUBLE);
CREATE TABLE products (product INT, kind STRING);
CREATE TABLE clicks (t TIMESTAMP, page STRING, n BIGINT) APPEND ONLY TIMESTAMP BY t
"""
VIEWS = {
    "filter": "SELECT id, amount FROM items WHERE amount > 3",
    "group": "SELECT product, SUM(amount) AS a, AVG(price) AS p FROM items GROUP BY product",
    "extremes": "SELECT product, MAX(price) AS high, MIN(price) AS low FROM items GROUP BY product",
    "join": "SELECT o.customer, p.kind, SUM(i.amount) AS a FROM orders o"
    " JOIN items i ON o.id = i.id JOIN products p ON i.product = p.product"
    " GROUP BY o.customer, p.kind",
    "outer join": "SELECT o.customer, COUNT(i.id) AS n FROM orders o LEFT JOIN items i"
    " ON o.id = i.id GROUP BY o.customer",
    "nested": "SELECT SUM(amount) AS a FROM items WHERE (SELECT SUM(j.amount) FROM items j"
    " WHERE j.amount <= items.amount) > (SELECT 0.5 * SUM(k.amount) FROM items k)",
    "ranked": "SELECT * FROM (SELECT id, product, amount, row_number() OVER"
    " (PARTITION BY product ORDER BY amount DESC, id) AS place FROM items) WHERE place <= 3",
    "window": "SELECT page, SUM(n) AS n FROM clicks [WINDOW 10 MINUTES SLIDE 1 MINUTE]"
    " GROUP BY page",
}


def start(*, seed: int, quick: bool, say: Say) -> Report:
    """Measure every kind of view with an empty cache, then with the one it left."""
    report = Report("start", seed, verified=True, plotted="first_s", across="view")
    for view in list(VIEWS)[:2] if quick else VIEWS:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("empty", "filled"):
                say(f"{view}, {state} cache")
                found = _measured(view, cache)
                report.verified = report.verified and found.pop("is_right")
                report.add("viewmill", {"view": view, "cache": state}, **found)
    return report


def _measured(view: str, cache: str) -> dict[str, Any]:
    """What a new process measures of a view."""
    environment = {**os.environ, "VIEWMILL_CACHE": cache, "VIEWMILL_COMPILER": "background"}
    command = [sys.executable, "-m", "viewmill.bench.start_process", view]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ViewmillError(f"the process that starts the view {view} failed", detail=done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
