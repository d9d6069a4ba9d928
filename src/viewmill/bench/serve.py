"""A mill that is served: reads of one row by clients of Postgres, bulk reads by Arrow Flight, and
what 64 readers cost a writer.

The clients run in processes of their own. Reads are counted per second of the server's CPU, too:
that is what one core gives. Every answer is compared with what was written; the rows that come by
Flight with their sum.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

import viewmill as vm
from viewmill.bench.report import Report, Say

READERS = 64
_PAUSE_S = 0.1  # between two reads of one of the readers
_BATCH = 1_000


def serve(*, seed: int = 1, quick: bool = False, say: Say = lambda text: None) -> Report:
    """Measure a served mill."""
    report = Report("serve", seed, verified=True, plotted="rows_per_s", across="rows")
    report.oracle = "what was written"
    keys, seconds = (1_000, 1.0) if quick else (10_000, 5.0)
    with vm.connect() as mill:
        _define(mill, keys)
        with mill.serve(port=0) as server:
            for connections in (1, 8):
                say(f"point reads, {connections} connections")
                _measure_points(report, server.port, connections, seconds, keys)
            say(f"refreshes with {READERS} readers and without")
            _measure_writer(report, mill, server.port, 20 if quick else 200, keys, seed)
        say("bulk reads by Arrow Flight")
        _measure_flight(report, mill, 100_000 if quick else 1_000_000)
    return report


def _define(mill: vm.Mill, keys: int) -> None:
    mill.sql("CREATE TABLE accounts (id BIGINT, owner STRING, amount BIGINT, PRIMARY KEY (id))")
    mill.sql(
        "CREATE MATERIALIZED VIEW balances AS "
        "SELECT owner, sum(amount) AS total FROM accounts GROUP BY owner"
    )
    mill.insert("accounts", [(i, f"o{i}", 100) for i in range(keys)])
    mill.sql("CREATE TABLE trades (k BIGINT, n BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW volumes AS SELECT k, sum(n) AS n FROM trades GROUP BY k")
    mill.wait_until_compiled()


@contextmanager
def _clients(
    port: int, connections: int, seconds: float, pause: float, keys: int
) -> Iterator[subprocess.Popen[str]]:
    """Clients that are connected and begin to read now."""
    given = [str(each) for each in (port, seconds, connections, pause, keys)]
    command = [sys.executable, "-m", "viewmill.bench.serve_client", *given]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        yield process


def _answers(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def _measure_points(report: Report, port: int, connections: int, seconds: float, keys: int) -> None:
    with _clients(port, connections, seconds, 0.0, keys) as process:
        start, cpu = time.perf_counter(), time.process_time()
        found = _answers(process)
        wall, used = time.perf_counter() - start, time.process_time() - cpu
    report.verified = report.verified and not found["wrong"]
    report.add(
        "point reads", {"connections": connections},
        answers_per_s=found["reads"] / wall, answers_per_cpu_s=found["reads"] / used,
        p50_ms=found["p50_ms"], p99_ms=found["p99_ms"],
    )  # fmt: skip


def _measure_writer(
    report: Report, mill: vm.Mill, port: int, batches: int, keys: int, seed: int
) -> None:
    """Refreshes of a view by a writer, in turns with readers and without."""
    draw = np.random.default_rng(seed)
    batch = {"k": draw.integers(0, 1_000, _BATCH), "n": draw.integers(0, 100, _BATCH)}
    table = pa.table(batch)
    _refresh(mill, table, 5)
    alone, read = [], []
    for _ in range(3):
        alone += _refresh(mill, table, batches)
        with _clients(port, READERS, batches * 0.01 + 1.0, _PAUSE_S, keys) as process:
            time.sleep(0.3)
            read += _refresh(mill, table, batches)
            report.verified = report.verified and not _answers(process)["wrong"]
    total = (5 + 6 * batches) * int(pc.sum(table["n"]).as_py())
    report.verified = report.verified and sum(r[1] for r in mill["volumes"].rows()) == total
    for readers, found in ((0, alone), (READERS, read)):
        report.add(
            "refresh", {"readers": readers, "batch": _BATCH},
            p50_ms=statistics.median(found) * 1e3,
            p99_ms=sorted(found)[int(len(found) * 0.99)] * 1e3,
        )  # fmt: skip


def _refresh(mill: vm.Mill, table: pa.Table, batches: int) -> list[float]:
    """Seconds of each insert with its refresh, one every 10 ms at most."""
    found = []
    for _ in range(batches):
        start = time.perf_counter()
        mill.insert("trades", table)
        found.append(time.perf_counter() - start)
        time.sleep(max(0.0, 0.01 - found[-1]))
    return found


def _measure_flight(report: Report, mill: vm.Mill, rows: int) -> None:
    mill.sql("CREATE TABLE big (id BIGINT, name STRING, x DOUBLE)")
    ids = np.arange(rows)
    names = pa.array([f"name {i}" for i in range(1_000)]).take(pa.array(ids % 1_000))
    mill.insert("big", pa.table({"id": ids, "name": names, "x": ids * 0.5}))
    with mill.serve_flight(port=0) as server:
        client = flight.connect(f"grpc://127.0.0.1:{server.port}")
        taken = []
        for _ in range(4):
            start = time.perf_counter()
            found = client.do_get(flight.Ticket(b"big")).read_all()
            taken.append(time.perf_counter() - start)
            right = found.num_rows == rows and pc.sum(found["id"]).as_py() == int(ids.sum())
            report.verified = report.verified and right
        client.close()
    report.add(
        "Flight", {"rows": rows}, rows_per_s=rows / statistics.median(taken),
    )  # fmt: skip
