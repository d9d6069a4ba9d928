"""Find the best variable order by dynamic programming (section 3).

takes  `Block`, estimated sizes, the tables that can change
gives  `Order`, free variables above bound ones
next   tree

Once some variables are fixed, the tables fall apart into components that know nothing of each
other, and what is best for one depends only on the fixed variables that it has. So every pair of
component and fixed variables is solved once. A solution is a cost and the number of changes that
leave it upwards, for which the views above will pay; of two numbers none may be the better one in
both, so a few solutions are kept.

The cost is that of streaming every row once. At a join that one child guards (it has all the keys)
every change pays its lookups and the entries that it visits. At any other join the combinations are
counted once, as if it were computed in bulk: those are larger than any table, and for a chain of
matrices they are the multiplications that the textbook counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.estimate import Sizes
from viewmill.strategies.view_tree.gyo import surviving
from viewmill.strategies.view_tree.variable_order import Hypergraph, Order, components, hypergraph

# A key of state decides between orders that cost the same, and before it every join that a row
# climbs through: of matrices of one size each product costs the same, but a change of the last one
# goes through all joins of a list, and through their logarithm in a balanced tree.
_MEMORY = 1e-9
_CLIMB = 1e-6
_MOST_SOLUTIONS = 4
# In components of up to _ALL variables each is tried at the top; else the most promising ones.
_ALL, _PROMISING = 7, 2


@dataclass(frozen=True)
class _Solution:
    cost: float
    changes: float  # that leave it upwards
    order: Order


@dataclass(frozen=True)
class _Child:
    """What is joined at a variable: a table, or the view of a component."""

    keys: frozenset[str]
    relations: frozenset[str]
    solutions: Sequence[_Solution]


def find_order(block: Block, sizes: Sizes, changing: frozenset[str]) -> Order:
    """The cheapest order."""
    return _Search(block, sizes, changing).run()


class _Search:
    def __init__(self, block: Block, sizes: Sizes, changing: frozenset[str]) -> None:
        self.sizes, self.changing = sizes, changing
        self.graph: Hypergraph = hypergraph(block)
        self.free = frozenset(block.free)
        self.groups = _alike(block, self.graph)
        self.known: dict[tuple[frozenset[str], frozenset[str]], list[_Solution]] = {}

    def run(self) -> Order:
        """The order of the whole query; a component has its own tree."""
        everything = frozenset(self.graph)
        bare = tuple(alias for alias, variables in self.graph.items() if not variables)
        parts = components(self.graph, frozenset())
        children = [self._leaf(alias) for alias in bare]
        children += [self._child(part, frozenset()) for part in parts]
        best = self._join(children, everything, self.free, frozenset())
        first = min(best, key=lambda each: each[0])
        return Order(None, bare, tuple(each.order for each in first[2] if each.order.variable))

    # Components.

    def _child(self, part: frozenset[str], above: frozenset[str]) -> _Child:
        variables = frozenset().union(*(self.graph[alias] for alias in part))
        fixed = above & variables
        return _Child(fixed | (self.free & variables), part, self._solve(part, fixed))

    def _leaf(self, alias: str) -> _Child:
        changes = self.sizes.rows[alias] if alias in self.changing else 0.0
        made = _Solution(changes, changes, Order(None, (alias,)))
        return _Child(self.graph[alias], frozenset({alias}), [made])

    def _solve(self, part: frozenset[str], fixed: frozenset[str]) -> list[_Solution]:
        """The best orders of the tables in `part`, whose variables in `fixed` are known."""
        state = part, fixed
        if state not in self.known:
            found: list[_Solution] = []
            for group in self._choices(part, fixed):
                found += self._top(group, part, fixed)
            self.known[state] = _undominated(found)
        return self.known[state]

    def _choices(self, part: frozenset[str], fixed: frozenset[str]) -> list[tuple[str, ...]]:
        """The variables that may be fixed next, alike ones together: free ones before others."""
        open_ = frozenset().union(*(self.graph[alias] for alias in part)) - fixed
        groups = [group for group in self.groups if group[0] in open_]
        groups = [g for g in groups if g[0] in self.free] or groups
        if len(groups) <= _ALL:
            return groups
        ranked = sorted(groups, key=lambda group: self._rank(group, part, fixed))
        return ranked[:_PROMISING]

    def _rank(
        self, group: tuple[str, ...], part: frozenset[str], fixed: frozenset[str]
    ) -> tuple[int, float, int]:
        """Variables that many tables have first, then few values, then those in the middle."""
        tables = sum(group[0] in self.graph[alias] for alias in part)
        parts = components({alias: self.graph[alias] for alias in part}, fixed | set(group))
        return -tables, _rounded(self.sizes.keys(group)), max(map(len, parts), default=0)

    def _top(
        self, group: tuple[str, ...], part: frozenset[str], fixed: frozenset[str]
    ) -> Iterator[_Solution]:
        """The solutions that fix `group` first."""
        below = fixed | set(group)
        done = tuple(a for a in self.graph if a in part and self.graph[a] <= below)
        rest = {a: self.graph[a] for a in self.graph if a in part and a not in done}
        children = [self._leaf(alias) for alias in done]
        children += [self._child(p, below) for p in components(rest, below)]
        variables = frozenset().union(*(self.graph[alias] for alias in part))
        keys = (fixed & variables) | (self.free & variables)
        for cost, changes, chosen in self._join(children, part, keys, fixed):
            inner = tuple(each.order for each in chosen if each.order.variable)
            order = Order(group[-1], done, inner)
            for variable in reversed(group[:-1]):
                order = Order(variable, (), (order,))
            yield _Solution(cost, changes, order)

    # Joins.

    def _join(
        self,
        children: Sequence[_Child],
        part: frozenset[str],
        keys: frozenset[str],
        fixed: frozenset[str],
    ) -> Iterator[tuple[float, float, tuple[_Solution, ...]]]:
        """Cost, changes that leave, and the chosen solutions, for every choice of solutions."""
        moved = [bool(child.relations & self.changing) for child in children]
        whole: frozenset[str] = frozenset().union(*(child.keys for child in children))
        limit = self._indicated(children, part, fixed)
        combinations = min(self.sizes.view(part, whole), limit * self.sizes.keys(whole - fixed))
        is_guarded = any(child.keys == whole for child in children) or len(children) == 1
        factors = [self._climb(child, children, moved) for child in children]
        memory = sum(
            self._size(child)
            for i, child in enumerate(children)
            if any(m for j, m in enumerate(moved) if j != i)
        )
        tables = self.changing & part if len(children) > 1 else frozenset[str]()
        aside = _MEMORY * memory + _CLIMB * sum(self.sizes.rows[each] for each in tables)
        for chosen in product(*(child.solutions for child in children)):
            cost = sum(each.cost for each in chosen) + aside
            leaving = sum(each.changes * f[1] for each, f in zip(chosen, factors, strict=True))
            if is_guarded:
                cost += sum(each.changes * f[0] for each, f in zip(chosen, factors, strict=True))
            elif any(moved):
                cost += combinations
                leaving = min(leaving, combinations * sum(moved))
            yield cost, leaving, chosen

    def _climb(
        self, child: _Child, children: Sequence[_Child], moved: list[bool]
    ) -> tuple[float, float]:
        """Steps of one change of a child at a join, and how many changes it becomes."""
        known, rows, steps = set(child.keys), 1.0, 0.0
        open_ = [other for other in children if other is not child]
        if any(m for other, m in zip(children, moved, strict=True) if other is not child):
            steps += 1.0  # the child itself is kept
        while open_:
            other = min(
                open_, key=lambda each: (len(each.keys - known), self._fan_out(each, known))
            )
            open_.remove(other)
            rows *= self._fan_out(other, known)
            steps += rows
            known |= other.keys
        return steps, rows

    def _fan_out(self, child: _Child, known: set[str]) -> float:
        if child.keys <= known:
            return 1.0
        size = self._size(child)
        return max(1.0, size / min(size, self.sizes.keys(child.keys & known)))

    def _size(self, child: _Child) -> float:
        if len(child.relations) == 1:
            (alias,) = child.relations
            return self.sizes.leaf(alias)
        return self.sizes.view(child.relations, child.keys)

    def _indicated(
        self, children: Sequence[_Child], part: frozenset[str], fixed: frozenset[str]
    ) -> float:
        """How many combinations of the fixed variables the indicators of other tables leave."""
        others = {a: self.graph[a] & fixed for a in self.graph if a not in part}
        kept = surviving([child.keys for child in children], others)
        if not kept:
            return float("inf")
        covered = frozenset().union(*(others[alias] for alias in kept))
        size = prod(min(self.sizes.leaf(a), self.sizes.keys(others[a])) for a in kept)
        return size * self.sizes.keys(fixed - covered)


def _alike(block: Block, graph: Hypergraph) -> list[tuple[str, ...]]:
    """Variables of the same tables, which one view can fix together: a chain."""
    groups: dict[tuple[frozenset[str], bool], list[str]] = {}
    for variable in block.variables:
        key = variable.aliases, variable.name in block.free
        groups.setdefault(key, []).append(variable.name)
    return [tuple(names) for names in groups.values()]


def _undominated(solutions: list[_Solution]) -> list[_Solution]:
    """The Pareto-optimal solutions by cost and changes; of equal ones the first."""
    kept: list[_Solution] = []
    for each in sorted(solutions, key=lambda s: (_rounded(s.cost), _rounded(s.changes))):
        if not kept or each.changes < kept[-1].changes * (1 - 1e-9):
            kept.append(each)
    return kept[:_MOST_SOLUTIONS]


def _rounded(value: float) -> float:
    """Round away the noise of summing in another order."""
    return float(f"{value:.12g}")
