"""Data cleaning: 20 % of five relations are dirty and come cleaned, one relation after another."""

from __future__ import annotations

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab
from viewmill.bench.report import Report, Say

QUERY = 8
RELATIONS = ("supplier", "customer", "part", "orders", "lineitem")
STEPS = 4
FIRST = 0.8


def cleaning(report: Report, scale: float, seed: int, say: Say) -> bool:
    """The first refresh of each relation, when states change, the others, and the memory."""
    lab = Lab(scale, seed, FIRST)
    _expect(lab, RELATIONS[0], STEPS)
    lab.create("v", QUERY, AMPLE)
    lab.create("b", QUERY, 0)
    equal = True
    for i, name in enumerate(RELATIONS):
        say(f"cleaning: {name}")
        _expect(lab, name, STEPS)
        held, times, again = lab.state_bytes("v"), [], []
        for step in range(STEPS):
            lab.arrive({name: (1 - FIRST) / STEPS})
            if step == STEPS - 1 and i + 1 < len(RELATIONS):
                _expect(lab, RELATIONS[i + 1], STEPS)  # the cleaner says what comes next
            else:
                _expect(lab, name, STEPS - step - 1)
            times.append(lab.refresh("v"))
            again.append(lab.refresh("b"))
            equal &= lab.same("v", "b")
        workload = {"experiment": "cleaning", "query": QUERY, "relation": name}
        report.add("viewmill", workload, delta_s=sum(times) / STEPS, most_s=max(times),
                   least_s=min(times), state_bytes=float(held))  # fmt: skip
        report.add("rebatch", workload, delta_s=sum(again) / STEPS)
    return equal


def _expect(lab: Lab, dirty: str, deltas: int) -> None:
    for name in CHANGING:
        if name == dirty and deltas:
            rows = max(1, round(lab.totals[name] * (1 - FIRST) / STEPS))
            lab.mill.expect(name, rows=rows, deltas=deltas)
        else:
            lab.mill.expect(name, complete=True)
