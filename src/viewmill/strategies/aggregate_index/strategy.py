"""The strategy for nested aggregates.

takes  a rewritten relation
gives  a candidate with its cost and its classification, or the part of the query that is in the way
next   planner
"""

from __future__ import annotations

import math

from viewmill.algebra.relations import Relation
from viewmill.program.program import Program
from viewmill.strategies.aggregate_index.emit import emit_program
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
        return Candidate(self.name, query, cost)

    def emit(self, candidate: Candidate, view: str) -> Program:
        """The program."""
        return emit_program(candidate.query, self.name)
