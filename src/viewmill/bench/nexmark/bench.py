"""The queries of Nexmark that SQL can say, as views over its streams, against recompute."""

from __future__ import annotations

from viewmill.bench.maintain import run_queries
from viewmill.bench.nexmark.data import TABLES, NexmarkData
from viewmill.bench.nexmark.queries import NOT_SQL, QUERIES
from viewmill.bench.report import Report, Say
from viewmill.errors import InvalidArgument

EVENTS, FEW_EVENTS = 200_000, 20_000


def nexmark(
    *, seed: int, quick: bool, say: Say, scale: float | None = None, query: int | None = None
) -> Report:
    """Run one query or all; `scale` multiplies the number of events."""
    if query is not None and query not in QUERIES:
        hint = NOT_SQL.get(query, "They are numbered 0 to 22.")
        raise InvalidArgument(f"Nexmark has no query {query} in SQL", hint=hint)
    events = int((FEW_EVENTS if quick else EVENTS) * (scale or 1))
    say(f"making {events:,} events")
    tables = NexmarkData(events, seed).tables()
    report = Report("nexmark", seed, plotted="rows_per_cpu_s", across="query")
    asked = QUERIES if query is None else {query: QUERIES[query]}
    return run_queries(report, asked, tables, TABLES, say, quick=quick)
