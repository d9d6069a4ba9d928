"""Thousands of window views over one stream, through the mill.

Slides are from the divisors of 1000, overlap up to 100, sum. All answers are compared with prefix
sums. In a last run some of the views are followed: what listing the changes of every slide costs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import viewmill as vm
from viewmill.bench.report import Report

Array = npt.NDArray[Any]
BATCHES = (1_000, 10_000)
FOLLOWED = 100


def window_views(report: Report, seed: int, *, count: int, rows: int) -> bool:
    """Create the views, feed the stream, read every view."""
    chance = np.random.default_rng(seed)
    divisors = [each for each in range(1, 1001) if 1000 % each == 0]
    slides = chance.choice(divisors, count)
    ranges = slides * chance.integers(1, 100, count, endpoint=True)
    right = True
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (x BIGINT) APPEND ONLY")
        start = time.thread_time()
        for i, (size, slide) in enumerate(zip(ranges.tolist(), slides.tolist(), strict=True)):
            window = f"[WINDOW {size} ROWS SLIDE {slide} ROWS]"
            mill.sql(f"CREATE MATERIALIZED VIEW v{i} AS SELECT sum(x) AS t FROM s {window}")
        created = time.thread_time() - start
        start = time.thread_time()
        fed = [_insert(mill, chance, 1000)]
        planned = time.thread_time() - start
        for batch in BATCHES:
            _feed(report, mill, chance, fed, (count, 0), batch, rows)
        for i in range(min(FOLLOWED, count)):
            mill[f"v{i}"].subscribe(lambda change: None)
        _feed(report, mill, chance, fed, (count, min(FOLLOWED, count)), BATCHES[-1], rows)
        right = _is_right(mill, np.concatenate(fed), ranges, slides)
        held = count * mill["v0"].status()["state_bytes"]  # a view's share of what all hold
    workload = {"aggregate": "sum", "views": count}
    report.add("viewmill", workload, initial_s=created, planning_s=planned, state_bytes=held)
    return right


def _feed(
    report: Report,
    mill: Any,
    chance: Any,
    fed: list[Array],
    views: tuple[int, int],
    batch: int,
    rows: int,
) -> None:
    seconds = []
    for _ in range(max(2, rows // batch)):
        start = time.thread_time()
        fed.append(_insert(mill, chance, batch))
        seconds.append(time.thread_time() - start)
    workload = {"aggregate": "sum", "views": views[0], "followed": views[1], "batch": batch}
    # The middle one: a batch in which memory doubles is not what a batch costs.
    report.add("viewmill", workload, rows_per_cpu_s=batch / float(np.median(seconds)))


def _insert(mill: Any, chance: Any, count: int) -> Array:
    x: Array = chance.integers(0, 1_000, count)
    mill.insert("s", pa.table({"x": x}))
    return x


def _is_right(mill: Any, x: Array, ranges: Array, slides: Array) -> bool:
    ends = len(x) // slides * slides
    total = np.concatenate([[0], np.cumsum(x)])
    expected = total[ends] - total[np.maximum(ends - ranges, 0)]
    found = [mill[f"v{i}"].rows()[0][0] for i in range(len(ranges))]
    return bool(np.array_equal(np.array(found), expected))
