"""What a pipeline has done, in numbers: for `status`, and as Prometheus text.

takes  one `note` per batch
gives  counters, and the times of the last batches
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

_KEPT = 1000
_SHOWN = 100


class Progress:
    """Counters of one pipeline since it was made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: Counter[str] = Counter()
        self.letters = 0
        self.batches = 0
        self.recoveries = 0
        self.last_batch = -1
        self.last_at: float | None = None  # by the monotonic clock
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self._latest: deque[dict[str, Any]] = deque(maxlen=_SHOWN)

    def note(self, batch: int, rows: Mapping[str, int], letters: int, seconds: float) -> None:
        """A batch was taken."""
        with self._lock:
            self.batches += 1
            self.rows.update(rows)
            self.letters += letters
            self.last_batch, self.last_at = batch, time.monotonic()
            self._seconds.append(seconds)
            told = {"batch": batch, "at": time.time(), "ms": seconds * 1000, "letters": letters}
            self._latest.append({**told, "rows": sum(rows.values())})

    def latest(self) -> list[dict[str, Any]]:
        """The last batches: number, when, rows in, rows refused, milliseconds."""
        with self._lock:
            return [*self._latest]

    def summary(self) -> dict[str, Any]:
        """Everything as plain values; times are of the last thousand batches."""
        with self._lock:
            seconds = sorted(self._seconds)
            return {
                "batch": self.last_batch,
                "batches": self.batches,
                "rows_in": dict(self.rows),
                "dead_letters": self.letters,
                "recoveries": self.recoveries,
                "batch_p50_ms": _quantile(seconds, 0.5) * 1000,
                "batch_p99_ms": _quantile(seconds, 0.99) * 1000,
                "idle_s": None if self.last_at is None else time.monotonic() - self.last_at,
            }


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


# Prometheus.

_VIEW_METRICS = {
    "rows": ("gauge", "Rows of the view."),
    "rows_changed": ("counter", "Rows of the view that came or went."),
    "refreshes": ("counter", "Refreshes since the view was created or opened."),
    "engine_calls": ("counter", "Bulk queries run for the view."),
    "state_bytes": ("gauge", "Bytes that its states hold."),
    "lag_s": ("gauge", "Seconds since the oldest change that the view does not show yet."),
    "version": ("gauge", "The version that the view shows."),
}


def prometheus_text(status: Mapping[str, Any]) -> str:
    """The status of a pipeline in Prometheus' text format."""
    return "\n".join(_lines(status)) + "\n"


def _lines(status: Mapping[str, Any]) -> Iterator[str]:
    yield from _metric("batches_total", "counter", "Batches taken.", {"": status["batches"]})
    yield from _metric(
        "dead_letters_total", "counter", "Rows refused.", {"": status["dead_letters"]}
    )
    yield from _metric(
        "recoveries_total", "counter", "Starts from storage.", {"": status["recoveries"]}
    )
    quantiles = {
        '{quantile="0.5"}': status["batch_p50_ms"] / 1000,
        '{quantile="0.99"}': status["batch_p99_ms"] / 1000,
    }
    yield from _metric("batch_seconds", "summary", "Time to take a batch.", quantiles)
    rows = {_label("source", name): count for name, count in status["rows_in"].items()}
    yield from _metric("rows_in_total", "counter", "Rows taken from a source.", rows)
    for key, (kind, text) in _VIEW_METRICS.items():
        found = {_label("view", n): view[key] for n, view in status["views"].items() if key in view}
        name = f"view_{key.removesuffix('_s')}" + ("_seconds" if key.endswith("_s") else "")
        yield from _metric(name + ("_total" if kind == "counter" else ""), kind, text, found)


def _metric(name: str, kind: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    if not values:
        return
    yield f"# HELP viewmill_{name} {text}"
    yield f"# TYPE viewmill_{name} {kind}"
    for labels, value in values.items():
        yield f"viewmill_{name}{labels} {_number(value)}"


def _number(value: float) -> str:
    """All digits of a number, as Prometheus reads it."""
    if isinstance(value, int) or math.isnan(value):
        return str(value)
    return repr(value) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{name}="{escaped}"}}'
