"""Techniques of final aggregation: one query at three window sizes, and all ranges 1..n at two.

The partials are a 100 Hz sensor's readings in whole units, so that sums are exact. The answers of
every technique are compared with prefix sums or block maxima, which share no code with any. Last,
10,000 windows of rows over one stream, summed together: by one kernel, and as views of a mill.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.operations import MAX, SUM, Operation
from viewmill.bench.report import Report, Say
from viewmill.bench.window_views import window_views

Array = npt.NDArray[Any]

OPERATIONS = {"sum": SUM, "max": MAX}
WINDOWS = (64, 4096, 2**20)
ALL_RANGES = (64, 1024)
ALL_TECHNIQUES = ("naive", "flatfat", "bint", "flatfit", "slickdeque_inv", "slickdeque_noninv")
REPEATS = 7  # the fastest is reported: the machine has other work too
LATENCIES = 20_000
SHARED = 10_000


def windows(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("windows", seed, plotted="rows_per_cpu_s", across="window", oracle="numpy's")
    kernels = import_module("viewmill.bench.baselines.window_techniques")  # by name: loads Numba
    readings = sensor_readings(seed, 200_000 if quick else 2_000_000)
    verified = []
    for aggregate, operation in OPERATIONS.items():
        for size in WINDOWS[:2] if quick else WINDOWS:
            say(f"{aggregate} over {size:,} partials")
            expected = EXPECTED[aggregate](readings, size)
            for technique in kernels.TECHNIQUES:
                if operation.has(kernels.technique_module(technique).NEEDS):
                    x = readings[: _slides(technique, size, len(readings))]
                    window = kernels.Window(technique, operation, size)
                    verified.append(_one_query(report, window, aggregate, x, expected))
        for size in ALL_RANGES:
            say(f"{aggregate} over all ranges 1..{size:,}")
            for technique in ALL_TECHNIQUES:
                if operation.has(kernels.technique_module(technique).NEEDS):
                    x = readings[: 2_000_000 // size]
                    make = _maker(kernels, technique, operation, size)
                    verified.append(_all_ranges(report, make, aggregate, x))
    say(f"{SHARED:,} windows over one stream")
    verified.append(_shared(report, seed, 20_000 if quick else 200_000))
    views = 300 if quick else SHARED
    say(f"{views:,} window views through the mill")
    verified.append(window_views(report, seed, count=views, rows=20_000 if quick else 200_000))
    report.verified = all(verified)
    return report


def _shared(report: Report, seed: int, count: int) -> bool:
    """So many windows, slides from the divisors of 1000, overlap up to 100."""
    chance = np.random.default_rng(seed)
    divisors = [each for each in range(1, 1001) if 1000 % each == 0]
    slides = chance.choice(divisors, SHARED)
    ranges = slides * chance.integers(1, 100, SHARED, endpoint=True)
    pairs = list(zip(ranges.tolist(), slides.tolist(), strict=True))
    shared = import_module("viewmill.bench.baselines.shared_sums").SharedSums(pairs)
    x = chance.integers(0, 1_000, count)
    shared.feed(x)
    ends = len(x) // slides * slides
    total = np.concatenate([[0], np.cumsum(x)])
    right = np.array_equal(shared.answers(), total[ends] - total[np.maximum(ends - ranges, 0)])
    answers = shared.answered
    seconds = fastest(lambda: shared.feed(x), 3)
    workload = {"technique": "slickdeque_inv", "aggregate": "sum", "views": SHARED}
    report.add(
        "kernel",
        workload,
        rows_per_cpu_s=count / seconds,
        answers_per_cpu_s=answers / seconds,
        state_bytes=shared.nbytes,
    )
    return right


def _one_query(report: Report, window: Any, aggregate: str, x: Array, expected: Array) -> bool:
    out = np.empty_like(x)
    window.slide_into(x, out)
    right = np.array_equal(out, expected[: len(x)])
    seconds = fastest(lambda: window.slide_into(x, out))
    taken = window.time_each(x[:LATENCIES])
    p50, p999 = np.percentile(taken, [50, 99.9])
    workload = {"technique": window.technique, "aggregate": aggregate, "window": window.size}
    report.add(
        "kernel",
        workload,
        rows_per_cpu_s=len(x) / seconds,
        p50_ms=float(p50) / 1e6,
        p999_ms=float(p999) / 1e6,
        worst_ms=float(taken.max()) / 1e6,
        state_bytes=window.nbytes,
    )
    return right


def _all_ranges(report: Report, make: Callable[[], Any], aggregate: str, x: Array) -> bool:
    window = make()
    n = window.size
    window.slide_all(x[: 2 * n])
    answers, seen = window.slide_all(x)
    expected = np.array([EXPECTED[aggregate](x, r)[-1] for r in range(1, n + 1)])
    right = np.array_equal(answers, expected) and bool(np.isfinite(seen))
    seconds = fastest(lambda: window.slide_all(x))
    workload = {
        "technique": window.technique,
        "aggregate": aggregate,
        "window": n,
        "ranges": "all",
    }
    report.add("kernel", workload, rows_per_cpu_s=len(x) / seconds, state_bytes=window.nbytes)
    return right


def _maker(kernels: Any, technique: str, operation: Operation, size: int) -> Callable[[], Any]:
    return lambda: kernels.Window(technique, operation, size, ranges=range(1, size + 1))


def _slides(technique: str, size: int, most: int) -> int:
    """Enough to measure, few enough to wait for: the naive one reads the window at each slide."""
    return max(50, min(most, 40_000_000 // size)) if technique == "naive" else most


def fastest(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """CPU seconds of the fastest run."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time_ns()
        work()
        best = min(best, (time.thread_time_ns() - start) / 1e9)
    return best


def sensor_readings(seed: int, count: int) -> Array:
    """Like a power meter of the DEBS 2012 challenge: 100 readings a second, a slow wave, steps when
    a machine switches, noise; whole milliwatts."""
    chance = np.random.default_rng(seed)
    seconds = np.arange(count) / 100
    wave = 8_000 + 1_500 * np.sin(seconds / 60)
    steps = np.repeat(chance.integers(0, 3_000, count // 500 + 1), 500)[:count]
    return np.floor(wave + steps + chance.normal(0, 200, count))


def _window_sums(x: Array, size: int) -> Array:
    total = np.concatenate([np.zeros(1), np.cumsum(x)])
    first = np.maximum(np.arange(1, len(x) + 1) - size, 0)
    return np.asarray(total[1:] - total[first])


def _window_maxima(x: Array, size: int) -> Array:
    """Van Herk's: the maximum to the end of one block and from the start of the next."""
    blocks = -(-(len(x) + size - 1) // size)
    padded = np.full(blocks * size, -np.inf)
    padded[size - 1 : size - 1 + len(x)] = x
    grid = padded.reshape(blocks, size)
    from_start = np.maximum.accumulate(grid, axis=1).ravel()
    to_end = np.maximum.accumulate(grid[:, ::-1], axis=1)[:, ::-1].ravel()
    i = np.arange(len(x))
    return np.asarray(np.maximum(to_end[i], from_start[i + size - 1]))


EXPECTED: dict[str, Callable[[Array, int], Array]] = {"sum": _window_sums, "max": _window_maxima}
