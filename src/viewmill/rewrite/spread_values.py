"""Write a row once per constant: a join with a few constant rows becomes a union."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import (
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    SetOperation,
    Values,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import substitute, transform

# At most this many windows of a row become branches; beyond that recomputing is cheaper.
MOST = 64


def spread_values(query: Relation) -> Relation:
    """Each constant row gets a branch of its own, which strategies can maintain.

    before  Project: t - back AS start          after  Union all
            └─ Join cross                              ├─ Project: t - 0 AS start
               ├─ Scan: s                              │  └─ Scan: s
               └─ Values: (0), (60)                    └─ Project: t - 60 AS start
                                                          └─ Scan: s
    """
    return transform(query, _spread)


def _spread(relation: Relation) -> Relation:
    if not isinstance(relation, Project):
        return relation
    below, conditions = relation.input, []
    while isinstance(below, Filter):
        conditions.append(below.condition)
        below = below.input
    if not isinstance(below, Join) or below.kind not in ("cross", "inner"):
        return relation
    conditions += [] if below.condition is None else [below.condition]
    left, right = below.left, below.right
    if not isinstance(right, Values) or not 1 < len(right.rows) <= MOST:
        return relation
    if _scan_of(left) is None:
        return relation
    branches = [_branch(relation, conditions, left, right, i) for i in range(len(right.rows))]
    union: Relation = branches[0]
    for each in branches[1:]:
        union = SetOperation("union", True, union, each)
    return union


def _scan_of(relation: Relation) -> Scan | None:
    while isinstance(relation, Filter):
        relation = relation.input
    return relation if isinstance(relation, Scan) and relation.window is None else None


def _branch(
    project: Project, conditions: list[Expression], left: Relation, values: Values, i: int
) -> Project:
    """The projection for constant row `i`, under names of its own."""
    scan = _scan_of(left)
    assert scan is not None
    alias = scan.alias if i == 0 else f"{scan.alias}_{i}"
    fields = tuple(
        replace(each, name=f"{alias}.{each.name.removeprefix(f'{scan.alias}.')}")
        for each in scan.schema
    )
    meaning: dict[str, Expression] = {
        old.name: Column(new.name, new.type, new.nullable)
        for old, new in zip(scan.schema, fields, strict=True)
    }
    meaning |= dict(zip(values.schema.names, values.rows[i], strict=True))
    read = _renamed(left, replace(scan, alias=alias, schema=Schema(fields)), meaning)
    for each in reversed(conditions):
        read = Filter(read, substitute(each, meaning))
    ending = "" if i == 0 else f"_{i}"
    outputs = tuple((f"{name}{ending}", substitute(e, meaning)) for name, e in project.outputs)
    return Project(read, outputs, project.span)


def _renamed(relation: Relation, scan: Scan, meaning: dict[str, Expression]) -> Relation:
    if isinstance(relation, Filter):
        below = _renamed(relation.input, scan, meaning)
        return Filter(below, substitute(relation.condition, meaning), relation.span)
    return scan
