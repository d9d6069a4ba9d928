"""Where the columns of a cofactor are lifted, and in which order each view has them.

takes  one aggregate and the tree
gives  the columns below each view; what guards a row

A column is lifted at its table; a join variable where the tree sums it out, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Aggregate, Call, Cast, Column, Expression, Literal
from viewmill.algebra.packed import LARGEST
from viewmill.algebra.types import BOOLEAN, DOUBLE, Integer
from viewmill.codegen.shape import NotTaken
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.polynomials import columns_in
from viewmill.strategies.view_tree.tree import View

_MOST_COLUMNS = 256  # a block under way lies on the stack
_MOST_PARTS = 60


@dataclass
class CofactorColumns:
    """One aggregate over a tree, and where each of its columns comes in."""

    block: Block
    root: View
    name: str
    call: Aggregate
    slot: str  # its name in every view
    _by_table: dict[str, list[int]] = field(init=False)
    _by_variable: dict[str, list[int]] = field(init=False)
    _guards: dict[str, list[Expression]] = field(init=False)
    _orders: dict[str, list[int]] = field(init=False, default_factory=dict)  # by view

    def __post_init__(self) -> None:
        if len(self.call.arguments) > _MOST_COLUMNS:
            raise NotTaken(f"more than {_MOST_COLUMNS} columns", self.call.span)
        if len(self.block.occurrences) > _MOST_PARTS:
            raise NotTaken(f"more than {_MOST_PARTS} tables", self.call.span)
        scans = [each.scan for each in self.block.occurrences]
        self._alias_of = {name: scan.alias for scan in scans for name in scan.schema.names}
        self._by_table = {scan.alias: [] for scan in scans}
        self._by_variable = {each.name: [] for each in self.block.variables}
        self._guards = {scan.alias: [] for scan in scans}
        for i, argument in enumerate(self.call.arguments):
            self._place(i, argument)
        for each in conjuncts(self.call.where) if self.call.where is not None else ():
            self._guards[self._table(each)].append(each)
        for view in reversed(list(self.root.walk())):
            self._orders.setdefault(view.name, list(dict.fromkeys(self._joined(view))))

    def _place(self, i: int, argument: Expression) -> None:
        """Say where a column is lifted."""
        variable = self._variable(argument)
        if variable is not None:
            self._by_variable[variable].append(i)
            return
        table = self._table(argument)
        self._by_table[table].append(i)
        if _is_whole(argument):
            return  # it is there, and can be squared
        size = Call("abs", (argument,), DOUBLE, argument.nullable)
        limit = Literal(LARGEST, DOUBLE)
        self._guards[table].append(Call("<", (size, limit), BOOLEAN, argument.nullable))

    def _table(self, expression: Expression) -> str:
        aliases = {self._alias_of[name] for name in columns_in(expression)}
        if len(aliases) > 1:
            raise NotTaken(f"{self.call.function} of an expression over several tables",
                           expression.span)  # fmt: skip
        return next(iter(aliases), self.block.occurrences[0].alias)

    def _variable(self, argument: Expression) -> str | None:
        """The join variable that an argument is, if its word is a whole number."""
        while isinstance(argument, Cast):
            argument = argument.input
        for each in self.block.variables:
            if each.is_joined and isinstance(each.type, Integer):
                for _, member in each.members:
                    if isinstance(argument, Column) and member == argument:
                        return each.name
        return None

    def columns(self, view: View) -> list[int]:
        """The arguments below a view in the order of its block."""
        found = self._orders.get(view.name)
        return self._joined(view) if found is None else found

    def _joined(self, view: View) -> list[int]:
        """The arguments below a view in the order in which its children are joined."""
        if view.is_leaf:
            (alias,) = view.relations
            return self._by_table[alias]
        below = [i for child in view.children for i in self.columns(child)]
        return below + self._lifted_at(view)

    def _lifted_at(self, view: View) -> list[int]:
        return [i for variable in view.variables for i in self._by_variable[variable]]

    def reads(self, leaf: View) -> Sequence[Expression]:
        """The columns of the table, and what guards them."""
        (alias,) = leaf.relations
        return [*(self.call.arguments[i] for i in self._by_table[alias]), *self._guards[alias]]


def block_size(columns: int, pad: int = 1) -> int:
    """The number of floats in a cofactor block of `columns` columns."""
    end = (columns + pad) // pad * pad
    return sum(end - row // pad * pad for row in range(columns + 1))


def tuple_text(texts: Sequence[str] | map[str]) -> str:
    """A tuple of these texts."""
    inside = list(texts)
    return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"


def _is_whole(argument: Expression) -> bool:
    """Whether an argument is a column of whole numbers that is never NULL."""
    while isinstance(argument, Cast):
        argument = argument.input
    plain = isinstance(argument, Column) and isinstance(argument.type, Integer)
    return plain and not argument.nullable
