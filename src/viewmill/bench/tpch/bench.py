"""All 22 queries of TPC-H as views over streams of inserts and deletes, against recompute."""

from __future__ import annotations

from viewmill.bench.maintain import run_queries
from viewmill.bench.report import Report, Say
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
    asked = QUERIES if query is None else {query: QUERIES[query]}
    return run_queries(report, asked, tables, TABLES, say, quick=quick)
