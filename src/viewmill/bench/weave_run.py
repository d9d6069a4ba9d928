"""Run plans for many windows, and compare how fast they are with how fast they should be.

takes  windows, the plans that an optimizer made of them for each technique
gives  rows per second as estimated (1 / cost) and as measured, and how far they are apart

Each tree sums its rows into partials and gives every partial to the technique, which answers all of
the tree's ranges; the naive technique folds each window at the window's own slides, as formula (3)
charges it. Trees run one after another, so a plan's time per row is the sum of theirs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from viewmill.algebra.operations import MAX, SUM
from viewmill.bench.baselines.weave import Weave
from viewmill.bench.windows import fastest, sensor_readings
from viewmill.strategies.shared_window.weave import Tree

Array = npt.NDArray[Any]

OPERATIONS = {"slickdeque_noninv": MAX}  # the others sum
SLIDES = 100_000


def measured_rows_per_s(plan: Weave, technique: str, seed: int) -> float:
    """How many rows a second the plan takes in."""
    readings = sensor_readings(seed, SLIDES)
    seconds = sum(_seconds_per_row(tree, technique, readings) for tree in plan.trees)
    return 1 / seconds


def deviation(estimated: Array, measured: Array) -> float:
    """How far apart on average, the largest of both made equal: the part of the larger one."""
    a, b = estimated / estimated.max(), measured / measured.max()
    return float(np.mean(np.abs(a - b) / np.maximum(a, b)))


def _seconds_per_row(tree: Tree, technique: str, readings: Array) -> float:
    rate = float(tree.rate)
    partial = _summing(readings)  # each row is added once in each tree
    if technique == "naive":
        return partial + _folding(tree, readings)
    kernels = import_module("viewmill.bench.baselines.window_techniques")
    ranges = np.unique(tree.windows.partials(tree.rate)).tolist()
    operation = OPERATIONS.get(technique, SUM)
    window = kernels.Window(technique, operation, ranges[-1], ranges=ranges)
    slides = max(200, min(len(readings), 20_000_000 // len(ranges) // 20))
    x = readings[:slides]
    window.slide_all(x[:10])
    return partial + rate * fastest(lambda: window.slide_all(x), 2) / slides


def _summing(readings: Array) -> float:
    """Seconds to add a row to its partial."""
    kernels = import_module("viewmill.bench.baselines.window_techniques")
    window, out = kernels.Window("panes_inv", SUM, 2), np.empty_like(readings)
    window.slide_into(readings, out)
    return fastest(lambda: window.slide_into(readings, out), 3) / len(readings)


def _folding(tree: Tree, readings: Array) -> float:
    """Seconds per row that folding every window at its own slides takes."""
    kernels = import_module("viewmill.bench.baselines.window_techniques")
    longest = int(tree.windows.partials(tree.rate).max())
    window, x = kernels.Window("naive", SUM, longest), readings[:3]
    window.slide(x)
    per_partial = fastest(lambda: window.slide(x), 2) / len(x) / longest
    folded = tree.windows.partials(tree.rate) / tree.windows.slides
    return per_partial * float(folded.sum())
