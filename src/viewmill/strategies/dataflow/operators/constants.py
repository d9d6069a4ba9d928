"""A query that reads no table: its rows are computed once, in bulk, and never change.

takes  a relation without scans: VALUES, SELECT without FROM, and what stands above them
gives  `Program` without inputs, whose only state the engine fills
"""

from __future__ import annotations

from viewmill.algebra.relations import Foreign, Limit, Recursion, Relation, Sort
from viewmill.algebra.walk import walk_relations
from viewmill.codegen.linear import Top, columns_as
from viewmill.codegen.shape import NotTaken, blame, require_shown
from viewmill.codegen.sinks import Sink
from viewmill.codegen.writer import Writer
from viewmill.program.program import Program


def emit_constants(query: Relation, strategy: str, *, passing: bool) -> Program:
    """The program of rows that never change, or `NotTaken`."""
    if isinstance(query, Sort):
        require_shown(query)
    for each in walk_relations(query):
        if isinstance(each, Foreign | Recursion):
            raise NotTaken(*blame(each))
        if isinstance(each, Limit) and not isinstance(each.input, Sort):
            raise NotTaken("LIMIT without ORDER BY: SQL does not say which rows", each.span)
    writer = Writer(query, strategy)
    sink = Sink(writer, Top((), columns_as(query.schema.fields)), passing=passing)
    sink.finish()
    return writer.program()
