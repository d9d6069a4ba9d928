"""The strategy for joins and aggregates over them.

takes  a rewritten relation
gives  a candidate with its cost and its plan, or the part of the query that is in the way
next   planner
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Relation
from viewmill.codegen.shape import NotTaken
from viewmill.deltas.product import Shape
from viewmill.program.program import ProductTrigger, Program
from viewmill.strategies.strategy import (
    NO_HINTS,
    Abilities,
    Candidate,
    Cost,
    Rejection,
    Statistics,
)
from viewmill.strategies.view_tree.block import block_of
from viewmill.strategies.view_tree.dense import emit_dense
from viewmill.strategies.view_tree.emit import emit_program
from viewmill.strategies.view_tree.explain import notes
from viewmill.strategies.view_tree.factorized import plan_factorized
from viewmill.strategies.view_tree.hint import hinted_order
from viewmill.strategies.view_tree.plan import TreePlan, plan_tree
from viewmill.strategies.view_tree.products import product_trigger
from viewmill.strategies.view_tree.rings.user_ring import OutOfOrder

# Measured on two cores: a call into the kernel, and one lookup or addition.
_CALL_US = 10.0
_STEP_US = 0.03


@dataclass(frozen=True)
class TreeCandidate(Candidate):
    """A candidate that remembers its tree."""

    plan: TreePlan | None = None

    def product_trigger(self, input_name: str, shape: Shape) -> ProductTrigger | None:
        """Factors climb the tree side by side."""
        assert self.plan is not None
        return product_trigger(self.plan, input_name, shape)


class ViewTree:
    """One tree of views over a variable order."""

    name = "view_tree"
    abilities = Abilities(variable_order=True)

    def __init__(self, *, factorized: bool = False) -> None:
        self._factorized = factorized

    def match(
        self, query: Relation, statistics: Statistics, hints: Hints = NO_HINTS
    ) -> Candidate | Rejection:
        """Offer a candidate if the query is a join, or an aggregate over one."""
        try:
            block = block_of(query, careful=statistics.careful)
            order = hinted_order(block, hints) if hints.order else None
            if self._factorized:
                plan = plan_factorized(block, statistics, order)
            else:
                plan = plan_tree(block, statistics, order, indicators=hints.indicators)
            write = emit_dense if hints.dense else emit_program
            program = write(plan, self.name)
        except NotTaken as no:
            return Rejection(self.name, no.reason, no.span, isinstance(no, OutOfOrder))
        width = sum(s.kind.key_words + s.kind.payload_words for s in program.states) * 8
        size = int(plan.entries * 1.5 * width / max(len(program.states), 1))
        cost = Cost(_CALL_US, _STEP_US * plan.steps, size)
        said = notes(plan, str(hints))
        if hints.dense:
            said = (*said, "kept as arrays, as the hint DENSE says")
        return TreeCandidate(self.name, query, cost, said, program=program, plan=plan)

    def emit(self, candidate: Candidate) -> Program:
        """The program that `match` wrote."""
        assert candidate.program is not None
        return candidate.program
