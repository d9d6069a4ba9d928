"""A recursive CTE: the step is an operator of its own, whose output is fed back to it.

takes  Recursion whose start is a scan of a block
gives  a program around the program of the step
next   kernels.recursion
"""

from __future__ import annotations

from collections.abc import Callable

from viewmill.algebra.relations import Recursion, Relation, Scan
from viewmill.algebra.types import Nested, Wide
from viewmill.algebra.walk import scans
from viewmill.codegen.inputs import program_inputs
from viewmill.codegen.shape import NotTaken
from viewmill.program.program import Program, Recursive


def emit_recursion(
    query: Recursion, strategy: str, compose: Callable[[Relation], Program]
) -> Program:
    """The program of a recursive CTE."""
    if not isinstance(query.base, Scan):
        raise NotTaken("the start of a recursive CTE is kept as a block of its own", query.span)
    for each in query.schema:
        if isinstance(each.type, Nested | Wide):
            raise NotTaken(f"a recursive CTE with a column of type {each.type}", query.span)
    (rows,) = [each for each in scans(query.step) if each.source == query.name]
    body = Recursive(
        query.base.alias, rows.alias, compose(query.step), query.all, query.limit, query.span
    )
    return Program(
        strategy=strategy,
        query=query,
        inputs=program_inputs(query),
        output=query.schema,
        states=(),
        body=body,
    )
