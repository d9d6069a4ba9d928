"""What no trigger can write is computed before, row by row: projections of their own say so.

takes  a rewritten relation without subqueries
gives  an equal one, in which every expression that triggers cannot write stands in a projection
       that is marked `by_row`; such a projection is a block of its own
next   planner.blocks, kernels.by_row
"""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.clock import is_timed
from viewmill.algebra.conditions import conjuncts, filtered, together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal, Over
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Named,
    Project,
    Relation,
    Sort,
    Window,
)
from viewmill.algebra.types import kept_type
from viewmill.algebra.walk import (
    columns_of,
    has_subquery,
    map_parts,
    scans,
    substitute,
    transform,
)
from viewmill.codegen.inputs import input_of
from viewmill.codegen.linear import columns_as, leaf_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.evaluate import can_evaluate
from viewmill.program.program import ByRow, Program
from viewmill.rewrite.correlation import map_expressions, own_columns


def emit_by_row(query: Project, strategy: str) -> Program:
    """The program of a marked projection over a filtered scan, or `NotTaken`."""
    leaf = leaf_of(query.input)
    outputs = tuple((name, substitute(each, leaf.columns)) for name, each in query.outputs)
    for each in (*leaf.where, *(x for _, x in outputs)):
        if not can_evaluate(each):
            raise NotTaken("an expression that nothing but an engine computes", each.span)
    body = ByRow(leaf.scan.schema.names, leaf.where, outputs)
    return Program(strategy, query, (input_of(leaf.scan),), query.schema, (), body)


def compute_by_row(query: Relation) -> Relation:
    """The query with a marked projection below whatever computes what triggers cannot write."""
    return transform(query, _lifted)


def _lifted(relation: Relation) -> Relation:
    if not scans(relation) or is_timed(relation):
        return relation  # the engine computes it, once; or the clock judges it
    match relation:
        case Filter():
            return _filter(relation)
        case Project(by_row=False) | Aggregate() | Window() | Sort():
            return _operator(relation)
        case Join():
            return _join(relation)
        case _:
            return relation


def _filter(relation: Filter) -> Relation:
    """What triggers can judge is judged below: above a join it is what keeps the join small."""
    if is_written(relation.condition, relation.input):
        return relation
    parts = list(conjuncts(relation.condition))
    written = [each for each in parts if is_written(each, relation.input)]
    rest = together(each for each in parts if each not in written)
    assert rest is not None
    if not can_evaluate(rest):
        return relation
    made = _Made(filtered(relation.input, written))
    condition = made.column(rest)
    return own_columns(Filter(made.relation(), condition, relation.span), relation.input)


def _operator(relation: Project | Aggregate | Window | Sort) -> Relation:
    made = _Made(relation.input)
    changed = map_expressions(relation, made.replaced)
    if not made.outputs:
        return relation
    return replace(changed, input=made.relation())  # type: ignore[arg-type]


def _join(join: Join) -> Relation:
    """Sides of equalities are computed on their side; inner joins are filtered for the rest."""
    if join.condition is None:
        return join
    left, right = _Made(join.left), _Made(join.right)
    kept, later = list[Expression](), list[Expression]()
    for part in conjuncts(join.condition):
        if is_written(part, join.left, join.right):
            kept.append(part)
        elif _is_liftable(part, left, right):
            assert isinstance(part, Call)
            sides = tuple(_side(each, left, right) for each in part.arguments)
            kept.append(replace(part, arguments=sides))
        elif made := next((m for m in (left, right) if m.has(part)), None):
            kept.append(made.column(part))
        else:
            inside = _inside(part, left, right)
            is_kept = is_written(inside, left.relation(), right.relation())
            (kept if is_kept else later).append(inside if is_kept else part)
    if later and join.kind not in ("inner", "cross"):
        return join
    joined: Relation = replace(
        join, left=left.relation(), right=right.relation(), condition=together(kept)
    )
    for part in later:
        joined = _filter(Filter(joined, part, join.span))
    return own_columns(joined, join)


