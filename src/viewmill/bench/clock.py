"""Time a piece of work: CPU of this thread, and the wall."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """The timings of a number of calls."""

    calls: int
    rows: int
    cpu_s: float
    wall_s: float
    p50_ms: float
    p99_ms: float

    def metrics(self) -> dict[str, float]:
        """As the figures of a report."""
        return {
            "rows_per_cpu_s": self.rows / self.cpu_s,
            "rows_per_s": self.rows / self.wall_s,
            "us_per_update": self.cpu_s / self.calls * 1e6,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
        }


def time_calls(work: Callable[[T], object], batches: Iterable[T], rows: int) -> Timing:
    """Call `work` on each batch; `rows` is how many all of them hold."""
    latencies = []
    # What was left over before is not charged to this: neither what Python collects, nor what the C
    # library puts together of all that was freed when it is next asked for more than a little.
    gc.collect()
    bytearray(1 << 16)
    clock = time.perf_counter_ns
    cpu, wall = time.thread_time_ns(), clock()
    for batch in batches:
        start = clock()
        work(batch)
        latencies.append(clock() - start)
    cpu_s, wall_s = (time.thread_time_ns() - cpu) / 1e9, (clock() - wall) / 1e9
    p50, p99 = np.percentile(latencies, [50, 99]) / 1e6
    return Timing(len(latencies), rows, cpu_s, wall_s, float(p50), float(p99))
