"""MEDIAN and PERCENTILE: the values of a group in order, each with how often it is there.

takes  aggregate calls over one expression
gives  the state and the slots they keep, the source that adds a row, that finds and shows a value

The row of a rank is found by the counts of the rows before it, in O(log n). What is shown stands in
the group's payload: `search` writes it before anything is shown, as it does for MIN and MAX.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Aggregate, Column, Expression, Literal
from viewmill.algebra.relations import Named, Relation
from viewmill.algebra.schema import Field, free_name
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE
from viewmill.codegen.linear import counted, not_null, projected
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.states import Keyed, Ordered, Slot, State

PERCENTILES = ("percentile", "percentile_disc")

# The row of a rank, counted from 1, among those from begin to end. Counts that are below zero for a
# while (a delete came before its insert) are passed over, row by row.
RANKED = """
def ranked(order, begin, end, rank):
    out_of_line()
    if ordered_negative(order) == 0:
        return ordered_reach(order, 0, ordered_before(order, begin, 0) + rank)
    p = begin
    last = begin
    while p < end and rank > 0:
        rank -= max(ordered_word(order, p, 0), 0)
        last = p
        p = ordered_next(order, p)
    return last
"""


@dataclass
class Percentiles:
    """What calls over the same expression keep; `shares` are the different ones among them."""

    value: Expression
    where: Expression | None
    number: int
    shares: list[Aggregate] = field(default_factory=list)

    @property
    def count(self) -> str:
        """The slot of rows that are not NULL."""
        return f"ranked_{self.number}"

    def slot(self, call: Aggregate) -> str:
        """The slot of what a call shows."""
        same = [i for i, each in enumerate(self.shares) if each.function == call.function
                and each.arguments == call.arguments]  # fmt: skip
        return f"share_{self.number}_{same[0]}"

    def kept(self) -> list[tuple[Slot, Aggregate]]:
        """The slots and their definitions; `search` fills the shares."""
        never = Aggregate("count", (), BIGINT, False, where=Literal(False, BOOLEAN))
        counted = Aggregate("count", (self.value,), BIGINT, False, where=self.where)
        shares = [(Slot(self.slot(each), "int"), never) for each in self.shares]
        return [(Slot(self.count, "int"), counted), *shares]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What is read of a row."""
        return (self.value,) if self.where is None else (self.value, self.where)

    def finish(self, call: Aggregate, scalar: Scalar, word: dict[str, int], state: str) -> Operand:
        """Write what shows a call of entry e."""
        value, null = scalar.source.name(call.function), scalar.source.name("none")
        scalar.source.line(f"{value} = key_float(int_at({state}, e, {word[self.slot(call)]}))")
        scalar.source.line(f"{null} = int_at({state}, e, {word[self.count]}) <= 0")
        return Operand(value, null)


class RankedValues:
    """The values of an expression by group, in order."""

    is_searched = True

    def __init__(self, kept: Percentiles, groups: Keyed, group: str, source: Source) -> None:
        self.kept, self.groups, self.group, self.source = kept, groups, group, source
        name = free_name("#value", (each.name for each in groups.key))
        self.level = Field(name, DOUBLE, False)
        self.kind = Ordered(self.level, (Slot("count", "int"),), watched=0, first=groups.key)
        self.state = source.name(f"ranks_{kept.number}")

    @property
    def handles(self) -> list[str]:
        """The state as an argument."""
        return [self.state]

    def states(self, rows: Relation, keys: tuple[Named, ...]) -> list[State]:
        """What is kept: group, value, count."""
        where = () if self.kept.where is None else (self.kept.where,)
        shown = projected(filtered(rows, where), (*keys, (self.level.name, self.kept.value)))
        value = Column(self.level.name, DOUBLE, self.kept.value.nullable)
        definition = counted(filtered(shown, (not_null(value),)), self.kind.key)
        return [State(self.state, self.kind, definition)]

    def lift(self, scalar: Scalar, word: dict[str, int]) -> None:
        """Write what counts the value of row i, `m` times, in the group of entry e."""
        source = scalar.source
        operand = scalar.emit(self.kept.value)
        with source.block("if True:" if operand.null is None else f"if not {operand.null}:"):
            source.line(f"keyed_add({self.group}, e, {word[self.kept.count]}, m)")
            level = f"sort_word(float_key({operand.value}))"
            source.line(f"ordered_add({self.state}, {self._key(level)}, (m,))")

    def stale(self, word: dict[str, int]) -> str:
        """True: any change may move every rank, so the value is always recomputed."""
        return "True"

    def write_fill(self) -> None:
        """A load fills the state itself."""

    def write_search(self, word: dict[str, int]) -> None:
        """Write what finds the rows that the shares of entry e ask for."""
        source, n = self.source, self.source.name("n")
        begin, end = source.name("begin"), source.name("end")
        source.line(f"{n} = int_at({self.group}, e, {word[self.kept.count]})")
        least, most = "-9223372036854775807", "9223372036854775807"
        source.line(f"{begin} = ordered_from({self.state}, {self._key(least)})")
        source.line(f"{end} = ordered_from({self.state}, {self._key(most)})")
        for call in self.kept.shares:
            found = source.name("found")
            source.line(f"{found} = 0")
            with source.block(f"if {n} > 0 and {begin} < {end}:"):
                self._share(call, found, n, begin, end)
            at = word[self.kept.slot(call)]
            now = f"int_at({self.group}, e, {at})"
            source.line(f"keyed_add({self.group}, e, {at}, {found} - {now})")

    def _share(self, call: Aggregate, found: str, n: str, begin: str, end: str) -> None:
        source, low, high = self.source, self.source.name("low"), self.source.name("high")
        share, down = (each.value for each in call.arguments[1:] if isinstance(each, Literal))
        if call.function == "percentile_disc":
            rank = source.name("rank")
            source.line(f"{rank} = {n} * {share!r}")
            source.line(f"{low} = max(int({rank}) + ({rank} > int({rank})) - 1, 0)")
            self._read(low, low, n, begin, end, down=bool(down))
            source.line(f"{found} = float_key({low})")
            return
        position, at, above = (source.name(each) for each in ("position", "at", "above"))
        source.line(f"{position} = ({n} - 1) * {share!r}")
        source.line(f"{at} = int({position})")
        source.line(f"{above} = min({at} + ({position} > {at}), {n} - 1)")
        self._read(low, at, n, begin, end, down=bool(down))
        self._read(high, above, n, begin, end, down=bool(down))
        between = f"{low} + ({position} - {at}) * ({high} - {low})"
        source.line(f"{found} = float_key({low} if float_eq({low}, {high}) else {between})")

    def _read(self, name: str, rank: str, n: str, begin: str, end: str, *, down: bool) -> None:
        """Write what reads the value of a rank, counted from 0 from below or from above."""
        goal = f"{n} - {rank}" if down else f"{rank} + 1"
        place = f"ranked({self.state}, {begin}, {end}, {goal})"
        level = f"ordered_key({self.state}, {place}, {self.kind.level_words - 1})"
        self.source.line(f"{name} = key_float(sort_word({level}))")

    def _key(self, level: str) -> str:
        """The key of a level in the group of entry e, as `Ordered` says."""
        width = len(self.groups.key)
        words = [f"key_word({self.group}, e, {i})" for i in range(width)]
        if not self.kind.has_bits:
            return f"({', '.join(words)}, {level},)"
        bits = f"(key_word({self.group}, e, {width}) << 1)"
        if self.kind.is_narrow:
            return f"(({words[0]} << 2) | {bits}, {level},)"
        return f"({', '.join(words)}, {bits}, {level},)"
