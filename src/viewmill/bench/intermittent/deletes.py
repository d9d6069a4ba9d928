"""Deltas of 1 % with 0 to 100 % deletes, over the flat queries (figure 9)."""

from __future__ import annotations

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab, everywhere
from viewmill.bench.report import Report, Say

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def deletes(report: Report, lab: Lab, queries: tuple[int, ...], say: Say) -> bool:
    """Average, least and most time of a delta."""
    for name in CHANGING:
        lab.mill.expect(name, rows=round(lab.totals[name] * 0.005), deletes=0.5)
    for query in queries:
        lab.create(f"v{query}", query, AMPLE)
        lab.create(f"b{query}", query, 0)
    equal = True
    for share in SHARES:
        say(f"deletes: {share:.0%}")
        lab.arrive(everywhere(0.005), deletes=share)
        times: dict[str, list[float]] = {"viewmill": [], "rebatch": []}
        for query in queries:
            times["viewmill"].append(lab.refresh(f"v{query}"))
            times["rebatch"].append(lab.refresh(f"b{query}"))
            equal &= lab.same(f"v{query}", f"b{query}")
        for system, found in times.items():
            workload = {"experiment": "deletes", "share": share}
            average = sum(found) / len(found)
            report.add(system, workload, delta_s=average, least_s=min(found), most_s=max(found))
    lab.drop([f"{letter}{query}" for query in queries for letter in "vb"])
    return equal
