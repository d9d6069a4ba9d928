"""The aggregates of a subquery by its key, kept in a state: sums, counts, and values in order.

takes  `Inside`: rows, their key, calls
gives  the states and the lines of a trigger that change them; the value of a call of an entry

MIN, MAX and DISTINCT have the values of each key beside them (RPAI, 4.2.5).
"""

from __future__ import annotations

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Named, Project, Relation, Scan
from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT
from viewmill.codegen.aggregates import Payload, extreme_slots, zero_if_null
from viewmill.codegen.group_values import GroupValues
from viewmill.codegen.linear import not_null
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.words import key_words
from viewmill.codegen.writer import Writer
from viewmill.program.states import Keyed, Slot
from viewmill.strategies.aggregate_index.by_key import surely
from viewmill.strategies.aggregate_index.rows_by_key import Inside


class InnerGroups:
    """One entry for each key; without a key there is one, which stays."""

    def __init__(self, writer: Writer, inside: Inside) -> None:
        self.writer, self.source, self.inside = writer, writer.source, inside
        self.payload = Payload(inside.calls)
        self.key: tuple[Named, ...] = tuple(
            (f"key_{i}", surely(each)) for i, each in enumerate(inside.key, 1)
        ) or (("one", Literal(0, BIGINT)),)
        slots = tuple(kept.slot for kept in self.payload.kept)
        present = () if inside.key else (Slot("present", "int"),)
        fields = tuple(Field(name, each.type, False) for name, each in self.key)
        self.kind = Keyed(fields, slots + present)
        self.word = {slot.name: self.kind.word(slot.name) for slot in self.kind.payload}
        self.state = writer.state("groups", self.kind, self._definition())
        self.values = {
            each.count: GroupValues(each, self.kind, self.state, self.source)
            for each in self.payload.with_values
        }
        for each in self.values.values():
            writer.states += each.states(self._rows(), self.key)

    @property
    def where(self) -> tuple[Expression, ...]:
        """The conditions on rows inside: without a key they belong to no row outside."""
        return (*self.inside.where, *(not_null(e) for e in self.inside.key if e.nullable))

    def _rows(self) -> Relation:
        return filtered(self.inside.rows, self.where)

    def _definition(self) -> Relation:
        kept = self.payload.kept
        calls = tuple((each.slot.name, each.definition) for each in kept)
        by = self.key if self.inside.key else ()
        columns: tuple[Named, ...] = tuple(
            (f.name, Column(f.name, f.type, f.nullable)) for f in self.kind.key
        )
        slots = tuple((e.slot.name, zero_if_null(e.slot.name, e.definition.type)) for e in kept)
        present = () if by else (("present", Literal(1, BIGINT)),)
        return Project(
            Aggregate(self._rows(), by, calls), (*(columns if by else self.key), *slots, *present)
        )

    # Source.

    def write_trigger(self) -> None:
        """Write what a row inside changes."""
        rows, source = self.inside.rows, self.source
        keys = [each for _, each in self.key]
        reads = [*keys, *self.payload.lifted]
        assert isinstance(rows, Scan)
        with self.writer.trigger(rows, reads, self.where) as scalar:
            with source.block(f"if keyed_full({self.state}):"):
                source.line("return i")
            words = key_words([scalar.emit(each) for each in keys], self.kind.key)
            source.line(f"e = keyed_touch({self.state}, {words})")
            for each in self.values.values():
                each.key = words
            self.payload.lift(scalar, self.word, self.state, self.values)

    @property
    def has_extremes(self) -> bool:
        """Whether some value is the first or the last of those in order."""
        return any(each.argument.extreme for each in self.values.values())

    def write_search(self) -> None:
        """Write what looks for the extremes of entry e where one went away, or `always`."""
        source, states = self.source, ", ".join(self.writer.handles)
        if not self.has_extremes:
            return
        with source.block(f"def search({states}, e, always):"):
            for each in self.values.values():
                if each.argument.extreme:
                    stale = self.word[extreme_slots(each.argument)[2]]
                    with source.block(f"if always or int_at({self.state}, e, {stale}) != 0:"):
                        with source.block("if always:"):
                            each.write_fill()
                        each.write_search(self.word)
            source.line("return 0")
        source.line()

    def write_values(self) -> dict[str, Operand]:
        """Write what reads the aggregates of entry e."""
        scalar = Scalar(self.source, {}, "-1")
        return {
            name: self.payload.finish(name, call, scalar, self.word, self.state)
            for name, call in self.inside.calls
        }
