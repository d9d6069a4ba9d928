"""A generator: the elements of arrays as rows, which keeps no state.

takes  Explode over a scan
gives  a program
next   kernels.explode
"""

from __future__ import annotations

from viewmill.algebra.relations import Explode, Scan
from viewmill.codegen.inputs import input_of
from viewmill.codegen.shape import NotTaken
from viewmill.program.program import Exploded, Program


def emit_explode(query: Explode, strategy: str) -> Program:
    """The program of a generator."""
    if not isinstance(query.input, Scan):
        raise NotTaken("what a generator reads is a block of its own", query.span)
    rows = input_of(query.input)
    column = query.input.schema.names.index(query.array.name)
    body = Exploded(rows.name, column, query.form, query.outer)
    return Program(strategy, query, (rows,), query.schema, (), body)
