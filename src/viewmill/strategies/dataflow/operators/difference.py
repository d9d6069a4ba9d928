"""INTERSECT and EXCEPT, with and without ALL: how often each row is on either side.

A row is shown so many times:

    INTERSECT ALL   the smaller of both counts        INTERSECT   once if it is on both sides
    EXCEPT ALL      left minus right, if positive     EXCEPT      once if it is on the left only
"""

from __future__ import annotations

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Column, Literal
from viewmill.algebra.relations import Aggregate, Named, Relation, SetOperation
from viewmill.algebra.schema import free_names
from viewmill.algebra.types import BIGINT, Decimal
from viewmill.codegen.linear import Top, columns_as, projected
from viewmill.codegen.scalar import Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.words import emit_row, key_words, read_words
from viewmill.codegen.writer import Writer
from viewmill.program.program import Program
from viewmill.program.states import Indexed, Slot
from viewmill.strategies.dataflow.operators.union import branch_of

_TIMES = {
    ("intersect", True): "min(left, right) if left > 0 and right > 0 else 0",
    ("intersect", False): "1 if left > 0 and right > 0 else 0",
    ("except", True): "left - max(right, 0) if left > max(right, 0) else 0",
    ("except", False): "1 if left > 0 and right <= 0 else 0",
}


def emit_difference(query: Relation, top: Top, operation: SetOperation, strategy: str) -> Program:
    """The program of INTERSECT or EXCEPT, or `NotTaken`."""
    return _Difference(Writer(query, strategy), top, operation).program()


class _Difference:
    def __init__(self, writer: Writer, top: Top, operation: SetOperation) -> None:
        self.writer, self.top, self.operation = writer, top, operation
        self.fields = operation.schema.fields
        if not writer.query.schema.fields:
            raise NotTaken("a view without columns")
        slots = (Slot("left", "int"), Slot("right", "int"))
        kind = Indexed(self.fields, slots, journal=True)
        self.branches = [branch_of(operation.left), branch_of(operation.right)]
        writer.know(leaf.scan for leaf, _ in self.branches)
        self.state = writer.state("rows", kind, self._definition())

    def _definition(self) -> Relation:
        """Both sides counted, then added row by row."""
        both = SetOperation("union", True, self._side(0), self._side(1))
        totals = tuple(
            (name, AggregateCall("sum", (Column(name, BIGINT, False),), Decimal(38, 0), True))
            for name in self._counts
        )
        return Aggregate(both, columns_as(self.fields), totals)

    def _side(self, number: int) -> Relation:
        leaf, names = self.branches[number]
        shown: tuple[Named, ...] = tuple(
            (field.name, leaf.columns[name]) for field, name in zip(self.fields, names, strict=True)
        )
        left, right = self._counts
        one: tuple[Named, ...] = (
            (left, Literal(1 - number, BIGINT)),
            (right, Literal(number, BIGINT)),
        )
        return projected(leaf.relation(), (*shown, *one))

    @property
    def _counts(self) -> tuple[str, ...]:
        """What says how often a row is there on either side."""
        return free_names(("#left", "#right"), (field.name for field in self.fields))

    def program(self) -> Program:
        """The program."""
        source, state = self.writer.source, self.state
        for number, (leaf, names) in enumerate(self.branches):
            reads = [leaf.columns[name] for name in names]
            with self.writer.trigger(leaf.scan, reads, leaf.where) as scalar:
                words = key_words([scalar.emit(each) for each in reads], self.fields)
                source.line(f"e = indexed_touch({state}, {words})")
                source.line(f"indexed_add({state}, e, {number}, m)")
        self._times()
        self._flush()
        self._contents()
        return self.writer.program()

    def _times(self) -> None:
        """How often entry e is shown."""
        source = self.writer.source
        with source.block(f"def times({self.state}, e):"):
            source.line(f"left = int_at({self.state}, e, 0)")
            source.line(f"right = int_at({self.state}, e, 1)")
            source.line(f"return {_TIMES[self.operation.kind, self.operation.all]}")
        source.line()

    def _flush(self) -> None:
        source, state = self.writer.source, self.state
        with self.writer.loop("flush", f"indexed_touched({state})"):
            source.line(f"change = -times({state}, indexed_before({state}, t))")
            source.line(f"e = indexed_now({state}, t)")
            source.line(f"change += times({state}, e)")
            self._show("change")

    def _contents(self) -> None:
        source, state = self.writer.source, self.state
        with self.writer.loop("contents", f"indexed_count({state})"):
            source.line(f"e = indexed_at({state}, t)")
            source.line(f"change = times({state}, e) if e != 0 else 0")
            self._show("change")

    def _show(self, times: str) -> None:
        """Write the function that emits entry e if it passes the filter above."""
        source = self.writer.source
        with source.block(f"if {times} == 0:"):
            source.line("continue")
        bound = read_words(source, self.fields, lambda i: f"indexed_word({self.state}, e, {i})")
        scalar = Scalar(source, bound, "t")
        for condition in self.top.where:
            with source.block(f"if not {scalar.is_true(condition)}:"):
                source.line("continue")
        operands = [scalar.emit(each) for _, each in self.top.outputs]
        emit_row(source, operands, self.writer.query.schema.fields, times)
