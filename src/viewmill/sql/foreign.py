"""Queries that the algebra cannot model, kept as Spark SQL for the engine.

takes  the query, the reason why it was not modelled
gives  algebra Foreign: the text with tables by their own names and plain views put in
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.algebra.relations import Foreign, Scan
from viewmill.algebra.schema import Schema
from viewmill.errors import (
    CyclicViews,
    EvaluationFailed,
    Span,
    UnsupportedQuery,
)
from viewmill.sql import functions
from viewmill.sql.auto_names import auto_name
from viewmill.sql.catalog import PlainView, function_in, spelled, unknown_table
from viewmill.sql.common_tables import is_common_table
from viewmill.sql.dialect import spark_text
from viewmill.sql.environment import Describe, Environment
from viewmill.sql.literals import joined_text
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.read_functions import read_function


def lower_foreign(
    query: exp.Query | exp.Values,
    environment: Environment,
    reason: NotModelled,
    describe: Describe | None,
) -> Foreign:
    """The whole query as text, its columns as `describe` says."""
    refuse_volatile(query, environment)
    _refuse_user_functions(query, environment, reason)
    scans: list[Scan] = []
    tree = _inlined(query, environment, scans)
    _name_outputs(tree, environment.sql)
    text = _spark_text(tree, reason)
    if describe is None:
        error = UnsupportedQuery(f"{reason.reason} is not supported", span=reason.span)
        raise refused(reason, error, reason.span)
    place = reason.span or environment.span(query)
    try:
        schema = describe(text, tuple(scans))
    except (UnsupportedQuery, EvaluationFailed) as error:
        raise refused(reason, error, place) from error
    return Foreign(text, tuple(scans), schema, f"{reason.reason} is not modelled", place)


def _spark_text(tree: exp.Expr, reason: NotModelled) -> str:
    try:
        return spark_text(tree)
    except SqlglotError as error:
        hint = "Write it with simpler functions."
        message = f"{reason.reason} cannot be handed to an engine"
        raise UnsupportedQuery(message, detail=str(error), hint=hint, span=reason.span) from error


def _name_outputs(tree: exp.Expr, sql: str) -> None:
    """Outputs without a name get Spark's, which is not the engine's."""
    for node in tree.selects if isinstance(tree, exp.Query) else []:
        is_star = isinstance(node, exp.Star) or isinstance(node.this, exp.Star)
        if not is_star and not node.alias_or_name:
            node.replace(exp.alias_(node.copy(), auto_name(node, sql), quoted=True))


def refuse_volatile(query: exp.Expr, environment: Environment) -> None:
    """Functions whose value changes although no row does have no place in a view."""
    if environment.now is not None:
        return
    for node in query.find_all(exp.Func):
        name, _ = read_function(node)
        if name in functions.VOLATILE:
            raise UnsupportedQuery(
                f"{name} cannot be used in a view",
                detail="Its value changes although no row does.",
                hint="Put the value into a table and read it from there.",
                span=environment.span(node),
            )


def _refuse_user_functions(query: exp.Expr, environment: Environment, reason: NotModelled) -> None:
    """No engine knows the user's functions by name, so none can run such a query as text."""
    for node in query.find_all(exp.Anonymous):
        user = function_in(environment.catalog, node.name)
        if user is not None:
            raise UnsupportedQuery(
                f"{user.name} cannot be called in this query",
                detail=f"The query is left to the engine: {reason.reason} is not modelled.",
                hint="Call the function in a view of its own, and read that view here.",
                span=environment.span(node),
            )


def refused(
    reason: NotModelled, error: UnsupportedQuery | EvaluationFailed, place: Span | None
) -> UnsupportedQuery:
    """The error of a query that the engine does not take either."""
    hint = error.hint or f"Only an engine could compute {reason.reason}, and this one cannot."
    detail, named = error.detail, reason.reason.removeprefix("the function ")
    if named not in error.message:  # it is about another place, which would do without this one
        detail = detail or f"The query is left to the engine for {reason.reason}."
    return UnsupportedQuery(error.message, detail=detail, hint=hint, span=place)


def _inlined(query: exp.Expr, environment: Environment, scans: list[Scan]) -> exp.Expr:
    """A copy of the query in which every table goes by its own name."""
    tree = query.copy()
    for node in list(tree.find_all(exp.Concat)):
        if (text := joined_text(node, environment.sql)) is not None:
            node.replace(exp.Literal.string(text))
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            continue
        name = ".".join(part.name for part in table.parts)
        if is_common_table(table):
            continue
        found = _known(table, name, environment)
        if isinstance(found, PlainView):
            _put_in(table, name, found, environment, scans)
        else:
            _note_scan(table, spelled(environment.catalog, name), found, environment, scans)
    return tree


def _known(table: exp.Table, name: str, environment: Environment) -> Schema | PlainView:
    found = environment.catalog.find(name)
    if found is None:
        known = environment.catalog.names()
        raise unknown_table(environment.catalog, name, known, environment.span(table.this))
    return found


def _put_in(
    table: exp.Table, name: str, view: PlainView, environment: Environment, scans: list[Scan]
) -> None:
    if name.lower() in environment.views:
        raise CyclicViews(f'view "{name}" reads itself', span=environment.span(table.this))
    inside = replace(environment, sql=view.sql, views=(*environment.views, name.lower()))
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
    inner = _inlined(view.query, inside, scans)
    others = {
        key: value for key, value in table.args.items() if key in ("joins", "pivots", "laterals")
    }
    table.replace(exp.Subquery(this=inner, alias=alias, **others))


def _note_scan(
    table: exp.Table, source: str, schema: Schema, environment: Environment, scans: list[Scan]
) -> None:
    span = environment.span(table.this)
    own = environment.names.fresh_alias(table.alias_or_name)
    fields = tuple(replace(each, name=f"{own}.{each.name}") for each in schema)
    scans.append(Scan(source, own, Schema(fields), span))
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(source, quoted=True))
    table.set("db", None)
    table.set("catalog", None)
