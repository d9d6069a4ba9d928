"""Lower MATCH_RECOGNIZE to the automaton of a pattern.

takes  SELECT ... FROM m MATCH_RECOGNIZE (PARTITION BY ... ORDER BY ... MEASURES ... PATTERN ...)
gives  program.patterns.PatternQueries, marked: leftmost, greedy, SKIP PAST LAST ROW; or
       program.row_patterns.RowPatternQueries
next   kernels.matches, kernels.row_matches

A sequence of variables becomes an automaton: the measures are the SELECT of a pattern query,
PARTITION BY its GROUP BY, DEFINE its WHERE. sql.lower_row_pattern lowers every other pattern.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.expressions import Column
from viewmill.algebra.relations import Filter, Project, Relation, Scan
from viewmill.algebra.walk import scans, transform, walk_relations
from viewmill.errors import MalformedSQL, UnknownName, UnsupportedQuery, nearest
from viewmill.program.patterns import MATCHES, PatternQueries
from viewmill.sql.catalog import Catalog
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog
from viewmill.sql.lower_pattern import PatternSource, lower_pattern, refuse_other_clauses
from viewmill.sql.lower_row_pattern import lower_row_pattern
from viewmill.sql.parse_match import (
    PatternSuffix,
    PatternVariable,
    RowPatternMatch,
    Semantics,
    as_sequence,
)
from viewmill.sql.spans import span_of


def find_match(query: exp.Expr) -> RowPatternMatch | None:
    """The MATCH_RECOGNIZE of a SELECT from one table."""
    found = query.args.get("match") if isinstance(query, exp.Select) else None
    return found if isinstance(found, RowPatternMatch) else None


def lower_match(
    select: exp.Select, sql: str, view: str, source: PatternSource, catalog: Catalog
) -> PatternQueries:
    """The automaton of MATCH_RECOGNIZE."""
    match = find_match(select)
    assert match is not None
    _check(match, select, source, sql)
    body = _body(match, sql, view, source, catalog)
    fields = body.show.schema
    outer = select.copy()
    outer.set("match", None)
    table = exp.to_table(MATCHES, quoted=True)
    table.this.set("quoted", True)
    alias = match.args.get("alias")
    table.set("alias", alias.copy() if alias is not None else exp.TableAlias(
        this=exp.to_identifier(source.name, quoted=True)))  # fmt: skip
    outer.set("from_", exp.From(this=table))
    shown = lower(outer, sql, PartCatalog(catalog, {MATCHES: fields}))
    by_row = all(isinstance(each, Project | Filter | Scan) for each in walk_relations(shown))
    if not by_row or len(scans(shown)) > 1:
        raise UnsupportedQuery(
            "only columns and WHERE stand beside MATCH_RECOGNIZE",
            detail="An aggregate or a subquery is of all matches together.",
            hint="Write it in a view over this one.",
            span=span_of(match, sql),
        )
    return replace(body, show=_over(shown, body.show))


def _body(
    match: RowPatternMatch, sql: str, view: str, source: PatternSource, catalog: Catalog
) -> PatternQueries:
    """An automaton, if the pattern is a sequence that one can match; else steps of a matcher."""
    sequence = as_sequence(match.args["pattern"])
    has_more = match.args.get("subsets") or match.args.get("within")
    is_plain = (match.args["rows"], match.args["after"]) == ("one", "past") and not has_more
    if sequence is not None and is_plain and len(match.args["order"].expressions) == 1:
        try:
            inner = _as_pattern(match, sequence, source, sql)
            return lower_pattern(inner, sql, view, source, catalog, is_match=True)
        except UnsupportedQuery:
            pass
    return lower_row_pattern(match, sql, view, source, catalog)


def _over(outer: Relation, inner: Relation) -> Relation:
    """Put the query around MATCH_RECOGNIZE on top of the relation that computes its measures."""
    (scan,) = scans(outer)
    names = zip(scan.schema.names, inner.schema, strict=True)
    columns = tuple((name, Column(f.name, f.type, f.nullable)) for name, f in names)
    named = Project(inner, columns)
    return transform(outer, lambda each: named if each == scan else each)


def _check(match: RowPatternMatch, select: exp.Select, source: PatternSource, sql: str) -> None:
    refuse_other_clauses(select, ("expressions", "from_", "where", "match"), sql, ("alias",))
    order = match.args.get("order")
    keys = [] if order is None else order.expressions
    is_time = bool(keys) and isinstance(keys[0].this, exp.Column)
    if not is_time or keys[0].this.name.lower() != source.timestamp_by.lower():
        raise UnsupportedQuery(
            f"MATCH_RECOGNIZE of this table is ORDER BY {source.timestamp_by}",
            hint="Rows are matched in the order of the table's TIMESTAMP BY.",
            span=span_of(match if order is None else order, sql) or span_of(match, sql),
        )
    if keys[0].args.get("desc"):
        raise UnsupportedQuery(
            "rows are matched in the order of time, not DESC",
            hint="Leave DESC out and turn the pattern around.",
            span=span_of(keys[0], sql),
        )


def _as_pattern(
    match: RowPatternMatch, pattern: PatternSuffix, source: PatternSource, sql: str
) -> exp.Select:
    groups = [each.copy() for each in match.args.get("partition_by") or []]
    outputs: list[exp.Expr] = [each.copy() for each in groups]
    for each in match.args.get("measures") or []:
        # Of one row for each match, RUNNING and FINAL are the same: both are of its last row.
        outputs.append(_measure(each, sql))
    if not outputs:
        raise UnsupportedQuery(
            "MATCH_RECOGNIZE shows nothing: it has neither PARTITION BY nor MEASURES",
            hint="MEASURES COUNT(*) AS n",
            span=span_of(match, sql),
        )
    table = exp.Table(this=exp.to_identifier(source.name, quoted=True))
    table.set("suffixes", [pattern.copy()])
    query = exp.select(*outputs).from_(table)
    defined: set[str] = set()
    for define in match.args.get("define") or []:
        if define.alias.lower() in defined:
            raise MalformedSQL(
                f'"{define.alias}" is defined twice', hint="Join both conditions by AND.",
                span=span_of(define, sql),
            )  # fmt: skip
        defined.add(define.alias.lower())
        query = query.where(_condition(define, pattern.expressions, sql))
    return query.group_by(*groups) if groups else query


def _measure(node: exp.Expr, sql: str) -> exp.Expr:
    """A measure; a bare column of a variable means its last row."""
    if not isinstance(node, exp.Alias):
        raise MalformedSQL("a measure needs a name", hint="AS name", span=span_of(node, sql))
    made = node.copy()
    for each in list(made.find_all(Semantics)):
        each.replace(each.this)
    for column in list(made.find_all(exp.Column)):
        if column.find_ancestor(exp.AggFunc) is None:
            column.replace(exp.Last(this=column.copy()))
    return made


def _condition(define: exp.Expr, variables: list[PatternVariable], sql: str) -> exp.Expr:
    """DEFINE b AS condition: columns without a variable are of the row itself."""
    name = define.alias
    names = [each.name.lower() for each in variables]
    if name.lower() not in names:
        raise MalformedSQL(
            f'"{name}" is not in the PATTERN', hint=nearest(name, names), span=span_of(define, sql)
        )
    at = names.index(name.lower())
    made = define.this.copy()
    for column in made.find_all(exp.Column):
        if not column.table:
            column.set("table", exp.to_identifier(name))
        elif column.table.lower() != name.lower():
            _check_other(column, at, variables, names, sql)
    return exp.Paren(this=made)


def _check_other(
    column: exp.Column, at: int, variables: list[PatternVariable], names: list[str], sql: str
) -> None:
    """A column of another variable is that of the row before, or it is not known here."""
    name, span = variables[at].name, span_of(column, sql)
    if column.table.lower() not in names:
        raise UnknownName(
            f'there is no variable "{column.table}" in the pattern',
            hint=nearest(column.table, names), span=span,
        )  # fmt: skip
    if variables[at].args["plus"]:
        raise UnsupportedQuery(
            f'"{name}+" is compared with itself only',
            hint=f"Write PREV({name}.{column.name}) for the row before.",
            span=span,
        )
    if at == 0 or names[at - 1] != column.table.lower():
        raise UnsupportedQuery(
            f'"{name}" is compared with itself or with the variable before it',
            hint=f"Write PREV({name}.{column.name}) for the row before.",
            span=span,
        )
