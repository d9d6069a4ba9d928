"""Extract the inputs of nested aggregates into blocks, so that each condition reads tables only.

takes  a relation, and a function that makes a block of a relation
gives  the relation with scans of blocks in place of:

- the outer rows, if they are more than a table (a join, a group-by);
- the inner rows, if they are, or if a condition on them has nested aggregates itself (RPAI's NQ1:
  the inner query is maintained on its own, and its delta is the delta of a table);
- the inner rows joined with the distinct values of outer columns, if the inner condition reads such
  columns (NQ2): the outer query then selects the rows of its own value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import (
    Call,
    Column,
    Exists,
    Expression,
    InSubquery,
    ScalarSubquery,
    walk,
)
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    SetOperation,
    Window,
    inputs,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import BOOLEAN
from viewmill.algebra.walk import (
    columns_of,
    expressions,
    has_subquery,
    map_inputs,
    map_parts,
    queries,
    walk_relations,
)
from viewmill.rewrite.correlation import fresh_copy, linear, map_expressions
from viewmill.rewrite.prune_columns import prune_columns
from viewmill.rewrite.rules import rewrite

MakeBlock = Callable[[Relation], Scan]
_Subquery = ScalarSubquery | Exists | InSubquery


def separate(query: Relation, block: MakeBlock) -> Relation:
    """Extract the inputs of the query's nested aggregates; the query itself if it has none."""
    return _separate(query, block, names_read(query))


def _separate(query: Relation, block: MakeBlock, used: set[str] | None) -> Relation:
    separated = map_inputs(query, lambda each: _separate(each, block, used))
    if not isinstance(separated, Filter) or not _is_nested(separated.condition):
        return separated
    return _Separator(separated, block, used).filter()


def names_read(query: Relation) -> set[str] | None:
    """The columns that are read or output anywhere; None if some operator needs all columns."""
    used = set(query.schema.names)
    for relation in walk_relations(query):
        if isinstance(relation, Distinct | SetOperation | Window):
            return None
        for each in expressions(relation):
            used |= {part.name for part in walk(each) if isinstance(part, Column)}
    return used


def narrowed(relation: Relation, used: set[str] | None) -> Relation:
    """The relation without unused columns."""
    kept = [f for f in relation.schema if used is None or f.name in used]
    if len(kept) == len(relation.schema):
        return relation
    columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in kept)
    return prune_columns(Project(relation, columns)) if kept else relation


def _is_nested(condition: Expression) -> bool:
    return any(isinstance(part, ScalarSubquery) for part in walk(condition))


@dataclass
class _Separator:
    """Extracts the blocks of one filter."""

    whole: Filter
    block: MakeBlock
    used: set[str] | None

    def filter(self) -> Relation:
        """The filter over blocks."""
        rows, condition = self.whole.input, self.whole.condition
        _, _, bottom = linear(rows)
        if not isinstance(bottom, Scan):
            parts = list(conjuncts(condition))
            rows = rewrite(filtered(rows, [each for each in parts if not has_subquery(each)]))
            condition = together([each for each in parts if has_subquery(each)]) or condition
            scan, names = self._scan(rows)
            shown = (f for f in rows.schema if f.name in names)
            back = tuple((f.name, Column(names[f.name], f.type, f.nullable)) for f in shown)
            inside = self._condition(rename_expression(condition, names), scan)
            return Project(Filter(scan, inside, self.whole.span), back)
        return replace(self.whole, condition=self._condition(condition, rows))

    def _scan(
        self, relation: Relation, more: frozenset[str] = frozenset()
    ) -> tuple[Scan, Mapping[str, str]]:
        """A scan of a new block, and the new names of its columns, prefixed with its alias."""
        relation = narrowed(relation, None if self.used is None else self.used | more)
        made = self.block(relation)
        names = {f.name: f"{made.alias}.{f.name}" for f in relation.schema}
        fields = tuple(replace(f, name=names[f.name]) for f in relation.schema)
        return replace(made, schema=Schema(fields)), names

    def _condition(self, expression: Expression, rows: Relation) -> Expression:
        if isinstance(expression, ScalarSubquery):
            return replace(expression, query=self._subquery(expression.query, rows))
        return map_parts(expression, lambda part: self._condition(part, rows))

    def _subquery(self, query: Relation, rows: Relation) -> Relation:
        """A subquery with its aggregate over a block."""
        if isinstance(query, Project | Filter):
            return replace(query, input=self._subquery(query.input, rows))
        if isinstance(query, Aggregate):
            return self._aggregate(query, rows)
        return query

    def _aggregate(self, group: Aggregate, rows: Relation) -> Aggregate:
        conditions, outputs, bottom = linear(group.input)
        own = [each for each in conditions if not reads_outside(each)]
        deep = [each for each in conditions if reads_outside(each) and has_subquery(each)]
        other = [each for each in conditions if reads_outside(each) and not has_subquery(each)]
        if isinstance(bottom, Scan) and not deep and not any(map(has_subquery, own)):
            return group
        inside, new = filtered(bottom, own), frozenset[str]()
        if deep:
            inside, met = _with_values(inside, deep, rows)
            other += met
            new = frozenset(name for each in met for name in columns_of(each))
        scan, names = self._scan(inside, new)
        shown = tuple(
            (name, rename_expression(each, names))
            for name, each in outputs
            if columns_of(each) <= set(names)
        )
        above = filtered(scan, [rename_expression(each, names) for each in other])
        return replace(group, input=Project(above, shown))


