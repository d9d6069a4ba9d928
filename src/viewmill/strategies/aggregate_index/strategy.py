"""The strategy for nested aggregates.

takes  a rewritten relation
gives  a candidate with its cost and its classification, or the part of the query that is in the way
next   planner
"""

from __future__ import annotations

import math

from viewmill.algebra.display import display_expression
from viewmill.algebra.relations import Relation
from viewmill.program.program import Program
from viewmill.strategies.aggregate_index.classify import Classified, Side, classify
from viewmill.strategies.aggregate_index.emit import emit_program
from viewmill.strategies.aggregate_index.query import read_query
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.strategy import Candidate, Cost, Rejection, Statistics

# Measured on two cores: a call into the kernel with its answer, and one row for each doubling.
_CALL_US = 10.0
_ROW_US = 0.03


class AggregateIndex:
    """Levels in order, their sums, and the range of them that qualifies."""

    name = "aggregate_index"

    def match(self, query: Relation, statistics: Statistics) -> Candidate | Rejection:
        """Offer a candidate if a program can be written."""
        try:
            program = emit_program(query, self.name)
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span)
        rows = max(statistics.row_count(each.source) for each in program.inputs)
        words = sum(s.kind.key_words + s.kind.payload_words for s in program.states)
        cost = Cost(_CALL_US, _ROW_US * math.log2(rows), rows * words * 12)
        return Candidate(self.name, query, cost, _notes(classify(read_query(query))))

    def emit(self, candidate: Candidate, view: str) -> Program:
        """The program."""
        return emit_program(candidate.query, self.name)


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
    if side.test.value.call.function == "count":
        return f"{level}; one range qualifies (monotone)"
    return f"{level}; one range qualifies (monotone), level by level while a sum is negative"
