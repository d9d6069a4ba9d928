"""Plans for many sliding windows over one stream: the paper's experiments 1 to 7, and how long
planning takes by F1 and by Bit Set.

Queries are drawn as in the paper's section 5.1: slides from the factors of a number, by Zipf, and
an overlap uniform up to a limit; the range is slide times overlap. `plan_cost` is our corrected
cost, `printed_cost` that of the formulas as printed. Verified means that F1 and Bit Set gave equal
plans.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from viewmill.bench.baselines.weave import (
    OPTIMIZERS,
    Weave,
    composite_slide,
    count_edges,
    weave_share,
)
from viewmill.bench.baselines.weave_costs import CORRECTED, PRINTED
from viewmill.bench.report import Report, Say
from viewmill.bench.weave_run import deviation, measured_rows_per_s
from viewmill.strategies.shared_window.cost import Windows
from viewmill.strategies.shared_window.queries import Progression

SEEDS = 10


@dataclass(frozen=True)
class Draw:
    """Table 4's parameters."""

    queries: int = 100
    slide: int = 1_000
    overlap: int = 10_000
    rows: float = 1.0
    skew: float = 0.0

    def windows(self, seed: int) -> Windows:
        """Random windows."""
        chance = np.random.default_rng(seed)
        factors = np.array([d for d in range(1, self.slide + 1) if self.slide % d == 0])
        # A greater skew prefers large slides, a smaller one small slides.
        weights = np.arange(1, len(factors) + 1, dtype=float) ** self.skew
        slides = chance.choice(factors, self.queries, p=weights / weights.sum())
        overlaps = chance.integers(1, self.overlap, self.queries, endpoint=True)
        return Windows.of(slides * overlaps, slides)


BASE = Draw()
EXPERIMENTS: dict[int, tuple[Draw, ...]] = {
    1: tuple(replace(BASE, queries=n) for n in (1, 10, 100, 1_000, 10_000)),
    2: tuple(replace(BASE, slide=n) for n in (10, 100, 1_000, 10_000, 100_000)),
    3: tuple(replace(BASE, overlap=n) for n in (100, 1_000, 10_000, 100_000, 1_000_000)),
    4: tuple(replace(BASE, rows=n) for n in (0.01, 0.1, 1.0, 10.0, 100.0)),
    5: tuple(replace(BASE, skew=n) for n in (-1.0, -0.5, 0.0, 0.5, 1.0)),
}
RUNS = {6: "weaveshare", 7: "triweave"}
PLANNED = (100, 550, 10_000, 1_000_000)
BIT_SET_MOST = 10_000


def weave(*, seed: int, quick: bool, say: Say) -> Report:
    """Run the whole workload."""
    report = Report("weave", seed, plotted="plan_cost", across="queries", oracle="Bit Set's")
    seeds = range(seed, seed + (2 if quick else SEEDS))
    for number, draws in EXPERIMENTS.items():
        say(f"experiment {number}")
        for draw in draws if not quick else draws[1:4]:
            _experiment(report, number, draw, seeds)
    say("times cheaper than Panes, experiment 3")
    _speedups(report)
    for number, name in RUNS.items():
        say(f"experiment {number}: {name}, estimated and measured")
        _run(report, number, name, seed, quick=quick)
    report.verified = _planning(report, seed, PLANNED[:3] if quick else PLANNED, say)
    return report


def _experiment(report: Report, number: int, draw: Draw, seeds: Iterable[int]) -> None:
    drawn = [draw.windows(seed) for seed in seeds]
    for name, optimize in OPTIMIZERS.items():
        for technique in CORRECTED:
            printed = [optimize(w, omega=PRINTED[technique], rows=draw.rows) for w in drawn]
            right = [optimize(w, omega=CORRECTED[technique], rows=draw.rows) for w in drawn]
            workload = {
                "optimizer": name,
                "experiment": number,
                "technique": technique,
                "queries": draw.queries,
                "max_slide": draw.slide,
                "max_overlap": draw.overlap,
                "input_rate": draw.rows,
                "skew": draw.skew,
            }
            report.add(
                "viewmill",
                workload,
                plan_cost=_mean(each.cost for each in right),
                trees=_mean(len(each.trees) for each in right),
                printed_cost=_mean(each.cost for each in printed),
                printed_trees=_mean(len(each.trees) for each in printed),
            )


def _run(report: Report, number: int, name: str, seed: int, *, quick: bool) -> None:
    """Experiments 6 and 7, with a tenth of the paper's ranges: all techniques fit in memory."""
    draw = replace(BASE, overlap=100 if quick else 1_000)
    windows = draw.windows(seed)
    estimated, measured = [], []
    for technique, omega in PRINTED.items():
        plan = OPTIMIZERS[name](windows, omega=omega, rows=draw.rows)
        estimated.append(1 / plan.cost)
        measured.append(measured_rows_per_s(plan, technique, seed))
        workload = {"optimizer": name, "experiment": number, "technique": technique}
        report.add(
            "kernel",
            {**workload, "queries": draw.queries},
            estimated_throughput=estimated[-1],
            rows_per_cpu_s=measured[-1],
        )
    apart = deviation(np.array(estimated), np.array(measured))
    report.add("kernel", {"optimizer": name, "experiment": number}, deviation=apart)


def _speedups(report: Report) -> None:
    """How many times cheaper the plans of experiment 3 are than those for Panes."""
    last = EXPERIMENTS[3][-1].overlap
    for name in OPTIMIZERS:
        for technique in ("slickdeque_inv", "slickdeque_noninv"):
            found = {"optimizer": name, "experiment": 3, "max_overlap": last}
            try:
                costs = {
                    metric: report.value("viewmill", metric, technique="naive", **found)
                    / report.value("viewmill", metric, technique=technique, **found)
                    for metric in ("plan_cost", "printed_cost")
                }
            except KeyError:
                continue  # a quick run leaves it out
            report.add(
                "viewmill",
                {**found, "technique": technique},
                speedup=costs["plan_cost"],
                printed_speedup=costs["printed_cost"],
            )


def _planning(report: Report, seed: int, sizes: Iterable[int], say: Say) -> bool:
    equal = []
    for queries in sizes:
        say(f"planning {queries:,} queries")
        windows = replace(BASE, queries=queries).windows(seed)
        by_f1 = _planned(report, "f1", windows, queries)
        if queries <= BIT_SET_MOST:
            by_bits = _planned(report, "bit_set", windows, queries)
            equal.append(by_f1.cost == by_bits.cost and len(by_f1.trees) == len(by_bits.trees))
    return all(equal)


def _planned(report: Report, counting: str, windows: Windows, queries: int) -> Weave:
    omega = CORRECTED["slickdeque_inv"]
    start = time.thread_time_ns()
    if counting == "f1":
        found = weave_share(windows, omega=omega)
    else:
        found = weave_share(windows, omega=omega, rate=_by_bit_set)
    seconds = (time.thread_time_ns() - start) / 1e9
    workload = {"queries": queries, "edges": counting, "technique": "slickdeque_inv"}
    report.add("viewmill", workload, planning_s=seconds, trees=len(found.trees))
    return found


def _by_bit_set(progressions: frozenset[Progression]) -> Fraction:
    return Fraction(count_edges(progressions), composite_slide(progressions))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
