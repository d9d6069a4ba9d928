"""The strategy for general SQL.

takes  a rewritten relation
gives  a candidate with its cost, or the part of the query that it does not maintain
next   planner
"""

from __future__ import annotations

from viewmill.algebra.clock import is_timed
from viewmill.algebra.conditions import conjuncts
from viewmill.algebra.expressions import Call
from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Explode, Join, Project, Recursion, Relation
from viewmill.algebra.walk import columns_of, walk_relations
from viewmill.codegen.by_row import emit_by_row
from viewmill.codegen.shape import NotTaken
from viewmill.program.program import Program, Triggers
from viewmill.strategies.dataflow.compose import compose
from viewmill.strategies.join_sizes import fan_out
from viewmill.strategies.strategy import (
    NO_HINTS,
    Abilities,
    Candidate,
    Cost,
    Rejection,
    Statistics,
)

# Measured on two cores: a call into the kernel, and one row through it.
_CALL_US = 10.0
_ROW_US = 0.05
_RECURSION_US = 300.0  # a few steps of a recursive CTE
_DERIVED_US = 1.0  # a row of its start, with the few that follow from it
_DERIVED_BYTES = 300
_TIMED_US = 0.3  # a row that waits for its deadline, and leaves
_TIMED_BYTES = 60
_EXPLODED_US = 1.0  # a row, with the few elements that it has
_PYTHON_US = 1.0  # a row that Python computes, most being equal to one before


class Dataflow:
    """Compiled triggers over keyed states."""

    name = "dataflow"
    abilities = Abilities(deadlines=True)

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Offer a candidate if a program can be written."""
        if isinstance(query, Project) and query.by_row:
            return self._by_row(query)
        try:
            program = compose(query, self.name, passing=False, careful=statistics.careful)
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        if isinstance(query, Recursion):
            cost = Cost(_RECURSION_US, _DERIVED_US, statistics.row_count("") * _DERIVED_BYTES)
            return Candidate(self.name, query, cost, program=program)
        if isinstance(query, Explode):
            cost = Cost(_CALL_US, _EXPLODED_US, 0)
            return Candidate(self.name, query, cost, program=program)
        if is_timed(query):
            kept = sum(statistics.row_count(each.source) for each in program.inputs)
            cost = Cost(_CALL_US, _TIMED_US, kept * _TIMED_BYTES)
            return Candidate(self.name, query, cost, program=program)
        # At most one entry per row; half of that is a fair guess before any row is seen.
        read = (statistics.row_count(each.source) for each in program.inputs)
        entries = max(read, default=0) // 2
        width = sum(2 + s.kind.key_words + s.kind.payload_words for s in program.states) * 8
        inputs = len(program.inputs)
        row_us = _ROW_US * len(program.states) * fan_out(query, statistics)
        cost = Cost(_CALL_US * inputs, row_us, entries * width)
        is_range = _has_range_join(query)
        notes = (
            ("a changed row is joined with a range of rows: it costs as many",) if is_range else ()
        )
        return Candidate(
            self.name,
            query,
            cost,
            notes,
            is_linear=is_range,
            joins_ranges=is_range,
            program=program,
        )

    def _by_row(self, query: Project) -> Candidate | Rejection:
        try:
            program = emit_by_row(query, self.name)
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        return Candidate(self.name, query, Cost(_CALL_US, _PYTHON_US, 0), program=program)

    def emit(self, candidate: Candidate) -> Program:
        """The program that `match` wrote; triggers whose rows pass on do not keep them."""
        program = candidate.program
        assert program is not None
        if candidate.passing and isinstance(program.body, Triggers):
            return compose(candidate.query, self.name, passing=True)
        return program


def _has_range_join(query: Relation) -> bool:
    """Whether a changed row is joined with a range of rows: by <, <=, >, >= or <> alone."""
    return any(isinstance(each, Join) and _is_range(each) for each in walk_relations(query))


def _is_range(join: Join) -> bool:
    if join.condition is None:
        return False
    left, right = set(join.left.schema.names), set(join.right.schema.names)
    both = [
        each
        for each in conjuncts(join.condition)
        if columns_of(each) & left and columns_of(each) & right
    ]
    return bool(both) and not any(
        isinstance(each, Call) and each.function in ("=", "<=>") for each in both
    )
