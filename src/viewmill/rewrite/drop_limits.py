"""Drop limits that cut nothing off."""

from __future__ import annotations

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
from viewmill.algebra.walk import transform


def drop_limits(query: Relation) -> Relation:
    """A query that never has more rows than LIMIT takes loses it: which rows is no question.

    before  Limit: 100                        after  Aggregate: count(*)
            └─ Aggregate: count(*)                   └─ Scan: orders o
               └─ Scan: orders o
    """
    return transform(query, _drop)


def _drop(relation: Relation) -> Relation:
    if not isinstance(relation, Limit) or relation.offset or relation.count is None:
        return relation
    most = _most_rows(relation.input)
    return relation.input if most is not None and most <= relation.count else relation


def _most_rows(relation: Relation) -> int | None:
    """How many rows there can be at most, whatever the tables hold; None if any number."""
    match relation:
        case Values():
            return len(relation.rows)
        case Aggregate():
            return None if relation.keys or relation.grouping_sets is not None else 1
        case Filter() | Project() | Window() | Distinct() | Sort():
            return _most_rows(relation.input)
        case Limit():
            most = _most_rows(relation.input)
            return most if relation.count is None else min(relation.count, most or relation.count)
        case Join():
            return _most_pairs(relation)
        case SetOperation():
            left, right = _most_rows(relation.left), _most_rows(relation.right)
            if relation.kind == "union":
                return None if left is None or right is None else left + right
            return left
        case Scan() | Foreign() | Recursion() | Explode():
            return None


def _most_pairs(join: Join) -> int | None:
    left, right = _most_rows(join.left), _most_rows(join.right)
    if join.kind in ("semi", "anti"):
        return left
    if left is None or right is None:
        return None
    if join.kind in ("inner", "cross"):
        return left * right
    return left * right + left + right
