"""Which operator a query is, and the program that the operator's file writes for it.

takes  a rewritten relation over scans
gives  `Program`, or `NotTaken` with the part that is in the way
"""

from __future__ import annotations

from functools import partial

from viewmill.algebra.clock import is_timed
from viewmill.algebra.relations import (
    Distinct,
    Explode,
    Join,
    Limit,
    Recursion,
    Relation,
    SetOperation,
    Sort,
    Window,
)
from viewmill.algebra.walk import scans
from viewmill.codegen.linear import refuse_subqueries, top_of
from viewmill.codegen.scan_program import emit_program
from viewmill.codegen.shape import NotTaken
from viewmill.program.program import Program
from viewmill.strategies.dataflow.operators.constants import emit_constants
from viewmill.strategies.dataflow.operators.difference import emit_difference
from viewmill.strategies.dataflow.operators.explode import emit_explode
from viewmill.strategies.dataflow.operators.first_rows import emit_first_rows, shown_ranks
from viewmill.strategies.dataflow.operators.join import emit_join
from viewmill.strategies.dataflow.operators.matching import emit_matching
from viewmill.strategies.dataflow.operators.recursion import emit_recursion
from viewmill.strategies.dataflow.operators.timed import emit_timed
from viewmill.strategies.dataflow.operators.union import emit_union
from viewmill.strategies.dataflow.operators.window import emit_window


def compose(query: Relation, strategy: str, *, passing: bool, careful: bool = False) -> Program:
    """The program of a query; `passing` if its rows are needed by the next block only."""
    if not scans(query) and not isinstance(query, Recursion):
        return emit_constants(query, strategy, passing=passing)
    inner = query.input if isinstance(query, Sort) else query
    if isinstance(inner, Distinct):
        return emit_program(query, strategy, passing=passing)
    if isinstance(inner, Explode):
        return emit_explode(inner, strategy)
    if is_timed(inner):
        return emit_timed(inner, strategy)
    if isinstance(inner, Recursion):
        step = partial(compose, strategy=strategy, passing=True, careful=careful)
        return emit_recursion(inner, strategy, step)
    top, bottom = top_of(query)
    refuse_subqueries(top.expressions)
    match bottom:
        case Join(kind="inner" | "cross"):
            return emit_join(query, top, bottom, strategy, passing=passing, careful=careful)
        case Join():
            return emit_matching(query, top, bottom, strategy, passing=passing, careful=careful)
        case SetOperation(kind="union", all=True):
            return emit_union(query, top, bottom, strategy, passing=passing)
        case SetOperation(kind="intersect" | "except"):
            return emit_difference(query, top, bottom, strategy)
        case Window():
            shown = shown_ranks(top, bottom)
            if shown is not None:
                return emit_first_rows(query, top, bottom, shown, strategy)
            return emit_window(query, top, bottom, strategy)
        case Sort():
            raise NotTaken("the view is ordered by something that it does not show", bottom.span)
        case Limit() if not isinstance(bottom.input, Sort):
            raise NotTaken("LIMIT without ORDER BY: SQL does not say which rows", bottom.span)
        case _:
            return emit_program(query, strategy, passing=passing)
