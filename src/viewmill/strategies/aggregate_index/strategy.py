"""The strategy for nested aggregates.

takes  a rewritten relation
gives  a candidate with its cost and its classification, or the part of the query that is in the way
next   planner
"""

from __future__ import annotations

import math

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Cast, Column, Expression, ScalarSubquery, walk
from viewmill.algebra.failures import failing_part
from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Aggregate, Filter, Project, Relation, Scan, Sort, inputs
from viewmill.algebra.types import Decimal, Float, Integer, Wide
from viewmill.algebra.walk import expressions, walk_relations
from viewmill.codegen.shape import NotTaken
from viewmill.program.program import Program
from viewmill.strategies.aggregate_index.by_key import ByKey, inequality, read_by_key
from viewmill.strategies.aggregate_index.classify import Classified, Side, classify
from viewmill.strategies.aggregate_index.emit import emit_by_key, emit_program
from viewmill.strategies.aggregate_index.general_emit import emit_general
from viewmill.strategies.aggregate_index.general_query import GeneralQuery, Nested, read_general
from viewmill.strategies.aggregate_index.query import Value, read_query
from viewmill.strategies.aggregate_index.rows_by_key import RowsByKey, read_rows_by_key
from viewmill.strategies.aggregate_index.rows_emit import emit_rows
from viewmill.strategies.strategy import (
    NO_HINTS,
    Abilities,
    Candidate,
    Cost,
    Rejection,
    Statistics,
)

# Measured on two cores: a call into the kernel with its answer, and one row for each doubling.
_CALL_US = 10.0
_ROW_US = 0.03
# A row that is put in its place, or that changes the aggregate of its key.
_PASS_US = 0.2
# The general algorithm: to judge an entry, and to move one of its aggregates.
_JUDGE_US = 0.01
_MOST_SCALE = 9  # of 18 digits as many are left before the point: few values are that large
_SUMS = ("sum", "avg", "+", "-", "*", "/")
_MOVE_US = 0.003


