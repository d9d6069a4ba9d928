"""Outer, semi and anti joins: which rows meet none of the other side, kept up to date.

takes  `Sides`, what stands above the join
gives  a program

Without a further condition a row meets another when its key is there: a count per key says so, and
when a count leaves or reaches zero, the rows under that key change their answer. With one, each row
counts its own matches. Whoever changes first, a change of one side is judged by the other side as
it was at the last commit, and changed answers by this side as it is now: together that is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from viewmill.algebra.conditions import together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Join, Relation
from viewmill.algebra.schema import Field, free_names
from viewmill.algebra.types import BIGINT, BOOLEAN
from viewmill.codegen.linear import (
    Top,
    columns_as,
    counted,
    projected,
    refuse_failing,
)
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.sinks import Sink
from viewmill.codegen.words import key_words, read_words
from viewmill.codegen.writer import Writer, skip_unless
from viewmill.program.program import Program
from viewmill.program.states import Indexed
from viewmill.strategies.dataflow.operators.sides import MATCHES, Side, Sides, sides_of


def emit_matching(
    query: Relation, top: Top, join: Join, strategy: str, *, passing: bool, careful: bool
) -> Program:
    """The program of an outer, semi or anti join, or `NotTaken`."""
    sides = sides_of(join, top.expressions)
    refuse_failing(top.expressions, overflow=careful)
    if careful:
        judged = (*sides.residual, *sides.left.gate, *sides.right.gate)
        refuse_failing(judged, overflow=True)
    shape = _ByRow if sides.residual else _ByKey
    return shape(Writer(query, strategy), sides, top, passing=passing).program()


class _Matching:
    """What both ways share: the rows of each side by key, and how a row is shown."""

    def __init__(self, writer: Writer, sides: Sides, top: Top, *, passing: bool) -> None:
        self.writer, self.sides, self.source = writer, sides, writer.source
        writer.know(side.leaf.scan for side in (sides.left, sides.right))
        for side in (sides.left, sides.right):
            for name, column in side.leaf.columns.items():
                if isinstance(column, Column):
                    self.source.origins[name] = self.source.origins[column.name]
        self.lists = {
            side.name: writer.state(f"{side.name}_rows", *side.listed())
            for side in (sides.left, sides.right)
            if sides.has_pairs or sides.residual or side is sides.left
        }
        self.declare()
        self.sink = Sink(writer, top, passing=passing)

    def declare(self) -> None:
        """Keep what says whether rows meet another."""
        raise NotImplementedError

    def looked_up(self, side: Side) -> str:
        """The map that every row of a side looks up by its key, if there is one."""
        return ""

    def on_row(self, side: Side, row: Mapping[str, Operand], keys: list[Operand]) -> None:
        """Write what a change of a row does."""
        raise NotImplementedError

    def settle(self) -> None:
        """Write what changed answers do."""
        raise NotImplementedError

    def program(self) -> Program:
        """The program."""
        for side in (self.sides.left, self.sides.right):
            self._trigger(side)
        with self.writer.settle():
            self.settle()
        self.sink.finish(settle=True)
        return self.writer.program()

    def _trigger(self, side: Side) -> None:
        is_preserved = any(side is each for each in self.sides.preserved)
        prefetched = self.looked_up(side), [side.over_scan(each) for each in side.keys]
        with self.writer.trigger(side.leaf.scan, side.reads, side.leaf.where, prefetched) as scalar:
            gate = [scalar.is_true(side.over_scan(each)) for each in side.gate]
            keys = [scalar.emit(side.over_scan(each)) for each in side.keys]
            tests = [*gate, *(f"not {each.null}" for each in keys if each.null is not None)]
            row = {each.name: scalar.emit(side.leaf.columns[each.name]) for each in side.needed}
            if tests:
                with self.source.block(f"if not ({' and '.join(tests)}):"):
                    if is_preserved and self.sides.kind != "semi":
                        self.show(side, row, "m", "i")
                    self.source.line("continue")
            self.on_row(side, row, [Operand(each.value) for each in keys])

    def show(self, side: Side, row: Mapping[str, Operand], times: str, at: str) -> None:
        """Write what shows a row that meets none, or, for a semi join, one that does."""
        bound = {**row, **self.sides.other(side).padding()}
        self.sink.take(Scalar(self.source, bound, at), times)

    def keep(self, side: Side, row: Mapping[str, Operand], keys: list[Operand]) -> None:
        """Write what adds a row to the rows of its side."""
        state = self.lists.get(side.name)
        if state is None:
            return
        first = key_words(keys, side.first)
        rest = key_words([row[each.name] for each in side.rest], side.rest)
        self.source.line(f"e = list_touch({state}, {first}, {rest})")
        self.source.line(f"indexed_add({state}, e, 0, m)")
        self.source.line(f"list_settle({state}, {first}, e)")

    def visit(
        self, side: Side, keys: list[Operand], loops: ExitStack
    ) -> tuple[dict[str, Operand], str]:
        """Begin a loop over the rows of a side under a key; gives a row and its multiplicity."""
        source, state = self.source, self.lists[side.name]
        rows, j, entry, count = (source.name(each) for each in ("found", "j", "row", "count"))
        source.line(f"{rows} = list_of({state}, {key_words(keys, side.first)})")
        loops.enter_context(source.block(f"for {j} in range(list_size({state}, {rows})):"))
        source.line(f"{entry} = list_at({state}, {rows}, {j})")
        source.line(f"{count} = int_at({state}, {entry}, 0)")
        row = read_words(source, side.rest, lambda i: f"list_word({state}, {entry}, {i})")
        return {**row, **key_columns(side, keys)}, count

    def words_of(self, side: Side, row: Mapping[str, Operand], keys: list[Operand]) -> str:
        """The words of a whole row."""
        rest = [row[each.name] for each in side.rest]
        return key_words([*keys, *rest], side.row)


def key_columns(side: Side, keys: list[Operand]) -> dict[str, Operand]:
    """The columns of a row that are its key."""
    pairs = zip(side.keys, keys, strict=True)
    return {each.name: key for each, key in pairs if isinstance(each, Column)}


class _ByKey(_Matching):
    """Rows meet when their keys are equal: a count per key says whether one is there."""

    def declare(self) -> None:
        """Count the rows of the side across from each preserved one."""
        across = [self.sides.other(side) for side in self.sides.preserved]
        self.counts = {
            side.name: self.writer.state(f"{side.name}_keys", *side.counted()) for side in across
        }

    def looked_up(self, side: Side) -> str:
        """The counts by key of the side, if they are kept."""
        return self.counts.get(side.name, "")

    def on_row(self, side: Side, row: Mapping[str, Operand], keys: list[Operand]) -> None:
        """Keep the row, count its key, show its pairs, and itself as the other side was."""
        source, other = self.source, self.sides.other(side)
        self.keep(side, row, keys)
        if side.name in self.counts:
            state = self.counts[side.name]
            source.line(f"e = indexed_touch({state}, {key_words(keys, side.first)})")
            source.line(f"indexed_add({state}, e, 0, m)")
        if other.name in self.counts:
            self._show_as_it_was(side, row, keys)
        if self.sides.has_pairs:
            with ExitStack() as loops:
                met, count = self.visit(other, keys, loops)
                scalar = Scalar(source, {**row, **met}, "i")
                self.sink.take(scalar, f"m * {count}")

    def _show_as_it_was(self, side: Side, row: Mapping[str, Operand], keys: list[Operand]) -> None:
        source, other = self.source, self.sides.other(side)
        state, there = self.counts[other.name], source.name("there")
        source.line(f"e = indexed_find({state}, {key_words(keys, other.first)})")
        source.line(f"{there} = e != 0 and int_at({state}, indexed_old({state}, e), 0) > 0")
        wanted = there if self.sides.kind == "semi" else f"not {there}"
        # A loop of one turn: a row that does not pass the filter above leaves it, not the trigger.
        with source.block(f"for {source.name('once')} in range(int({wanted})):"):
            self.show(side, row, "m", "i")

    def settle(self) -> None:
        """When the last row of a key leaves or the first comes, those across change sides."""
        for side in self.sides.preserved:
            self._settle_side(side, self.sides.other(side))

    def _settle_side(self, side: Side, other: Side) -> None:
        source, state = self.source, self.counts[other.name]
        now, was = source.name("now"), source.name("was")
        with source.block(f"for t in range(indexed_touched({state})):"):
            source.line(f"e = indexed_now({state}, t)")
            source.line(f"{now} = int_at({state}, e, 0) > 0")
            source.line(f"{was} = int_at({state}, indexed_before({state}, t), 0) > 0")
            with source.block(f"if {now} == {was}:"):
                source.line("continue")
            bound = read_words(source, other.first, lambda i: f"indexed_word({state}, e, {i})")
            keys = [Operand(bound[each.name].value) for each in other.first]
            sign = source.name("sign")
            came, left = (1, -1) if self.sides.kind == "semi" else (-1, 1)
            source.line(f"{sign} = {came} if {now} else {left}")
            with ExitStack() as loops:
                row, count = self.visit(side, keys, loops)
                self.show(side, row, f"{sign} * {count}", "t")


class _ByRow(_Matching):
    """Rows meet when their keys are equal and a condition holds: each row counts its matches."""

    def declare(self) -> None:
        """Count the matches of each preserved row."""
        self.matches = {}
        for side in self.sides.preserved:
            kind = Indexed(side.row, MATCHES, journal=True)
            definition = matches_definition(side, self.sides)
            self.matches[side.name] = self.writer.state(
                f"{side.name}_matches", kind, definition, rows=True
            )

    def on_row(self, side: Side, row: Mapping[str, Operand], keys: list[Operand]) -> None:
        """Keep the row, count its matches if it is new, and itself as a match of those it meets."""
        source, other = self.source, self.sides.other(side)
        own = self.matches.get(side.name)
        self.keep(side, row, keys)
        total = source.name("total")
        source.line(f"{total} = 0")
        with ExitStack() as loops:
            met, count = self.visit(other, keys, loops)
            scalar = Scalar(source, {**row, **met}, "i")
            skip_unless(scalar, self.sides.residual)
            source.line(f"{total} += {count}")
            across = self.matches.get(other.name)
            if across is not None:
                words = self.words_of(other, met, keys)
                source.line(f"e = indexed_touch({across}, {words})")
                source.line(f"indexed_add({across}, e, 1, m)")
            if self.sides.has_pairs:
                self.sink.take(scalar, f"m * {count}")
        if own is not None:
            self._count(own, self.words_of(side, row, keys), total)

    def _count(self, state: str, words: str, total: str) -> None:
        """A row that comes knows its matches; one that goes forgets them."""
        source = self.source
        source.line(f"e = indexed_touch({state}, {words})")
        with source.block(f"if int_at({state}, e, 0) == 0:"):
            source.line(f"indexed_add({state}, e, 1, {total})")
        source.line(f"indexed_add({state}, e, 0, m)")
        with source.block(f"if int_at({state}, e, 0) == 0:"):
            source.line(f"indexed_add({state}, e, 1, -int_at({state}, e, 1))")

    def settle(self) -> None:
        """Rows whose count or answer changed are shown so many times more or less."""
        for side in self.sides.preserved:
            self._settle_side(side)

    def _settle_side(self, side: Side) -> None:
        source, state = self.source, self.matches[side.name]
        change, e = source.name("change"), source.name("entry")
        test = "> 0" if self.sides.kind == "semi" else "<= 0"
        with source.block(f"for t in range(indexed_touched({state})):"):
            source.line(f"{change} = 0")
            for sign, entry in (("-", "indexed_before"), ("+", "indexed_now")):
                source.line(f"{e} = {entry}({state}, t)")
                with source.block(f"if int_at({state}, {e}, 1) {test}:"):
                    source.line(f"{change} {sign}= int_at({state}, {e}, 0)")
            with source.block(f"if {change} == 0:"):
                source.line("continue")
            row = read_words(source, side.row, lambda i: f"indexed_word({state}, {e}, {i})")
            self.show(side, row, change, "t")


def matches_definition(side: Side, sides: Sides) -> Relation:
    """Each row of a side, how often it is there, and how many rows of the other it meets."""
    other = sides.other(side)
    mine = counted(side.rows(), side.row)
    rows = columns_as(mine.schema)
    names = (field.name for field in (*mine.schema, *other.row))
    one, matches = free_names(("#one", "#matches"), names)
    theirs = projected(other.rows(), (*columns_as(other.row), (one, Literal(1, BIGINT))))
    equal = [_equal(a, b) for a, b in zip(side.first, other.first, strict=True)]
    met = Join("left", mine, theirs, together((*equal, *sides.residual)))
    count = AggregateCall("count", (Column(one, BIGINT, True),), BIGINT, False)
    return Aggregate(met, rows, ((matches, count),))


def _equal(left: Field, right: Field) -> Expression:
    a, b = (Column(each.name, each.type, False) for each in (left, right))
    return Call("=", (a, b), BOOLEAN, False)
