"""Estimate the sizes of states that were never built, from the distinct values of their keys.

takes  a view's blocks, the tables as they are
gives  a `StateSize` for each unit whose keys are columns of tables
next   memory, which selects states by their sizes
"""

from __future__ import annotations

from collections.abc import Iterable

from viewmill.algebra.expressions import Column, walk
from viewmill.algebra.relations import Aggregate, Filter, Project, Relation, Scan, Values
from viewmill.algebra.walk import walk_relations
from viewmill.mill.core import Core
from viewmill.mill.statistics import values_of
from viewmill.planner.operators import StateSize, entry_bytes
from viewmill.program.states import Replay, State
from viewmill.program.uses import units_of
from viewmill.runtime.runtime import Block


def estimated_sizes(core: Core, blocks: Iterable[Block]) -> dict[tuple[str, str], StateSize]:
    """The estimated size of each unit; units whose keys are unknown are left out."""
    found = {}
    for block in blocks:
        for unit, states in units_of(block.program).items():
            rows = [_rows(core, each) for each in states if not each.derived]
            if rows and all(rows):
                most = float(max(each for each in rows if each))
                size = int(most * entry_bytes(states))
                found[block.name, unit] = StateSize(size, most, exists=False)
    return found


def _rows(core: Core, state: State) -> int:
    """An upper bound on the groups: the product of the keys' distinct values; 0 if unknown."""
    if isinstance(state.definition, Values | Replay):
        return 0
    group = _group(state.definition)
    if group is None:
        return 0
    scans = [each for each in walk_relations(group) if isinstance(each, Scan)]
    columns = {name: each for each in scans for name in each.schema.names}
    most = max((core.row_count(each.source) for each in scans), default=0)
    total = 1
    for key in {part for _, each in group.keys for part in walk(each) if isinstance(part, Column)}:
        scan = columns.get(key.name)
        values = 0 if scan is None else values_of(core, scan, key.name.split(".", 1)[-1])
        if not values:
            return 0
        total *= values
    return min(total, most) if group.keys else 1


def _group(relation: Relation) -> Aggregate | None:
    while isinstance(relation, Project | Filter):
        relation = relation.input
    return relation if isinstance(relation, Aggregate) else None