class AggregateIndex:
    """Levels in order, their sums, and the range of them that qualifies."""

    name = "aggregate_index"
    abilities = Abilities()

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Offer a candidate if a program can be written."""
        if not has_nested(query):
            return Rejection(self.name, "no aggregate is nested in a condition")
        if statistics.careful:  # a row was refused that the query itself can take
            return Rejection(self.name, "a number does not fit the sums of its levels")
        if (part := _failing_row(query, overflow=False)) is not None:
            why = (
                f"{display_expression(part)} can fail, and is evaluated for rows that qualify only"
            )
            return Rejection(self.name, why, part.span)
        if (part := _outgrown_part(query, careful=statistics.careful)) is not None:
            why = f"{display_expression(part)} has more digits than levels hold"
            return Rejection(self.name, why, part.span)
        if is_filter(query):
            return self._match_rows(query, statistics)
        try:
            program = emit_program(query, self.name)
        except NotTaken as no:
            return self._match_by_key(query, statistics, no)
        rows = max(statistics.row_count(each.source) for each in program.inputs)
        words = sum(s.kind.key_words + s.kind.payload_words for s in program.states)
        cost = Cost(_CALL_US, _ROW_US * math.log2(rows), rows * words * 12)
        notes = _notes(classify(read_query(query)))
        return Candidate(self.name, query, cost, notes, program=program)

    def _match_rows(self, query: Relation, statistics: Statistics) -> Candidate | Rejection:
        """Offer an index of rows that pass on, for a column that meets an aggregate."""
        try:
            program = emit_rows(query, self.name)
        except NotTaken as no:
            return self._match_general(query, statistics, no)
        _, plan = read_rows_by_key(query)
        rows = max(statistics.row_count(each.source) for each in program.inputs)
        words = sum(s.kind.key_words + s.kind.payload_words for s in program.states)
        cost = Cost(_CALL_US * len(program.inputs), _PASS_US, rows * words * 12)
        return Candidate(self.name, query, cost, _row_notes(plan), way="rows", program=program)

    def _match_by_key(
        self, query: Relation, statistics: Statistics, why: NotTaken
    ) -> Candidate | Rejection:
        """Offer an index by key, for a column that meets an aggregate of its own key."""
        try:
            program, plan = emit_by_key(query, self.name), read_by_key(query)
        except NotTaken:
            return self._match_general(query, statistics, why)
        rows = max(statistics.row_count(each.source) for each in program.inputs)
        words = sum(s.kind.key_words + s.kind.payload_words for s in program.states)
        # A key is found at once; a row has its place among those of its key.
        of_key = rows / max(1, min(rows, _values(plan, program, statistics)))
        cost = Cost(_CALL_US, _ROW_US * (4 + math.log2(1 + of_key)), rows * words * 12)
        return Candidate(self.name, query, cost, _key_notes(plan), program=program)

    def _match_general(
        self, query: Relation, statistics: Statistics, why: NotTaken
    ) -> Candidate | Rejection:
        """Offer the general algorithm where no index is possible, and say why none is."""
        try:
            program = emit_general(query, self.name)
        except NotTaken as no:
            reason = why.reason
            if no.reason != why.reason:
                reason = f"no aggregate index: {why.reason}; no general algorithm: {no.reason}"
            return Rejection(self.name, reason, why.span or no.span)
        read = read_general(query)
        rows = statistics.row_count(read.scan.source)
        words = sum(s.kind.key_words + s.kind.payload_words for s in program.states)
        moved = sum(bool(each.correlated) for each in read.values)
        cost = Cost(_CALL_US + rows * _JUDGE_US, rows * _MOVE_US * moved, rows * words * 12)
        notes = _general_notes(read, why)
        return Candidate(self.name, query, cost, notes, is_linear=True, program=program)

    def emit(self, candidate: Candidate) -> Program:
        """The program that `match` wrote; rows that pass on keep less."""
        if candidate.way == "rows" and candidate.passing:
            return emit_rows(candidate.query, self.name, passing=True)
        assert candidate.program is not None
        return candidate.program


def _values(plan: ByKey, program: Program, statistics: Statistics) -> int:
    """How many keys there are, as far as statistics say; 1 if they do not."""
    names = {part.name for each in plan.key for part in walk(each) if isinstance(part, Column)}
    known = [
        statistics.distinct.get((each.source, name.split(".", 1)[-1]), 0)
        for each in program.inputs
        for name in names
    ]
    return max(known, default=1) or 1


def _failing_row(query: Relation, *, overflow: bool) -> Expression | None:
    """An expression that is evaluated for every row and can fail; levels keep all rows."""
    group = query
    while isinstance(group, Project | Filter | Sort):
        group = group.input
    if isinstance(group, Aggregate):
        query = group  # what is shown of a group is evaluated once all rows have come
    evaluated = (each for below in walk_relations(query) for each in expressions(below))
    found = (failing_part(each, overflow=overflow) for each in evaluated)
    return next((each for each in found if each is not None), None)


def _outgrown_part(query: Relation, *, careful: bool) -> Expression | None:
    """What is expected to leave the 64 bits of a level; if `careful`, what can leave them.

    A careful plan is made when numbers have grown out of a plan like this.
    """
    outgrows = _can_outgrow if careful else _is_long
    evaluated = (each for below in walk_relations(query) for each in expressions(below))
    found = (part for each in evaluated for part in walk(each) if outgrows(part))
    return next(found, None)


def _is_long(part: Expression) -> bool:
    """Whether it has more than 18 digits, and many of them behind the point."""
    type_ = part.type
    if isinstance(part, Cast):
        type_ = part.input.type
        return isinstance(type_, Wide) and type_.scale > _MOST_SCALE
    is_call = isinstance(part, Call | AggregateCall) and part.function in ("*", "/", "avg")
    is_made = is_call and isinstance(type_, Decimal)
    return is_made and type_.precision > 18 and type_.scale > _MOST_SCALE  # type: ignore[union-attr]


def _can_outgrow(part: Expression) -> bool:
    type_ = part.type
    if isinstance(type_, Integer):
        is_summed = isinstance(part, Call | AggregateCall) and part.function in _SUMS
        return type_.bits == 64 and is_summed
    return isinstance(type_, Wide) or (isinstance(type_, Decimal) and type_.precision > 18)


def is_filter(query: Relation) -> bool:
    """Whether nothing but filters and projections stands above a scan."""
    while isinstance(query, Project | Filter | Sort):
        query = query.input
    return isinstance(query, Scan)


def has_nested(query: Relation) -> bool:
    """Whether a condition reads the value of a subquery."""
    own = (part for each in expressions(query) for part in walk(each))
    if any(isinstance(part, ScalarSubquery) for part in own):
        return True
    return any(map(has_nested, inputs(query)))


def _row_notes(plan: RowsByKey) -> tuple[str, ...]:
    found = plan.comparison
    key = ", ".join(map(display_expression, found.key)) or "all rows"
    calls = ", ".join(dict.fromkeys(display_expression(call) for _, call in found.inside.calls))
    core, sign = display_expression(found.test.core), found.test.operator
    order = "at its level" if sign == "=" else "in order"
    return (
        f"aggregate index by {key}: {core} {order}, which meets {calls} by {sign}",
        "rows that begin or cease to pass flow on into the next block",
    )


def _key_notes(plan: ByKey) -> tuple[str, ...]:
    key = ", ".join(map(display_expression, plan.key))
    calls = ", ".join(dict.fromkeys(display_expression(each.call) for each in plan.values))
    said = f"aggregate index by {key}: "
    run = None if plan.run is None else inequality(plan.run)
    if plan.test is None:
        said += f"conditions on {calls} of its own {key}"
    elif plan.run is None or run is None:
        core = display_expression(plan.test.core)
        said += f"{core} in order, which meets {calls} of its own {key}"
    else:
        inner, outer = display_expression(run.inner), display_expression(run.outer)
        call = display_expression(plan.run.call)
        said += f"levels of {outer} in order, {call} over {inner} {run.operator} {outer} in the key"
        said += "; one range qualifies" + (
            " (monotone)" if plan.run.call.function == "count"
            else " (monotone), level by level while a sum is negative"
        )  # fmt: skip
    if plan.run is not None:
        said += _rounding(plan.run)
    if plan.fixed:
        return (f"{said}; an aggregate of all rows moves every key: a refresh visits each",)
    return (f"{said}; a row moves its own key",)


def _general_notes(query: GeneralQuery, why: NotTaken) -> tuple[str, ...]:
    """The classification: why no index, and what each aggregate is to a row outside."""
    values = [
        f"{display_expression(each.call)}: "
        + (", ".join(map(display_expression, each.correlated)) or "the same for all rows outside")
        + _rounding(each)
        for each in query.values
    ]
    return (
        f"general algorithm, a refresh visits every distinct row outside: {why.reason}",
        *values,
        "runs on one shard: a change of any row may move the sums of all",
    )


def _notes(classified: Classified) -> tuple[str, ...]:
    """The classification: what each outer table is to the predicate."""
    notes = [f"aggregate index over {side.alias}: {_note(side)}" for side in classified.sides]
    return (*notes, "runs on one shard: a change of any row moves the sums of all")


def _note(side: Side) -> str:
    if side.test is None:
        return "no condition depends on an aggregate; its rows are summed"
    if side.test.value is None:
        return f"ordered by {display_expression(side.test.core)}, which meets an uncorrelated value"
    each = side.test.value.correlations[0]
    inner, outer = display_expression(each.inner), display_expression(each.outer)
    call = display_expression(side.test.value.call)
    if each.operator == "=":
        return f"groups of {outer} by their {call}; a row moves its own group"
    level = f"levels of {outer}, {call} over {inner} {each.operator} {outer}"
    level += _rounding(side.test.value)
    if side.test.value.call.function == "count":
        return f"{level}; one range qualifies (monotone)"
    return f"{level}; one range qualifies (monotone), level by level while a sum is negative"


def _rounding(value: Value | Nested) -> str:
    """The note that EXPLAIN adds for a sum of floats."""
    if not isinstance(value.call.type, Float):
        return ""
    return " (a sum of floats: where it equals the bound but for rounding, either may hold)"
