"""Walk and rebuild expressions and relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from viewmill.algebra import expressions as e
from viewmill.algebra.expressions import Expression
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
    inputs,
)

Rewrite = Callable[[Expression], Expression]


def map_parts(expression: Expression, change: Rewrite) -> Expression:
    """The expression with `change` applied to what is directly inside, queries left out."""
    match expression:
        case e.Column() | e.Literal() | e.ScalarSubquery() | e.Exists():
            return expression
        case e.Call():
            return replace(expression, arguments=tuple(map(change, expression.arguments)))
        case e.Cast():
            return replace(expression, input=change(expression.input))
        case e.Case():
            branches = tuple((change(a), change(b)) for a, b in expression.branches)
            return replace(expression, branches=branches, otherwise=change(expression.otherwise))
        case e.Aggregate():
            where = None if expression.where is None else change(expression.where)
            arguments = tuple(map(change, expression.arguments))
            return replace(expression, arguments=arguments, where=where)
        case e.Over():
            order = tuple(replace(k, expression=change(k.expression)) for k in expression.order)
            return replace(
                expression,
                arguments=tuple(map(change, expression.arguments)),
                partition=tuple(map(change, expression.partition)),
                order=order,
            )
        case e.InSubquery():
            return replace(expression, values=tuple(map(change, expression.values)))


def substitute(expression: Expression, by_name: Mapping[str, Expression]) -> Expression:
    """The expression with columns of the own query replaced by what they stand for."""
    if isinstance(expression, e.Column) and expression.outer == 0:
        return by_name.get(expression.name, expression)
    return map_parts(expression, lambda part: substitute(part, by_name))


def columns_of(expression: Expression) -> set[str]:
    """The columns that an expression reads from its own query's input."""
    return {
        part.name for part in e.walk(expression) if isinstance(part, e.Column) and part.outer == 0
    }


def queries(expression: Expression) -> Iterator[Relation]:
    """The queries directly inside an expression."""
    for part in e.walk(expression):
        if isinstance(part, e.ScalarSubquery | e.Exists | e.InSubquery):
            yield part.query


def has_subquery(expression: Expression) -> bool:
    """Whether a query stands anywhere inside."""
    return any(True for _ in queries(expression))


def expressions(relation: Relation) -> tuple[Expression, ...]:
    """The expressions that a relation itself evaluates."""
    match relation:
        case Scan() | Foreign() | Recursion() | Distinct() | SetOperation() | Limit():
            return ()
        case Values():
            return tuple(value for row in relation.rows for value in row)
        case Explode():
            return (relation.array,)
        case Filter():
            return (relation.condition,)
        case Project():
            return tuple(expression for _, expression in relation.outputs)
        case Join():
            return () if relation.condition is None else (relation.condition,)
        case Aggregate():
            keys = tuple(expression for _, expression in relation.keys)
            return keys + tuple(call for _, call in relation.aggregates)
        case Window():
            return tuple(call for _, call in relation.calls)
        case Sort():
            return tuple(key.expression for key in relation.keys)


def walk_relations(relation: Relation) -> Iterator[Relation]:
    """The relation and everything below it, subqueries inside expressions included."""
    # A stack, because each level of `yield from` costs every relation below it a step.
    ahead = [relation]
    while ahead:
        relation = ahead.pop()
        yield relation
        shown = [each for each in expressions(relation) if not isinstance(each, e.Column)]
        inside = [query for each in shown for query in queries(each)]
        ahead += reversed((*inputs(relation), *inside))


def user_calls(relation: Relation) -> Iterator[e.UserCall]:
    """Every call of a user's function."""
    for each in walk_relations(relation):
        for expression in expressions(each):
            yield from (part for part in e.walk(expression) if isinstance(part, e.UserCall))


def scans(relation: Relation) -> tuple[Scan, ...]:
    """Every scan of a table or view, in order."""
    return tuple(each for each in walk_relations(relation) if isinstance(each, Scan))


def sources(relation: Relation) -> tuple[str, ...]:
    """The names of the tables and views that a relation reads, each once."""
    return tuple(dict.fromkeys(scan.source for scan in scans(relation)))


def map_inputs(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """The relation with `change` applied to the relations directly below it."""
    match relation:
        case Scan() | Values() | Foreign() | Recursion():
            return relation
        case Join() | SetOperation():
            return replace(relation, left=change(relation.left), right=change(relation.right))
        case (
            Filter()
            | Project()
            | Aggregate()
            | Window()
            | Distinct()
            | Sort()
            | Limit()
            | Explode()
        ):
            return replace(relation, input=change(relation.input))


def transform(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """Apply `change` to every relation, from the leaves up."""
    return change(map_inputs(relation, lambda below: transform(below, change)))
