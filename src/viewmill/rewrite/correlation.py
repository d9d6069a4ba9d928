"""What the rules that turn subqueries into joins share: conjuncts, outer columns, fresh names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from viewmill.algebra import expressions as e
from viewmill.algebra.conditions import conjuncts, filtered
from viewmill.algebra.expressions import Call, Column, Expression
from viewmill.algebra.relations import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Sort,
    Values,
    Window,
    inputs,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import BOOLEAN
from viewmill.algebra.walk import (
    expressions,
    has_subquery,
    map_inputs,
    map_parts,
    substitute,
)


class NotDecorrelated(Exception):
    """The subquery has a form that no rule turns into a join; it stays."""


def equal(left: Expression, right: Expression) -> Expression:
    """left = right."""
    return Call("=", (left, right), BOOLEAN, left.nullable or right.nullable)


def has_outer(expression: Expression) -> bool:
    """Whether an expression reads a column of a query around its own."""
    return any(isinstance(part, Column) and part.outer > 0 for part in e.walk(expression))


def from_inside(expression: Expression) -> Expression:
    """An expression of a subquery as the query around it reads it."""
    if isinstance(expression, Column) and expression.outer > 0:
        return replace(expression, outer=expression.outer - 1)
    return map_parts(expression, from_inside)


@dataclass(frozen=True)
class Peeled:
    """A subquery without its projections: `rows` that meet `correlated`, shown as `outputs`.

    The outputs and the conditions are over the columns of `rows`; in the conditions the columns of
    the query around stand beside them.
    """

    rows: Relation
    correlated: tuple[Expression, ...]
    outputs: tuple[Named, ...]


def peel(query: Relation) -> Peeled:
    """Take the correlated conditions out of a subquery, or `NotDecorrelated`."""
    if isinstance(query, Sort):
        query = query.input
    conditions, outputs, bottom = linear(query)
    if not is_free(bottom) or any(has_outer(each) for _, each in outputs):
        raise NotDecorrelated
    if any(map(has_subquery, (*conditions, *(each for _, each in outputs)))):
        raise NotDecorrelated
    own = [each for each in conditions if not has_outer(each)]
    outer = tuple(from_inside(each) for each in conditions if has_outer(each))
    return Peeled(filtered(bottom, own), outer, outputs)


def linear(query: Relation) -> tuple[tuple[Expression, ...], tuple[Named, ...], Relation]:
    """Peel projections and filters: conditions and outputs over what lies below."""
    if isinstance(query, Project):
        conditions, columns, bottom = linear(query.input)
        by_name = dict(columns)
        outputs = tuple((name, substitute(each, by_name)) for name, each in query.outputs)
        return conditions, outputs, bottom
    if isinstance(query, Filter):
        conditions, columns, bottom = linear(query.input)
        condition = substitute(query.condition, dict(columns))
        return (*conditions, *conjuncts(condition)), columns, bottom
    names = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in query.schema)
    return (), names, query


def is_free(relation: Relation) -> bool:
    """Whether a relation reads nothing of the query around it and has no subqueries."""
    own = expressions(relation)
    if any(has_outer(each) or has_subquery(each) for each in own):
        return False
    return all(is_free(below) for below in inputs(relation))


def transform_everywhere(query: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """Apply `change` to every relation from the leaves up, those in subqueries first."""

    def visit(relation: Relation) -> Relation:
        below = map_inputs(relation, visit)
        return change(_map_queries(below, visit))

    return visit(query)


def _map_queries(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    def inside(expression: Expression) -> Expression:
        if isinstance(expression, e.ScalarSubquery | e.Exists | e.InSubquery):
            expression = replace(expression, query=change(expression.query))
        return map_parts(expression, inside)

    return map_expressions(relation, inside)


def map_expressions(relation: Relation, change: Callable[[Expression], Expression]) -> Relation:
    """The relation with `change` applied to the expressions that it evaluates."""

    def named(pairs: Iterable[tuple[str, Expression]]) -> tuple[tuple[str, Expression], ...]:
        return tuple((name, change(each)) for name, each in pairs)

    match relation:
        case Explode():
            return replace(relation, array=change(relation.array))  # type: ignore[arg-type]
        case Filter():
            return replace(relation, condition=change(relation.condition))
        case Project():
            return replace(relation, outputs=named(relation.outputs))
        case Join(condition=condition) if condition is not None:
            return replace(relation, condition=change(condition))
        case Aggregate():
            calls = named(relation.aggregates)
            return replace(relation, keys=named(relation.keys), aggregates=calls)  # type: ignore[arg-type]
        case Window():
            return replace(relation, calls=named(relation.calls))  # type: ignore[arg-type]
        case Sort():
            keys = tuple(replace(k, expression=change(k.expression)) for k in relation.keys)
            return replace(relation, keys=keys)
        case Values():
            return replace(relation, rows=tuple(tuple(map(change, row)) for row in relation.rows))
        case _:
            return relation


def fresh_copy(relation: Relation, mark: str) -> tuple[Relation, Mapping[str, str]]:
    """A copy of the relation with fresh column names, and the new name of each old one."""
    names: dict[str, str] = {}

    def rename(each: Relation) -> Relation:
        if isinstance(each, Scan):
            return _fresh_scan(each, mark, names)
        for field in each.schema:
            names.setdefault(field.name, field.name + mark)
        return _renamed(each, names)

    def visit(each: Relation) -> Relation:
        return rename(map_inputs(each, visit))

    return visit(relation), names


def _fresh_scan(scan: Scan, mark: str, names: dict[str, str]) -> Scan:
    # An alias becomes part of names in generated source.
    alias, fields = scan.alias + mark.replace("#", "__"), []
    for field in scan.schema:
        own = field.name.removeprefix(f"{scan.alias}.")
        names[field.name] = f"{alias}.{own}" if own != field.name else field.name + mark
        fields.append(replace(field, name=names[field.name]))
    return replace(scan, alias=alias, schema=Schema(tuple(fields)))


def _renamed(relation: Relation, names: Mapping[str, str]) -> Relation:
    def change(expression: Expression) -> Expression:
        if isinstance(expression, Column) and expression.outer == 0:
            return replace(expression, name=names[expression.name])
        return map_parts(expression, change)

    relation = map_expressions(relation, change)
    match relation:
        case Project():
            return replace(relation, outputs=tuple((names[n], x) for n, x in relation.outputs))
        case Aggregate():
            keys = tuple((names[n], x) for n, x in relation.keys)
            calls = tuple((names[n], x) for n, x in relation.aggregates)
            return replace(relation, keys=keys, aggregates=calls)
        case Window():
            return replace(relation, calls=tuple((names[n], x) for n, x in relation.calls))
        case Explode():
            made = tuple(replace(f, name=names[f.name]) for f in relation.made)
            return replace(relation, made=made)
        case Values():
            fields = tuple(replace(f, name=names[f.name]) for f in relation.schema)
            return replace(relation, schema=Schema(fields))
        case _:
            return relation


def own_columns(relation: Relation, like: Relation) -> Relation:
    """The relation with no other columns than those of `like`."""
    if relation.schema.names == like.schema.names:
        return relation
    columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in like.schema)
    return Project(relation, columns)
