"""Wrong predictions of size and of completeness, on Q8 (figures 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab
from viewmill.bench.report import Report, Say

QUERY = 8
# The larger a relation, the more likely it is incomplete.
RELATIONS = ("lineitem", "orders", "part", "customer", "supplier")
SIZES = {"small": 0.005, "big": 0.03}


def predictions(report: Report, lab: Lab, say: Say) -> bool:
    """Time of a delta when the prediction is right, and when it is wrong."""
    equal = True
    for actual, share in SIZES.items():
        for predicted, said in SIZES.items():
            say(f"predictions: {predicted} predicted, {actual} comes")
            expected = dict.fromkeys(RELATIONS, said)
            workload: dict[str, object] = {
                "experiment": "size",
                "predicted": predicted,
                "actual": actual,
            }
            equal &= _once(report, lab, workload, expected, dict.fromkeys(RELATIONS, share))
    for count in range(1, len(RELATIONS) + 1):
        some, every = RELATIONS[:count], dict.fromkeys(RELATIONS, 0.005)
        say(f"predictions: completeness, {count} relations")
        workload = {"experiment": "overestimated", "incomplete": count}
        equal &= _once(report, lab, workload, every, dict.fromkeys(some, 0.005))
        workload = {"experiment": "underestimated", "incomplete": count}
        equal &= _once(report, lab, workload, dict.fromkeys(some, 0.005), every)
    return equal


def _once(
    report: Report,
    lab: Lab,
    workload: Mapping[str, object],
    expected: dict[str, float],
    comes: dict[str, float],
) -> bool:
    for name in CHANGING:
        if name in expected:
            lab.mill.expect(name, rows=max(1, round(lab.totals[name] * expected[name])))
        else:
            lab.mill.expect(name, complete=True)
    first = lab.create("v", QUERY, AMPLE)
    lab.create("b", QUERY, 0)
    held = lab.state_bytes("v")
    lab.arrive(comes)
    ours, again = lab.refresh("v"), lab.refresh("b")
    equal = lab.same("v", "b")
    lab.drop("vb")
    report.add("viewmill", {**workload, "query": QUERY}, initial_s=first, delta_s=ours,
               state_bytes=float(held))  # fmt: skip
    report.add("rebatch", {**workload, "query": QUERY}, delta_s=again)
    return equal
