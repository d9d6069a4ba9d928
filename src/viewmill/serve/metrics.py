"""A mill's figures for Prometheus, and its health, over HTTP.

takes  GET /metrics or GET /health
gives  the figures of `mill.status()` in Prometheus' text format; 200 or 503 with what is wrong
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from viewmill.errors import InvalidArgument
from viewmill.program.threads import one_of_ours

Status = Callable[[], Mapping[str, Any]]

# Name, whether it only grows, what it says, and how it is found in the status of a view.
_VIEW: tuple[tuple[str, bool, str, Callable[[Mapping[str, Any]], Any]], ...] = (
    ("view_rows", False, "Rows of the view.", lambda s: s["rows"]),
    ("view_version", False, "The version that the view shows.", lambda s: s["version"]),
    ("view_fresh", False, "1 if it has taken all changes.", lambda s: s["freshness"] == "fresh"),
    ("view_lag_seconds", False, "How long changes have waited for it.", lambda s: s["lag_s"]),
    ("view_waiting_rows", False, "Changed rows that wait for it.", lambda s: s["waiting_rows"]),
    ("view_state_bytes", False, "Bytes of its states.", lambda s: s["state_bytes"]),
    ("view_refreshes_total", True, "Refreshes.", lambda s: s["refreshes"]),
    ("view_rows_changed_total", True, "Rows that came or went.", lambda s: s["rows_changed"]),
    ("view_engine_calls_total", True, "Bulk queries for it.", lambda s: s["engine_calls"]),
    ("view_late_rows_total", True, "Rows that came too late.", lambda s: s["late_rows"]),
    ("view_failing", False, "1 if its last refresh failed.", lambda s: s["error"] is not None),
)
_TABLE: tuple[tuple[str, bool, str, Callable[[Mapping[str, Any]], Any]], ...] = (
    ("table_rows", False, "Rows of the table.", lambda s: s["rows"]),
    ("table_bytes", False, "Bytes of its rows.", lambda s: s["bytes"]),
    ("table_refused_total", True, "Rows that were refused.", lambda s: s["refused"]),
)


def metrics_text(status: Mapping[str, Any]) -> str:
    """The figures of a mill in Prometheus' text format."""
    lines = [
        *_family("version", False, "Committed batches.", {"": status["version"]}),
        *_family("state_bytes", False, "Bytes of all states.", {"": status["state_bytes"]}),
        *_family("broken_views", False, "Views that could not be opened.",
                 {"": len(status["broken"])}),
        *_family("healthy", False, "1 if /health says so.", {"": not problems(status)}),
    ]  # fmt: skip
    for label, figures, found in (("view", _VIEW, "views"), ("table", _TABLE, "tables")):
        for name, grows, help_, value in figures:
            values = {
                f'{{{label}="{_escaped(each)}"}}': value(facts)
                for each, facts in status[found].items()
            }
            lines += _family(name, grows, help_, values)
    return "\n".join(lines) + "\n"


def _family(name: str, grows: bool, help_: str, values: Mapping[str, Any]) -> Iterator[str]:
    if not values:
        return
    yield f"# HELP viewmill_{name} {help_}"
    yield f"# TYPE viewmill_{name} {'counter' if grows else 'gauge'}"
    for labels, value in values.items():
        if value is not None:
            yield f"viewmill_{name}{labels} {float(value):.17g}"


def _escaped(name: str) -> str:
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def problems(status: Mapping[str, Any]) -> list[str]:
    """What somebody should look at."""
    found = [f"view {name} is broken: {why}" for name, why in status["broken"].items()]
    found += [
        f"view {name} could not be refreshed: {facts['error']}"
        for name, facts in status["views"].items()
        if facts["error"] is not None
    ]
    return found + ([str(status["trouble"])] if status["trouble"] else [])


class MetricsServer:
    """Answers in threads of its own until it is closed."""

    def __init__(self, status: Status, host: str, port: int) -> None:
        try:
            self._http = _Http((host, port), status)
        except (OSError, OverflowError) as why:
            raise InvalidArgument(f"port {port} of {host} cannot be used", detail=str(why)) from why
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="viewmill-metrics", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with one_of_ours():
            self._http.serve_forever(poll_interval=0.1)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        if not self._is_closed:
            self._is_closed = True
            self._http.shutdown()
            self._http.server_close()
            self._thread.join(5)

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def serve_metrics(status: Status, *, port: int, host: str) -> MetricsServer:
    """Start to answer."""
    return MetricsServer(status, host, port)


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], status: Status) -> None:
        super().__init__(address, _Request)
        self.status = status


class _Request(BaseHTTPRequestHandler):
    timeout = 10  # seconds for a request to come
    server_version, sys_version = "Viewmill", ""

    def do_GET(self) -> None:
        """Answer the two pages that there are."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, "text/plain; version=0.0.4; charset=utf-8", self._metrics)
        elif path == "/health":
            found = problems(cast("_Http", self.server).status())
            body = json.dumps({"status": "trouble" if found else "ok", "problems": found})
            self._answer(503 if found else 200, "application/json", lambda: body)
        else:
            self._answer(404, "text/plain", lambda: "/metrics and /health are here\n")

    def _metrics(self) -> str:
        return metrics_text(cast("_Http", self.server).status())

    def _answer(self, code: int, kind: str, body: Callable[[], str]) -> None:
        found = body().encode("utf-8", "replace")
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(found)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, format: str, *values: Any) -> None:
        """Say nothing: a scrape every few seconds is no news."""
