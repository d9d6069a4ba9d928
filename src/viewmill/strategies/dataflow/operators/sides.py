"""The two sides of an outer, semi or anti join: what is kept of each, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Join, Named, Relation
from viewmill.algebra.schema import Field
from viewmill.algebra.walk import columns_of, substitute
from viewmill.codegen.join_graph import have_equal_words, is_equality
from viewmill.codegen.linear import (
    Leaf,
    counted,
    leaf_of,
    not_null,
    projected,
    refuse_subqueries,
    used_columns,
)
from viewmill.codegen.scalar import Operand, default
from viewmill.program.states import Indexed, Listed, Slot

COUNT = (Slot("count", "int"),)
MATCHES = (Slot("count", "int"), Slot("matches", "int"))


@dataclass
class Side:
    """One input: the columns of its rows that are read, and the key by which the other finds them.

    A row that fails a condition of `gate`, or whose key is NULL, meets no row of the other side.
    """

    name: str
    leaf: Leaf
    keys: list[Expression] = field(default_factory=list)  # over the names of the leaf's columns
    gate: list[Expression] = field(default_factory=list)
    needed: tuple[Field, ...] = ()

    @property
    def first(self) -> tuple[Field, ...]:
        """The key."""
        return tuple(
            Field(each.name if isinstance(each, Column) else f"#{self.name}{n}", each.type, False)
            for n, each in enumerate(self.keys)
        )

    @property
    def rest(self) -> tuple[Field, ...]:
        """The columns that are read and not in the key."""
        known = {each.name for each in self.keys if isinstance(each, Column)}
        return tuple(each for each in self.needed if each.name not in known)

    @property
    def row(self) -> tuple[Field, ...]:
        """Key and rest."""
        return self.first + self.rest

    @property
    def reads(self) -> list[Expression]:
        """What a trigger computes of a row, over the scan."""
        named = [self.leaf.columns[each.name] for each in self.needed]
        return [*named, *(self.over_scan(each) for each in (*self.keys, *self.gate))]

    def over_scan(self, expression: Expression) -> Expression:
        """An expression over the scan's own columns."""
        return substitute(expression, self.leaf.columns)

    def padding(self) -> dict[str, Operand]:
        """The columns of a row that is not there."""
        return {each.name: Operand(default(each.type), "True") for each in self.needed}

    # States.

    def rows(self) -> Relation:
        """The rows that can meet another: key and rest."""
        present = [not_null(self.over_scan(each)) for each in self.keys if each.nullable]
        rows = self.leaf.relation([*map(self.over_scan, self.gate), *present])
        return projected(rows, self.row_columns())

    def row_columns(self) -> tuple[Named, ...]:
        """Key and rest over the scan."""
        pairs = zip(self.first, self.keys, strict=True)
        keys = tuple((each.name, self.over_scan(key)) for each, key in pairs)
        return (*keys, *((each.name, self.leaf.columns[each.name]) for each in self.rest))

    def listed(self) -> tuple[Listed, Relation]:
        """The rows by key."""
        kind = Listed(self.first, self.rest, COUNT, journal=True)
        return kind, counted(self.rows(), self.row)

    def counted(self) -> tuple[Indexed, Relation]:
        """How many rows there are by key."""
        kind = Indexed(self.first, COUNT, journal=True)
        return kind, counted(self.rows(), self.first)


@dataclass(frozen=True)
class Sides:
    """Left, right, and what must hold between them besides equal keys."""

    kind: str  # left, full, semi, anti
    left: Side
    right: Side
    residual: tuple[Expression, ...]

    @property
    def preserved(self) -> tuple[Side, ...]:
        """The sides whose rows show also, or only, when they meet none."""
        return (self.left, self.right) if self.kind == "full" else (self.left,)

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of rows are shown."""
        return self.kind in ("left", "full")

    def other(self, side: Side) -> Side:
        """The side across."""
        return self.right if side is self.left else self.left


def sides_of(join: Join, above: Iterable[Expression]) -> Sides:
    """The sides of a join below expressions, or `NotTaken`."""
    is_right = join.kind == "right"
    first, second = (join.right, join.left) if is_right else (join.left, join.right)
    left, right = Side("left", leaf_of(first)), Side("right", leaf_of(second))
    kind = "left" if is_right else join.kind
    residual = []
    for condition in () if join.condition is None else conjuncts(join.condition):
        refuse_subqueries([condition])
        if not _place(condition, left, right, kind):
            residual.append(condition)
    used = used_columns([*above, *residual])
    for side, relation in ((left, first), (right, second)):
        side.needed = tuple(each for each in relation.schema if each.name in used)
    return Sides(kind, left, right, tuple(residual))


def _place(condition: Expression, left: Side, right: Side, kind: str) -> bool:
    """Make a condition a key or a gate; False if it is neither."""

    def names_of(expression: Expression) -> set[str]:
        read = columns_of(expression)
        return {each.name for each in (left, right) if read & set(each.leaf.columns)}

    if is_equality(condition, names_of):
        a, b = condition.arguments  # type: ignore[union-attr]
        if names_of(a) == {"right"}:
            a, b = b, a
        assert have_equal_words(a.type, b.type)
        left.keys.append(a)
        right.keys.append(b)
        return True
    names = names_of(condition)
    if len(names) == 2:
        return False
    (left if names <= {"left"} else right).gate.append(condition)
    return True
