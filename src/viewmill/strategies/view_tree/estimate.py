"""What a view tree would cost: the size of its views, and the steps of an update to each table.

takes  `Block`, statistics; a tree and its delta paths
gives  estimates that compare variable orders; exact numbers are not needed for that
next   search, plan
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import prod

from viewmill.algebra.expressions import Cast, Column, Expression
from viewmill.strategies.strategy import Statistics
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.deltas import Path, Visit
from viewmill.strategies.view_tree.tree import View

# Without better knowledge a column of n rows has n^0.8 different values: 1000 rows, 250 values.
_GUESS = 0.8


class Sizes:
    """Estimated numbers of keys: values are independent, a join keeps what all its tables have."""

    def __init__(self, block: Block, statistics: Statistics) -> None:
        self.rows = {each.alias: _rows(statistics, each.scan.source) for each in block.occurrences}
        self.variables = {
            each.alias: tuple(v.name for v in block.variables_of(each.alias))
            for each in block.occurrences
        }
        self._own = {
            (alias, v.name): self._values(block, alias, expression, statistics)
            for v in block.variables
            for alias, expression in v.members
        }
        self.distinct = {
            v.name: min(self._own[a, v.name] for a in v.aliases) for v in block.variables
        }
        self.leaf = cache(self._leaf)
        self.join = cache(self._join)

    def _values(
        self, block: Block, alias: str, expression: Expression, statistics: Statistics
    ) -> float:
        """Different values of an expression over one table."""
        column = _column_of(expression)
        own = column.removeprefix(f"{alias}.") if column else ""
        found = statistics.distinct.get((block.occurrence(alias).scan.source, own))
        return max(1.0, float(found) if found else self.rows[alias] ** _GUESS)

    def _leaf(self, alias: str) -> float:
        """Different keys of a table over its variables."""
        names = self.variables[alias]
        return max(1.0, min(self.rows[alias], prod(self._own[alias, name] for name in names)))

    def _join(self, aliases: frozenset[str]) -> float:
        """Different combinations that a join has: each equality keeps the rarer values."""
        size = prod(self.leaf(alias) for alias in aliases)
        for name in self.distinct:
            values = sorted(
                self._own[alias, name] for alias in aliases if (alias, name) in self._own
            )
            size /= prod(values[1:])
        return max(size, 1.0)

    def keys(self, names: Iterable[str]) -> float:
        """Different combinations of some variables, if they are independent."""
        return prod(self.distinct[name] for name in names)

    def view(self, aliases: frozenset[str], keys: Iterable[str]) -> float:
        """Keys of a view over a join."""
        return max(1.0, min(self.keys(keys), self.join(aliases)))

    def of(self, view: View) -> float:
        """Keys of a view of a tree."""
        if view.indicates is not None:
            return min(self.leaf(view.indicates), self.keys(view.keys))
        size = self.view(view.relations, view.keys)
        for each in view.indicators:
            others = [key for key in view.keys if key not in each.keys]
            size = min(size, self.of(each) * self.keys(others))
        return size

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


def average_cost(paths: list[Path], sizes: Sizes) -> float:
    """Steps of an update of one row, if tables change in proportion to their size."""
    total = sum(sizes.rows[path.leaf] for path in paths)
    return sum(path_cost(p, sizes) * sizes.rows[p.leaf] for p in paths) / (total or 1.0)


def _rows(statistics: Statistics, source: str) -> float:
    """Rows of a table: 25 nations stay few, an empty table is expected to grow."""
    return float(max(statistics.rows[source], 10) if statistics.rows.get(source) else 1000)


def _column_of(expression: Expression) -> str | None:
    while isinstance(expression, Cast):
        expression = expression.input
    return expression.name if isinstance(expression, Column) else None