def _with_values(
    inside: Relation, deep: list[Expression], rows: Relation
) -> tuple[Relation, list[Expression]]:
    """Join the inner rows with each value of the outer columns that `deep` reads.

    Gives the joined rows that satisfy `deep`, and conditions that select those of an outer row.
    """
    read = {each.name: each for condition in deep for each in outer_columns(condition)}
    copy, names = fresh_copy(rows, "#values")
    keys: tuple[Named, ...] = tuple(
        (f"{names[name]}#value", Column(names[name], each.type, each.nullable))
        for name, each in read.items()
    )
    values = Aggregate(copy, keys, ())
    columns = {
        name: Column(key, each.type, each.nullable)
        for (name, each), (key, _) in zip(read.items(), keys, strict=True)
    }
    met = [
        Call(
            "<=>" if each.nullable else "=",
            (columns[name], replace(each, outer=1)),
            BOOLEAN,
            False,
        )
        for name, each in read.items()
    ]
    joined = Join("cross", inside, values)
    return filtered(joined, [captured(each, columns) for each in deep]), list(met)


# Columns of queries further out.


def reads_outside(expression: Expression, depth: int = 0) -> bool:
    """Whether an expression reads a column more than `depth` queries further out."""
    return any(True for _ in outer_columns(expression, depth))


def outer_columns(expression: Expression, depth: int = 0) -> Iterator[Column]:
    """The outer columns that an expression reads, also in its subqueries."""
    for part in walk(expression):
        if isinstance(part, Column) and part.outer > depth:
            yield part
    for query in queries(expression):
        for each in _expressions_below(query):
            yield from outer_columns(each, depth + 1)


def _expressions_below(relation: Relation) -> Iterator[Expression]:
    yield from expressions(relation)
    for below in inputs(relation):
        yield from _expressions_below(below)


def captured(expression: Expression, columns: Mapping[str, Column], depth: int = 0) -> Expression:
    """Replace outer columns in an expression by columns of its own query."""
    if isinstance(expression, Column) and expression.outer > depth:
        found = columns[expression.name]
        return replace(found, outer=depth, span=expression.span)
    if isinstance(expression, _Subquery):
        expression = replace(
            expression, query=_mapped(expression.query, lambda e: captured(e, columns, depth + 1))
        )
    return map_parts(expression, lambda part: captured(part, columns, depth))


def _mapped(relation: Relation, change: Callable[[Expression], Expression]) -> Relation:
    """Apply `change` to all expressions of a relation and of its inputs."""
    below = map_inputs(relation, lambda each: _mapped(each, change))
    return map_expressions(below, change)


def rename_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Rename the columns of an expression, also in its subqueries."""
    if isinstance(expression, Column):
        return replace(expression, name=names.get(expression.name, expression.name))
    if isinstance(expression, _Subquery):
        query = _mapped(expression.query, lambda e: rename_expression(e, names))
        expression = replace(expression, query=query)
    return map_parts(expression, lambda part: rename_expression(part, names))
