"""Budgets from zero to ample for Q3, Q7, Q8 and Q9, a delta of 1 % everywhere (figure 7)."""

from __future__ import annotations

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab, everywhere
from viewmill.bench.report import Report, Say

SHARES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
SELECTIONS = ("dynamic", "recycler", "rebatch", "everything")
QUERIES = (3, 7, 8, 9)
_DELTA = 0.01


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
            lab.arrive(everywhere(_DELTA / 2))
            for selection, name in names.items():
                workload = {"experiment": "budgets", "query": query, "selection": selection,
                            "budget": budget}  # fmt: skip
                held = lab.state_bytes(name)
                planned = lab.keeping(name).selection.cost_us
                seconds = lab.refresh(name)
                report.add("viewmill", workload, delta_s=seconds, plan_cost=planned,
                           state_bytes=float(held))  # fmt: skip
                equal &= held <= budget
            equal &= all(lab.same(name, names["rebatch"]) for name in names.values())
            lab.drop(names.values())
    return equal


def _all_bytes(lab: Lab) -> int:
    return sum(each.bytes for each in lab.keeping("all").sizes.values())
