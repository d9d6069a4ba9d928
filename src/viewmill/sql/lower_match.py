"""Lower MATCH_RECOGNIZE to the automaton of a pattern.

takes  SELECT ... FROM m MATCH_RECOGNIZE (PARTITION BY ... ORDER BY ... MEASURES ... PATTERN ...)
gives  program.patterns.PatternQueries, marked: leftmost, greedy, SKIP PAST LAST ROW
next   kernels.matches

The measures become the SELECT of a pattern query, PARTITION BY its GROUP BY, DEFINE its WHERE.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from viewmill.algebra.relations import Filter, Project, Scan
from viewmill.algebra.walk import scans, walk_relations
from viewmill.errors import MalformedSQL, UnsupportedQuery
from viewmill.program.patterns import MATCHES, PatternQueries
from viewmill.sql.catalog import Catalog
from viewmill.sql.dialect import PatternSuffix, PatternVariable
from viewmill.sql.lower import lower
from viewmill.sql.lower_parts import PartCatalog
from viewmill.sql.lower_pattern import PatternSource, lower_pattern
from viewmill.sql.spans import span_of

_AFTER = ("AFTER MATCH SKIP PAST LAST ROW",)
_ROWS = ("ONE ROW PER MATCH",)
_VARIABLE = re.compile(r"([A-Za-z_]\w*)(\+?)")


def find_match(query: exp.Expr) -> exp.MatchRecognize | None:
    """The MATCH_RECOGNIZE of a SELECT from one table."""
    found = query.args.get("match") if isinstance(query, exp.Select) else None
    return found if isinstance(found, exp.MatchRecognize) else None


def lower_match(
    select: exp.Select, sql: str, view: str, source: PatternSource, catalog: Catalog
) -> PatternQueries:
    """The automaton of MATCH_RECOGNIZE."""
    match = find_match(select)
    assert match is not None
    _check(match, select, source, sql)
    inner = _as_pattern(match, source, sql)
    body = lower_pattern(inner, sql, view, source, catalog)
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
    return replace(body, outer=shown, is_match_recognize=True)


def _check(match: exp.MatchRecognize, select: exp.Select, source: PatternSource, sql: str) -> None:
    def refuse(message: str, node: exp.Expr, hint: str = "") -> UnsupportedQuery:
        return UnsupportedQuery(message, hint=hint, span=span_of(node, sql) or span_of(match, sql))

    after, rows = match.args.get("after"), match.args.get("rows")
    if after is not None and after.name.upper() not in _AFTER:
        raise refuse("only AFTER MATCH SKIP PAST LAST ROW is supported", after)
    if rows is not None and rows.name.upper() not in _ROWS:
        raise refuse("only ONE ROW PER MATCH is supported", rows)
    order = match.args.get("order")
    keys = [] if order is None else order.expressions
    if len(keys) != 1 or keys[0].this.name.lower() != source.timestamp_by.lower():
        raise refuse(f"MATCH_RECOGNIZE of this table is ORDER BY {source.timestamp_by}", match)
    if keys[0].args.get("desc"):
        raise refuse("rows are matched in the order of time, not DESC", keys[0])
    for key in ("joins", "group", "having", "distinct", "order", "limit", "qualify", "with_"):
        if select.args.get(key):
            hint = "Write it in a view over this one."
            raise refuse(f"no {key.upper().strip('_')} beside MATCH_RECOGNIZE", match, hint)


def _as_pattern(match: exp.MatchRecognize, source: PatternSource, sql: str) -> exp.Select:
    variables = _variables(match, sql)
    groups = [each.copy() for each in match.args.get("partition_by") or []]
    outputs: list[exp.Expr] = [each.copy() for each in groups]
    for each in match.args.get("measures") or []:
        outputs.append(_measure(each.this, sql))
    table = exp.to_table(source.name)
    table.set("suffixes", [PatternSuffix(expressions=variables)])
    query = exp.select(*outputs).from_(table)
    for define in match.args.get("define") or []:
        query = query.where(_condition(define, variables, sql))
    return query.group_by(*groups) if groups else query


def _variables(match: exp.MatchRecognize, sql: str) -> list[PatternVariable]:
    text = match.args["pattern"].name
    found = []
    for word in text.split():
        parsed = _VARIABLE.fullmatch(word)
        if parsed is None:
            raise UnsupportedQuery(
                f"PATTERN ({text}) is more than a sequence of variables with +",
                hint="Write PATTERN (a b+ c).",
                span=span_of(match, sql),
            )
        name = exp.to_identifier(parsed[1])
        found.append(PatternVariable(this=name, plus=bool(parsed[2])))
    if not found:
        raise MalformedSQL("PATTERN names no variable", span=span_of(match, sql))
    return found


def _measure(node: exp.Expr, sql: str) -> exp.Expr:
    """A measure; a bare column of a variable means its last row."""
    if not isinstance(node, exp.Alias):
        raise MalformedSQL("a measure needs a name", hint="AS name", span=span_of(node, sql))
    made = node.copy()
    for column in list(made.find_all(exp.Column)):
        if column.find_ancestor(exp.AggFunc) is None:
            column.replace(exp.Last(this=column.copy()))
    return made


def _condition(define: exp.Expr, variables: list[PatternVariable], sql: str) -> exp.Expr:
    """DEFINE b AS condition: columns without a variable are of the row itself."""
    name = define.alias
    by_name = {each.name.lower(): each for each in variables}
    own = by_name.get(name.lower())
    if own is None:
        raise MalformedSQL(f'"{name}" is not in the PATTERN', span=span_of(define, sql))
    made = define.this.copy()
    for column in made.find_all(exp.Column):
        if not column.table:
            column.set("table", exp.to_identifier(name))
        elif column.table.lower() != name.lower() and own.args["plus"]:
            raise UnsupportedQuery(
                f'"{name}+" is compared with itself only',
                hint=f"Write PREV({name}.{column.name}) for the row before.",
                span=span_of(column, sql),
            )
    return exp.Paren(this=made)
