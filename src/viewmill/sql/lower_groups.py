"""Lower GROUP BY: keys, grouping sets, and aggregates taken out of expressions.

takes  the Group node of a SELECT and its lowered outputs
gives  an algebra Aggregate, and the outputs over its columns
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import (
    Aggregate,
    Call,
    Column,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Over,
    ScalarSubquery,
    walk,
)
from viewmill.algebra.relations import Aggregate as AggregateRelation
from viewmill.algebra.relations import Relation, inputs
from viewmill.algebra.types import INT
from viewmill.algebra.walk import expressions, queries
from viewmill.errors import Span, TypeMismatch, UnsupportedQuery
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.replace_parts import replace_parts
from viewmill.sql.scopes import Names

# A column made from an expression is named by it while that is readable.
_LONGEST_NAME = 48


def made_name(names: Names, expression: Expression, otherwise: str) -> str:
    """A name for a column that stands for `expression`: "sum(o.amount)"."""
    if isinstance(expression, Column) and expression.outer == 0:
        return expression.name
    text = display_expression(expression)
    return names.fresh(text if len(text) <= _LONGEST_NAME else otherwise)


@dataclass
class Groups:
    """The keys of a query; `sets` are positions of keys, None without grouping sets."""

    keys: list[Expression] = field(default_factory=list)
    sets: list[tuple[int, ...]] | None = None

    def position(self, key: Expression) -> int:
        """The position of `key`; a new one is appended."""
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)


Resolve = Callable[[exp.Expr], Expression]


def lower_groups(
    group: exp.Group | None,
    lowering: ExpressionLowering,
    outputs: Sequence[tuple[str, Expression]],
) -> Groups:
    """The keys that GROUP BY names: columns, expressions, positions, aliases, ALL, sets."""
    groups = Groups()
    if group is None:
        return groups
    if group.args.get("totals"):
        raise NotModelled("WITH TOTALS", lowering.span(group))
    if group.args.get("all"):
        groups.keys = _all_keys(outputs)
        return groups

    def resolve(node: exp.Expr) -> Expression:
        return _key(node, lowering, outputs)

    alternatives = [_alternatives(node, groups, resolve) for node in group.expressions]
    trailing = [*(group.args.get("cube") or []), *(group.args.get("rollup") or [])]
    trailing += group.args.get("grouping_sets") or []
    for node in trailing:
        # In GROUP BY a, b WITH ROLLUP the keys are named before.
        nodes = node.expressions or group.expressions
        alternatives = [_sets(type(node), nodes, groups, resolve)]
    if any(len(each) != 1 for each in alternatives) or trailing:
        chosen = product(*alternatives)
        groups.sets = [tuple(dict.fromkeys(i for part in each for i in part)) for each in chosen]
    return groups


def _all_keys(outputs: Sequence[tuple[str, Expression]]) -> list[Expression]:
    keys: list[Expression] = []
    for _, expression in outputs:
        parts = list(walk(expression))
        is_whole = any(isinstance(each, Aggregate | Over) for each in parts)
        if not is_whole and any(isinstance(each, Column) for each in parts):
            keys += _columns(expression)
    return list(dict.fromkeys(keys))


def _alternatives(node: exp.Expr, groups: Groups, resolve: Resolve) -> list[tuple[int, ...]]:
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        return _sets(type(node), node.expressions, groups, resolve)
    return [_positions(node, groups, resolve)]


def _sets(
    kind: type[exp.Expr], nodes: list[exp.Expr], groups: Groups, resolve: Resolve
) -> list[tuple[int, ...]]:
    if kind is exp.GroupingSets:
        return [each for node in nodes for each in _alternatives(node, groups, resolve)]
    units = [_positions(node, groups, resolve) for node in nodes]
    if kind is exp.Rollup:
        prefixes = [units[:count] for count in range(len(units), -1, -1)]
        return [tuple(i for unit in each for i in unit) for each in prefixes]
    masks = product((True, False), repeat=len(units))
    return [
        tuple(i for unit, kept in zip(units, mask, strict=True) if kept for i in unit)
        for mask in masks
    ]


def _positions(node: exp.Expr, groups: Groups, resolve: Resolve) -> tuple[int, ...]:
    if isinstance(node, exp.Paren):
        return _positions(node.this, groups, resolve)
    nodes = node.expressions if isinstance(node, exp.Tuple) else [node]
    return tuple(groups.position(key) for each in nodes for key in _columns(resolve(each)))


def _columns(key: Expression) -> tuple[Expression, ...]:
    """A struct is grouped by its fields: window(...) by its start and its end."""
    is_struct = isinstance(key, Call) and key.function == "named_struct"
    return key.arguments[1::2] if isinstance(key, Call) and is_struct else (key,)


def _key(
    node: exp.Expr, lowering: ExpressionLowering, outputs: Sequence[tuple[str, Expression]]
) -> Expression:
    span = lowering.span(node)
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and node.name.isdigit():
        position = int(node.name)
        if not 1 <= position <= len(outputs):
            raise TypeMismatch(
                f"GROUP BY position {position} is not one of 1 to {len(outputs)}", span=span
            )
        key = outputs[position - 1][1]
    else:
        key = lowering.lower(node)
    if any(isinstance(each, Aggregate | Over) for each in walk(key)):
        raise TypeMismatch("GROUP BY cannot hold an aggregate", span=span)
    return key


class Grouping:
    """Takes aggregates out of expressions and puts columns of the Aggregate node in."""

    def __init__(self, groups: Groups, environment: Environment) -> None:
        self.groups, self.environment = groups, environment
        names = environment.names
        self.key_names = [made_name(names, key, "key") for key in groups.keys]
        self.aggregates: list[tuple[str, Aggregate]] = []

    def rewrite(self, expression: Expression) -> Expression:
        """The expression over the columns of the Aggregate node."""
        return replace_parts(expression, self._find)

    def relation(self, input_: Relation, span: Span | None) -> AggregateRelation:
        """The Aggregate node; call it after every expression was rewritten."""
        keys = tuple(zip(self.key_names, self.groups.keys, strict=True))
        sets = None if self.groups.sets is None else tuple(self.groups.sets)
        if sets is not None and len(sets) > 1 and () in sets:
            # Over no rows Spark shows no total, unless it is all that is asked for.
            one = Literal(1, INT)
            keys = (*keys, (made_name(self.environment.names, one, "all"), one))
            sets = tuple(each or (len(keys) - 1,) for each in sets)
        return AggregateRelation(input_, keys, tuple(self.aggregates), sets, span)

    def _find(self, expression: Expression) -> Expression | None:
        if expression in self.groups.keys:
            i = self.groups.keys.index(expression)
            nullable = expression.nullable or self.groups.sets is not None
            return Column(self.key_names[i], expression.type, nullable, span=expression.span)
        if isinstance(expression, Aggregate):
            return self._aggregate(expression)
        if isinstance(expression, Column) and expression.outer == 0:
            raise self._not_grouped(expression.name, expression.span)
        if isinstance(expression, ScalarSubquery | Exists | InSubquery):
            self._check_correlation(expression)
        return None

    def _aggregate(self, call: Aggregate) -> Column:
        inner = [part for each in call.arguments for part in walk(each)]
        if any(isinstance(part, Aggregate | Over) for part in inner):
            raise TypeMismatch("an aggregate cannot hold another one", span=call.span)
        if call.function in ("grouping", "grouping_id"):
            call = self._grouping(call)
        for name, known in self.aggregates:
            if known == call:
                return Column(name, call.type, call.nullable, span=call.span)
        name = made_name(self.environment.names, call, call.function)
        self.aggregates.append((name, call))
        return Column(name, call.type, call.nullable, span=call.span)

    def _grouping(self, call: Aggregate) -> Aggregate:
        keys = call.arguments or tuple(self.groups.keys)
        if any(each not in self.groups.keys for each in keys) or self.groups.sets is None:
            raise TypeMismatch(
                f"{call.function} takes keys of ROLLUP, CUBE or GROUPING SETS", span=call.span
            )
        positions = tuple(Literal(self.groups.keys.index(each), INT) for each in keys)
        return replace(call, arguments=positions)

    def _not_grouped(self, name: str, span: Span | None) -> UnsupportedQuery:
        shown = name.split(".", 1)[-1]
        return UnsupportedQuery(
            f'"{shown}" is neither in GROUP BY nor inside an aggregate',
            detail="A group has many rows, and so many values of it.",
            hint=f"Add {shown} to GROUP BY, or use min({shown}) or max({shown}).",
            span=span,
        )

    def _check_correlation(self, expression: Expression) -> None:
        """A subquery over groups may use only keys that are columns."""
        for query in queries(expression):
            for column in correlated(query):
                if column.name not in self.key_names:
                    raise self._not_grouped(column.name, column.span)


def correlated(query: Relation, depth: int = 1) -> list[Column]:
    """The columns of the query around that `query` uses."""
    found: list[Column] = []
    for expression in expressions(query):
        parts = walk(expression)
        found += [each for each in parts if isinstance(each, Column) and each.outer == depth]
        for inner in queries(expression):
            found += correlated(inner, depth + 1)
    for below in inputs(query):
        found += correlated(below, depth)
    return found
