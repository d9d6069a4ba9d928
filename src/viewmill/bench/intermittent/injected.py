"""What added states are worth: none but the result, one per relation, all (figure 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab, everywhere
from viewmill.bench.report import Report, Say
from viewmill.planner.allot import SELECTORS, Claim
from viewmill.planner.operators import Operator
from viewmill.planner.select_states import Selection, select_states

QUERIES = (3, 7, 8, 9)


def injected(report: Report, lab: Lab, queries: tuple[int, ...], say: Say) -> bool:
    """Initial time, time of a delta and memory, for plans that may keep less or more."""
    ways: dict[str, Callable[[Claim, int], Selection]] = {
        "pipelined": _only("aggregate"),
        "materialized": _only("aggregate", "single"),
        "hashed": _only("aggregate", "single", "join"),
    }
    for name in CHANGING:
        lab.mill.expect(name, rows=round(lab.totals[name] * 0.005))
    SELECTORS.update(ways)  # type: ignore[arg-type]
    equal = True
    try:
        for query in queries:
            say(f"injected operators: Q{query}")
            first = {way: lab.create(f"v_{way}", query, AMPLE, way) for way in ways}
            lab.create("b", query, 0)
            lab.arrive(everywhere(0.005))
            lab.refresh("b")
            for way in ways:
                workload = {"experiment": "operators", "query": query, "allowed": way}
                held = lab.state_bytes(f"v_{way}")
                seconds = lab.refresh(f"v_{way}")
                report.add("viewmill", workload, initial_s=first[way], delta_s=seconds,
                           state_bytes=float(held))  # fmt: skip
                equal &= lab.same(f"v_{way}", "b")
            lab.drop(["b", *(f"v_{way}" for way in ways)])
    finally:
        for way in ways:
            del SELECTORS[way]  # type: ignore[arg-type]
    return equal


def _only(*kinds: str) -> Callable[[Claim, int], Selection]:
    """A selection among some states only."""

    def choose(claim: Claim, budget: int) -> Selection:
        return select_states(_restricted(claim.root, kinds), budget)

    return choose


def _restricted(op: Operator, kinds: tuple[str, ...]) -> Operator:
    """The tree in which other states are too large for any budget."""
    holdings = tuple(
        each
        if op.kind in kinds or ("single" in kinds and op.children[each.side].kind == "scan")
        else replace(each, bytes=AMPLE * 2)
        for each in op.holdings
    )
    children = tuple(_restricted(each, kinds) for each in op.children)
    return replace(op, children=children, holdings=holdings)
