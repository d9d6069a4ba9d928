"""The strategy that takes everything.

takes  any relation
gives  a program whose body is the query itself
next   engines.build
"""

from __future__ import annotations

from viewmill.algebra.relations import Foreign, Relation
from viewmill.algebra.walk import sources
from viewmill.program.program import Program, Queries
from viewmill.strategies.inputs import program_inputs
from viewmill.strategies.strategy import Candidate, Cost, Rejection, Statistics

# Measured on two cores: DuckDB's own start, reading a row, and comparing old and new results.
_START_US = 3000.0
_ROW_US = 0.05


class Recompute:
    """Run the query and compare with the last result."""

    name = "recompute"

    def match(self, query: Relation, statistics: Statistics) -> Candidate | Rejection:
        """Always a candidate."""
        read = sum(statistics.row_count(source) for source in sources(query))
        notes = (f"kept as engine SQL: {query.reason}",) if isinstance(query, Foreign) else ()
        return Candidate(self.name, query, Cost(_START_US + read * _ROW_US, 0.0, 0), notes)

    def emit(self, candidate: Candidate, view: str) -> Program:
        """The query, and no state but its last result."""
        query = candidate.query
        return Program(
            strategy=self.name,
            query=query,
            inputs=program_inputs(query),
            output=query.schema,
            states=(),
            body=Queries(query),
        )
