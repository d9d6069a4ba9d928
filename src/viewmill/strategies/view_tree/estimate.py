"""What a view tree would cost: the size of its views, and the steps of an update to each table.

takes  `Block`, a tree and its delta paths, statistics
gives  estimates that compare variable orders; exact numbers are not needed for that
"""

from __future__ import annotations

from math import prod

from viewmill.algebra.expressions import Cast, Column, Expression
from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import Block, Variable
from viewmill.strategies.view_tree.deltas import Path, Visit
from viewmill.strategies.view_tree.tree import View

# Without better knowledge a column of n rows has n^0.8 different values: 1000 rows, 250 values.
_GUESS = 0.8
# A row of state weighs as much as this share of a step: enough to decide between equal orders.
_MEMORY = 1e-3


class Sizes:
    """Estimated numbers of keys."""

    def __init__(self, block: Block, statistics: Statistics) -> None:
        self._rows = {
            each.alias: float(statistics.row_count(each.scan.source)) for each in block.occurrences
        }
        self._distinct = {v.name: self._values(block, v, statistics) for v in block.variables}

    def _values(self, block: Block, variable: Variable, statistics: Statistics) -> float:
        """Different values of a variable: a join keeps those that all its tables have."""
        known = []
        for alias, expression in variable.members:
            scan = block.occurrence(alias).scan
            column = _column_of(expression)
            own = column.removeprefix(f"{alias}.") if column else ""
            found = statistics.distinct.get((scan.source, own))
            known.append(float(found) if found else self._rows[alias] ** _GUESS)
        return max(min(known), 1.0)

    def keys(self, names: tuple[str, ...]) -> float:
        """Different combinations of some variables, if they are independent."""
        return prod(self._distinct[name] for name in names)

    def of(self, view: View) -> float:
        """Keys of a view."""
        if view.is_leaf:
            (alias,) = view.relations
            return min(self._rows[alias], self.keys(view.keys))
        return max(1.0, min(self.keys(view.keys), self._cover(view)))

    def _cover(self, view: View) -> float:
        """The children that have all keys between them bound their number: the fewest that do."""
        open_, total = set(view.keys), 1.0
        for child in sorted(view.children, key=lambda c: (-len(open_ & set(c.keys)), self.of(c))):
            if open_ & set(child.keys):
                total *= self.of(child)
                open_ -= set(child.keys)
        return total

    def fan_out(self, visit: Visit) -> float:
        """Entries that one visit of a list meets."""
        size = self.of(visit.view)
        return max(1.0, size / min(size, self.keys(visit.bound)))


def path_cost(path: Path, sizes: Sizes) -> float:
    """Steps of an update of one row."""
    rows, cost = 1.0, 1.0
    for step in path.steps:
        for visit in step.visits:
            if visit.is_lookup:
                cost += rows
            else:
                rows *= sizes.fan_out(visit)
                cost += rows
        cost += rows if step.is_stored else 0.0
    return cost


def tree_cost(block: Block, paths: list[Path], stored: list[View], sizes: Sizes) -> float:
    """Steps of an update to all tables in proportion to their size, and a little for the memory."""
    rows = [sizes._rows[path.leaf] for path in paths]
    total = sum(rows) or 1.0
    steps = sum(path_cost(p, sizes) * r for p, r in zip(paths, rows, strict=True)) / total
    kept = sum(sizes.of(view) for view in stored)
    return steps + _MEMORY * kept / total


def _column_of(expression: Expression) -> str | None:
    while isinstance(expression, Cast):
        expression = expression.input
    return expression.name if isinstance(expression, Column) else None
