"""The variable order that a hint asks for, if it is one (Definition 3.1).

takes  `Hints`, `Block`
gives  `Order`
next   tree

A hint names columns. Those that tables are joined on or that the view groups by are the variables
of the block; a column of one table alone may stand in its place on the table's path, and is summed
away with its table in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.expressions import Cast, Column
from viewmill.algebra.hints import HintedVariable, Hints
from viewmill.errors import InvalidArgument, Span, UnknownName, nearest
from viewmill.strategies.view_tree.block import Block, Variable
from viewmill.strategies.view_tree.variable_order import Order


@dataclass(frozen=True)
class _HintedNode:
    """A hinted column: the variable that it is, or the one table that it is of."""

    hinted: HintedVariable
    path: tuple[str, ...]  # the names above it and its own
    aliases: frozenset[str]
    variable: str | None


def hinted_order(block: Block, hints: Hints) -> Order:
    """The order of a hint, or a kind error that says why it is none."""
    reader = _Reader(block, hints)
    for each in hints.order:
        reader.place(each, ())
    reader.require_all()
    reader.require_paths()
    return reader.order()


class _Reader:
    def __init__(self, block: Block, hints: Hints) -> None:
        self.block, self.hints = block, hints
        self.places: dict[str, _HintedNode] = {}

    # Names.

    def place(self, hinted: HintedVariable, above: tuple[str, ...]) -> None:
        """Note a column and all below it."""
        name, aliases, variable = self._resolve(hinted)
        if name in self.places:
            raise InvalidArgument(f"{hinted.name} is in the variable order twice", span=hinted.span)
        path = (*above, name)
        self.places[name] = _HintedNode(hinted, path, aliases, variable)
        for child in hinted.children:
            self.place(child, path)

    def _resolve(self, hinted: HintedVariable) -> tuple[str, frozenset[str], str | None]:
        variables = [v for v in self.block.variables if _is_named(v, hinted)]
        if len(variables) == 1:
            return variables[0].name, variables[0].aliases, variables[0].name
        local = [] if variables else self._local(hinted)
        if len(local) == 1:
            alias, column = local[0]
            return f"{alias}.{column}", frozenset({alias}), None
        if not variables and not local:
            raise self._unknown(hinted)
        choices = [f"{v.members[0][0]}.{hinted.name}" for v in variables]
        choices += [f"{alias}.{column}" for alias, column in local]
        raise InvalidArgument(
            f'"{hinted.name}" may be {" or ".join(choices)}',
            detail="These columns are not joined with each other.",
            hint=f"Write {choices[0]} in the hint.",
            span=hinted.span,
        )

    def _local(self, hinted: HintedVariable) -> list[tuple[str, str]]:
        return [
            (each.alias, column)
            for each in self.block.occurrences
            if hinted.table is None or each.alias.lower() == hinted.table.lower()
            for column in _own_columns(each.alias, each.scan.schema.names)
            if column.lower() == hinted.name.lower()
        ]

    def _unknown(self, hinted: HintedVariable) -> UnknownName:
        known = [
            column
            for each in self.block.occurrences
            for column in _own_columns(each.alias, each.scan.schema.names)
        ]
        tables = ", ".join(each.alias for each in self.block.occurrences)
        what = f"{hinted.table}.{hinted.name}" if hinted.table else hinted.name
        return UnknownName(
            f'no column "{what}" for the variable order',
            detail=f"The view joins {tables}.",
            hint=nearest(hinted.name, list(dict.fromkeys(known))),
            span=hinted.span,
        )

    # Is it an order?

    def require_all(self) -> None:
        """Every variable that is joined or grouped by stands in the hint."""
        missing = [v for v in self.block.variables if v.name not in self.places]
        if missing:
            names = [v.name for v in missing]
            of = ", ".join(sorted(missing[0].aliases))
            use = f"{of} are joined on it" if missing[0].is_joined else "the view shows it"
            raise InvalidArgument(
                f"the variable order leaves out {', '.join(names)}",
                detail=f"{names[0]}: {use}.",
                hint="Name every column that is joined on or grouped by.",
                span=self.hints.span,
            )

    def require_paths(self) -> None:
        """The variables of each table lie on one path from the root."""
        for occurrence in self.block.occurrences:
            own = [place for place in self.places.values() if occurrence.alias in place.aliases]
            longest = max(own, key=lambda place: len(place.path), default=None)
            for place in own:
                if longest is not None and place.path != longest.path[: len(place.path)]:
                    raise InvalidArgument(
                        "this is not a variable order of the query",
                        detail=f"{occurrence.alias} has {place.hinted.name} and "
                        f"{longest.hinted.name}, which stand on different branches.",
                        hint="The variables of a table must lie below each other.",
                        span=_both(place.hinted, longest.hinted) or self.hints.span,
                    )

    # The order.

    def order(self) -> Order:
        """The tree of variables, each table at its lowest one."""
        bare = [o.alias for o in self.block.occurrences if not self.block.variables_of(o.alias)]
        trees = [order for each in self.hints.order for order in self._below(each)]
        return Order(None, tuple(bare), tuple(trees))

    def _below(self, hinted: HintedVariable) -> list[Order]:
        """The orders that a part of the hint is; columns of one table stand for nothing."""
        children = [order for child in hinted.children for order in self._below(child)]
        name, _, variable = self._resolve(hinted)
        if variable is None:
            return children
        path = set(self.places[name].path)
        tables = [
            each.alias
            for each in self.block.occurrences
            if variable in (own := {v.name for v in self.block.variables_of(each.alias)})
            and own <= path
        ]
        return [Order(variable, tuple(tables), tuple(children))]


def _is_named(variable: Variable, hinted: HintedVariable) -> bool:
    for alias, expression in variable.members:
        while isinstance(expression, Cast):
            expression = expression.input
        if isinstance(expression, Column):
            own = expression.name.removeprefix(f"{alias}.")
            table = hinted.table is None or hinted.table.lower() == alias.lower()
            if table and own.lower() == hinted.name.lower():
                return True
    return hinted.table is None and variable.name.lower() == hinted.name.lower()


def _own_columns(alias: str, names: tuple[str, ...]) -> list[str]:
    return [name.removeprefix(f"{alias}.") for name in names]


def _both(first: HintedVariable, second: HintedVariable) -> Span | None:
    """From one name to the other."""
    if first.span is None or second.span is None:
        return None
    start = min(first.span.start, second.span.start)
    return Span(first.span.sql, start, max(first.span.end, second.span.end))
