"""The greedy recycler, a baseline for the dynamic program (section 6.5 of the paper).

takes  a tree of operators, a budget, how often each state was used
gives  a `Selection` that ignores the expected delta

The benefit of a state is the cost of recomputing it, times its uses, divided by its size. States
are offered one after another, the lowest operators first; one that does not fit may evict states
whose benefit is lower on average.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewmill.planner.operators import Holding, Operator
from viewmill.planner.select_states import Mode, Selection, cost_of, delta_cost, full_cost, reasons


def recycle(root: Operator, budget: int, used: Mapping[str, int] | None = None) -> Selection:
    """The states that the recycler keeps."""
    used = used or {}
    held: dict[str, tuple[Holding, float]] = {}
    for op in reversed(list(root.walk())):
        for holding in op.holdings:
            benefit = _benefit(op, holding, used)
            _offer(held, holding, benefit, budget)
    kept = frozenset(held)
    # Kept states are used unless recomputing the view is cheaper even so.
    incremental = delta_cost(root, kept) <= full_cost(root)
    mode: Mode = "incremental" if incremental else "full"
    size = sum(each.bytes for each, _ in held.values())
    cost = cost_of(root, kept)
    return Selection(kept, mode, cost, size, budget, reasons(root, kept, mode, budget))


def _benefit(op: Operator, holding: Holding, used: Mapping[str, int]) -> float:
    again = holding.load_us + full_cost(op.children[holding.side])
    return again * used.get(holding.name, 1) / max(holding.bytes, 1)


def _offer(
    held: dict[str, tuple[Holding, float]], holding: Holding, benefit: float, budget: int
) -> None:
    """Keep a state if it fits, or if the states it evicts have a lower benefit on average."""
    free = budget - sum(each.bytes for each, _ in held.values())
    leaving: list[str] = []
    for name in sorted(held, key=lambda each: held[each][1]):
        if holding.bytes <= free:
            break
        leaving.append(name)
        free += held[name][0].bytes
    if holding.bytes > free:
        return
    if leaving and sum(held[name][1] for name in leaving) / len(leaving) >= benefit:
        return
    for name in leaving:
        del held[name]
    held[holding.name] = (holding, benefit)
