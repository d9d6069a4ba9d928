"""All 22 queries of TPC-H as views over streams of inserts and deletes, against recompute."""

from __future__ import annotations

from viewmill.bench.maintain import Workload, kernel_cache, run_workload, summarize
from viewmill.bench.report import Report, Say
from viewmill.bench.stream import tables_of
from viewmill.bench.tpch.data import TpchData
from viewmill.bench.tpch.queries import QUERIES, TABLES
from viewmill.errors import InvalidArgument


def tpch(
    *, seed: int, quick: bool, say: Say, scale: float | None = None, query: int | None = None
) -> Report:
    """Run one query or all."""
    if query is not None and query not in QUERIES:
        raise InvalidArgument(f"TPC-H has no query {query}", hint="They are numbered 1 to 22.")
    scale = scale or (0.01 if quick else 0.1)
    say(f"making the tables at scale {scale}")
    tables = TpchData(scale, seed).tables()
    report = Report("tpch", seed, plotted="rows_per_cpu_s", across="query")
    right = []
    with kernel_cache(fresh=not quick):
        for number in QUERIES if query is None else (query,):
            read = {name: tables[name] for name in tables_of(QUERIES[number], TABLES)}
            workload = Workload(number, QUERIES[number], read, TABLES)
            right.append(run_workload(report, workload, say))
    summarize(report)
    report.verified = all(right)
    return report
