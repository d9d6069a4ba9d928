"""Whether a query can be answered shard by shard when its tables are cut by a variable.

takes  a relation, and a variable: columns that are equal wherever rows meet
gives  the output columns that say on which shard a row of the result is, or `NotPlaced`

If the tables are cut by the hash of the variable, the result is the disjoint union of what the
shards compute, each over its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewmill.algebra import expressions as e
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Foreign,
    Join,
    Limit,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
)
from viewmill.algebra.types import Integer
from viewmill.algebra.walk import expressions, queries, walk_relations

Names = frozenset[str]
_EQUAL = ("=", "<=>")


class NotPlaced(Exception):
    """Rows that meet may be on different shards."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def placed(relation: Relation, variable: Names) -> Names:
    """The output columns whose hash is the shard of a row; the variable names columns of scans."""
    found = _placed(relation, variable)
    inside = [query for each in expressions(relation) for query in queries(each)]
    if inside and not isinstance(relation, Filter | Project):
        raise NotPlaced("a subquery stands where only filters and outputs may have one")
    for query in inside:
        assert isinstance(relation, Filter | Project)
        _check_subquery(query, placed(relation.input, variable), variable)
    return found


def _placed(relation: Relation, variable: Names) -> Names:
    match relation:
        case Scan():
            return _scan(relation, variable)
        case Explode():
            raise NotPlaced("elements of arrays are made in the driver's mill")
        case Filter():
            return _with_equal(placed(relation.input, variable), relation.condition)
        case Project():
            return _renamed(relation.outputs, placed(relation.input, variable))
        case Join():
            return _join(relation, variable)
        case Aggregate():
            return _aggregate(relation, variable)
        case Window():
            return _window(relation, variable)
        case Distinct():
            return _needed(placed(relation.input, variable), "DISTINCT")
        case SetOperation():
            return _set_operation(relation, variable)
        case Sort():
            return placed(relation.input, variable)
        case Limit():
            raise NotPlaced("LIMIT looks at all rows")
        case Values():
            raise NotPlaced("rows written in the query belong to no shard")
        case Foreign():
            raise NotPlaced(relation.reason)
        case Recursion():
            raise NotPlaced("a recursive CTE reads rows of all shards")


def _scan(scan: Scan, variable: Names) -> Names:
    if scan.window is not None:
        raise NotPlaced("a window on a table counts all its rows")
    own = [name for name in scan.schema.names if name in variable]
    if not own:
        raise NotPlaced("")  # which is so for most variables, and says nothing
    return frozenset(own[:1])


def routed(scan: Scan, variable: Names) -> str | None:
    """The column that a scan is cut by."""
    return next((name for name in scan.schema.names if name in variable), None)


def _renamed(outputs: tuple[tuple[str, e.Expression], ...], below: Names) -> Names:
    return frozenset(name for name, each in outputs if plain_column(each) in below)


def _with_equal(names: Names, condition: e.Expression | None) -> Names:
    """The names and what a condition says to be equal to one of them."""
    found = set(names)
    for a, b in equalities(condition):
        if a in found or b in found:
            found |= {a, b}
    return frozenset(found)


def _join(join: Join, variable: Names) -> Names:
    left, right = placed(join.left, variable), placed(join.right, variable)
    pairs = list(equalities(join.condition))
    if not any((a in left and b in right) or (b in left and a in right) for a, b in pairs):
        raise NotPlaced("a join is not on the variable")
    if join.kind in ("left", "semi", "anti"):
        return left
    if join.kind == "right":
        return right
    return frozenset() if join.kind == "full" else left | right


def _aggregate(aggregate: Aggregate, variable: Names) -> Names:
    below = placed(aggregate.input, variable)
    if aggregate.grouping_sets is not None:
        raise NotPlaced("grouping sets leave keys out")
    found = _renamed(aggregate.keys, below)
    if not found:
        raise NotPlaced("a group may have rows on several shards")
    return found


def _window(window: Window, variable: Names) -> Names:
    below = placed(window.input, variable)
    for _, over in window.calls:
        if not any(plain_column(each) in below for each in over.partition):
            raise NotPlaced("a window function's partition may have rows on several shards")
    return below


