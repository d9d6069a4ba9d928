"""Cut a query into blocks that strategies can maintain.

takes  a rewritten relation
gives  relations, each over tables, views and earlier blocks; the last one is the query itself
next   planner (which emits their programs), mill (which fills them)

The cut is greedy, from the top: if no strategy takes the query, stateless operators (projections,
filters, sorts) are peeled off down to the first stateful one, and each of its inputs that is more
than a filtered scan becomes a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from viewmill.algebra.clock import is_timed
from viewmill.algebra.conditions import conjuncts, filtered
from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.failures import failing_part
from viewmill.algebra.recursion import over
from viewmill.algebra.relations import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
)
from viewmill.algebra.walk import (
    columns_of,
    expressions,
    has_subquery,
    map_inputs,
    scans,
    walk_relations,
)
from viewmill.codegen.by_row import compute_by_row
from viewmill.codegen.join_graph import is_equality
from viewmill.planner.nested_blocks import separate
from viewmill.rewrite.clock_conditions import NotIsolated, clock_conditions
from viewmill.rewrite.correlation import transform_everywhere
from viewmill.rewrite.extremes_beside_sums import extremes_beside_sums
from viewmill.rewrite.mixed_cofactor_parts import MixedGroup, mixed_group, mixed_parts
from viewmill.rewrite.rules import decorrelate, rewrite
from viewmill.strategies.dataflow.operators.mixed_moments import mixed_candidate
from viewmill.strategies.dataflow.strategy import Dataflow
from viewmill.strategies.strategy import Candidate, Rejection

Match = Callable[[Relation], tuple[list[Candidate], list[Rejection]]]


@dataclass(frozen=True)
class Cut:
    """A block: its name, its query and the answers of the strategies."""

    name: str
    query: Relation
    candidates: tuple[Candidate, ...]
    rejections: tuple[Rejection, ...]


class NotCut(Exception):
    """No strategy takes some part of the query."""

    def __init__(self, part: Relation, rejections: list[Rejection]) -> None:
        super().__init__("no strategy takes a part of the query")
        self.part, self.rejections = part, tuple(rejections)


def cut_blocks(
    view: str, query: Relation, match: Match, extracted: Sequence[tuple[str, Relation]] = (),
    *, careful: bool = False,
) -> list[Cut]:  # fmt: skip
    """The blocks of a query in dependency order, or `NotCut`.

    `extracted` has blocks that were extracted from the query before, numbered from 1.
    """
    cutter = _Cutter(view, match, careful=careful)
    cutter.count = len(extracted)
    made = [cut for name, part in extracted for cut in cutter.cut(part, name)]
    return [*made, *cutter.cut(query, view)]


class _Cutter:
    def __init__(self, view: str, match: Match, *, careful: bool) -> None:
        self.view, self.match, self.careful = view, match, careful
        self.count = 0

    def cut(self, query: Relation, name: str) -> list[Cut]:
        """The blocks of a query; the last one, named `name`, reads the others."""
        if isinstance(query, Recursion):
            return self._recursion(query, name)
        if is_timed(query) or isinstance(query, Explode):
            return self._over_scan(query, name)
        mixed = mixed_group(query)
        if mixed is not None:
            return self._mixed(query, mixed, name)
        candidates, rejections = self.match(query)
        if candidates:
            return [Cut(name, query, tuple(candidates), tuple(rejections))]
        together = self._join_aggregate(query, name)
        if together is not None:
            return together
        below: list[Cut] = []
        above = separate(query, lambda relation: self._block(relation, below))
        if below:
            return [*below, *self.cut(above, name)]
        above = self._replace(query, below)
        if below:
            candidates, rejections = self.match(above)
        if candidates:
            return [*below, Cut(name, above, tuple(candidates), tuple(rejections))]
        return self._cut_apart(above, name, below, rejections)

    def _mixed(self, query: Relation, mixed: MixedGroup, name: str) -> list[Cut]:
        """A cofactor with categories, put together from blocks by category and by pair."""
        below, parts = list[Cut](), mixed_parts(mixed)
        whole, by_category, by_pair = (
            tuple(self._block(as_blocks(each), below) for each in some)
            for some in ((parts.whole,), parts.by_category, parts.by_pair)
        )
        candidate = mixed_candidate(query, mixed, whole[0], by_category, by_pair)
        return [*below, Cut(name, query, (candidate,), ())]

    def _recursion(self, query: Recursion, name: str) -> list[Cut]:
        """A recursive CTE over blocks for its start and for what its step joins."""
        below: list[Cut] = []
        base, step = as_blocks(query.base), rewrite(query.step)
        if base.schema != query.base.schema:
            raise NotCut(
                query, [Rejection(Dataflow.name, "numbers wider than 64 bits", query.span)]
            )
        step = self._step(step, query.name, below)
        above = over(query, self._block(base, below), step)
        candidates, rejections = self.match(above)
        if not candidates:
            raise NotCut(above, rejections)
        return [*below, Cut(name, above, tuple(candidates), tuple(rejections))]

    def _step(self, relation: Relation, rows: str, below: list[Cut]) -> Relation:
        reads_rows = any(each.source == rows for each in scans(relation))
        if is_filtered_scan(relation):
            return relation
        if reads_rows or _is_inner_join(relation):
            return map_inputs(relation, lambda each: self._step(each, rows, below))
        return self._block(as_blocks(relation), below)

    def _over_scan(self, query: Relation, name: str) -> list[Cut]:
        """A filter by the clock, or a generator, over a table or a block."""
        below: list[Cut] = []
        above = map_inputs(
            query, lambda each: each if isinstance(each, Scan) else self._block(each, below)
        )
        candidates, rejections = self.match(above)
        if not candidates:
            raise NotCut(above, rejections)
        return [*below, Cut(name, above, tuple(candidates), tuple(rejections))]

    def _join_aggregate(self, query: Relation, name: str) -> list[Cut] | None:
        """Keep a group-by and the inner joins below it in one block, over blocks for the inputs.

        So a view tree can take sums over a join with a subquery.
        """
        bottom = query
        while is_linear(bottom) and isinstance(bottom, Project | Filter | Sort):
            bottom = bottom.input
        if not isinstance(bottom, Aggregate) or not _is_inner_join(bottom.input):
            return None
        group = extremes_beside_sums(bottom)
        beside = query if group is bottom else _with_group(query, group)
        count = self.count
        for form in (query,) if beside is query else (query, beside):
            made = self._over_blocks(form, name)
            if made is not None and (form is query or not any(map(_lists_join, made))):
                return made
            self.count = count
        return None

    def _over_blocks(self, query: Relation, name: str) -> list[Cut] | None:
        """A group-by over blocks for what it joins, if a strategy takes it."""
        below: list[Cut] = []
        try:
            above = self._over_group(query, below)
        except NotCut:
            return None
        candidates, rejections = self.match(above) if below else ([], [])
        return (
            [*below, Cut(name, above, tuple(candidates), tuple(rejections))] if candidates else None
        )

    def _over_group(self, relation: Relation, below: list[Cut]) -> Relation:
        if isinstance(relation, Aggregate):
            return map_inputs(relation, lambda each: self._over_inputs(each, below))
        return map_inputs(relation, lambda each: self._over_group(each, below))

    def _over_inputs(self, relation: Relation, below: list[Cut]) -> Relation:
        """Replace inputs of inner joins that are more than filtered scans by scans of blocks."""
        if is_filtered_scan(relation):
            return relation
        if _is_inner_join(relation):
            return map_inputs(relation, lambda each: self._over_inputs(each, below))
        return self._block(relation, below)

    def _cut_apart(
        self, query: Relation, name: str, below: list[Cut], rejections: list[Rejection]
    ) -> list[Cut]:
        """Make the first stateful operator a block, under the stateless operators above it."""
        if not is_linear(query) or is_filtered_scan(query):
            raise NotCut(query, rejections)
        made: list[Cut] = []
        above = self._part(query, made)
        candidates, rejections = self.match(above)
        if not candidates:
            raise NotCut(above, rejections)
        return [*below, *made, Cut(name, above, tuple(candidates), tuple(rejections))]

    def _part(self, relation: Relation, made: list[Cut]) -> Relation:
        if isinstance(relation, Filter) and _is_inner_join(relation.input):
            below, later = _judged_later(relation, careful=self.careful)
            if later:
                return filtered(self._block(below, made), later)
        if is_linear(relation):
            return map_inputs(relation, lambda each: self._part(each, made))
        return self._block(relation, made)

    def _replace(self, relation: Relation, below: list[Cut], *, top: bool = True) -> Relation:
        """Replace the inputs of the first stateful operator by scans of blocks."""
        if is_linear(relation):
            return map_inputs(relation, lambda each: self._replace(each, below, top=False))
        if isinstance(relation, Project) and not top:
            return self._block(relation, below)
        return map_inputs(relation, lambda each: self._input(relation, each, below))

    def _input(self, heavy: Relation, relation: Relation, below: list[Cut]) -> Relation:
        if is_filtered_scan(relation):
            return relation
        if _goes_together(heavy, relation):
            return map_inputs(relation, lambda each: self._input(heavy, each, below))
        return self._block(relation, below)

    def _block(self, relation: Relation, below: list[Cut]) -> Scan:
        """Cut a relation into blocks and scan the last one."""
        self.count += 1
        number, name = self.count, block_name(self.view, self.count)
        made = self.cut(relation, name)
        below += made
        return Scan(name, f"block_{number}", relation.schema, relation.span)


def as_blocks(relation: Relation) -> Relation:
    """A relation that is rewritten apart from the query around it, as strategies want it."""
    return prepared(decorrelate(rewrite(relation)))


def prepared(relation: Relation) -> Relation:
    """A relation in which what triggers cannot do stands in relations of its own."""
    try:
        return compute_by_row(clock_conditions(relation))
    except NotIsolated as no:
        raise NotCut(relation, [Rejection(Dataflow.name, no.reason, no.span)]) from None


def block_name(view: str, number: int) -> str:
    """The name of an inner block; no table can have it."""
    return f"{view}#{number}"


def is_linear(relation: Relation) -> bool:
    """Whether a relation is stateless, treats each row alone, and can be written as a trigger."""
    if isinstance(relation, Project):
        return not relation.by_row
    return isinstance(relation, Filter | Sort) and not is_timed(relation)


def is_filtered_scan(relation: Relation) -> bool:
    """Whether a relation is a scan under linear operators without subqueries."""
    while is_linear(relation):
        if any(map(has_subquery, expressions(relation))):
            return False
        (relation,) = _inputs(relation)
    return isinstance(relation, Scan)


def _inputs(relation: Relation) -> tuple[Relation, ...]:
    assert isinstance(relation, Project | Filter | Sort)
    return (relation.input,)


def _lists_join(cut: Cut) -> bool:
    """Whether a block writes the rows of a join out."""
    is_flow = cut.candidates[0].strategy == "dataflow"
    return is_flow and any(isinstance(each, Join) for each in walk_relations(cut.query))


def _with_group(relation: Relation, group: Aggregate) -> Relation:
    """A query with another group-by at its bottom."""
    if isinstance(relation, Aggregate):
        return group
    return map_inputs(relation, lambda each: _with_group(each, group))


def _is_inner_join(relation: Relation) -> bool:
    while isinstance(relation, Project | Filter) and is_linear(relation):
        relation = relation.input
    return isinstance(relation, Join) and relation.kind in ("inner", "cross")


def _goes_together(heavy: Relation, below: Relation) -> bool:
    """Whether an input belongs in the same block: a join of joins, a UNION ALL of UNION ALLs."""
    if isinstance(heavy, Join) and heavy.kind in ("inner", "cross"):
        while isinstance(below, Project | Filter) and is_linear(below):
            below = below.input
        return isinstance(below, Join) and below.kind in ("inner", "cross")
    if isinstance(heavy, SetOperation) and heavy.kind == "union" and heavy.all:
        return isinstance(below, SetOperation) and below.kind == "union" and below.all
    return False


def _judged_later(relation: Filter, *, careful: bool) -> tuple[Relation, list[Expression]]:
    """Split a filter over a join: conditions that stay with the join, and those above it.

    Conditions that can fail are evaluated after all inputs have changed, and subqueries become
    blocks. The others include the join keys, without which the join would be a cross product.
    """

    def aliases_of(expression: Expression) -> set[str]:
        names = columns_of(expression)
        return {each.alias for each in read if names & set(each.schema.names)}

    def is_key(condition: Expression) -> bool:
        return is_equality(condition, aliases_of)

    parts, read = list(conjuncts(relation.condition)), scans(relation.input)
    fails = [e for e in parts if failing_part(e, overflow=careful) is not None and not is_key(e)]
    later = [each for each in parts if has_subquery(each) or each in fails]
    return filtered(relation.input, (each for each in parts if each not in later)), later


def inline_blocks(relation: Relation, queries: Mapping[str, Relation]) -> Relation:
    """Replace scans of blocks by the queries of the blocks."""

    def change(each: Relation) -> Relation:
        if isinstance(each, Scan) and each.source in queries:
            return _as_named(inline_blocks(queries[each.source], queries), each)
        if isinstance(each, Recursion):
            parts = (inline_blocks(part, queries) for part in (each.base, each.step))
            return over(each, *parts)
        return each

    return transform_everywhere(relation, change)


def _as_named(query: Relation, scan: Scan) -> Relation:
    """A query with the column names of the scan that it replaces."""
    if isinstance(query, Sort):
        query = query.input
    if query.schema.names == scan.schema.names:
        return query
    pairs = zip(scan.schema.names, query.schema, strict=True)
    return Project(query, tuple((name, Column(f.name, f.type, f.nullable)) for name, f in pairs))
