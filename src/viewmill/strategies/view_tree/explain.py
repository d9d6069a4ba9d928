"""What explain says of a view tree: order, tree, what is kept and why, what updates cost."""

from __future__ import annotations

from viewmill.algebra.display import tree
from viewmill.algebra.walk import columns_of
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path
from viewmill.strategies.view_tree.materialize import materialize
from viewmill.strategies.view_tree.plan import TreePlan
from viewmill.strategies.view_tree.products import batch_keys
from viewmill.strategies.view_tree.tree import View
from viewmill.strategies.view_tree.variable_order import Order


def notes(plan: TreePlan, hint: str = "") -> tuple[str, ...]:
    """The notes of a candidate, from the general to the particular."""
    order = f"{hint}   as its hint says" if hint else full_order(plan.block, plan.order)
    said = [f"variable order   {order}", tree("view tree", [_drawn(plan.root, plan)])]
    for path in plan.paths:
        said.append(f"update of {path.leaf}   {_cost(path, plan)}")
    summed = [(path.leaf, batch_keys(plan, path)) for path in plan.paths]
    said += [
        f"batches of {leaf} are summed by {', '.join(keys)} first if keys repeat"
        for leaf, keys in summed
        if keys
    ]
    static = {each.alias for each in plan.block.occurrences} - {path.leaf for path in plan.paths}
    said += [f"{alias} is STATIC: it never changes" for alias in sorted(static)]
    spared = _spared(plan) if static else []
    if spared:
        said.append(f"not kept, as only changes of {', '.join(sorted(static))} would need them: "
                    + ", ".join(spared))  # fmt: skip
    return tuple(said)


def _spared(plan: TreePlan) -> list[str]:
    """The views that would be kept if every table could change."""
    every = materialize(plan.root, frozenset(each.alias for each in plan.block.occurrences))
    return [name for name in every if name not in plan.kept]


def _drawn(view: View, plan: TreePlan) -> str:
    keys = f"[{', '.join(view.keys)}]"
    at = f"@{','.join(view.variables)}" if view.variables else ""
    why = plan.kept.get(view.name)
    kept = f"   kept: {why}" if why else ""
    below = [_drawn(each, plan) for each in view.children]
    below += [_indicated(each, plan) for each in view.indicators]
    return tree(f"{view.name}{at}{keys}{kept}", below)


def _indicated(indicator: View, plan: TreePlan) -> str:
    """An indicator, as the paper writes it."""
    keys = ", ".join(indicator.keys)
    table = plan.places.same.get(indicator.name)
    source = f"read from {table.name}" if table else f"kept: {plan.kept[indicator.name]}"
    return f"∃ {indicator.indicates}[{keys}]   indicator, {source}"


def _cost(path: Path, plan: TreePlan) -> str:
    """The time of an update of one row; more if an indicator changes with it."""
    dearest = max(
        (each.path for each in plan.reactions.get(path.leaf, ())),
        key=lambda each: each.loops,
        default=path,
    )
    if dearest.loops <= path.loops:
        return path.cost_class
    return f"{path.cost_class}, {dearest.cost_class} when it brings a new key or takes the last one"


def full_order(block: Block, order: Order) -> str:
    """The order with the columns that are summed away with their table, as the paper draws it.

    SUM(R.B * T.D * S.E) over R(A, B), S(A, C, E), T(C, D):   A(B, C(E, D))
    """
    local = _local_columns(block)
    return _spelled(order, local)


def _spelled(order: Order, local: dict[str, list[str]]) -> str:
    below = [_chain(local[alias]) for alias in order.relations if local.get(alias)]
    below += [_spelled(each, local) for each in order.children]
    inside = ", ".join(below)
    if order.variable is None:
        return inside or "()"
    return f"{order.variable}({inside})" if inside else order.variable


def _chain(names: list[str]) -> str:
    return "(".join(names) + ")" * (len(names) - 1)


def _local_columns(block: Block) -> dict[str, list[str]]:
    """The columns of each table that aggregates read and that no join and no group has."""
    used = {c for _, call in block.aggregates for each in call.arguments for c in columns_of(each)}
    found: dict[str, list[str]] = {}
    for each in block.occurrences:
        shared = {
            c for v in block.variables_of(each.alias) for c in columns_of(v.member(each.alias))
        }
        own = [name for name in each.scan.schema.names if name in used - shared]
        found[each.alias] = [name.removeprefix(f"{each.alias}.") for name in own]
    return found
