"""Spans of OpenTelemetry.

takes  a tracer
gives  a span `viewmill.commit` for each commit, with an event `refresh` for each changed view
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace

from viewmill.mill.core import Core
from viewmill.serve.commits import Commit, Taker


def traces(core: Core, tracer: Any) -> Taker:
    """Begin to trace."""
    found = trace.get_tracer("viewmill") if tracer is None else tracer
    return Taker(core, lambda commit: _span(found, commit), "trace")


def _span(tracer: Any, commit: Commit) -> None:
    end = commit.start_ns + int(commit.seconds * 1e9)
    attributes = {
        "viewmill.version": commit.version,
        "viewmill.rows": sum(commit.tables.values()),
        "viewmill.tables": sorted(commit.tables),
    }
    name = "viewmill.commit" if commit.tables or commit.error else "viewmill.refresh"
    span = tracer.start_span(name, start_time=commit.start_ns, attributes=attributes)
    for view, rows in commit.views.items():
        facts = {
            "viewmill.view": view, "viewmill.rows": rows, "viewmill.kind": commit.kinds[view],
        }  # fmt: skip
        span.add_event("refresh", facts, timestamp=end)
    if commit.error:
        span.set_status(trace.Status(trace.StatusCode.ERROR, commit.error))
    span.end(end)
