"""Extract filters by nested aggregates into blocks, wherever they are in a query.

takes  a query with subqueries
gives  the query with a scan in place of each filter that an index of rows can take, and the queries
       of the new blocks in dependency order
next   planner, which turns the other subqueries into joins and cuts the rest

before  Filter: c.balance > (query) AND NOT EXISTS (query)    after  Filter: NOT EXISTS (query)
        ├─ Scan: customer c                                          ├─ Scan: view#1
        └─ ...                                                       └─ ...
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from viewmill.algebra.conditions import conjuncts, filtered
from viewmill.algebra.expressions import Column, Expression, ScalarSubquery, walk
from viewmill.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Sort,
)
from viewmill.algebra.schema import Field, Schema
from viewmill.algebra.walk import columns_of, has_subquery, map_parts
from viewmill.codegen.by_row import compute_by_row
from viewmill.codegen.shape import NotTaken
from viewmill.planner.blocks import inline_blocks
from viewmill.planner.nested_blocks import names_read, narrowed, rename_expression
from viewmill.rewrite.correlation import equal, has_outer, linear, transform_everywhere
from viewmill.rewrite.rules import decorrelate, rewrite
from viewmill.rewrite.scalar_as_join import replaced
from viewmill.rewrite.values_beside import is_closed
from viewmill.strategies.aggregate_index.rows_by_key import Comparison, read_comparison

# Aggregates that are computed over a join in a block of their own, with one row per key.
_SUMS = ("sum", "count", "avg")


@dataclass
class NestedFilters:
    """Collects the blocks of one view."""

    view: str
    blocks: list[tuple[str, Relation]] = field(default_factory=list)
    used: set[str] | None = None

    def take_out(self, query: Relation) -> Relation:
        """Replace filters by nested aggregates with scans of blocks.

        The other subqueries become joins.
        """
        self.used = names_read(query)
        return self._with_last(decorrelate(transform_everywhere(query, self._change)))

    def _with_last(self, query: Relation) -> Relation:
        """Inline the last block again, if only projections and sorts are above it."""
        top = query
        while isinstance(top, Project | Sort) and not isinstance(top.input, Scan):
            top = top.input
        if not isinstance(top, Project) or not isinstance(top.input, Scan) or not self.blocks:
            return query
        (name, last), source = self.blocks[-1], top.input.source
        if name != source:
            return query
        del self.blocks[-1]
        return rewrite(inline_blocks(query, {name: last}))

    def _change(self, relation: Relation) -> Relation:
        if not isinstance(relation, Filter) or not has_subquery(relation.condition):
            return relation
        parts = list(conjuncts(relation.condition))
        taken = [(part, found) for part in parts if (found := _comparison(part)) is not None]
        if not taken or not is_closed(relation.input, 0):
            return relation
        plain = [e for e in parts if not has_subquery(e) and not has_outer(e)]
        rows, met = relation.input, False
        for part, found in taken:
            if found.key:
                rows = self._block(filtered(rows, () if met else plain), part, found)
                met = True
            else:
                rows = self._placed(rows, part, found)
        rest = [e for e in parts if e not in dict(taken) and not (met and e in plain)]
        return filtered(rows, rest)

    def _placed(self, rows: Relation, part: Expression, found: Comparison) -> Relation:
        """Push the filter below joins, as far down as its columns allow."""
        read = columns_of(found.test.core)
        match rows:
            case Filter() if not has_subquery(rows.condition):
                return replace(rows, input=self._placed(rows.input, part, found))
            case Join(kind="inner" | "cross") if read <= set(rows.left.schema.names):
                return replace(rows, left=self._placed(rows.left, part, found))
            case Join(kind="inner" | "cross") if read <= set(rows.right.schema.names):
                return replace(rows, right=self._placed(rows.right, part, found))
            case _:
                return self._block(rows, part, found)

    def _block(self, rows: Relation, part: Expression, found: Comparison) -> Relation:
        """A scan of a new block with the rows that pass the filter."""
        part = self._with_inner_block(part, found)
        rows = narrowed(rows, None if self.used is None else self.used | _names(part))
        shown = narrowed(rows, self.used).schema
        conditions, outputs, bottom = linear(rows)
        if not isinstance(bottom, Scan) or not all(isinstance(e, Column) for _, e in outputs):
            conditions, outputs, bottom = linear(self._scan(compute_by_row(decorrelate(rows))))
        names = {name: each.name for name, each in outputs if isinstance(each, Column)}
        passed = filtered(bottom, [*conditions, rename_expression(part, names)])
        columns = tuple((f.name, Column(names[f.name], f.type, f.nullable)) for f in shown)
        return self._scan(Project(passed, columns))

    def _with_inner_block(self, part: Expression, found: Comparison) -> Expression:
        """Extract the inner rows of a comparison into a block, if they are more than a table.

        Sums over a join become a block with one row for each key:

        before  (SELECT sum(a * b) FROM x, y WHERE .. AND x.k = o.k)
        after   (SELECT max(v) FROM block WHERE k = o.k)
        """
        inside = found.inside
        if isinstance(inside.rows, Scan):
            return part
        (subquery,) = [each for each in walk(part) if isinstance(each, ScalarSubquery)]
        _, ((name, value),), _ = linear(subquery.query)
        keys: tuple[Named, ...] = tuple((f"{name}#{i}", e) for i, e in enumerate(inside.key))
        rows, calls = filtered(inside.rows, inside.where), inside.calls
        if all(call.function in _SUMS and not call.distinct for _, call in calls):
            rows = Aggregate(rows, keys, calls)
            calls = tuple(
                (n, replace(call, function="max", arguments=(_column(n, call),), where=None))
                for n, call in calls
            )
        else:
            read = {c for _, call in calls for c in columns_of(call)}
            own = [f for f in rows.schema if f.name in read]
            rows = Project(rows, (*keys, *((f.name, _column(f.name, f)) for f in own)))
        pairs = zip(keys, found.key, strict=True)
        met = [equal(_column(k, inner), _from_inside(outer)) for (k, inner), outer in pairs]
        one = Aggregate(filtered(self._scan(compute_by_row(decorrelate(rows))), met), (), calls)
        return replaced(part, subquery, replace(subquery, query=Project(one, ((name, value),))))

    def _scan(self, query: Relation) -> Relation:
        """A scan of a new block, with the column names of its query."""
        number = len(self.blocks) + 1
        name, alias = f"{self.view}#{number}", f"block_{number}"
        self.blocks.append((name, query))
        fields = tuple(replace(f, name=f"{alias}.{f.name}") for f in query.schema)
        columns = tuple(
            (f.name, Column(f"{alias}.{f.name}", f.type, f.nullable)) for f in query.schema
        )
        return Project(Scan(name, alias, Schema(fields), query.span), columns)


def _comparison(part: Expression) -> Comparison | None:
    if not any(isinstance(each, ScalarSubquery) for each in walk(part)):
        return None
    try:
        return read_comparison(part)
    except NotTaken:
        return None


def _names(part: Expression) -> set[str]:
    return names_read(Filter(Scan("", "", Schema(())), part)) or set()


def _column(name: str, like: Expression | Field) -> Column:
    return Column(name, like.type, like.nullable)


def _from_inside(expression: Expression) -> Expression:
    """An expression of a query as seen from its subquery: one query further out."""
    if isinstance(expression, Column):
        return replace(expression, outer=expression.outer + 1)
    return map_parts(expression, _from_inside)
