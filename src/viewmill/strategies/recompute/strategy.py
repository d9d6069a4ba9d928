"""The strategy that takes everything.

takes  any relation
gives  a program whose body is the query itself
next   engines.build
"""

from __future__ import annotations

from viewmill.algebra.clock import WATERMARK, watched_tables
from viewmill.algebra.expressions import Call, Column, walk
from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Foreign, Relation
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import expressions, sources, walk_relations
from viewmill.codegen.inputs import program_inputs
from viewmill.program.program import Input, Program, Queries
from viewmill.strategies.join_sizes import joined_rows
from viewmill.strategies.strategy import (
    NO_HINTS,
    Abilities,
    Candidate,
    Cost,
    Rejection,
    Statistics,
)

# Measured on two cores: DuckDB's own start, reading a row, and comparing old and new results.
_START_US = 3000.0
_ROW_US = 0.05
_JOINED_US = 0.02  # a row of a join
_PAIR_US = 0.005  # a pair of rows that a subquery compares by an inequality
_ORDERED = ("<", "<=", ">", ">=", "<>")


class Recompute:
    """Run the query and compare with the last result."""

    name = "recompute"
    abilities = Abilities(recomputes=True)

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Always a candidate."""
        read = sum(statistics.row_count(source) for source in sources(query))
        notes = (f"kept as engine SQL: {query.reason}",) if isinstance(query, Foreign) else ()
        cost = _START_US + read * _ROW_US + _pairs(query, statistics) * _PAIR_US
        cost += joined_rows(query, statistics) * _JOINED_US
        return Candidate(
            self.name, query, Cost(cost, 0.0, 0), notes, is_linear=True, recomputes=True
        )

    def emit(self, candidate: Candidate) -> Program:
        """The query, and no state but its last result."""
        query = candidate.query
        return Program(
            strategy=self.name,
            query=query,
            inputs=(*program_inputs(query), *_clocks(query)),
            output=query.schema,
            states=(),
            body=Queries(query),
        )


def _clocks(query: Relation) -> list[Input]:
    """The time of the tables that a query reads: it alone may change the result."""
    names = sorted(f"{WATERMARK}{each}" for each in watched_tables(query))
    return [Input(each, each, Schema(())) for each in names]


def _pairs(query: Relation, statistics: Statistics) -> int:
    """How many pairs of rows correlated subqueries compare that are not joins by equality."""
    most = max((statistics.row_count(source) for source in sources(query)), default=0)
    compared = [
        part
        for relation in walk_relations(query)
        for each in expressions(relation)
        for part in walk(each)
        if isinstance(part, Call) and part.function in _ORDERED and _is_correlated(part)
    ]
    return most * most * len(compared)


def _is_correlated(comparison: Call) -> bool:
    return any(isinstance(part, Column) and part.outer > 0 for part in walk(comparison))