def _is_liftable(part: Expression, left: _Made, right: _Made) -> bool:
    """Whether an equality has each of its sides on one side of the join."""
    if not isinstance(part, Call) or part.function != "=":
        return False
    a, b = part.arguments
    return any(m.has(a) for m in (left, right)) and any(m.has(b) for m in (left, right))


def _side(expression: Expression, left: _Made, right: _Made) -> Expression:
    for made in (left, right):
        if made.has(expression) and not is_written(expression, made.below):
            return made.column(expression) if can_evaluate(expression) else expression
    return expression


def _inside(expression: Expression, left: _Made, right: _Made) -> Expression:
    """A condition over both sides, with what triggers cannot write computed on its side."""
    if is_written(expression, left.relation(), right.relation()):
        return expression
    for made in (left, right):
        if made.has(expression) and can_evaluate(expression):
            return made.column(expression)
    return map_parts(expression, lambda part: _inside(part, left, right))


class _Made:
    """What is computed above a relation, before the operator that reads it."""

    def __init__(self, below: Relation) -> None:
        self.below = below
        self.outputs: list[Named] = []

    def has(self, expression: Expression) -> bool:
        """Whether an expression reads this relation alone."""
        return columns_of(expression) <= set(self.below.schema.names)

    def replaced(self, expression: Expression) -> Expression:
        """The expression over what was computed; inside aggregates and windows the arguments."""
        if isinstance(expression, AggregateCall) and expression.where is not None:
            expression = _guarded(expression, self.below)
        if isinstance(expression, AggregateCall | Over):
            return map_parts(expression, self.replaced)
        if has_subquery(expression) or is_written(expression, self.below):
            return expression
        return self.column(expression) if can_evaluate(expression) else expression

    def column(self, expression: Expression) -> Expression:
        """What reads the column that holds an expression."""
        type_, kept = expression.type, expression
        if kept_type(type_) != type_:
            kept = Cast(expression, kept_type(type_), expression.nullable, span=expression.span)
        name = next((name for name, known in self.outputs if known == kept), "")
        if not name:
            names = self.below.schema.names
            name = f"#{names[0] if names else ''}.{_depth(self.below)}_{len(self.outputs)}"
            self.outputs.append((name, kept))
        column = Column(name, kept.type, kept.nullable, span=expression.span)
        return column if kept is expression else Cast(column, type_, kept.nullable)

    def relation(self) -> Relation:
        """The relation with what is computed besides."""
        if not self.outputs:
            return self.below
        columns = (*columns_as(self.below.schema), *self.outputs)
        return Project(self.below, columns, by_row=True)


def _guarded(call: AggregateCall, below: Relation) -> AggregateCall:
    """An aggregate whose arguments are computed ahead for the rows that FILTER takes only."""
    where = call.where
    assert where is not None

    def guarded(argument: Expression) -> Expression:
        if is_written(argument, below) or failing_part(argument, overflow=True) is None:
            return argument
        return Case(((where, argument),), Literal(None, argument.type), argument.type, True)

    return replace(call, arguments=tuple(map(guarded, call.arguments)))


def _depth(relation: Relation) -> int:
    """A number that no computed column below has."""
    return sum(name.startswith("#") for name in relation.schema.names)


def is_written(expression: Expression, *below: Relation) -> bool:
    """Whether triggers can compute an expression: it is tried on paper."""
    source, columns = _DiscardedSource(), {}
    for relation in below:
        for field in relation.schema:
            columns[field.name] = Operand("x", "n" if field.nullable else None)
    try:
        Scalar(source, columns, "i").emit(expression)
    except NotTaken:
        return False
    return True


class _DiscardedSource(Source):
    """A source that is thrown away; every string is taken for known."""

    def lookup(self, expression: Expression) -> int | None:
        """A placeholder: any id will do here."""
        return 0
