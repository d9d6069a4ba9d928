"""Budgets from zero to ample for Q3, Q7, Q8 and Q9, a delta of 1 % everywhere (figure 7)."""

from __future__ import annotations

from statistics import median

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab, everywhere
from viewmill.bench.report import Report, Say

SHARES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
SELECTIONS = ("dynamic", "recycler", "rebatch", "everything")
QUERIES = (3, 7, 8, 9)
_DELTA, _DELTAS = 0.01, 7


def budgets(report: Report, lab: Lab, queries: tuple[int, ...], say: Say) -> bool:
    """Time of a delta for each budget and each way to select states."""
    for name in CHANGING:
        lab.mill.expect(name, rows=round(lab.totals[name] * _DELTA))
    equal = True
    for query in queries:
        lab.create("all", query, AMPLE)
        largest = max(lab.state_bytes("all"), _all_bytes(lab))
        lab.drop(["all"])
        for share in SHARES:
            budget = int(largest * share * 1.02)
            say(f"budgets: Q{query}, {budget / 1e6:.1f} MB")
            names = {each: f"v_{each}" for each in SELECTIONS}
            for selection, name in names.items():
                lab.create(name, query, budget, selection)
            held = {each: lab.state_bytes(name) for each, name in names.items()}
            planned = {each: lab.budgeted(name).selection.cost_us for each, name in names.items()}
            for selection, seconds in _refreshed(lab, names).items():
                workload = {"experiment": "budgets", "query": query, "selection": selection,
                            "budget": budget}  # fmt: skip
                report.add("viewmill", workload, delta_s=seconds, plan_cost=planned[selection],
                           state_bytes=float(held[selection]))  # fmt: skip
                equal &= held[selection] <= budget
            equal &= all(lab.same(name, names["rebatch"]) for name in names.values())
            lab.drop(names.values())
    return equal


def _refreshed(lab: Lab, names: dict[str, str]) -> dict[str, float]:
    """CPU seconds of the middle one of the deltas; each time another view is the first.

    Who comes first finds the tables' new rows in no cache. In its first deltas a view learns what
    its choices take.
    """
    seconds: dict[str, list[float]] = {each: [] for each in names}
    order = list(names)
    for _ in range(_DELTAS):
        lab.arrive(everywhere(_DELTA / (_DELTAS + 1)))
        for selection in order:
            seconds[selection].append(lab.refresh(names[selection]))
        order = order[1:] + order[:1]
    return {each: median(times) for each, times in seconds.items()}


def _all_bytes(lab: Lab) -> int:
    return sum(each.bytes for each in lab.budgeted("all").sizes.values())
