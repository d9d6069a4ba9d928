"""Where the rows of an operator gather until flush: kept as the view's, or passed on."""

from __future__ import annotations

from viewmill.algebra.relations import Relation, Sort, Values
from viewmill.codegen.linear import Top, counted
from viewmill.codegen.scalar import Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.words import emit_row, key_words, read_words
from viewmill.codegen.writer import Writer, skip_unless
from viewmill.program.states import Indexed, Passing, Slot


class Sink:
    """The output rows of a program with their multiplicity.

    Passing rows meet here as well: most of what an update takes away it adds again.
    """

    def __init__(self, writer: Writer, top: Top, *, passing: bool) -> None:
        self.writer, self.top, self.passing = writer, top, passing
        self.fields = writer.query.schema.fields
        self.count = writer.source.name("count")
        if not self.fields:
            raise NotTaken("a view without columns")
        if passing:
            empty = Values((), writer.query.schema)
            self.state = writer.state("passing", Passing(self.fields), empty)
        else:
            kind = Indexed(self.fields, (Slot("count", "int"),), journal=True)
            self.state = writer.state("rows", kind, self._definition(), rows=True)

    def _definition(self) -> Relation:
        query = self.writer.query
        return counted(query.input if isinstance(query, Sort) else query, self.fields)

    def take(self, scalar: Scalar, times: str) -> None:
        """Write what adds the row at hand, if it passes the filter above the operator.

        It stands inside a loop: a row that does not pass goes on to the next.
        """
        skip_unless(scalar, self.top.where)
        operands = [scalar.emit(each) for _, each in self.top.outputs]
        source = self.writer.source
        source.line(f"e = indexed_touch({self.state}, {key_words(operands, self.fields)})")
        source.line(f"indexed_add({self.state}, e, 0, {times})")

    def finish(self, *, settle: bool = False) -> None:
        """Write the flush and contents functions."""
        if self.passing:
            self._hand_out("flush", settle=settle)
        else:
            self._flush(settle=settle)
        self._hand_out("contents", settle=False)

    def _flush(self, *, settle: bool) -> None:
        source, state = self.writer.source, self.state
        with self.writer.loop("flush", f"indexed_touched({state})", settle=settle):
            source.line(f"e = indexed_now({state}, t)")
            before = f"max(int_at({state}, indexed_before({state}, t), 0), 0)"
            source.line(f"change = max(int_at({state}, e, 0), 0) - {before}")
            with source.block("if change != 0:"):
                self._emit("change")

    def _hand_out(self, name: str, *, settle: bool) -> None:
        source, state = self.writer.source, self.state
        with self.writer.loop(name, f"indexed_count({state})", settle=settle):
            source.line(f"e = indexed_at({state}, t)")
            with source.block("if e == 0:"):
                source.line("continue")
            source.line(f"{self.count} = int_at({state}, e, 0)")
            test = "!=" if self.passing else ">"  # what is shown is there at least once
            with source.block(f"if {self.count} {test} 0:"):
                self._emit(self.count)

    def _emit(self, times: str) -> None:
        source = self.writer.source
        bound = read_words(source, self.fields, lambda i: f"indexed_word({self.state}, e, {i})")
        emit_row(source, [bound[field.name] for field in self.fields], self.fields, times)
