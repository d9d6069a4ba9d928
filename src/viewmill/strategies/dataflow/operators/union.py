"""UNION ALL: the rows of every input, as they come."""

from __future__ import annotations

from collections.abc import Iterator

from viewmill.algebra.relations import Relation, SetOperation
from viewmill.codegen.linear import Leaf, Top, leaf_of
from viewmill.codegen.scalar import Scalar
from viewmill.codegen.sinks import Sink
from viewmill.codegen.writer import Writer
from viewmill.program.program import Program


def emit_union(
    query: Relation, top: Top, union: SetOperation, strategy: str, *, passing: bool
) -> Program:
    """The program of a union that keeps duplicates, or `NotTaken`."""
    writer = Writer(query, strategy)
    sink = Sink(writer, top, passing=passing)
    names = union.schema.names
    inputs = list(branches(union))
    writer.know(leaf.scan for leaf, _ in inputs)
    for leaf, outputs in inputs:
        reads = [leaf.columns[name] for name in outputs]
        with writer.trigger(leaf.scan, reads, leaf.where) as scalar:
            row = {
                name: scalar.emit(expression) for name, expression in zip(names, reads, strict=True)
            }
            sink.take(Scalar(writer.source, row, "i"), "m")
    sink.finish()
    return writer.program()


def branches(relation: Relation) -> Iterator[tuple[Leaf, tuple[str, ...]]]:
    """The inputs of unions of unions, each with its columns in order."""
    if isinstance(relation, SetOperation) and relation.kind == "union" and relation.all:
        yield from branches(relation.left)
        yield from branches(relation.right)
        return
    yield branch_of(relation)


def branch_of(relation: Relation) -> tuple[Leaf, tuple[str, ...]]:
    """One input of a set operation and its columns in order."""
    return leaf_of(relation), relation.schema.names
