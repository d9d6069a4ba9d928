"""Lower a sqlglot query to algebra.

takes  exp.Query as `sql.parse` gives it, the catalog of names
gives  algebra.Relation, typed, every node with its span; what the algebra cannot say is Foreign
next   rewrite.rules, or engines through sql.render
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.expressions import Column, Expression, SortKey
from viewmill.algebra.relations import Project, Relation, SetOperation
from viewmill.algebra.types import Type
from viewmill.errors import NameTaken, TypeMismatch, UnsupportedQuery, ViewmillError
from viewmill.sql.catalog import Catalog, PlainView
from viewmill.sql.coercion import cast, common_type
from viewmill.sql.dialect import reject_future_syntax
from viewmill.sql.environment import CommonTable, Describe, Environment, Lowered
from viewmill.sql.foreign import lower_foreign
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.lower_from import lower_values, visible
from viewmill.sql.lower_recursion import references, refuse_mutual
from viewmill.sql.lower_select import check_unique, lower_select
from viewmill.sql.lower_stream import has_window
from viewmill.sql.not_modelled import NotModelled, QueryNotModelled
from viewmill.sql.order import Ordering, limited, position_of
from viewmill.sql.scopes import Names, Scope

__all__ = ["Catalog", "Describe", "PlainView", "lower"]


def lower(
    query: exp.Query | exp.Values,
    sql: str,
    catalog: Catalog,
    describe: Describe | None = None,
    now: dt.datetime | None = None,
) -> Relation:
    """The meaning of `query`, whose text is `sql`; of a query that is answered once, at `now`.

    A query that the algebra cannot model becomes `Foreign` as a whole; `describe` then tells the
    types of its columns. Without `describe` it is UnsupportedQuery.
    """
    reject_future_syntax(query, sql)
    environment = Environment(sql, catalog, Names(), _lower_query, describe=describe, now=now)
    try:
        lowered = _lower_query(query, environment, None)
    except NotModelled as reason:
        if any(has_window(table) for table in query.find_all(exp.Table)):
            raise UnsupportedQuery(
                f"{reason.reason} is not supported together with a window", span=reason.span
            ) from None
        return lower_foreign(query, environment, reason, describe)
    except RecursionError:
        raise UnsupportedQuery("the query is nested too deeply") from None
    check_unique(lowered.names, environment.span(query))
    return lowered.relation


def _lower_query(node: exp.Expr, environment: Environment, prefix: str | None) -> Lowered:
    try:
        return _modelled(node, environment, prefix)
    except NotModelled as reason:
        if prefix is None or (kept := _kept_as_text(node, environment, prefix, reason)) is None:
            raise QueryNotModelled.because(reason) from None
        return kept


def _kept_as_text(
    node: exp.Expr, environment: Environment, prefix: str, reason: NotModelled
) -> Lowered | None:
    """A subquery that stands for itself as text for the engine, so that the rest is modelled."""
    query = node.unnest()
    tables = list(query.find_all(exp.Table))
    of_others = any(
        each.name.lower() in environment.common_tables or has_window(each) for each in tables
    )
    if environment.describe is None or not isinstance(query, exp.Query) or of_others:
        return None
    try:
        foreign = lower_foreign(query, environment, reason, environment.describe)
    except ViewmillError:  # it may read the columns of a query around it
        return None
    names = foreign.schema.names
    outputs = tuple(
        (environment.names.fresh(f"{prefix}.{each.name}"), Column(each.name, each.type, True))
        for each in foreign.schema
    )
    return Lowered(Project(foreign, outputs), names)


def _modelled(node: exp.Expr, environment: Environment, prefix: str | None) -> Lowered:
    environment = _with_common_tables(node, environment)
    if isinstance(node, exp.Subquery):
        return _parenthesized(node, environment, prefix)
    if isinstance(node, exp.Select):
        return lower_select(node, environment, prefix)
    if isinstance(node, exp.SetOperation):
        return _set_operation(node, environment, prefix)
    if isinstance(node, exp.Values):
        return _ordered(node, lower_values(node, environment, prefix), environment, prefix)
    raise NotModelled(type(node).__name__, environment.span(node))


def _with_common_tables(node: exp.Expr, environment: Environment) -> Environment:
    clause = node.args.get("with_")
    if clause is None:
        return environment
    if clause.args.get("recursive"):
        refuse_mutual(clause, environment)
    seen: set[str] = set()
    for each in clause.expressions:
        if each.alias.lower() in seen:
            raise NameTaken(f'two CTEs are called "{each.alias}"', span=environment.span(each))
        seen.add(each.alias.lower())
        # A CTE sees those before it, and shadows a table of its name.
        name, is_recursive = each.alias.lower(), bool(clause.args.get("recursive"))
        is_recursive = is_recursive and bool(references(each.this, name))
        made = CommonTable(each, environment, is_recursive)
        rows = {key: value for key, value in environment.recursive.items() if key != name}
        tables = {**environment.common_tables, name: made}
        environment = replace(environment, common_tables=tables, recursive=rows)
    return environment


def _parenthesized(node: exp.Subquery, environment: Environment, prefix: str | None) -> Lowered:
    if not any(node.args.get(key) for key in ("order", "limit", "offset")):
        return _lower_query(node.this, environment, prefix)
    inner = _lower_query(node.this, environment, prefix)
    return _ordered(node, inner, environment, prefix)


# UNION, INTERSECT, EXCEPT.


def _set_operation(node: exp.SetOperation, environment: Environment, prefix: str | None) -> Lowered:
    if any(node.args.get(key) for key in ("by_name", "side", "kind", "on")):
        raise NotModelled("UNION BY NAME", environment.span(node))
    # A chain of a thousand UNION ALL leans to the left: no recursion along it.
    chain: list[exp.SetOperation] = [node]
    while isinstance(chain[-1].this, exp.SetOperation) and not _is_closed(chain[-1].this):
        chain.append(chain[-1].this)
    result = _operand(chain[-1].this, environment, prefix)
    for each in reversed(chain):
        other = environment.names.fresh("subquery")
        right = _operand(each.expression, environment, other)
        result = _combined(each, result, right, environment)
    return _ordered(node, result, environment, prefix)


def _is_closed(node: exp.Expr) -> bool:
    return any(node.args.get(key) for key in ("with_", "order", "limit", "offset"))


def _operand(node: exp.Expr, environment: Environment, prefix: str | None) -> Lowered:
    lowered = _lower_query(node, environment, prefix)
    if prefix is None:
        check_unique(lowered.names, environment.span(node))
    return lowered


def _combined(
    node: exp.SetOperation, left: Lowered, right: Lowered, environment: Environment
) -> Lowered:
    word = type(node).__name__.upper()
    span = environment.span(node)
    a, b = left.relation.schema, right.relation.schema
    if len(a) != len(b):
        raise TypeMismatch(f"{word} of {len(a)} and {len(b)} columns", span=span)
    types: list[Type] = []
    for first, second in zip(a, b, strict=True):
        meeting = common_type(first.type, second.type)
        if meeting is None:
            message = f"{word} cannot combine {first.type} and {second.type}"
            raise TypeMismatch(message, hint="Convert one of them with CAST.", span=span)
        types.append(meeting)
    kinds = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}
    relation = SetOperation(
        kinds[type(node)],  # type: ignore[arg-type]
        not node.args.get("distinct"),
        _converted(left.relation, types),
        _converted(right.relation, types),
        span,
    )
    return Lowered(relation, left.names)


def _converted(relation: Relation, types: list[Type]) -> Relation:
    """The relation with its columns in `types`."""
    if [each.type for each in relation.schema] == types:
        return relation
    outputs: list[tuple[str, Expression]] = []
    for each, type_ in zip(relation.schema, types, strict=True):
        column = Column(each.name, each.type, each.nullable)
        outputs.append((each.name, cast(column, type_)))
    return Project(relation, tuple(outputs))


def _ordered(
    node: exp.Expr, lowered: Lowered, environment: Environment, prefix: str | None
) -> Lowered:
    """ORDER BY and LIMIT over something that is not a SELECT: only its outputs can be keys."""
    schema = lowered.relation.schema
    columns: list[tuple[str, Expression]] = [
        (each.name, Column(each.name, each.type, each.nullable)) for each in schema
    ]
    scope = Scope({}, visible(list(lowered.names), schema), environment.outer)
    lowering = ExpressionLowering(environment, scope)
    keys: list[SortKey] = []
    order = node.args.get("order")
    for each in order.expressions if order is not None else []:
        position = position_of(each, len(columns), environment.span(each))
        if position is None:
            keys.append(lowering.sort_key(each))
        else:
            key = SortKey(columns[position][1], bool(each.args.get("desc")))
            keys.append(replace(key, nulls_first=bool(each.args.get("nulls_first"))))
    ordering = Ordering(columns, keys, environment, hidden_allowed=True)
    relation = lowered.relation
    if ordering.hidden:
        relation = Project(relation, tuple(ordering.outputs()))
    relation = limited(node, relation, ordering, environment, top=prefix is None)
    return Lowered(relation, lowered.names)