def _set_operation(relation: SetOperation, variable: Names) -> Names:
    left, right = placed(relation.left, variable), placed(relation.right, variable)
    pairs = zip(relation.left.schema.names, relation.right.schema.names, strict=True)
    found = frozenset(a for a, b in pairs if a in left and b in right)
    if relation.kind == "union" and relation.all:
        return found
    return _needed(found, relation.kind.upper())


def _needed(names: Names, what: str) -> Names:
    if not names:
        raise NotPlaced(f"{what} compares rows that may be on several shards")
    return names


def _check_subquery(query: Relation, outer: Names, variable: Names) -> None:
    """A subquery may look only at rows that are equal in the variable to the row around it."""
    while isinstance(query, Project | Aggregate):
        if isinstance(query, Aggregate) and query.keys:
            break
        query = query.input
    if not isinstance(query, Filter):
        raise NotPlaced("a subquery looks at the rows of all shards")
    inner = placed(query, variable)
    for conjunct in conjuncts(query.condition):
        if isinstance(conjunct, e.Call) and conjunct.function in _EQUAL:
            a, b = (_any_column(each) for each in conjunct.arguments)
            for one, other in ((a, b), (b, a)):
                if one is None or other is None or (one.outer, other.outer) != (0, 1):
                    continue
                if one.name in inner and other.name in outer:
                    return
    raise NotPlaced("a subquery looks at the rows of all shards")


# Expressions.


def conjuncts(condition: e.Expression | None) -> Iterator[e.Expression]:
    """What must all be true."""
    if isinstance(condition, e.Call) and condition.function == "and":
        for each in condition.arguments:
            yield from conjuncts(each)
    elif condition is not None:
        yield condition


def equalities(condition: e.Expression | None) -> Iterator[tuple[str, str]]:
    """The pairs of columns that a condition makes equal."""
    for each in conjuncts(condition):
        if isinstance(each, e.Call) and each.function in _EQUAL:
            a, b = (plain_column(side) for side in each.arguments)
            if a is not None and b is not None:
                yield a, b


def plain_column(expression: e.Expression) -> str | None:
    """The column of the own query that an expression is, integers of any width being alike."""
    found = _any_column(expression)
    return found.name if found is not None and found.outer == 0 else None


def _any_column(expression: e.Expression) -> e.Column | None:
    if isinstance(expression, e.Cast) and isinstance(expression.type, Integer):
        inner = expression.input
        if isinstance(inner.type, Integer) and inner.type.bits <= expression.type.bits:
            return _any_column(inner)
    return expression if isinstance(expression, e.Column) else None


# Variables.


def variables(relation: Relation) -> list[Names]:
    """The columns of all scans in classes that conditions anywhere make equal."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for each in walk_relations(relation):
        for a, b in _meetings(each):
            parent[root(a)] = root(b)
    classes: dict[str, set[str]] = {}
    for each in walk_relations(relation):
        if isinstance(each, Scan):
            for field in each.schema:
                classes.setdefault(root(field.name), set()).add(field.name)
    return [frozenset(names) for names in classes.values()]


def _meetings(relation: Relation) -> Iterator[tuple[str, str]]:
    """Columns that are one variable: equal by a condition, or one a name of the other."""
    match relation:
        case Filter() | Join():
            for each in conjuncts(relation.condition):
                if isinstance(each, e.Call) and each.function in _EQUAL:
                    a, b = (_any_column(side) for side in each.arguments)
                    if a is not None and b is not None:
                        yield a.name, b.name
        case Project():
            yield from _same_names(relation.outputs)
        case Aggregate():
            yield from _same_names(relation.keys)
        case SetOperation():
            yield from zip(relation.left.schema.names, relation.right.schema.names, strict=True)


def _same_names(outputs: tuple[tuple[str, e.Expression], ...]) -> Iterator[tuple[str, str]]:
    for name, expression in outputs:
        column = _any_column(expression)
        if column is not None:
            yield name, column.name
