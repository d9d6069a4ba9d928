"""What explain says of a view tree: order, tree, what is kept and why, what updates cost."""

from __future__ import annotations

from viewmill.algebra.display import tree
from viewmill.strategies.view_tree.plan import TreePlan
from viewmill.strategies.view_tree.tree import View


def notes(plan: TreePlan) -> tuple[str, ...]:
    """The notes of a candidate, from the general to the particular."""
    said = [f"variable order   {plan.order}", tree("view tree", [_drawn(plan.root, plan)])]
    for path in plan.paths:
        said.append(f"update of {path.leaf}   {path.cost_class}")
    for each in plan.block.occurrences:
        if each.alias not in {path.leaf for path in plan.paths}:
            said.append(f"{each.alias} is STATIC: it never changes")
    return tuple(said)


def _drawn(view: View, plan: TreePlan) -> str:
    keys = f"[{', '.join(view.keys)}]"
    at = f"@{view.variable}" if view.variable else ""
    why = plan.kept.get(view.name)
    kept = f"   kept: {why}" if why else ""
    return tree(f"{view.name}{at}{keys}{kept}", [_drawn(each, plan) for each in view.children])
